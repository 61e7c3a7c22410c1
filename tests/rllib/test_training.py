"""PPO of RLlib trained with a bonus, from one process to several learners."""

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray.rllib", reason="Ray is not installed: pip install 'revd[ray]'")

import ray
import torch
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.connectors.learner import general_advantage_estimation
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from revd import Rollout, make_reward
from revd.rllib import connector, with_intrinsic_reward
from revd.weighting.automatic import AutomaticWeight
from tests.support.rllib import bonus_state, ppo

# Ray's own settings of its datasets, which it makes for learners in processes of their own.
pytestmark = pytest.mark.filterwarnings("ignore:`use_[a-z0-9_]+` is deprecated:DeprecationWarning:ray.data.context")

ROOT = Path(__file__).parents[2]
WEIGHT = 0.5


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        # Ray's workers would yield to everything else that runs on the machine.
        patch.setenv("RAY_worker_niceness", "0")
        ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        yield
        ray.shutdown()


class Witness(ConnectorV2):
    """A connector that a user has: it notes how many time steps it saw."""

    steps = 0

    def __call__(self, *, batch: dict[str, Any], episodes: list[Any], **kwargs: Any) -> dict[str, Any]:
        self.steps += sum(map(len, episodes))
        return batch


class Tape:
    """What the env runner returned, the rewards from which advantages were computed, and those, for each iteration."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.samples: list[SingleAgentEpisode] = []
        self.rewards: list[Any] = []
        self.advantages: list[Any] = []
        compute = general_advantage_estimation.compute_value_targets

        def noting(**kwargs: Any) -> Any:
            self.rewards.append(kwargs["rewards"].copy())
            return compute(**kwargs)

        monkeypatch.setattr(general_advantage_estimation, "compute_value_targets", noting)

        add = connector.add_to_advantages

        def adding(batch: dict[str, Any], *arguments: Any) -> Any:
            before = {name: batch[name].clone() for name in ("advantages", "value_targets", "loss_mask")}
            numbers = add(batch, *arguments)
            assert torch.equal(batch["value_targets"], before["value_targets"])
            self.advantages.append((before["advantages"], batch["advantages"].clone(), before["loss_mask"]))
            return numbers

        monkeypatch.setattr(connector, "add_to_advantages", adding)

    def keep(self, samples: list[SingleAgentEpisode]) -> None:
        self.samples += copy.deepcopy(samples)

    def columns(self) -> list[list[SingleAgentEpisode]]:
        """The samples since the last call, by environment."""
        found, self.samples = by_environment(self.samples), []
        return found


def by_environment(episodes: list[SingleAgentEpisode]) -> list[list[SingleAgentEpisode]]:
    return [[episode for episode in episodes if episode.id_.split(":")[2] == str(env)] for env in (0, 1)]


def naive_rollout(columns: list[list[SingleAgentEpisode]]) -> Rollout:
    lengths = [sum(map(len, column)) for column in columns]
    shape = max(lengths), len(columns)
    size = columns[0][0].observations.data.shape[1:]
    observations, following = np.zeros((*shape, *size), np.float32), np.zeros((*shape, *size), np.float32)
    actions, dones = np.zeros(shape, np.int64), np.zeros(shape, bool)
    for env, column in enumerate(columns):
        t = 0
        for episode in column:
            for step in range(len(episode)):
                observations[t, env], following[t, env] = episode.observations[step], episode.observations[step + 1]
                actions[t, env] = episode.actions[step]
                dones[t, env] = episode.is_done and step == len(episode) - 1
                t += 1
    arrays = {"observations": observations, "actions": actions, "next_observations": following, "dones": dones}
    return Rollout(**arrays, lengths=np.array(lengths))


def naive_rewards(columns: list[list[SingleAgentEpisode]], bonus: Any) -> list[float]:
    """Extrinsic reward plus weighted bonus, episode after episode, and 0 for the step that RLlib appends to each."""
    rewards = []
    for env, column in enumerate(columns):
        t = 0
        for episode in column:
            for step in range(len(episode)):
                rewards.append(float(episode.rewards[step]) + WEIGHT * float(bonus[t, env]))
                t += 1
            rewards.append(0.0)
    return rewards


@pytest.mark.parametrize(
    ("env", "name", "params", "mode"),
    [
        ("MountainCar-v0", "revd", {}, "truncate_episodes"),
        ("MountainCar-v0", "revd", {"boundary": "episode"}, "truncate_episodes"),
        ("CartPole-v1", "revd", {"boundary": "episode"}, "truncate_episodes"),
        ("CartPole-v1", "revd", {"boundary": "episode"}, "complete_episodes"),
        ("CartPole-v1", "ride", {}, "truncate_episodes"),
    ],
)
def test_gae_gets_extrinsic_plus_weighted_bonus(
    env: str, name: str, params: dict[str, Any], mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tape, witness = Tape(monkeypatch), Witness()
    # Functions, for a config is copied with everything else that it holds.
    config = (
        ppo(env)
        .env_runners(batch_mode=mode)
        .callbacks(on_sample_end=lambda *, samples, **kwargs: tape.keep(samples))
        .learners(learner_connector=lambda *spaces: witness)
    )
    algorithm = with_intrinsic_reward(config, name, weight=WEIGHT, decay=0.0, **params).build_algo()
    # A learner that is built already stays as it is, and pays once.
    algorithm.learner_group.foreach_learner(lambda learner: learner.build())
    reference = None
    for _ in range(3):
        results = algorithm.train()
        columns = tape.columns()
        if reference is None:
            episode = columns[0][0]
            reference = make_reward(name, episode.observation_space, episode.action_space, n_envs=2, seed=1, **params)
        rollout = naive_rollout(columns)
        bonus = reference.compute(rollout).numpy()
        reference.update(rollout)
        np.testing.assert_allclose(tape.rewards[-1], naive_rewards(columns, bonus), rtol=1e-5, atol=1e-6)
    assert bonus.any()
    numbers = results["learners"]["default_policy"]["exploration"]
    np.testing.assert_allclose(numbers["bonus_mean"], bonus[rollout.valid.numpy()].mean(), rtol=1e-5)
    # The connector of the user came after, and saw the appended steps too.
    assert witness.steps == sum(map(len, tape.rewards))
    # What RLlib reports is the task's own return, though a local env runner shares its episodes with the learner.
    sign = -1 if env == "MountainCar-v0" else 1
    assert results["env_runners"]["episode_return_mean"] == sign * results["env_runners"]["episode_len_mean"]
    algorithm.stop()


def in_columns(columns: list[list[SingleAgentEpisode]], samples: list[SingleAgentEpisode], steps: Any) -> torch.Tensor:
    """Values of the steps in the order of the samples as (n_steps, n_envs)."""
    parts = dict(zip(map(id, samples), np.split(steps, np.cumsum(list(map(len, samples)))[:-1]), strict=True))
    joined = [np.concatenate([parts[id(episode)] for episode in column]) for column in columns]
    result = torch.zeros(max(map(len, joined)), len(columns))
    for env, values in enumerate(joined):
        result[: len(values), env] = torch.from_numpy(values)
    return result


@pytest.mark.parametrize("recurrent", [False, True], ids=["feedforward", "recurrent"])
def test_the_policy_learns_from_advantages_with_the_bonus(recurrent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    tape = Tape(monkeypatch)
    model = DefaultModelConfig(use_lstm=recurrent, max_seq_len=7, fcnet_hiddens=[8], lstm_cell_size=8)
    config = (
        ppo("MountainCar-v0")
        .rl_module(model_config=model)
        .callbacks(on_sample_end=lambda *, samples, **kwargs: tape.keep(samples))
    )
    algorithm = with_intrinsic_reward(config, "revd", decay=0.0).build_algo()
    automatic = None
    for _ in range(3):
        results = algorithm.train()
        samples, columns = tape.samples, tape.columns()
        if automatic is None:
            spaces = columns[0][0].observation_space, columns[0][0].action_space
            reference = make_reward("revd", *spaces, n_envs=2, seed=1)
            automatic = AutomaticWeight(reference)
        rollout = naive_rollout(columns)
        bonus = reference.compute(rollout)
        before, after, mask = tape.advantages[-1]
        task, changed = (in_columns(columns, samples, values[mask].numpy()) for values in (before, after))
        # An episode of 200 steps is not done within a batch in which it began.
        current = torch.stack([torch.as_tensor(column[-1].get_observations(-1)) for column in columns])
        embeddings = automatic.embedder.embed(reference, rollout, current)
        strength, valid = torch.full((len(bonus), 1), 0.1), rollout.valid
        weighed = automatic.weigh(
            bonus,
            embeddings,
            task,
            strength=strength,
            extrinsic_weight=1.0,
            valid=valid,
            paid=reference.latest_paid,
        )
        pushed = weighed.advantages - task
        expected = (task + pushed - pushed[valid].mean())[valid]
        np.testing.assert_allclose(changed[valid], expected, rtol=1e-4, atol=1e-5)
        assert torch.equal(after[~mask], before[~mask])
        assert tape.rewards[-1].tolist() == naive_rewards([samples], np.zeros((300, 1)))
    assert pushed.any()
    numbers = results["learners"]["default_policy"]["exploration"]
    np.testing.assert_allclose(numbers["weight"], weighed.numbers["weight"], rtol=1e-4)
    assert results["env_runners"]["episode_return_mean"] == -200
    algorithm.stop()


RESTORE = """
import copy, pickle, sys
from revd.rllib import connector, with_intrinsic_reward
from revd.weighting.automatic import AutomaticWeight
from tests.support.rllib import bonus_state, ppo
kept = []
config = ppo("CartPole-v1", seed=2).callbacks(on_sample_end=lambda samples, **_: kept.extend(copy.deepcopy(samples)))
algorithm = with_intrinsic_reward(config, "revd").build_algo()
algorithm.restore_from_path(sys.argv[1])
numbers = algorithm.train()["learners"]["default_policy"]["exploration"]
with open(sys.argv[2], "wb") as file:
    pickle.dump((kept, numbers["bonus_mean"], bonus_state(algorithm)), file)
"""


def test_a_checkpoint_resumes_in_a_new_process(tmp_path: Path) -> None:
    algorithm = with_intrinsic_reward(ppo("CartPole-v1"), "revd").build_algo()
    for _ in range(2):
        algorithm.train()
    algorithm.save_to_path(tmp_path / "checkpoint")
    saved = bonus_state(algorithm)
    algorithm.stop()
    address = {"RAY_ADDRESS": ray.get_runtime_context().gcs_address}
    command = [sys.executable, "-W", "ignore", "-c", RESTORE, tmp_path / "checkpoint", tmp_path / "result"]
    subprocess.run(command, env={**os.environ, **address}, check=True, capture_output=True, cwd=ROOT)
    episodes, bonus_mean, state = pickle.loads((tmp_path / "result").read_bytes())
    # Its own seed would have drawn another encoder, and without a previous segment the first batch is paid nothing.
    columns = by_environment(episodes)
    first = columns[0][0]
    reference = make_reward("revd", first.observation_space, first.action_space, n_envs=2, seed=2)
    fresh = reference.state_dict()
    encoder = [name for name in saved["reward"] if name.startswith("encoder")]
    assert any(not np.array_equal(fresh[name], saved["reward"][name]) for name in encoder)
    assert all(np.array_equal(state["reward"][name], saved["reward"][name]) for name in encoder)
    reference.load_state_dict({name: torch.as_tensor(values) for name, values in saved["reward"].items()})
    rollout = naive_rollout(columns)
    bonus = reference.compute(rollout).numpy()
    np.testing.assert_allclose(bonus_mean, bonus[rollout.valid.numpy()].mean(), rtol=1e-5)
    assert bonus_mean > 0
    assert (saved["rollouts"], state["rollouts"]) == (2, 3)


def test_an_algorithm_goes_back_to_its_checkpoints(tmp_path: Path) -> None:
    algorithm = with_intrinsic_reward(ppo("CartPole-v1"), "revd", boundary="episode").build_algo()
    start, middle = algorithm.save_to_path(tmp_path / "start"), tmp_path / "middle"
    algorithm.train()
    algorithm.save_to_path(middle)
    state = bonus_state(algorithm)
    algorithm.train()
    assert differing(state, bonus_state(algorithm))
    algorithm.restore_from_path(middle)
    assert differing(state, bonus_state(algorithm)) == []
    algorithm.restore_from_path(start)
    assert bonus_state(algorithm) == {}
    algorithm.stop()
    restored = Algorithm.from_checkpoint(middle)
    assert differing(state, bonus_state(restored)) == []
    assert bonus_state(restored)["running"] == state["running"]
    restored.stop()


def test_every_environment_of_two_env_runners_has_its_column() -> None:
    algorithm = with_intrinsic_reward(ppo("MountainCar-v0", runners=2), "revd").build_algo()
    for _ in range(2):
        results = algorithm.train()
    bonus = bonus_state(algorithm)
    assert bonus["reward"]["memory.previous_lengths"].tolist() == [75, 75, 75, 75]
    assert sorted(column for column, _, _ in bonus["running"]) == [0, 1, 2, 3]
    assert {t for _, _, t in bonus["running"]} == {150}
    assert results["learners"]["default_policy"]["exploration"]["bonus_mean"] > 0
    algorithm.stop()


def test_each_of_two_learners_has_its_own_memory(tmp_path: Path) -> None:
    config = ppo("MountainCar-v0", steps=150).learners(num_learners=2)
    algorithm = with_intrinsic_reward(config, "revd", boundary="episode").build_algo()

    def states() -> list[dict[str, Any]]:
        results = algorithm.learner_group.foreach_learner(lambda learner: learner.bonus.get_state())
        return [result.get() for result in results]

    for _ in range(2):
        results = algorithm.train()
    first, second = states()
    assert first["rollouts"] == second["rollouts"] == 2
    assert first["steps"] == second["steps"] == 2 * 2 * 150
    assert differing(first, second)
    assert not any(name.startswith("encoder") for name in differing(first, second))
    strength = results["learners"]["default_policy"]["exploration"]["strength"]
    np.testing.assert_allclose(strength, 0.1 * (1 - 1e-5) ** 2)
    # RLlib saves the first learner for all of them.
    algorithm.restore_from_path(algorithm.save_to_path(tmp_path))
    assert [differing(first, state) for state in states()] == [[], []]
    algorithm.stop()


def differing(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Names of what two states of a bonus do not have in common."""
    return [
        name
        for part in ("reward", "weighting")
        for name, values in one[part].items()
        if not np.array_equal(values, other[part][name], equal_nan=True)
    ]
