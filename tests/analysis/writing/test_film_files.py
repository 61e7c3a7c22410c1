from pathlib import Path

import numpy as np
import pytest
from imageio_ffmpeg import count_frames_and_secs
from PIL import Image

from revd.analysis.drawing.film import Film
from revd.analysis.writing.film_files import check_film, save_film
from tests.analysis.drawing.test_film import make_episode


def test_a_gif_holds_every_step(tmp_path):
    film = Film(make_episode(n=12), title="x")
    path = save_film(film, tmp_path / "new" / "film.gif", fps=20)
    with Image.open(path) as gif:
        assert gif.n_frames == 12
        assert gif.info["loop"] == 0
        durations = []
        for step in range(12):
            gif.seek(step)
            durations.append(gif.info["duration"])
            shown = np.asarray(gif.convert("RGB")).astype(int)
            assert np.abs(shown - film.picture(step)).mean() < 1, "colours are nearly exact"
            assert (shown[0, 0] == 255).all(), "white is white"
    assert durations == [50] * 11 + [1000]


def test_a_gif_of_one_step(tmp_path):
    with Image.open(save_film(Film(make_episode(n=1), title="x"), tmp_path / "film.gif", fps=25)) as gif:
        assert gif.n_frames == 1


def test_an_mp4_holds_every_step(tmp_path):
    path = save_film(Film(make_episode(n=12, shape=(99, 161, 3)), title="x"), tmp_path / "film.mp4", fps=10)
    frames, seconds = count_frames_and_secs(str(path))
    assert (frames, seconds) == (12, pytest.approx(1.2, abs=0.05))


@pytest.mark.parametrize(
    ("path", "fps", "message"),
    [
        ("film.avi", 25, r"ends in .gif or .mp4, got 'film.avi'"),
        ("film", 25, r"ends in .gif or .mp4, got 'film'"),
        ("film.gif", 0, "fps must lie in 1 … 50, got 0"),
        ("film.gif", 51, "fps must lie in 1 … 50, got 51"),
    ],
)
def test_wrong_use(path, fps, message):
    with pytest.raises(ValueError, match=message):
        check_film(Path(path), fps)


def test_without_imageio_ffmpeg_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr("revd.analysis.writing.film_files.find_spec", lambda name: None)
    check_film(Path("film.gif"), 25)
    with pytest.raises(ValueError, match=r"needs imageio-ffmpeg: pip install 'revd\[video\]'; a .gif does not"):
        check_film(Path("film.mp4"), 25)
