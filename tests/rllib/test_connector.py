"""The connector pays what the reward itself pays for the same experience, batch after batch."""

import warnings
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray.rllib", reason="Ray is not installed: pip install 'revd[ray]'")

from ray.rllib.connectors.learner import AddOneTsToEpisodesAndTruncate
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from revd import REVD, IntrinsicReward, make_reward
from tests.support.rllib import (
    BOX,
    DECAY,
    DISCRETE,
    METHODS,
    WEIGHT,
    Environment,
    connector,
    environments,
    logged,
    paid,
    sampled,
)


@pytest.mark.parametrize(("name", "params"), METHODS, ids=lambda value: str(value))
def test_rewards_are_extrinsic_plus_weight_times_what_the_reward_pays(name: str, params: dict[str, Any]) -> None:
    envs, piece = environments(), connector(name, extrinsic_weight=2.0, **params)
    reference = make_reward(name, BOX, DISCRETE, n_envs=2, seed=3, **params)
    for batch in range(4):
        start = [len(env.log) for env in envs]
        episodes = sampled(envs, batch)
        assert piece(batch={}, episodes=episodes) == {}
        rollout = logged(envs, start)
        bonus = reference.compute(rollout).numpy()
        reference.update(rollout)
        weight = WEIGHT * (1 - DECAY) ** (batch + 1)
        for env, begin in enumerate(start):
            extrinsic = [entry[2] for entry in envs[env].log[begin:]]
            expected = [2.0 * r + weight * float(b) for r, b in zip(extrinsic, bonus[:, env], strict=False)]
            np.testing.assert_allclose(paid(envs, episodes, env), expected, rtol=1e-6, atol=1e-7)
    assert bonus.any()


def test_the_phantom_step_comes_after_and_is_paid_nothing() -> None:
    envs, piece = environments(), connector(k=2)
    for batch in range(2):
        episodes = sampled(envs, batch)
        piece(batch={}, episodes=episodes)
        before = {id(episode): (len(episode), episode.get_rewards().tolist()) for episode in episodes}
        AddOneTsToEpisodesAndTruncate()(rl_module=None, batch={}, episodes=episodes, shared_data={})
        for episode in episodes:
            length, rewards = before[id(episode)]
            assert episode.get_rewards().tolist() == [*rewards, 0.0]
            assert len(episode) == length + 1


def test_a_broken_stream_ends_what_was_running() -> None:
    envs, piece = environments(), connector(k=2, boundary="episode")
    for env in envs:
        piece(batch={}, episodes=env.sample(4))
    assert piece.reward.memory.running_lengths.tolist() == [4, 4]
    # The env runner was replaced: its environment starts anew, with no end of the episode before.
    envs[1] = Environment(2, 0, seed=9)
    piece(batch={}, episodes=envs[1].sample(3))
    assert piece.reward.memory.running_lengths.tolist() == [0, 3]
    assert piece.reward.memory.previous_lengths.tolist() == [4, 4]


def test_an_environment_that_pauses_continues() -> None:
    envs, piece = environments(), connector(k=2, boundary="episode")
    piece(batch={}, episodes=[*envs[0].sample(4), *envs[1].sample(3)])
    piece(batch={}, episodes=envs[0].sample(2, ends=(1,)))
    piece(batch={}, episodes=[*envs[0].sample(2), *envs[1].sample(1)])
    assert piece.reward.memory.running_lengths.tolist() == [2, 4]


def test_a_batch_too_short_for_k_says_what_to_raise() -> None:
    message = (
        r"k = 9 neighbours cannot be found in rollouts of n_steps = 9: .* raise train_batch_size_per_learner, or use "
        r"fewer environments than 2: 2 env runner\(s\) with 1 each"
    )
    with pytest.raises(ValueError, match=message):
        connector(k=9)(batch={}, episodes=sampled(environments(), 0))


def test_the_weight_shrinks_with_every_step_of_all_learners() -> None:
    envs, piece, logger = environments(), connector(k=2, decay_per="step", n_learners=2), MetricsLogger(root=True)
    piece(batch={}, episodes=[*envs[0].sample(5), *envs[1].sample(3)], metrics=logger)
    assert piece.steps == 16
    weight = logger.peek(("default_policy", "exploration", "weight"))
    np.testing.assert_allclose(weight, WEIGHT * (1 - DECAY) ** 16)


def test_numbers_are_reported_under_exploration() -> None:
    envs, piece, logger = environments(), connector(k=2), MetricsLogger(root=True)
    for batch in range(2):
        start = [len(env.log) for env in envs]
        piece(batch={}, episodes=sampled(envs, batch), metrics=logger)
    numbers = logger.peek(("default_policy", "exploration"))
    assert {"bonus_mean", "bonus_share", "extrinsic_mean", "weight", "divergence", "spread"} <= set(numbers)
    extrinsic = [entry[2] for env, begin in zip(envs, start, strict=True) for entry in env.log[begin:]]
    np.testing.assert_allclose(numbers["extrinsic_mean"], np.mean(extrinsic))
    assert numbers["bonus_mean"] > 0
    # The bonus is never negative, so its share follows from its mean, which this decay leaves the same for all steps.
    total = numbers["bonus_mean"] * numbers["weight"] * len(extrinsic)
    np.testing.assert_allclose(numbers["bonus_share"], total / (total + np.abs(extrinsic).sum()), rtol=1e-5)


def test_without_any_reward_the_share_is_zero() -> None:
    env, piece, logger = Environment(1, 0, seed=1), connector(k=2, extrinsic_weight=0.0), MetricsLogger(root=True)
    piece(batch={}, episodes=env.sample(5), metrics=logger)
    assert logger.peek(("default_policy", "exploration", "bonus_share")) == 0


def test_of_an_instance_a_copy_is_used() -> None:
    reward = REVD(BOX, DISCRETE, 2, k=2)
    env, piece = Environment(1, 0, seed=1), connector(reward)
    piece(batch={}, episodes=env.sample(5))
    assert piece.reward.config.k == 2
    assert (int(piece.reward.calls), int(reward.calls)) == (1, 0)


def warnings_of(batches: int, **options: Any) -> list[str]:
    """The warnings of a connector about batches of 15 steps."""
    envs, piece = environments(), connector(k=2, **options)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for batch in range(batches):
            piece(batch={}, episodes=sampled(envs, batch % 2))
    return [str(entry.message) for entry in found if issubclass(entry.category, UserWarning)]


def test_a_bonus_out_of_proportion_is_warned_about_as_with_sb3() -> None:
    assert warnings_of(25) == []
    # REVD pays nothing in the first batch, after which 20 more are long enough.
    assert warnings_of(20, weight=1e-6) == []
    (message,) = warnings_of(30, weight=1e-6)
    assert "the bonus has been under 1% of the reward for 300 steps (20 rollouts)" in message
    assert "RLlib's MeanStdFilter or normalize_observations=True" in message
    (message,) = warnings_of(30, weight=1e6)
    assert "drowns the task's reward" in message
    assert warnings_of(30, weight=1e6, extrinsic_weight=0.0) == []


def test_a_name_can_be_normalised() -> None:
    env, piece = Environment(1, 0, seed=1), connector("re3", k=2, normalize="rms")
    piece(batch={}, episodes=env.sample(5))
    assert piece.reward.config.normalize == "rms"


def test_a_batch_without_steps_changes_nothing() -> None:
    piece = connector()
    batch = {"x": 1}
    assert piece(batch=batch, episodes=[]) is batch
    assert piece.rollouts == 0


def test_a_reward_that_is_no_number_is_named() -> None:
    env, piece = Environment(1, 0, seed=1), connector(k=2)
    (episode,) = env.sample(5)
    episode.rewards.data[3] = np.inf
    with pytest.raises(ValueError, match="step 3 of environment 0 is inf: the task's own is inf"):
        piece(batch={}, episodes=[episode])


@pytest.mark.parametrize(("method", "gathered"), [("revd", False), ("ride", True)])
def test_successors_are_gathered_for_rewards_that_look(
    method: str, gathered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = []
    compute = IntrinsicReward.compute
    monkeypatch.setattr(
        IntrinsicReward, "compute", lambda self, rollout: shown.append(rollout) or compute(self, rollout)
    )
    connector(method, k=2)(batch={}, episodes=sampled(environments(), 0))
    assert [rollout.next_observations is not None for rollout in shown] == [gathered]


@pytest.mark.parametrize("method", ["revd", "ride"])
def test_an_observation_at_a_cut_that_is_not_finite_is_named(method: str) -> None:
    envs, piece = environments(), connector(method, k=2)
    episodes = sampled(envs, 0)
    cut = next(episode for episode in episodes if not episode.is_done)
    cut.observations.data[-1] = np.nan
    with pytest.raises(ValueError, match=r"of environment 0 of env runner \d holds a NaN or infinite value"):
        piece(batch={}, episodes=episodes)
