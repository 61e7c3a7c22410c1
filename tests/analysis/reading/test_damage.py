"""Damaged runs: of a real training, by hand, and with odd files. Each is reported, and none has a final return."""

import csv
import json
import os
import shutil
import socket

import numpy as np
import pytest

from revd.analysis.reading.runs import load_run
from revd.analysis.reading.sources import find_runs
from revd.analysis.statistics.scores import runs_with_score
from revd.runs.config import TrainConfig
from revd.runs.parameters import Parameters
from revd.runs.train import train
from tests.analysis.support import write_json, write_run


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A finished run of three environments that was interrupted once, with a hundred episodes and more."""
    path = tmp_path_factory.mktemp("damage") / "run"
    config = TrainConfig(
        task="CartPole-v1",
        reward="none",
        steps=3000,
        n_envs=3,
        output=path,
        checkpoint_every=100,
        algo_params=Parameters(n_steps=64, n_epochs=1),
    )

    def stop(progress):
        if progress.steps >= 1500:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config, report=stop)
    return train(config)


@pytest.fixture
def run(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


def lines_of(run):
    return (run / "episodes.csv").read_text().splitlines(keepends=True)


def write_lines(run, lines):
    (run / "episodes.csv").write_text("".join(lines))


def damage_of(directory):
    found = load_run(directory)
    assert runs_with_score([found]) == ([] if found.damage else [found])
    return found.damage


def test_a_whole_run_that_was_resumed_is_not_damaged(run):
    assert len(json.loads((run / "run.json").read_text())["resumed"]) == 1
    assert damage_of(run) is None


@pytest.mark.parametrize("kept", [0.5, 0.8, 0.95])
def test_a_truncated_file(run, kept):
    lines = lines_of(run)
    write_lines(run, lines[: int(kept * len(lines))])
    assert "(status.json)" in damage_of(run)


def test_only_the_header_is_left(run):
    write_lines(run, lines_of(run)[:1])
    assert damage_of(run).startswith("episodes.csv: it has no episodes, though status.json has a mean return of ")


@pytest.mark.parametrize("line", [2, 40, 80, -1])
def test_any_row_that_is_missing(run, line):
    lines = lines_of(run)
    del lines[line - 1 if line > 0 else line]
    write_lines(run, lines)
    damage = damage_of(run)
    assert ("rows are missing before line " in damage) or (line == -1 and "(status.json)" in damage)


def test_a_cut_last_line(run):
    path = run / "episodes.csv"
    path.write_bytes(path.read_bytes()[:-3])
    assert damage_of(run) == "episodes.csv: its last line is cut off"


@pytest.mark.parametrize("garbage", ["\0\0\0\n", "10,\n", "x,y,z,w\n", '"\n'])
def test_garbage(run, garbage):
    lines = lines_of(run)
    lines[30] = garbage
    lines[50] = garbage
    write_lines(run, lines)
    assert damage_of(run).startswith("episodes.csv: line 31 ")
    assert damage_of(run).endswith(", and 1 more like it")


def test_a_row_that_is_there_twice(run):
    lines = lines_of(run)
    write_lines(run, [*lines[:31], *lines[30:]])
    assert "line 32 is a second episode of environment" in damage_of(run)


def test_the_file_is_gone(run):
    (run / "episodes.csv").unlink()
    assert damage_of(run) == "episodes.csv is missing"


def test_other_columns(run):
    lines = lines_of(run)
    write_lines(run, ["a,b,c,d\n", *lines[1:]])
    assert damage_of(run) == "episodes.csv has no column 'steps' in its first line"


def test_equal_returns_that_stop_early_are_found_by_their_lengths(tmp_path):
    status = {"steps": 1000, "episode_return": -200.0}
    whole = write_run(tmp_path / "whole", returns=[-200] * 100, status=status)
    half = write_run(tmp_path / "half", returns=[-200] * 50, status=status)
    unknown = write_run(tmp_path / "unknown", returns=[-200, -190] * 25, status=status | {"episode_return": None})
    assert damage_of(whole) is None
    for damaged in (half, unknown):
        assert damage_of(damaged) == (
            "episodes.csv: it ends after 500 of 1,000 steps, and no episode in it is as long as what is missing"
        )


def test_a_long_last_episode_is_no_damage(tmp_path):
    status = {"steps": 1000, "episode_return": -195.0}
    assert damage_of(write_run(tmp_path / "run", returns=[-200, -190] * 25, status=status)) is None
    # Nor is it where an environment has not ended any yet.
    assert damage_of(write_run(tmp_path / "few", returns=[1], status={"steps": 1000}, n_envs=2, spacing=20)) is None


def test_an_unfinished_run_may_have_half_a_row(tmp_path):
    directory = write_run(tmp_path / "run", returns=[1, 2], state="running", status={"steps": 20})
    with (directory / "episodes.csv").open("a") as file:
        file.write("30,1")
    assert load_run(directory).damage is None


def test_the_mean_is_over_the_window_that_the_algorithm_had(tmp_path):
    directory = write_run(tmp_path / "run", returns=range(100), status={"steps": 1000, "episode_return": 98.5})
    config = json.loads((directory / "config.json").read_text())
    assert "the mean 49.5, but at the end of the training it was 98.5" in damage_of(directory)
    config["resolved"]["algo_params"] = {"stats_window_size": 2}
    write_json(directory / "config.json", config)
    assert damage_of(directory) is None


def test_lengths_count_steps_of_one_environment(trained):
    with (trained / "episodes.csv").open(newline="") as file:
        rows = [[float(cell) for cell in row] for row in list(csv.reader(file))[1:]]
    first = np.array([next(row for row in rows if row[3] == env) for env in range(3)])
    np.testing.assert_array_equal(first[:, 0], 3 * first[:, 2])


@pytest.mark.parametrize("name", ["episodes.csv", "status.json", "run.json", "progress.csv", "config.json"])
@pytest.mark.parametrize("kind", ["a FIFO", "a socket", "a device", "a directory"])
def test_a_file_of_another_kind_does_not_block(run, tmp_path, name, kind, monkeypatch):
    write_run(tmp_path / "good", returns=[1])
    path = run / name
    path.unlink()
    monkeypatch.chdir(run)
    if kind == "a FIFO":
        os.mkfifo(name)
    elif kind == "a socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(name)
    elif kind == "a device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    monkeypatch.chdir(tmp_path)
    found = find_runs([tmp_path])
    if name == "config.json":
        assert [entry.directory.name for entry in found.runs] == ["good"]
        assert found.unreadable[0].endswith(f"is not a run directory: config.json is {kind}; it must be a file")
    else:
        (damaged,) = [entry for entry in found.runs if entry.directory == run]
        assert damaged.damage == f"{name} is not a regular file"


def test_a_fifo_in_the_place_of_a_run(tmp_path):
    write_run(tmp_path / "good", returns=[1])
    os.mkfifo(tmp_path / "run")
    assert len(find_runs([tmp_path]).runs) == 1
    with pytest.raises(ValueError, match=r"no runs found: .*run' is neither a directory nor an archive"):
        find_runs([tmp_path / "run"])
