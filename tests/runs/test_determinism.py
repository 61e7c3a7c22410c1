"""The same command twice gives the same bytes, times aside."""

import csv
from dataclasses import replace

import pytest

from revd.runs.config import TrainConfig
from revd.runs.parameters import Parameters
from revd.runs.train import train

ROLLOUT = 64


@pytest.fixture
def config(tmp_path):
    return TrainConfig(
        task="CartPole-v1",
        steps=6 * ROLLOUT,
        seed=3,
        n_envs=2,
        output=tmp_path / "first",
        normalize="both",
        sparse=0.5,
        checkpoint_every=2 * ROLLOUT,
        eval_every=3 * ROLLOUT,
        eval_episodes=2,
        algo_params=Parameters(n_steps=ROLLOUT // 2, n_epochs=2),
    )


def columns(path, *, timeless):
    """The cells of every column as text; `timeless` leaves out those that are about time."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    names = [name for name in rows[0] if not (timeless and (name.startswith("time/") and "total" not in name))]
    return {name: [row[name] for row in rows] for name in names if not (timeless and name.endswith("time_fraction"))}


@pytest.mark.parametrize(
    ("algo", "reward"), [("ppo", "revd"), ("ppo", "ride"), ("a2c", "re3"), ("recurrent-ppo", "revd")]
)
def test_two_runs_of_one_command_give_equal_logs(config, tmp_path, algo, reward):
    parameters = Parameters(n_steps=32) if algo == "a2c" else config.algo_params
    first = replace(config, algo=algo, reward=reward, algo_params=parameters)
    second = replace(first, output=tmp_path / "second")
    train(first)
    train(second)
    for name in ("episodes.csv", "evaluations.csv"):
        assert (first.directory / name).read_bytes() == (second.directory / name).read_bytes()
    ours, theirs = (columns(run.directory / "progress.csv", timeless=True) for run in (first, second))
    assert ours == theirs
    assert len(ours) > 10
    assert len(ours["time/total_timesteps"]) == 6


def test_a_resumed_run_is_the_same_up_to_its_checkpoint_and_sees_new_episodes_after_it(config, tmp_path):
    config = replace(config, yield_to_task=False)  # with half of its rewards hidden the task may seem dense
    train(config)
    stopped = replace(config, output=tmp_path / "stopped")
    train(replace(stopped, steps=2 * ROLLOUT))
    train(stopped)
    whole, resumed = (columns(run.directory / "progress.csv", timeless=True) for run in (config, stopped))
    assert {name: cells[:2] for name, cells in whole.items()} == {name: cells[:2] for name, cells in resumed.items()}
    for name in ("time/total_timesteps", "train/n_updates", "exploration/strength", "train/learning_rate"):
        assert whole[name] == resumed[name], "what is counted does not depend on the interruption"
    trained = [name for name in whole if name.startswith("train/")]
    for name in trained:
        # Of the update before the checkpoint, logged after it; a float32 is spelled with more digits by then.
        assert float(whole[name][2]) == pytest.approx(float(resumed[name][2]), rel=1e-6)
    assert len(trained) > 5
    assert whole["train/loss"][3:] != resumed["train/loss"][3:], "the environments began new episodes"
