"""With an automatic weight, the connectors change advantages as a plain loop over the environments' logs does."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray.rllib", reason="Ray is not installed: pip install 'revd[ray]'")

import torch
from ray.rllib.connectors.learner import AddOneTsToEpisodesAndTruncate
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger
from ray.rllib.utils.postprocessing.zero_padding import split_and_zero_pad_n_episodes
from torch import Tensor

from revd import make_reward
from revd.rllib.connector import IntrinsicAdvantageConnector
from revd.weighting.automatic import GAE_LAMBDA, GAMMA, AutomaticWeight
from tests.support.rllib import BOX, DECAY, DISCRETE, METHODS, Environment, connector, environments, logged, sampled

STRENGTH = 0.25
#: In the rows of the time step that RLlib appends to each episode.
PHANTOM = 99.0


class Pipeline:
    """Our two connectors with a pretended GAE between them, which draws advantages at random."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.before = connector(
            *arguments, **{"weight": "auto", "strength": STRENGTH, "yield_to_task": False, **options}
        )
        self.after = IntrinsicAdvantageConnector(self.before)
        self.metrics = MetricsLogger(root=True)
        self.rng = np.random.default_rng(5)
        self.targets = torch.zeros(0)

    def __call__(
        self, episodes: list[SingleAgentEpisode], *, sequence: int | None = None, rl_module: Any = None
    ) -> tuple[list[list[float]], list[list[float]]]:
        """The advantages of both environments before and after, in order of time; padded to sequences if asked."""
        self.before(batch={}, episodes=episodes, metrics=self.metrics)
        AddOneTsToEpisodesAndTruncate()(rl_module=None, batch={}, episodes=episodes, shared_data={})
        drawn = np.concatenate([[*self.rng.normal(size=len(episode) - 1), PHANTOM] for episode in episodes])
        lengths = [len(episode) for episode in episodes]
        rows = drawn.astype(np.float32)
        if sequence is not None:
            rows = np.stack(split_and_zero_pad_n_episodes(rows, lengths, sequence))
        self.targets = torch.randn(rows.shape)
        own = {"advantages": torch.from_numpy(rows), "value_targets": self.targets}
        self.after(rl_module=rl_module, batch={"default_policy": own}, episodes=episodes, metrics=self.metrics)
        assert own["advantages"].shape == rows.shape
        self.targets = own["value_targets"]
        return in_order(episodes, drawn), in_order(episodes, own["advantages"], sequence)

    @property
    def numbers(self) -> dict[str, float]:
        found: dict[str, float] = self.metrics.peek(("default_policy", "exploration"))
        return found


def in_order(episodes: list[SingleAgentEpisode], rows: Any, sequence: int | None = None) -> list[list[float]]:
    """The values of both environments in order of time, from rows in the order of the episodes."""
    found: list[tuple[str, int, int, list[float]]] = []
    values = [float(value) for value in np.asarray(rows).flatten()]
    for episode in episodes:
        own, values = values[: len(episode)], values[len(episode) :]
        if sequence is not None:
            padding = -len(episode) % sequence
            assert values[:padding] == [0.0] * padding
            values = values[padding:]
        assert own[-1] == PHANTOM
        _, runner, _, serial = episode.id_.split(":")
        found.append((runner, int(serial.split("_")[0]), episode.t_started, own[:-1]))
    return [[value for part in sorted(found) if part[0] == runner for value in part[3]] for runner in ("1", "2")]


def padded(columns: list[list[float]]) -> Tensor:
    result = torch.zeros(max(map(len, columns)), len(columns))
    for env, column in enumerate(columns):
        result[: len(column), env] = torch.tensor(column)
    return result


@pytest.mark.parametrize(("name", "params"), METHODS, ids=lambda value: str(value))
def test_advantages_are_the_tasks_plus_the_centred_bonus(name: str, params: dict[str, Any]) -> None:
    envs, pipeline = environments(), Pipeline(name, extrinsic_weight=2.0, **params)
    reference = make_reward(name, BOX, DISCRETE, n_envs=2, seed=3, **params)
    automatic = AutomaticWeight(reference)
    for batch in range(4):
        start = [len(env.log) for env in envs]
        task, changed = pipeline(sampled(envs, batch))
        rollout = logged(envs, start)
        bonus = reference.compute(rollout)
        current = torch.stack([torch.from_numpy(env.log[-1][3]) for env in envs])
        weighed = automatic.weigh(
            bonus,
            automatic.embedder.embed(reference, rollout, current),
            padded(task),
            strength=torch.full((len(bonus), 1), STRENGTH * (1 - DECAY) ** (batch + 1)),
            extrinsic_weight=2.0,
            valid=rollout.valid,
            paid=reference.latest_paid,
        )
        reference.update(rollout)
        pushed = [
            [float(weighed.advantages[t, env]) - 2.0 * value for t, value in enumerate(column)]
            for env, column in enumerate(task)
        ]
        mean = np.mean([value for column in pushed for value in column])
        for env in range(2):
            expected = [2.0 * a + push - mean for a, push in zip(task[env], pushed[env], strict=True)]
            np.testing.assert_allclose(changed[env], expected, rtol=1e-4, atol=1e-5)
        for key, value in weighed.numbers.items():
            np.testing.assert_allclose(pipeline.numbers[key], value, rtol=1e-4)
    assert any(push != 0 for column in pushed for push in column)


def test_the_first_bonus_is_a_plain_sum_over_the_steps_to_come() -> None:
    """The critic still predicts 0. RE3 pays in the first batch already."""
    envs, pipeline = environments(), Pipeline("re3", k=2)
    reference = make_reward("re3", BOX, DISCRETE, n_envs=2, seed=3, k=2)
    task, changed = pipeline(sampled(envs, 0))
    rollout = logged(envs, [0, 0])
    bonus = reference.compute(rollout).double().numpy()
    columns = [bonus[: len(column), env] for env, column in enumerate(task)]
    every = np.concatenate(columns)
    own = [
        [
            sum(
                (GAMMA * GAE_LAMBDA) ** (j - t) * (column[j] - every.mean()) / every.std()
                for j in range(t, len(column))
            )
            for t in range(len(column))
        ]
        for column in columns
    ]
    weight = STRENGTH * (1 - DECAY) * np.std([*task[0], *task[1]]) / np.std([*own[0], *own[1]])
    mean = np.mean([*own[0], *own[1]])
    for env in range(2):
        expected = [a + weight * (b - mean) for a, b in zip(task[env], own[env], strict=True)]
        np.testing.assert_allclose(changed[env], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(pipeline.numbers["weight"], weight, rtol=1e-4)


def test_rewards_and_value_targets_stay_the_tasks() -> None:
    envs, pipeline = environments(), Pipeline("re3", k=2)
    for batch in range(2):
        episodes = sampled(envs, batch)
        rewards = [episode.get_rewards().tolist() for episode in episodes]
        torch.manual_seed(batch)
        drawn = torch.randn(sum(map(len, episodes)) + len(episodes))
        torch.manual_seed(batch)
        pipeline(episodes)
        assert [episode.get_rewards().tolist()[:-1] for episode in episodes] == rewards
        assert torch.equal(pipeline.targets, drawn)


def test_sequences_of_recurrent_modules_change_as_their_steps_do() -> None:
    results = []
    for sequence in (None, 4):
        envs, pipeline = environments(), Pipeline("re3", k=2)
        results.append([pipeline(sampled(envs, batch), sequence=sequence) for batch in range(3)])
    assert results[0] == results[1]


class Module:
    """A module whose values are -1, as RLlib wraps it."""

    def unwrapped(self) -> "Module":
        return self

    def compute_values(self, batch: dict[str, Tensor]) -> Tensor:
        return torch.full_like(batch["advantages"], -1.0)


def test_the_bonus_alone_moves_policy_and_nothing_moves_values() -> None:
    envs, pipeline = environments(), Pipeline("re3", k=2, extrinsic_weight=0.0)
    _, changed = pipeline(sampled(envs, 0), rl_module={"default_policy": Module()})
    values = np.array([*changed[0], *changed[1]])
    np.testing.assert_allclose([values.mean(), values.std()], [0, 1], atol=1e-5)
    assert torch.equal(pipeline.targets, torch.full_like(pipeline.targets, -1.0))


def test_without_a_bonus_advantages_stay_to_the_last_bit() -> None:
    envs, pipeline = environments(), Pipeline("re3", k=2, strength=0.0)
    for batch in range(2):
        before, after = pipeline(sampled(envs, batch))
        assert after == [np.float32(column).tolist() for column in before]


def test_with_a_dense_reward_advantages_stay_to_the_last_bit() -> None:
    envs, pipeline = environments(), Pipeline("re3", k=2, yield_to_task=True)
    for batch in range(2):
        before, after = pipeline(sampled(envs, batch))
        assert after == [np.float32(column).tolist() for column in before]
    shown = {name: pipeline.numbers[name] for name in ("reward_density", "strength", "bonus_share")}
    assert shown == {"reward_density": 1, "strength": 0, "bonus_share": 0}


def test_numbers_have_the_names_they_have_with_sb3() -> None:
    envs, pipeline = environments(), Pipeline("re3", k=2)
    for batch in range(2):
        pipeline(sampled(envs, batch))
    assert {
        *(
            "weight",
            "strength",
            "task_speaks",
            "reward_density",
            "task_deviation",
            "bonus_deviation",
            "critic_explained_variance",
        ),
        *("bonus_share", "bonus_mean", "extrinsic_mean"),
    } <= set(pipeline.numbers)
    assert pipeline.numbers["task_speaks"] == 1
    np.testing.assert_allclose(pipeline.numbers["strength"], STRENGTH * (1 - DECAY) ** 2)
    assert 0 < pipeline.numbers["bonus_share"] < 1


@pytest.mark.parametrize(("name", "params"), METHODS, ids=lambda value: str(value))
def test_a_restored_connector_continues_as_the_original(name: str, params: dict[str, Any]) -> None:
    envs, pipeline = environments(), Pipeline(name, **params)
    for batch in range(2):
        pipeline(sampled(envs, batch))
    state = pipeline.before.get_state()
    other = Pipeline(name, **params)
    other.before.set_state(state)
    for batch in (2, 3):
        episodes = sampled(envs, batch)
        other.rng = np.random.default_rng(batch)
        pipeline.rng = np.random.default_rng(batch)
        copies = [episode.slice(slice(None)) for episode in episodes]
        assert pipeline(episodes) == other(copies)
    np.testing.assert_equal(other.before.get_state()["weighting"], pipeline.before.get_state()["weighting"])
    assert other.before.get_state()["warnings"] == pipeline.before.get_state()["warnings"]
    # Back to the state of before, in the middle of training.
    pipeline.before.set_state(state)
    np.testing.assert_equal(pipeline.before.get_state(), state)


def test_a_state_of_a_fixed_weight_begins_an_automatic_one() -> None:
    envs, old, pipeline = environments(), connector("re3", k=2), Pipeline("re3", k=2)
    old(batch={}, episodes=sampled(envs, 0))
    state = old.get_state()
    assert state.pop("weighting") == {}
    # Earlier versions saved neither.
    del state["warnings"]
    pipeline.before.set_state(state)
    pipeline(sampled(envs, 1))
    assert (pipeline.before.rollouts, pipeline.before.steps) == (2, 30)
    assert pipeline.numbers["weight"] > 0


def test_a_batch_without_steps_changes_nothing() -> None:
    pipeline = Pipeline("re3", k=2)
    batch = {"default_policy": {"advantages": torch.ones(1)}}
    pipeline.before(batch={}, episodes=[])
    assert pipeline.after(rl_module=None, batch=batch, episodes=[]) is batch
    assert batch["default_policy"]["advantages"].tolist() == [1.0]


def test_an_episode_that_a_connector_dropped_is_left_out() -> None:
    envs, pipeline = environments(), Pipeline("re3", k=2)
    episodes = sampled(envs, 0)
    pipeline.before(batch={}, episodes=episodes)
    kept = episodes[1:]
    own = {"advantages": torch.arange(float(sum(map(len, kept))))}
    # Without the time step that RLlib appends, too.
    pipeline.after(rl_module=None, batch={"default_policy": own}, episodes=kept)
    task, changed = np.arange(len(own["advantages"])), own["advantages"].numpy()
    assert (changed != task).all()
    np.testing.assert_allclose(changed.mean(), task.mean(), rtol=1e-6)


def test_an_episode_that_a_connector_shortened_is_an_error() -> None:
    (env, *_), pipeline = environments(), Pipeline("re3", k=2)
    (episode,) = env.sample(5)
    pipeline.before(batch={}, episodes=[episode])
    for changed in (episode.slice(slice(2, 5)), episode.slice(slice(0, 3)), Environment(1, 0, seed=7).sample(5)[0]):
        pipeline.before(batch={}, episodes=env.sample(5))
        own = {"advantages": torch.ones(len(changed))}
        with pytest.raises(ValueError, match=r"a learner connector has added or shortened the episode .* use a number"):
            pipeline.after(rl_module=None, batch={"default_policy": own}, episodes=[changed])


def test_a_pipeline_without_gae_is_an_error() -> None:
    envs, pipeline = environments(), Pipeline("re3", k=2)
    episodes = sampled(envs, 0)
    pipeline.before(batch={}, episodes=episodes)
    with pytest.raises(ValueError, match="needs RLlib's GeneralAdvantageEstimation"):
        pipeline.after(rl_module=None, batch={"default_policy": {}}, episodes=episodes)


def test_numbers_that_are_not_finite_are_errors_that_change_nothing() -> None:
    envs, pipeline = environments(), Pipeline("re3", k=2)
    episodes = sampled(envs, 0)
    pipeline.before(batch={}, episodes=episodes)
    own = {"advantages": torch.full((15,), torch.nan)}
    with pytest.raises(ValueError, match="the advantages are not finite"):
        pipeline.after(rl_module=None, batch={"default_policy": own}, episodes=episodes)
    assert float(pipeline.before.weighting.automatic.task_advantages.total) == 0
    episodes = sampled(envs, 1)
    episodes[0].rewards.data[0] = np.inf
    with pytest.raises(ValueError, match="the task's own is inf"):
        pipeline.before(batch={}, episodes=episodes)
