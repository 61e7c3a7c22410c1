from contextlib import closing

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from safetensors.torch import load_file
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from revd.sb3 import IntrinsicRewardCallback
from revd.storage.csv_file import CsvFile
from revd.training.algorithms import make_algorithm
from revd.training.session import Listeners, Training
from revd.training.vec_env import make_vec_env
from tests.support.environments import CountingEnv


def make_training(*, algo="ppo", normalize="none", bonus="revd", seed=0, sizes=None, **parameters):
    env = make_vec_env("CartPole-v1", n_envs=2, normalize=normalize)
    small = {"n_steps": 32} if algo == "a2c" else {"n_steps": 32, "n_epochs": 1}
    networks = {} if sizes is None else {"policy_kwargs": {"net_arch": sizes}}
    model = make_algorithm(algo, env, seed=seed, parameters={**small, **networks})
    return Training(model=model, intrinsic=IntrinsicRewardCallback(bonus, **parameters) if bonus else None)


def ignore(*reports):
    """Reports nobody reads."""


def listeners(**changes):
    silent = {"on_rollout": ignore, "on_episode": ignore, "on_checkpoint": ignore, "on_evaluation": ignore}
    return Listeners(**{**silent, "checkpoint_every": 10**9, **changes})


def learn(training, steps, tmp_path, **changes):
    with closing(CsvFile(tmp_path / "progress.csv")) as progress:
        training.learn(steps, progress=progress, events=tmp_path, listeners=listeners(**changes))


def test_progress_is_read_after_the_bonus_is_paid(tmp_path):
    training, seen, episodes = make_training(), [], []
    learn(training, 128, tmp_path, on_rollout=seen.append, on_episode=episodes.append)
    assert seen[0].bonus_share == 0.0, "REVD pays nothing in its first rollout"
    assert seen[1].bonus_share == training.intrinsic.latest["bonus_share"] > 0
    assert sum(episode.length for episode in episodes) <= 128


def test_logs_are_closed_even_when_the_training_breaks(tmp_path):
    def fail(progress):
        if progress.steps == 128:
            raise RuntimeError("broke")

    training = make_training()
    with pytest.raises(RuntimeError, match="broke"):
        learn(training, 192, tmp_path, on_rollout=fail)
    names = {path.name.split(".")[0] for path in tmp_path.iterdir()}
    assert names == {"progress", "events"}
    csv, events = training.model.logger.output_formats
    with pytest.raises(ValueError, match="closed"):
        csv.write({"time/total_timesteps": 192}, {"time/total_timesteps": None})
    with pytest.raises(AssertionError, match="was closed"):
        events.write({"x": 1.0}, {"x": None}, 192)


def test_the_bonus_is_checked_before_training():
    make_training(k=31).check()
    make_training(bonus=None).check()
    with pytest.raises(ValueError, match="k"):
        make_training(k=32).check()


def test_statistics_are_saved_only_where_there_are_any(tmp_path):
    assert make_training().normalization_state() == {}
    training = make_training(normalize="both")
    training.save_normalization(tmp_path / "statistics.safetensors")
    assert set(load_file(tmp_path / "statistics.safetensors")) == set(training.normalization_state())


def test_a_normalisation_of_spaces_that_only_a_function_knows_can_be_loaded(tmp_path):
    class Named(Box):
        """As in a notebook: no module has it."""

    def envs():
        return DummyVecEnv([lambda: CountingEnv(Named(-np.inf, np.inf, (2,)))])

    env = VecNormalize(envs())
    training = Training(
        model=PPO("MlpPolicy", env, n_steps=32, batch_size=32, n_epochs=1, device="cpu"), intrinsic=None
    )
    learn(training, 64, tmp_path)
    training.save_vec_normalize(tmp_path / "vecnormalize.pkl")
    loaded = VecNormalize.load(str(tmp_path / "vecnormalize.pkl"), envs())
    np.testing.assert_array_equal(loaded.obs_rms.mean, env.obs_rms.mean)
    assert loaded.obs_rms.count > 60


def test_closing_closes_the_environments():
    training = make_training()
    training.evaluation_env = make_vec_env("CartPole-v1")
    closed = []
    training.model.get_env().close = lambda: closed.append("training")
    training.evaluation_env.close = lambda: closed.append("evaluation")
    training.close()
    assert closed == ["training", "evaluation"]


@pytest.mark.parametrize("algo", ["ppo", "a2c", "recurrent-ppo"])
def test_a_restored_training_is_the_one_that_was_saved(algo, tmp_path):
    saved = []
    training = make_training(algo=algo, normalize="both")
    learn(training, 256, tmp_path, checkpoint_every=64, on_checkpoint=lambda *snapshot: saved.append(snapshot))
    assert [steps for steps, _ in saved] == [64, 128, 192], "between rollouts"
    other = make_training(algo=algo, normalize="both")
    torch.manual_seed(99)
    other.check()
    other.restore(training.snapshot())
    assert (other.steps, other.sessions) == (256, 1)
    assert other.intrinsic.rollouts == 4
    (ours, values), (theirs, their_values) = training.snapshot(), other.snapshot()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert {**their_values, "sessions": 0} == values


def test_a_restored_training_draws_the_same_random_numbers(tmp_path):
    training = make_training()
    learn(training, 64, tmp_path)
    snapshot = training.snapshot()
    expected = torch.rand(3)
    torch.manual_seed(99)
    training.restore(snapshot)
    assert torch.equal(torch.rand(3), expected)


def test_a_snapshot_of_something_else_is_refused(tmp_path):
    training = make_training()
    learn(training, 64, tmp_path)
    tensors, values = training.snapshot()
    other = make_training(sizes=[8])
    other.check()
    for wrong in ((tensors, values), ({}, values), (tensors, {}), (tensors, {**values, "counters": 3})):
        with pytest.raises(ValueError, match="the checkpoint does not fit this training"):
            (other if wrong[1] is values and wrong[0] else training).restore(wrong)


def test_a_resumed_training_continues_the_counts(tmp_path):
    training, other, seen = make_training(), make_training(), []
    learn(training, 64, tmp_path)
    other.check()
    other.restore(training.snapshot())
    learn(other, 192, tmp_path, on_rollout=seen.append)
    assert [progress.steps for progress in seen] == [128, 192]
    assert other.intrinsic.rollouts == 3
    text = (tmp_path / "progress.csv").read_text()
    assert [
        line.split(",")[text.split("\n")[0].split(",").index("time/total_timesteps")] for line in text.split("\n")[1:-1]
    ] == ["64", "128", "192"]


def test_sessions_see_other_episodes(tmp_path):
    training = make_training()
    learn(training, 64, tmp_path)
    snapshot, starts = training.snapshot(), []
    for session in (0, 1):
        training.restore((snapshot[0], {**snapshot[1], "sessions": session}))
        starts.append(training.model.get_env().reset())
    assert (starts[0] != starts[1]).any()


def parameters_of(training):
    return {name: tensor.clone() for name, tensor in training.model.policy.state_dict().items()}


@pytest.mark.parametrize(("value", "optimizer"), [(False, False), (True, False), (True, True)])
def test_a_policy_is_taken_and_the_value_network_only_if_asked(value, optimizer, tmp_path):
    source, target = make_training(normalize="both"), make_training(normalize="both", seed=3)
    learn(source, 128, tmp_path)
    fresh, theirs = parameters_of(target), parameters_of(source)
    target.start_from(source.snapshot(), value=value, optimizer=optimizer)
    for name, tensor in parameters_of(target).items():
        expected = fresh if "value_net" in name and not value else theirs
        assert torch.equal(tensor, expected[name]), name
    assert bool(target.model.policy.optimizer.state_dict()["state"]) == optimizer
    ours, normalization = target.normalization_state(), source.normalization_state()
    assert torch.equal(ours["observations.mean"], normalization["observations.mean"])
    assert not torch.equal(ours["rewards.mean"], normalization["rewards.mean"]), "another reward, other statistics"
    assert target.steps == 0


def test_a_policy_of_other_networks_is_refused():
    with pytest.raises(ValueError, match="other networks"):
        make_training(sizes=[8]).start_from(make_training(bonus=None).snapshot(), value=False, optimizer=False)


def test_a_shared_features_extractor_is_the_policys():
    """The state has it under the value function's name too, but it must be taken nevertheless."""

    def cnn(seed):
        env = DummyVecEnv([lambda: CountingEnv(lengths=(4,), observation_space=Box(0, 255, (1, 36, 36), np.uint8))])
        return Training(model=PPO("CnnPolicy", env, n_steps=8, batch_size=8, seed=seed, device="cpu"))

    source, target = cnn(0), cnn(1)
    fresh, theirs = parameters_of(target), parameters_of(source)
    target.start_from(source.snapshot(), value=False, optimizer=False)
    for name, tensor in parameters_of(target).items():
        expected = fresh if name.startswith("value_net") else theirs
        assert torch.equal(tensor, expected[name]), name
