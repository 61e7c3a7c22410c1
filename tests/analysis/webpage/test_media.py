import base64
import os

import pytest

from revd.analysis.reading.runs import load_runs
from revd.analysis.webpage import media
from revd.analysis.webpage.media import find_media
from tests.analysis.support import write_run
from tests.analysis.webpage.support import GIF


@pytest.fixture
def folder(tmp_path):
    return write_run(tmp_path / "runs" / "a run", seed=3)


def found(tmp_path):
    return find_media(load_runs(tmp_path / "runs"), tmp_path / "pages" / "report.html")


def test_a_small_film_is_embedded(tmp_path, folder):
    (folder / "watch.gif").write_bytes(GIF)
    (film,) = found(tmp_path)
    head, _, content = film.source.partition(",")
    assert head == "data:image/gif;base64"
    assert base64.b64decode(content) == GIF
    assert (film.method, film.seed, film.name, film.is_video) == ("PPO", 3, "watch.gif", False)


def test_a_large_film_is_linked(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(media, "MAX_BYTES", len(GIF) - 1)
    (folder / "watch.gif").write_bytes(GIF)
    (film,) = found(tmp_path)
    assert film.source is None
    assert film.link == "../runs/a%20run/watch.gif"


def test_all_together_have_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(media, "MAX_ALL_BYTES", 2 * len(GIF))
    for seed in (3, 2, 1):
        (write_run(tmp_path / "runs" / str(seed), seed=seed) / "film.gif").write_bytes(GIF)
    assert [(film.seed, film.source is not None) for film in found(tmp_path)] == [(1, True), (2, True), (3, False)]


def test_films_and_pictures_are_told_by_their_first_bytes(tmp_path, folder):
    (folder / "film.mp4").write_bytes(b"\0\0\0\x20ftypisom")
    (folder / "map.PNG").write_bytes(b"\x89PNG\r\n")
    (folder / "page.gif").write_bytes(b"<html>")
    (folder / "empty.mp4").write_bytes(b"")
    (folder / "drawing.svg").write_bytes(b"<svg>")
    kinds = {film.name: film.source.partition(";")[0] for film in found(tmp_path)}
    assert kinds == {"film.mp4": "data:video/mp4", "map.PNG": "data:image/png"}


def test_links_pipes_and_folders_are_left_out(tmp_path, folder):
    (tmp_path / "secret").write_bytes(GIF)
    (folder / "link.gif").symlink_to(tmp_path / "secret")
    os.mkfifo(folder / "pipe.gif")
    (folder / "folder.gif").mkdir()
    assert found(tmp_path) == []
