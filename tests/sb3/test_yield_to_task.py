"""The bonus leaves the policy to a task whose reward is dense, and only to such a task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from stable_baselines3.common.vec_env import VecNormalize

from revd.sb3 import IntrinsicRewardCallback
from tests.support.environments import counting_envs
from tests.support.sb3 import ALL_ALGORITHMS, flat_parameters, make_model

N_STEPS, N_ENVS = 8, 2


def dense(number: int) -> float:
    return 0.1 * (number % 7)


def at_times(number: int) -> float:
    return 1.0 + number % 3 if number % 4 == 0 else 0.0


def constant(number: int) -> float:
    return -1.0


def learnt(
    callback: IntrinsicRewardCallback | None,
    reward: Callable[[int], float] = dense,
    *,
    algo: str = "PPO",
    rollouts: int = 4,
    wrap: Any = None,
) -> torch.Tensor:
    env: Any = counting_envs(N_ENVS, lengths=((4,), (3,)), reward=reward)
    model = make_model(algo, env if wrap is None else wrap(env), n_steps=N_STEPS)
    return flat_parameters(model.learn(rollouts * N_STEPS * N_ENVS, callback=callback))


@pytest.mark.parametrize("algo", ALL_ALGORITHMS)
def test_with_a_dense_reward_the_policy_learns_as_without_a_bonus(algo: str) -> None:
    yielding, acting = IntrinsicRewardCallback("re3", k=2), IntrinsicRewardCallback("re3", k=2, yield_to_task=False)
    alone = learnt(None, algo=algo)
    assert torch.equal(learnt(yielding, algo=algo), alone)
    assert not torch.equal(learnt(acting, algo=algo), alone)
    shown = {name: yielding.latest[name] for name in ("strength", "weight", "bonus_share")}
    assert shown == {"strength": 0, "weight": 0, "bonus_share": 0}
    assert yielding.latest["reward_density"] == acting.latest["reward_density"] > 0.9
    assert acting.latest["strength"] == pytest.approx(0.1, rel=1e-3)


@pytest.mark.parametrize("wrap", [None, lambda env: VecNormalize(env, clip_reward=1e9)], ids=["plain", "VecNormalize"])
@pytest.mark.parametrize(("reward", "acts"), [(dense, False), (at_times, True), (constant, True)])
def test_it_acts_from_the_first_rollout_unless_the_tasks_own_reward_is_dense(
    reward: Callable[[int], float], acts: bool, wrap: Any
) -> None:
    """Divided by a growing deviation, -1 on every step would differ from step to step."""
    for rollouts in (1, 4):
        callback = IntrinsicRewardCallback("re3", k=2)
        learnt(callback, reward, rollouts=rollouts, wrap=wrap)
        assert (callback.latest["strength"] > 0) == acts
        assert (callback.latest["bonus_share"] > 0) == acts


def test_it_may_be_changed_between_two_trainings() -> None:
    callback = IntrinsicRewardCallback("re3", k=2)
    learnt(callback)
    callback.yield_to_task = False
    learnt(callback, rollouts=1)
    assert callback.latest["strength"] > 0
    with pytest.raises(ValueError, match="yield_to_task must be True or False, got 'no'"):
        callback.yield_to_task = "no"  # type: ignore[assignment]


def test_without_the_tasks_reward_there_is_nothing_to_yield_to() -> None:
    one, other = (
        learnt(IntrinsicRewardCallback("re3", k=2, extrinsic_weight=0.0, yield_to_task=value))
        for value in (True, False)
    )
    assert torch.equal(one, other)


def test_how_dense_the_reward_was_is_in_the_callbacks_file(tmp_path: Path) -> None:
    first, second = (IntrinsicRewardCallback("re3", k=2) for _ in range(2))
    learnt(first, dense)
    first.save(tmp_path / "callback")
    second.load(tmp_path / "callback")
    models = [learnt(callback, at_times, rollouts=1) for callback in (first, second)]
    assert torch.equal(*models)
    assert first.latest["reward_density"] == second.latest["reward_density"] > 0.8, "four rollouts were dense"


def test_a_file_from_before_the_rewards_density_was_watched_fits() -> None:
    """Nothing of an earlier training of the callback is left."""
    old, used = IntrinsicRewardCallback("re3", k=2), IntrinsicRewardCallback("re3", k=2)
    learnt(old)
    learnt(used)
    checkpoint = old.checkpoint()
    for name in [name for name in checkpoint.weighting if name.startswith("reward_density.")]:
        del checkpoint.weighting[name]
    used.restore(checkpoint)
    learnt(used, constant, rollouts=1)
    assert used.rollouts == 5
    assert used.latest["reward_density"] == 0
    assert used.latest["strength"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"yield_to_task": 1}, "yield_to_task must be True or False, got 1"),
        ({"weight": 0.1, "yield_to_task": False}, "yield_to_task belongs to weight='auto', but weight is a number"),
        ({"yields_to_task": False}, "yield_to_task"),
    ],
)
def test_wrong_arguments_are_told_what_is_right(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        IntrinsicRewardCallback("re3", **arguments)
