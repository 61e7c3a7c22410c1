"""Archives and directories are put together: one run of each training, and a name for each run."""

import os

import numpy as np
import pytest

from revd.analysis.reading.archive import read_archive
from revd.analysis.reading.runs import load_runs
from revd.analysis.reading.sources import find_runs
from revd.analysis.statistics.scores import final_score
from revd.analysis.writing.archive import write_archive
from revd.analysis.writing.merged_runs import merge_runs
from tests.analysis.support import write_run


def write_seed(root, seed, *, tasks=("CartPole-v1", "MountainCar-v0"), luck=0.0, **more):
    """The runs of two methods and one seed, in directories as a suite makes them."""
    for task in tasks:
        for method in ("PPO", "PPO+REVD"):
            returns = np.random.default_rng(seed).normal(luck, 1, size=100)
            write_run(
                root / task / f"{method}-seed{seed}", task=task, method=method, seed=seed, returns=returns, **more
            )


@pytest.fixture
def archive(tmp_path):
    """An archive of seed 1, whose directories are gone."""
    write_seed(tmp_path / "old", 1)
    path = write_archive(load_runs(tmp_path / "old"), tmp_path / "results" / "runs.csv.gz")
    (tmp_path / "old").rename(tmp_path / "moved")
    return path


def merged(*paths):
    return merge_runs(find_runs(paths).runs)


def names(path):
    return [run.directory.relative_to(path).as_posix() for run in read_archive(path)]


def test_an_archive_grows_by_new_runs_and_is_as_one_of_all_directories(archive, tmp_path):
    write_seed(tmp_path / "far" / "away" / "new", 2)
    both = [*find_runs([archive, tmp_path / "far"]).runs]
    write_archive(both, archive)
    assert len(names(archive)) == 8
    assert "CartPole-v1/PPO+REVD-seed1" in names(archive)
    assert "CartPole-v1/PPO+REVD-seed2" in names(archive), "no path of the machine"
    (tmp_path / "moved").rename(tmp_path / "all")
    for task in ("CartPole-v1", "MountainCar-v0"):
        for run in (tmp_path / "far" / "away" / "new" / task).iterdir():
            run.rename(tmp_path / "all" / task / run.name)
    whole = write_archive(load_runs(tmp_path / "all"), tmp_path / "whole.csv.gz")
    finals = [
        {run.directory.name + run.task: final_score(run) for run in read_archive(path)} for path in (archive, whole)
    ]
    assert finals[0] == pytest.approx(finals[1], rel=1e-8)
    assert names(whole) == names(archive)


def test_a_run_that_is_there_twice_counts_once(archive, tmp_path):
    found = merged(archive, tmp_path / "moved")
    assert (len(found.named), len(found.left_out)) == (4, 4)
    write_archive(find_runs([archive, tmp_path / "moved"]).runs, tmp_path / "again.csv.gz")
    assert (tmp_path / "again.csv.gz").read_bytes() == archive.read_bytes()


def test_finished_runs_of_a_training_with_other_returns_are_refused(archive, tmp_path):
    write_seed(tmp_path / "new", 1, luck=1e-3)
    with pytest.raises(ValueError, match=r"finished runs of the same training with other returns; leave one"):
        merged(archive, tmp_path / "new")


@pytest.mark.parametrize("archived_state", ["running", "finished"])
def test_the_finished_run_is_kept(archived_state, tmp_path):
    states = {"finished": {"returns": [1] * 100}, "running": {"returns": [2] * 9, "state": "running"}}
    other = "running" if archived_state == "finished" else "finished"
    write_run(tmp_path / "a" / "run", **states[archived_state])
    path = write_archive(load_runs(tmp_path / "a"), tmp_path / "runs.csv.gz")
    write_run(tmp_path / "b" / "run", **states[other])
    found = merged(path, tmp_path / "b")
    assert [run.finished for run in found.named.values()] == [True]
    assert [run.finished for run in found.left_out] == [False]
    assert list(found.named) == ["run"]


def test_of_unfinished_runs_the_longer_is_kept(tmp_path):
    write_run(tmp_path / "a" / "run", returns=[1] * 9, state="running")
    write_run(tmp_path / "b" / "run", returns=[1] * 20, state="interrupted")
    assert [run.reached for run in merged(tmp_path).named.values()] == [200]


def test_the_same_name_with_other_settings_is_refused(archive, tmp_path):
    write_seed(tmp_path / "new", 1, n_envs=4)
    said = "the same training by their names, but n_envs is 1 in the first and 4 in the second"
    with pytest.raises(ValueError, match=said):
        merged(archive, tmp_path / "new")


def test_how_a_run_was_trained_makes_no_other_training(archive, tmp_path):
    write_seed(tmp_path / "new", 1, device="cuda", trainer="sb3")
    assert len(merged(archive, tmp_path / "new").named) == 4


def test_other_lengths_and_other_hidden_rewards_are_other_trainings(tmp_path):
    write_run(tmp_path / "a", returns=[1] * 100)
    write_run(tmp_path / "b", returns=[1] * 100, steps=900)
    write_run(tmp_path / "c", returns=[1] * 100, sparse=0.9)
    assert list(merged(tmp_path).named) == ["a", "b", "c"]


def test_names_that_are_taken_get_a_number(tmp_path):
    """Of archives of single tasks, for example, in which a run's name does not have the task."""
    archives = []
    for task in ("CartPole-v1", "MountainCar-v0", "Acrobot-v1"):
        write_run(tmp_path / task / "run", task=task, returns=[1] * 100)
        archives.append(write_archive(load_runs(tmp_path / task), tmp_path / f"{task}.csv.gz"))
    found = merged(*archives[:2], tmp_path / "Acrobot-v1")
    assert {name: run.task for name, run in found.named.items()} == {
        "run": "CartPole-v1",
        "run~2": "MountainCar-v0",
        "run~3": "Acrobot-v1",
    }


def test_links_to_directories_are_followed(archive, tmp_path):
    os.symlink(tmp_path / "moved", tmp_path / "link")
    assert len(merged(archive, tmp_path / "link", tmp_path / "moved").named) == 4


@pytest.mark.parametrize("damaged", ["archived", "fresh"])
def test_a_damaged_run_gives_way_to_a_whole_one(damaged, tmp_path):
    for name in ("archived", "fresh"):
        run = write_run(tmp_path / name / "run", returns=[1] * 100)
        if name == damaged:
            (run / "episodes.csv").write_text("steps,return\n10,1\noops\n")
    path = write_archive(load_runs(tmp_path / "archived"), tmp_path / "runs.csv.gz")
    found = merged(path, tmp_path / "fresh")
    assert [run.damage for run in found.named.values()] == [None]
    assert [run.damage is None for run in found.left_out] == [False]
