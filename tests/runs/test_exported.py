"""What a run exports plays in plain Stable-Baselines3 as it does here."""

import csv
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecNormalize

from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory
from revd.runs.parameters import Parameters
from revd.runs.train import EVALUATION_SEED, RunFailedError, read_source, train
from revd.runs.watch import watch
from tests.runs.test_full_disk import full_from

TASK = "Pendulum-v1"
SEED = 4
README = Path(__file__).parents[2] / "README.md"


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return TrainConfig(
        task=TASK,
        steps=512,
        seed=SEED,
        n_envs=2,
        output=tmp_path_factory.mktemp("exported") / "runs" / "first",
        normalize="both",
        eval_every=512,
        eval_episodes=3,
        algo_params=Parameters(n_steps=128, n_epochs=2, learning_rate=0.01),
    )


@pytest.fixture(scope="module")
def run(config):
    return train(config)


def evaluated(run):
    """Mean and standard deviation of the evaluation at the end of the training."""
    with (run / "evaluations.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    return [float(row["return_mean"]), float(row["return_std"])]


def plain_environment(run, **options):
    env = VecNormalize.load(str(run / "vecnormalize.pkl"), make_vec_env(TASK, **options))
    env.training = env.norm_reward = False
    return env


def test_the_readmes_lines_give_the_returns_of_the_runs_own_evaluation(run):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    (block,) = (block for block in blocks if "VecNormalize.load" in block)
    seeded = f'make_vec_env("{TASK}", seed={SEED + EVALUATION_SEED})'
    for words, others in {'make_vec_env("MountainCar-v0")': seeded, "n_eval_episodes=10": "n_eval_episodes=3"}.items():
        assert words in block
        block = block.replace(words, others)
    code = f"import sys\n{block}\nassert not [name for name in sys.modules if name.partition('.')[0] == 'revd']"
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=run.parents[1], capture_output=True, text=True, check=True
    )
    found = [float(number) for number in re.findall(r"-?\d+\.\d+", answer.stdout)]
    assert found == pytest.approx(evaluated(run), rel=1e-6)


def test_without_the_statistics_the_agent_plays_otherwise(run):
    model = PPO.load(run / "model.zip", device="cpu")
    env = make_vec_env(TASK, seed=SEED + EVALUATION_SEED)
    mean, _ = evaluate_policy(model, env, n_eval_episodes=3)
    assert abs(mean - evaluated(run)[0]) > 1


def test_the_actions_are_those_of_the_watched_run(run):
    watched = watch(run, seed=11, max_steps=50)
    env, model = plain_environment(run, seed=11), PPO.load(run / "model.zip", device="cpu")
    observation, rewards = env.reset(), []
    for _ in range(50):
        action, _ = model.predict(observation, deterministic=True)
        observation, reward, _, _ = env.step(action)
        rewards.append(float(reward[0]))
    np.testing.assert_allclose(rewards, watched.rewards, rtol=1e-6)


def test_both_files_hold_the_same_statistics(run):
    env, statistics = plain_environment(run), load_file(run / "normalization.safetensors")
    np.testing.assert_array_equal(env.obs_rms.mean, statistics["observations.mean"].numpy())
    np.testing.assert_array_equal(env.obs_rms.var, statistics["observations.var"].numpy())
    np.testing.assert_array_equal(env.ret_rms.var, statistics["rewards.var"].numpy())
    assert (env.norm_obs, env.gamma) == (True, 0.99)


def test_a_run_without_normalisation_exports_none(config, tmp_path):
    directory = train(replace(config, output=tmp_path / "plain", normalize="none", steps=256, eval_every=0))
    assert (directory / "model.zip").exists()
    assert not list(directory.glob("*normaliz*"))


def test_a_disk_that_is_full_when_the_statistics_are_written(config, tmp_path, monkeypatch):
    short = replace(config, output=tmp_path / "run", steps=256, eval_every=0)
    with monkeypatch.context() as patch:
        full_from(patch, "vecnormalize.pkl", healed=True)
        with pytest.raises(RunFailedError, match=r"is full: .*; the last checkpoint, after 256 steps, is kept"):
            train(short)
    assert RunDirectory(short.directory).read_status().state == "failed"
    assert not [path.name for path in short.directory.iterdir() if "vecnormalize" in path.name]
    train(short)
    assert VecNormalize.load(str(short.directory / "vecnormalize.pkl"), make_vec_env(TASK)).obs_rms.count > 256


def test_what_a_killed_process_left_of_them_is_cleared_away(config, tmp_path):
    short = replace(config, output=tmp_path / "run", steps=256, eval_every=0)
    short.directory.mkdir()
    (short.directory / ".123.vecnormalize.pkl").write_bytes(b"half")
    (short.directory / ".123.others.pkl").write_bytes(b"half")
    train(short)
    assert [path.name for path in short.directory.glob(".*.pkl")] == [".123.others.pkl"]


def starting(config, tmp_path, source, **changes):
    return replace(config, output=tmp_path / "tuned", init_from=source, steps=256, eval_every=0, **changes)


def test_a_model_with_its_statistics_beside_it_starts_another_training(run, config, tmp_path, monkeypatch):
    taken = {}
    monkeypatch.setattr(
        "revd.training.session.Training.learn", lambda training, *_, **__: taken.update(training.snapshot()[0])
    )
    train(starting(config, tmp_path, run / "model.zip", init_value=True), trust=True)
    source = RunDirectory(run).checkpoints.newest()[0]
    same = [name for name in source if name.startswith(("policy/", "normalization/observations"))]
    assert len(same) > 10
    assert all(torch.equal(taken[name], source[name]) for name in same)
    assert float(taken["normalization/rewards.count"]) < 1, "the returns of another reward are not taken"


def test_a_model_of_normalised_observations_is_not_taken_where_they_are_not(run, config, tmp_path):
    with pytest.raises(ValueError, match="init_from was trained on normalised observations; use normalize 'observ"):
        train(starting(config, tmp_path, run / "model.zip", normalize="none"), trust=True)
    assert not (tmp_path / "tuned").exists()


def test_a_model_without_its_statistics_says_what_is_missing(run, config, tmp_path):
    (tmp_path / "model.zip").write_bytes((run / "model.zip").read_bytes())
    with pytest.raises(ValueError, match=r"no statistics of normalised observations.* in normalization\.safetensors"):
        train(starting(config, tmp_path, tmp_path / "model.zip"), trust=True)
    (tmp_path / "normalization.safetensors").write_bytes(b"garbage")
    with pytest.raises(ValueError, match=r"normalization\.safetensors', the statistics of the model .* cannot be read"):
        read_source(tmp_path / "model.zip", trust=True)
