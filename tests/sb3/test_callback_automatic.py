"""An automatic weight in trainings: advantages and returns as the update finds them, and what does not change them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from revd.sb3 import IntrinsicRewardCallback
from tests.support.environments import counting_envs
from tests.support.sb3 import (
    ALL_ALGORITHMS,
    Onlooker,
    Seen,
    Witness,
    flat_parameters,
    generalized_advantages,
    make_model,
    scripted_reward,
)
from tests.weighting.naive import GAE_LAMBDA, GAMMA, NaiveWeight

N_STEPS, N_ENVS = 8, 2
# Episodes that end inside rollouts and, those of four steps, exactly at their ends.
LENGTHS = ((4,), (3, 6, 2))


def frozen_model(algo: str, **arguments: Any) -> Any:
    """A model whose values do not change, so that V(s_T) of one rollout is the first value of the next."""
    environment = {"lengths": LENGTHS, "truncate": arguments.pop("truncate", True)}
    scale = arguments.pop("scale", 1.0)
    environment["reward"] = lambda number: scale * (2.5 if number % 5 == 0 else -0.5)
    env = arguments.pop("wrap", lambda env: env)(counting_envs(N_ENVS, **environment))
    return make_model(
        algo, env, **{"n_steps": N_STEPS, "learning_rate": 0.0, "gamma": 0.9, "gae_lambda": 0.8, **arguments}
    )


def watched(model: Any, callback: IntrinsicRewardCallback, rollouts: int = 5) -> Onlooker:
    onlooker = Onlooker(callback)
    model.learn(rollouts * model.n_steps * model.n_envs, callback=[onlooker, callback])
    return onlooker


def task_advantages(seen: Seen, following: Seen) -> np.ndarray:
    """GAE of the task's own rewards and SB3's bootstrap, by its definition."""
    rewards = np.array(seen.raw) + np.array(seen.bootstrap)
    return generalized_advantages(rewards, seen.values, following.values[0], np.array(seen.dones), 0.9, 0.8)


@pytest.mark.parametrize("extrinsic_weight", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("algo", ALL_ALGORITHMS)
def test_advantages_are_the_tasks_and_the_bonuss(algo: str, extrinsic_weight: float) -> None:
    model = frozen_model(algo)
    callback = IntrinsicRewardCallback(
        scripted_reward(model), weight="auto", strength=0.3, decay=0.1, extrinsic_weight=extrinsic_weight
    )
    found, naive = watched(model, callback), NaiveWeight()
    for index, (seen, following) in enumerate(pairwise(found.seen)):
        expected = naive.weigh(
            found.paid[index],
            found.values[index],
            task_advantages(seen, following),
            strength=np.full((N_STEPS, 1), 0.3 * 0.9 ** (index + 1)),
            extrinsic_weight=extrinsic_weight,
        )
        np.testing.assert_allclose(seen.advantages, expected, rtol=1e-3, atol=1e-4)
    assert np.abs(found.values[-1]).max() > 1e-4, "the critic has learnt"
    ends = np.array([seen.dones for seen in found.seen])
    assert ends[:, :-1].any()
    assert not ends[:, -1].all()


@pytest.mark.parametrize("algo", ALL_ALGORITHMS)
def test_a_bonus_is_credited_across_the_ends_of_episodes(algo: str) -> None:
    """A_t = b_t + gamma lambda A_{t+1} everywhere, while the critic predicts nothing yet."""
    table = np.zeros((N_STEPS, N_ENVS))
    table[6, 1] = 1.0
    (paid,), (unpaid,) = (
        watched((model := frozen_model(algo)), IntrinsicRewardCallback(scripted_reward(model, pay)), rollouts=1).seen
        for pay in (table, 0 * table)
    )
    own = paid.advantages - unpaid.advantages
    bonus = (table - table.mean()) / table.std()
    scale = own[-1, 0] / bonus[-1, 0]
    np.testing.assert_allclose(own[:-1], scale * bonus[:-1] + GAMMA * GAE_LAMBDA * own[1:], rtol=1e-3, atol=1e-4)
    # Environment 1 ends episodes at steps 2 and 8: what is paid at step 6 counts at step 2 and before.
    assert np.flatnonzero(np.array(paid.dones)[:, 1]).tolist() == [2]
    assert own[2, 1] > own[2, 0]


def buffers_of(algo: str, callback: Any, **arguments: Any) -> list[Seen]:
    witness, model = Witness(), frozen_model(algo, **arguments)
    model.learn(4 * N_STEPS * N_ENVS, callback=[witness, *callback])
    return witness.seen


@pytest.mark.parametrize("wrap", [lambda env: env, VecNormalize], ids=["plain", "VecNormalize"])
@pytest.mark.parametrize("algo", ALL_ALGORITHMS)
def test_rewards_values_and_returns_are_the_tasks_to_the_last_bit(algo: str, wrap: Any) -> None:
    without = buffers_of(algo, [], wrap=wrap)
    paid = buffers_of(algo, [IntrinsicRewardCallback("re3", k=2)], wrap=wrap)
    for one, other in zip(without, paid, strict=True):
        for name in ("rewards", "values", "returns"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
        assert not np.array_equal(one.advantages, other.advantages)


def learnt(algo: str, callback: Any, *, env: Any = None, rollouts: int = 4, **arguments: Any) -> Any:
    env = env or counting_envs(N_ENVS, lengths=LENGTHS, truncate=True)
    model = make_model(algo, env, n_steps=N_STEPS, **arguments)
    return model.learn(rollouts * N_STEPS * N_ENVS, callback=callback)


@pytest.mark.parametrize("algo", ALL_ALGORITHMS)
def test_on_the_bonus_alone_the_tasks_reward_reaches_no_network(algo: str) -> None:
    def parameters(scale: float) -> torch.Tensor:
        env = counting_envs(N_ENVS, lengths=LENGTHS, truncate=True, reward=lambda number: scale * float(number % 5))
        callback = IntrinsicRewardCallback("re3", k=2, extrinsic_weight=0.0)
        return flat_parameters(learnt(algo, callback, env=env))

    plain = parameters(1.0)
    assert torch.equal(parameters(1000.0), plain)
    assert not torch.equal(plain, flat_parameters(make_model(algo, counting_envs(N_ENVS))))


@pytest.mark.parametrize("algo", ["PPO", "A2C", "MaskablePPO", "FastPPO", "FastA2C"])
def test_on_the_bonus_alone_the_value_function_has_nothing_to_learn(algo: str) -> None:
    model = make_model(algo, counting_envs(N_ENVS, lengths=LENGTHS), n_steps=N_STEPS)
    callback = IntrinsicRewardCallback("re3", k=2, extrinsic_weight=0.0)
    losses = []
    # Values of a whole minibatch differ from those of a step by rounding, which Adam enlarges.
    for _ in range(3):
        model.learn(N_STEPS * N_ENVS, callback=callback)
        losses.append(model.logger.name_to_value["train/value_loss"])
    assert max(losses) < 1e-5


def cart_pole_parameters(algo: str, make_callback: Callable[[Any], Any]) -> torch.Tensor:
    env = DummyVecEnv([lambda: gym.make("CartPole-v1")] * N_ENVS)
    model = make_model(algo, env, n_steps=32)
    return flat_parameters(model.learn(4 * 32 * N_ENVS, callback=make_callback(model)))


@pytest.mark.parametrize("algo", ["PPO", "A2C", "FastPPO"])
def test_a_cart_pole_that_is_paid_for_standing_learns_no_differently(algo: str) -> None:
    def paid(weight: Any) -> Callable[[Any], Any]:
        return lambda model: IntrinsicRewardCallback(scripted_reward(model, np.ones((32, N_ENVS))), weight=weight)

    without = cart_pole_parameters(algo, lambda model: None)
    assert torch.equal(cart_pole_parameters(algo, paid("auto")), without)
    assert not torch.equal(cart_pole_parameters(algo, paid(0.1)), without)


@pytest.mark.parametrize("algo", ALL_ALGORITHMS)
def test_a_strength_of_zero_is_the_algorithm_without_a_bonus(algo: str) -> None:
    """So nothing else is changed: no random number is drawn, no other field of the buffer is written."""
    without = flat_parameters(learnt(algo, None))
    assert torch.equal(flat_parameters(learnt(algo, IntrinsicRewardCallback("revd", k=2, strength=0.0))), without)
    assert not torch.equal(flat_parameters(learnt(algo, IntrinsicRewardCallback("revd", k=2))), without)


@pytest.mark.parametrize("algo", ALL_ALGORITHMS)
def test_no_scale_of_bonus_or_reward_changes_the_advantages(algo: str) -> None:
    """In proportion: those of rewards times 1000 are 1000 times as large. Updates are in test_scale_free.py."""

    def advantages(bonus: float, **arguments: Any) -> np.ndarray:
        model = frozen_model(algo, **arguments)
        # Values of 0 leave the scale of the rewards as the only one of the task's advantages.
        model.policy.value_net.weight.data.zero_()
        reward = scripted_reward(model, bonus * np.random.default_rng(0).normal(size=(N_STEPS, N_ENVS)))
        found = watched(model, IntrinsicRewardCallback(reward, strength=0.5))
        return np.array([seen.advantages for seen in found.seen])

    plain = advantages(1.0)
    np.testing.assert_allclose(advantages(1000.0), plain, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(advantages(1.0, scale=1000.0) / 1000, plain, rtol=1e-3, atol=1e-4)


SPACES: dict[str, tuple[spaces.Space[Any], str]] = {
    "vector": (spaces.Box(-np.inf, np.inf, (2,)), "MlpPolicy"),
    "image": (spaces.Box(0, 255, (36, 36, 1), np.uint8), "CnnPolicy"),
    "discrete": (spaces.Discrete(40), "MlpPolicy"),
    "dict": (spaces.Dict({"a": spaces.Box(-np.inf, np.inf, (2,)), "b": spaces.Discrete(40)}), "MultiInputPolicy"),
}


class Embeddings(BaseCallback):
    """Keeps what the critic is shown."""

    def __init__(self, source: IntrinsicRewardCallback) -> None:
        super().__init__()
        self.source = source
        self.kept: list[torch.Tensor | None] = []

    def _on_training_start(self) -> None:
        assert self.source.weighting.automatic is not None
        embedder = self.source.weighting.automatic.embedder
        embed = embedder.embed

        def kept(*arguments: Any) -> torch.Tensor | None:
            self.kept.append(embed(*arguments))
            return self.kept[-1]

        embedder.embed = kept  # type: ignore[method-assign]

    def _on_step(self) -> bool:
        return True


@pytest.mark.parametrize("method", ["re3", "noise"])
@pytest.mark.parametrize(
    ("algo", "kind", "wrap"),
    [
        *[("PPO", kind, None) for kind in SPACES],
        ("PPO", "vector", VecNormalize),
        ("RecurrentPPO", "vector", VecNormalize),
        ("FastPPO", "image", None),
        ("FastA2C", "vector", VecNormalize),
    ],
)
def test_the_critic_sees_what_the_policy_sees(algo: str, kind: str, wrap: Any, method: str) -> None:
    """With a frozen encoder, the state after a rollout's last step is the first of the next rollout."""
    space, policy = SPACES[kind]
    env = counting_envs(N_ENVS, lengths=LENGTHS, observation_space=space)
    arguments = {} if kind == "vector" else {"policy_kwargs": {}}
    model = make_model(algo, wrap(env) if wrap else env, n_steps=N_STEPS, policy=policy, **arguments)
    callback = IntrinsicRewardCallback(method)
    embeddings = Embeddings(callback)
    model.learn(3 * N_STEPS * N_ENVS, callback=[embeddings, callback])
    assert len(embeddings.kept) == 3
    for one, following in pairwise(embeddings.kept):
        assert one is not None
        assert following is not None
        torch.testing.assert_close(one[-1], following[0])
        assert (one[-1] != one[-2]).any()
    assert callback.latest["weight"] > 0


def test_the_critic_reads_an_encoder_before_it_is_trained_further() -> None:
    """RIDE's: the states of a rollout and those after it are seen by the same encoder."""
    model = frozen_model("PPO")
    callback = IntrinsicRewardCallback("ride")
    embeddings, expected = Embeddings(callback), []

    class Encoder(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            expected.append(callback.reward.encoder(torch.as_tensor(model._last_obs)).detach())

    model.learn(3 * N_STEPS * N_ENVS, callback=[Encoder(), embeddings, callback])
    for one, last in zip(embeddings.kept, expected, strict=True):
        torch.testing.assert_close(one[-1], last)
    assert not torch.equal(expected[-1], callback.reward.encoder(torch.as_tensor(model._last_obs)))


def test_a_warm_up_leaves_the_task_alone() -> None:
    """Two rollouts of statistics; the third one pays and is judged."""
    callback = IntrinsicRewardCallback("re3", k=2, normalize_observations=True, warmup=2 * N_STEPS * N_ENVS)
    found = watched(frozen_model("PPO"), callback, rollouts=4)
    without = buffers_of("PPO", [])
    changed = [
        not np.array_equal(one.advantages, other.advantages) for one, other in zip(found.seen, without, strict=True)
    ]
    assert changed == [bool(bonus.any()) for bonus in found.paid]
    assert changed[0] is False
    assert changed[-1] is True
    assert callback.latest["critic_explained_variance"] <= 1


def test_what_is_logged() -> None:
    callback = IntrinsicRewardCallback("re3", k=2, strength=0.3, decay=0.1)
    learnt("PPO", callback, rollouts=2)
    assert callback.latest["strength"] == pytest.approx(0.3 * 0.9**2)
    expected = callback.latest["strength"] * callback.latest["task_deviation"] / callback.latest["bonus_deviation"]
    assert callback.latest["weight"] == pytest.approx(expected, rel=1e-6)
    assert 0 < callback.latest["bonus_share"] < 1
    assert callback.latest["task_speaks"] == 1


@pytest.mark.parametrize(
    ("reward", "lengths", "speaks"), [(0.0, LENGTHS, 0), (-1.0, LENGTHS, 1), (-1.0, ((4,), (4,)), 0)]
)
def test_whether_the_task_speaks_is_told_by_its_own_rewards(reward: float, lengths: Any, speaks: int) -> None:
    """VecNormalize's scale drifts, so that a constant reward seems to vary."""
    env = VecNormalize(counting_envs(N_ENVS, lengths=lengths, reward=lambda number: reward))
    callback = IntrinsicRewardCallback("re3", k=2)
    learnt("PPO", callback, env=env)
    assert callback.latest["task_speaks"] == speaks
