import hashlib
import json
import math
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch
from stable_baselines3 import PPO

from revd import Rollout
from revd.rewards import make_reward
from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory
from revd.runs.parameters import Parameters
from revd.runs.train import train
from revd.runs.watch import first_environment, watch
from revd.storage.tensor_file import read_tensors
from tests.support.bullet import needs_pybullet
from tests.support.naive import NaiveREVD, NaiveSegments, Steps
from tests.support.rollouts import BOX, DISCRETE, Shape, make_rollout

SEED = 5


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return TrainConfig(
        task="CartPole-v1",
        steps=192,
        n_envs=2,
        output=tmp_path_factory.mktemp("watch") / "run",
        normalize="both",
        algo_params=Parameters(n_steps=32, n_epochs=1),
    )


@pytest.fixture(scope="module")
def run(config):
    return train(config)


def other(config, name, **changes):
    return train(replace(config, output=config.directory.with_name(name), steps=64, **changes))


def files(directory):
    paths = [path for path in directory.rglob("*") if path.is_file()]
    return {path.relative_to(directory): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def by_hand(run):
    """The episode once more, with Gymnasium, SB3's own export and the formulas: normalised states and returns."""
    statistics, _ = read_tensors(max((run / "checkpoints").iterdir()))
    mean, variance = (statistics[f"normalization/observations.{name}"].numpy() for name in ("mean", "var"))
    model = PPO.load(run / "model.zip", device="cpu")
    env = gymnasium.make("CartPole-v1")
    observation, _ = env.reset(seed=SEED)
    states, done = [], False
    while not done:
        states.append(np.clip((observation - mean) / np.sqrt(variance + 1e-8), -10, 10).astype(np.float32))
        action, _ = model.predict(states[-1], deterministic=True)
        observation, _, terminated, truncated, _ = env.step(action)
        done = terminated or truncated
    return np.stack(states), statistics


def test_an_episode_and_its_bonus_are_those_computed_by_hand(run, config):
    before = files(run)
    episode = watch(run, seed=SEED)
    assert files(run) == before, "nothing is written"
    states, saved = by_hand(run)
    assert len(episode.frames) == len(states) == episode.rewards.sum()
    assert {frame.shape for frame in episode.frames} == {(400, 600, 3)}
    assert (episode.config, episode.trained_steps) == (config, 192)

    reward = make_reward("revd", gymnasium.spaces.Box(-np.inf, np.inf, (4,)), gymnasium.spaces.Discrete(2), n_envs=2)
    encoder = {name.removeprefix("bonus/encoder."): tensor for name, tensor in saved.items() if "bonus/enc" in name}
    reward.encoder.load_state_dict(encoder)
    phi = reward.encoder(torch.from_numpy(states)).numpy().astype(np.float64)
    segments = NaiveSegments(1, phi.shape[1], k=3)
    segments.previous = [saved["bonus/memory.previous"][0].numpy().astype(np.float64)]
    assert len(segments.previous[0]) == 32, "the last rollout of the first environment"
    dones = np.zeros((len(phi), 1), dtype=bool)
    expected = NaiveREVD(segments, k=3).compute(Steps(phi=phi[:, None], dones=dones, lengths=[len(phi)]))
    assert (expected > 0).all()
    np.testing.assert_allclose(episode.bonus, expected[:, 0], rtol=1e-3)


def test_equal_seeds_give_equal_episodes(run):
    first, second, third = (watch(run, seed=seed, deterministic=False, max_steps=12) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.frames, second.frames)
    np.testing.assert_array_equal(first.bonus, second.bonus)
    assert not np.array_equal(first.bonus, third.bonus)


def test_an_episode_shorter_than_k_is_paid_nothing(run):
    episode = watch(run, max_steps=2)
    assert len(episode.frames) == 2
    assert episode.bonus.tolist() == [0.0, 0.0]


def test_without_a_reward_there_is_no_bonus(config):
    assert watch(other(config, "none", reward="none"), max_steps=3).bonus is None


def test_a_run_from_before_visits_were_counted_can_be_watched(config):
    """Its config names no coverage, which then means "auto", and its checkpoint holds no visits."""
    run = other(config, "uncounted", coverage="none")
    path = run / "config.json"
    values = json.loads(path.read_text())
    del values["coverage"], values["resolved"]["coverage"]
    path.write_text(json.dumps(values))
    assert len(watch(run, max_steps=3).frames) == 3


def test_a_policy_with_memory(config):
    run = other(config, "recurrent", algo="recurrent-ppo", reward="ride")
    episode = watch(run, max_steps=5)
    assert len(episode.frames) == len(episode.bonus) == 5
    assert (episode.bonus > 0).all()


@pytest.mark.parametrize(
    ("task", "shape", "options"),
    [
        pytest.param("bullet/cart-pole", (320, 480, 3), {}, marks=needs_pybullet),
        pytest.param("bullet/hopper", (240, 320, 3), {"normalize": "both"}, marks=needs_pybullet),
        ("minigrid/door-key-5x5", (160, 160, 3), {}),
        ("atari/assault", (210, 160, 3), {"reward_params": Parameters(boundary="episode")}),
    ],
)
def test_other_tasks(config, task, shape, options):
    run = other(config, task.replace("/", "-"), task=task, **{"normalize": "none", **options})
    episode = watch(run, max_steps=6)
    assert {frame.shape for frame in episode.frames} == {shape}
    assert all(frame.std() > 0 for frame in episode.frames)
    assert np.isfinite(episode.bonus).all()
    assert len(episode.bonus) == len(episode.rewards) == len(episode.frames)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("revd", {}),
        ("revd", {"boundary": "episode"}),
        ("re3", {"normalize": "rms"}),
        ("ride", {}),
    ],
)
def test_the_first_environment_alone_is_paid_as_beside_the_others(name, parameters):
    reward = make_reward(name, BOX, DISCRETE, n_envs=3, **parameters)
    reward.compute(make_rollout(1, Shape(n_steps=12, n_envs=3, done_rate=0.1)))
    alone = first_environment(reward)
    rollout = make_rollout(2, Shape(n_steps=9, n_envs=3, done_rate=0.1))
    column = Rollout(
        observations=rollout.observations[:, :1],
        actions=rollout.actions[:, :1],
        next_observations=rollout.next_observations[:, :1],
        dones=rollout.dones[:, :1],
    )
    only_first = Rollout(
        observations=rollout.observations,
        actions=rollout.actions,
        next_observations=rollout.next_observations,
        dones=rollout.dones,
        lengths=torch.tensor([9, 0, 0]),
    )
    calls = int(reward.calls)
    paid = alone.compute(column)
    assert int(reward.calls) == calls, "the copy's memory moved, not the original's"
    torch.testing.assert_close(paid[:, 0], reward.compute(only_first)[:, 0])
    assert (paid > 0).any()


@pytest.mark.parametrize(("options", "message"), [({"seed": -1}, "seed must be"), ({"max_steps": 0}, "steps must be")])
def test_wrong_numbers(run, options, message):
    with pytest.raises(ValueError, match=message):
        watch(run, **options)


def test_no_run_there(tmp_path):
    with pytest.raises(ValueError, match=r"there is no run in .*: it holds no config\.json"):
        watch(tmp_path / "nowhere")


def test_no_checkpoint_yet(config, tmp_path):
    directory = RunDirectory(tmp_path / "young")
    directory.start(config, resolved={}, steps=0)
    with pytest.raises(ValueError, match="has no checkpoint yet: one is written every 50,000 steps"):
        watch(directory.path)


def test_a_longer_training_is_watched_at_its_newest_checkpoint(config):
    run = other(config, "longer", checkpoint_every=64)
    train(replace(config, output=run, steps=128, checkpoint_every=64))
    assert watch(run, max_steps=1).trained_steps == 128
    assert math.isclose(watch(run, max_steps=1).rewards.sum(), 1.0)
