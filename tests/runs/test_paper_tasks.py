"""All twelve tasks of the paper, and a game of ours, train on the real environments: two rollouts of PPO, one epoch."""

import csv
from dataclasses import replace

import pytest

from revd.runs.presets import preset_config
from revd.runs.train import train
from revd.suites.catalog import PAPER_ATARI, PAPER_BULLET
from tests.support.bullet import needs_pybullet

PAPER_TASKS = [
    pytest.param(name, marks=needs_pybullet if name in PAPER_BULLET else ()) for name in (*PAPER_ATARI, *PAPER_BULLET)
]


def test_there_are_twelve():
    assert len(PAPER_TASKS) == 12


@pytest.mark.parametrize("task", [*PAPER_TASKS, "atari/montezuma-revenge"])
def test_two_rollouts_of_ppo(task, tmp_path):
    two_rollouts(task, "ppo", tmp_path)


@pytest.mark.parametrize("task", ["atari/assault", pytest.param("bullet/hopper", marks=needs_pybullet)])
def test_two_rollouts_of_a2c(task, tmp_path):
    two_rollouts(task, "a2c", tmp_path)


def two_rollouts(task, algo, tmp_path):
    config = preset_config("paper", task=task, algo=algo, reward="revd", output=tmp_path / "run")
    # As the paper's, but short: the rollouts of Atari are cut, since their updates take the time.
    n_steps = min(config.algo_params["n_steps"], 32)
    once = {"n_epochs": 1} if algo == "ppo" else {}
    config = replace(
        config, n_envs=2, steps=4 * n_steps, algo_params={**config.algo_params, "n_steps": n_steps, **once}
    )
    directory = train(config)
    with (directory / "progress.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["time/total_timesteps"]) for row in rows] == [2 * n_steps, 4 * n_steps]
    # Kung Fu Master opens with a still picture, whose bonus is 0; so only neighbours are required.
    assert [float(row["exploration/unpaid"]) for row in rows] == [1.0, 0.0]
    assert float(rows[1]["exploration/bonus_mean"]) > 0 or task == "atari/kung-fu-master"
