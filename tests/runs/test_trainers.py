"""Runs whose sessions are computed by different trainers: SB3's own, and the fast one."""

import csv
import json
from dataclasses import replace

import pytest
import torch
from stable_baselines3 import A2C, PPO

from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory
from revd.runs.parameters import Parameters
from revd.runs.train import train
from revd.runs.watch import watch
from revd.training.initial_policy import load_saved_model

ROLLOUT = 64
ORIGINALS = {"ppo": PPO, "a2c": A2C}


@pytest.fixture(params=["ppo", "a2c"])
def config(request, tmp_path):
    epochs = {"n_epochs": 2, "batch_size": 32} if request.param == "ppo" else {}
    return TrainConfig(
        task="CartPole-v1",
        algo=request.param,
        steps=3 * ROLLOUT,
        n_envs=2,
        output=tmp_path / "run",
        normalize="both",
        decay=0.01,
        algo_params=Parameters(n_steps=ROLLOUT // 2, **epochs),
    )


def rows(config):
    with (config.directory / "progress.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def algorithm(config):
    return json.loads((config.directory / "config.json").read_text())["resolved"]["algorithm"]


def test_a_run_resumes_with_another_trainer(config):
    used = []
    for rollouts, trainer in ((2, "sb3"), (4, "fast"), (6, "sb3")):
        train(replace(config, steps=rollouts * ROLLOUT, trainer=trainer))
        used.append(algorithm(config))
    original = ORIGINALS[config.algo].__name__
    assert used == [original, f"Fast{original}", original]
    progress = rows(config)
    assert [int(row["time/total_timesteps"]) for row in progress] == [ROLLOUT * n for n in range(1, 7)]
    updates = config.algo_params.get("n_epochs", 1)
    assert [float(row["train/n_updates"]) for row in progress[1:]] == [updates * n for n in range(1, 6)]
    strengths = [config.strength * (1 - config.decay) ** n for n in range(1, 7)]
    assert [float(row["exploration/strength"]) for row in progress] == pytest.approx(strengths, rel=1e-12)


def test_networks_for_images_resume_too(tmp_path):
    """The fast trainer keeps them and Adam's moments in another memory layout."""
    config = TrainConfig(
        task="atari/space-invaders",
        n_envs=2,
        device="cpu",
        reward="re3",
        output=tmp_path / "run",
        reward_params=Parameters(k=2, embedding_size=8),
        algo_params=Parameters(n_steps=8, batch_size=8, n_epochs=1),
    )
    for rollouts, trainer in ((1, "sb3"), (2, "fast"), (3, "sb3")):
        train(replace(config, steps=rollouts * 16, trainer=trainer))
    assert [float(row["train/n_updates"]) for row in rows(config)[1:]] == [1, 2]
    tensors, _ = RunDirectory(config.directory).checkpoints.newest()
    assert all(tensor.is_contiguous() for tensor in tensors.values())


def test_from_one_checkpoint_both_go_the_same_way(config, tmp_path):
    """A rollout and its update after a session of the other trainer: not bit for bit, but from the same state."""
    found = {}
    for first in ("sb3", "fast"):
        for second in ("sb3", "fast"):
            run = replace(config, output=tmp_path / f"{first}-{second}")
            train(replace(run, steps=2 * ROLLOUT, trainer=first))
            train(replace(run, steps=3 * ROLLOUT, trainer=second))
            found[first, second] = RunDirectory(run.directory).checkpoints.newest()[0]
    expected = found["sb3", "sb3"]
    for tensors in found.values():
        assert tensors.keys() == expected.keys()
        for name in (name for name in expected if name.startswith(("policy/", "optimizer/", "normalization/"))):
            torch.testing.assert_close(tensors[name], expected[name], rtol=1e-3, atol=1e-5)


def test_the_files_of_a_fast_run_load_in_sb3(config):
    fast = replace(config, trainer="fast")
    train(fast)
    path = config.directory / "model.zip"
    loaded = ORIGINALS[config.algo].load(path, device="cpu")
    assert loaded.num_timesteps == config.steps
    env = loaded.get_env()
    assert type(load_saved_model(config.algo, path, env, trust=True)) is ORIGINALS[config.algo]
    assert len(watch(config.directory, max_steps=5).frames) == 5


def test_one_without_a_fast_form_says_so_before_anything_is_written(config):
    with pytest.raises(ValueError, match="trainer 'fast' supports ppo, a2c, not for algo 'trpo'"):
        train(replace(config, algo="trpo", algo_params=Parameters(), trainer="fast"))
    assert not config.directory.exists()
