"""Runs count what they visit, lose nothing when they resume, and keep their choice."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from revd.coverage.state import read_visits
from revd.envs import envpool
from revd.runs.checkpoints import Checkpoints
from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory
from revd.runs.parameters import Parameters
from revd.runs.train import check_names, train
from tests.support.clockwork import LENGTH

ROLLOUT = 4 * LENGTH
COLUMNS = ("exploration/coverage", "exploration/coverage_share", "exploration/coverage_rollout")


@pytest.fixture
def config(tmp_path):
    return TrainConfig(
        task="tests.support.clockwork:Clockwork-v0",
        coverage="tests.support.clockwork:cells",
        reward="none",
        steps=20 * ROLLOUT,
        n_envs=2,
        output=tmp_path / "run",
        normalize="observations",
        checkpoint_every=3 * ROLLOUT,
        algo_params=Parameters(n_steps=2 * LENGTH, n_epochs=1),
    )


def progress(config):
    with (config.directory / "progress.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def resolved(config):
    return json.loads((config.directory / "config.json").read_text())["resolved"]["coverage"]


def interrupted(config, after):
    """Train, and break off once `after` steps are done."""

    def report(progress):
        if progress.steps == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config, report=report)


def test_a_run_that_was_interrupted_has_the_counts_of_one_that_was_not(config, tmp_path):
    whole = replace(config, output=tmp_path / "whole")
    train(whole)
    for rollouts in (2, 5, 5, 17):
        interrupted(config, rollouts * ROLLOUT)
    train(config)
    state, expected = (read_visits(run.directory / "visits.safetensors") for run in (config, whole))
    assert state.values == expected.values
    assert all(np.array_equal(state.arrays[name], array) for name, array in expected.arrays.items())
    for name in COLUMNS[::2]:
        assert [row[name] for row in progress(config)] == [row[name] for row in progress(whole)]
    assert state.tables["counts"].tolist() == [config.steps // LENGTH] * LENGTH
    assert [stage.steps for stage in state.stages] == [16 * ROLLOUT]


def test_the_file_is_that_of_the_newest_checkpoint(config):
    interrupted(config, 5 * ROLLOUT)
    assert read_visits(config.directory / "visits.safetensors").steps == 3 * ROLLOUT
    assert RunDirectory(config.directory).checkpoints.newest_steps == 3 * ROLLOUT


def test_a_broken_rollout_is_not_counted(config, monkeypatch):
    """The checkpoint before a fault is of the state before the rollout in which it happened."""
    step = monkeypatch_step(monkeypatch, fails_at=5 * 2 * LENGTH + 7)
    with pytest.raises(RuntimeError, match="broken"):
        train(replace(config, checkpoint_every=10**6))
    assert step.calls > 5 * 2 * LENGTH
    state = read_visits(config.directory / "visits.safetensors")
    assert (state.steps, int(state.tables["counts"].sum())) == (5 * ROLLOUT, 5 * ROLLOUT)


def monkeypatch_step(monkeypatch, *, fails_at):
    from tests.support.clockwork import Clockwork

    original = Clockwork.step

    def step(self, action):
        step.calls += 1
        if step.calls > 2 * fails_at:
            raise RuntimeError("broken")
        return original(self, action)

    step.calls = 0
    monkeypatch.setattr(Clockwork, "step", step)
    return step


def test_tasks_with_a_default_grid_are_counted_by_default(config):
    config = replace(config, task="CartPole-v1", coverage="auto", steps=2 * ROLLOUT)
    train(config)
    assert resolved(config).startswith("position -2.4 … 2.4 by 0.4, angle")
    rows = progress(config)
    assert [int(row["time/total_timesteps"]) for row in rows] == [ROLLOUT, 2 * ROLLOUT]
    assert 0 < int(rows[0][COLUMNS[0]]) < int(rows[1][COLUMNS[0]])
    assert all(float(row[COLUMNS[1]]) == int(row[COLUMNS[0]]) / 20_736 for row in rows)
    visits = read_visits(config.directory / "visits.safetensors").visits
    assert [axis.name for axis in visits.plane] == ["position", "angle"]


def test_tasks_without_one_are_not(config):
    config = replace(config, coverage="auto", steps=ROLLOUT)
    train(config)
    assert resolved(config) is None
    assert not set(COLUMNS) & progress(config)[0].keys()
    assert not (config.directory / "visits.safetensors").exists()


def test_cells_without_a_plane_have_no_file(config):
    config = replace(config, coverage="tests.runs.test_coverage:step_of_the_episode", steps=ROLLOUT)
    train(config)
    assert progress(config)[0][COLUMNS[0]] == str(LENGTH)
    assert not (config.directory / "visits.safetensors").exists()


def step_of_the_episode(observations, infos):
    return observations[:, 0].round().astype(int)


@pytest.mark.parametrize("reward", ["none", "revd"])
def test_counting_changes_no_number_of_the_training(config, tmp_path, reward):
    config = replace(config, task="CartPole-v1", coverage="auto", reward=reward, steps=4 * ROLLOUT)
    without = replace(config, coverage="none", output=tmp_path / "without")
    snapshots = []
    for run in (config, without):
        train(run)
        tensors, _ = Checkpoints(run.directory / "checkpoints").newest()
        snapshots.append({name: tensor for name, tensor in tensors.items() if not name.startswith("coverage/")})
    assert snapshots[0].keys() == snapshots[1].keys() == tensors.keys()
    assert all(torch.equal(snapshots[0][name], snapshots[1][name]) for name in tensors)
    counted, other = progress(config), progress(without)
    assert counted[0].keys() - other[0].keys() == set(COLUMNS)
    for name in ("rollout/ep_rew_mean", "train/loss"):
        assert [row[name] for row in counted] == [row[name] for row in other]


def test_a_run_from_before_visits_were_counted_resumes_without(config):
    config = replace(config, task="CartPole-v1", coverage="none", steps=2 * ROLLOUT)
    train(config)
    path = config.directory / "config.json"
    values = json.loads(path.read_text())
    del values["coverage"], values["resolved"]["coverage"]
    path.write_text(json.dumps(values))
    for rollouts in (3, 4):
        train(replace(config, coverage="auto", steps=rollouts * ROLLOUT))
        assert resolved(config) is None
    assert not set(COLUMNS) & progress(config)[-1].keys()


def test_a_run_keeps_what_it_counts(config):
    config = replace(config, steps=2 * ROLLOUT)
    train(config)
    with pytest.raises(FileExistsError, match=r"coverage is 'tests\.support\.clockwork:cells' there and 'none' here"):
        train(replace(config, coverage="none", steps=3 * ROLLOUT))
    run = json.loads((config.directory / "run.json").read_text())
    assert "--coverage tests.support.clockwork:cells" in run["repeat"]
    train(replace(config, steps=3 * ROLLOUT))
    assert read_visits(config.directory / "visits.safetensors").steps == 3 * ROLLOUT


def test_names_that_cannot_be_found_are_refused_before_anything_is_written(config):
    for name, message in (("tests.support.clockwork:cell", "did you mean 'cells'"), ("grid", "is not MODULE:NAME")):
        with pytest.raises(ValueError, match=message):
            check_names(replace(config, coverage=name))
        with pytest.raises(ValueError, match=message):
            train(replace(config, coverage=name))
    assert not config.directory.exists()


@pytest.mark.parametrize("engine", ["gymnasium", "envpool"])
def test_positions_in_grid_worlds(config, engine):
    if engine == "envpool" and not envpool.is_installed():
        pytest.skip("EnvPool is not installed: pip install 'revd[envpool]'")
    config = replace(config, task="minigrid/door-key-5x5", engine=engine, coverage="auto", normalize="none")
    train(replace(config, steps=2 * ROLLOUT))
    stage = read_visits(config.directory / "visits.safetensors").visits.stages[-1]
    assert stage.visits.sum() == 2 * ROLLOUT
    assert 1 <= stage.cells.min() <= stage.cells.max() <= 3, "inside the walls"
    assert len(stage.cells) > 2
