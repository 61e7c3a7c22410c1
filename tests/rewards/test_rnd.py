from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from revd import Rollout
from revd.rewards import RND
from tests.support import noisy_tv
from tests.support.networks import Vector, dense
from tests.support.rollouts import BOX, DISCRETE, Shape, changed, make_rollouts

SIZE = 4


def make(n_envs: int = 2, **parameters: Any) -> RND:
    return RND(BOX, DISCRETE, n_envs, **{"embedding_size": SIZE, "warmup": 1} | parameters)


def lengths_of(rollout: Rollout) -> list[int]:
    return [rollout.n_steps] * rollout.n_envs if rollout.lengths is None else rollout.lengths.tolist()


class NaiveRND:
    """The equation, step by step in float64; whitening and sums run over all that was given."""

    def __init__(self, n_envs: int, discount: float) -> None:
        self.seen: list[Vector] = []
        self.sums: list[float] = []
        self.running = [0.0] * n_envs
        self.discount = discount

    def compute(self, reward: RND, rollout: Rollout, *, whiten: bool, scale: bool) -> Vector:
        errors = np.zeros((rollout.n_steps, rollout.n_envs))
        steps = [(t, env) for env, length in enumerate(lengths_of(rollout)) for t in range(length)]
        self.seen += [rollout.observations[step].double().numpy() for step in steps]  # type: ignore[index]
        mean, std = np.mean(self.seen, axis=0), np.std(self.seen, axis=0)
        for t, env in steps:
            state = rollout.next_observations[t, env].double().numpy()  # type: ignore[index]
            if whiten:
                state = np.clip((state - mean) / np.where(std > 1e-6, std, 1.0), -5, 5)
            difference = dense(reward.predictor.network, state) - dense(reward.encoder.network, state)
            errors[t, env] = sum(value**2 for value in difference) / SIZE
            self.running[env] = self.discount * self.running[env] + errors[t, env]
            self.sums.append(self.running[env])
        std = np.std(self.sums)
        return errors / std if scale and std > 1e-6 * np.mean(self.sums) else errors


@settings(derandomize=True, max_examples=15, deadline=None)
@given(
    n_steps=st.integers(3, 9),
    n_envs=st.integers(1, 3),
    ragged=st.booleans(),
    whiten=st.booleans(),
    scale=st.booleans(),
    discount=st.sampled_from([0.0, 0.9, 0.99]),
    seed=st.integers(0, 10_000),
)
def test_equals_naive_loops(
    n_steps: int, n_envs: int, ragged: bool, whiten: bool, scale: bool, discount: float, seed: int
) -> None:
    shape = Shape(n_steps, n_envs, ragged=ragged)
    reward = make(n_envs, normalize_observations=whiten, scale_by_returns=scale, discount=discount)
    expected = NaiveRND(n_envs, discount)
    for rollout in make_rollouts(seed, 3, shape):
        if rollout.n_valid:
            naive = expected.compute(reward, rollout, whiten=whiten, scale=scale)
            np.testing.assert_allclose(reward.compute(rollout), naive, rtol=2e-3, atol=1e-5)
            reward.update(rollout)


def test_the_errors_mean_is_a_metric_and_the_scale_does_not_touch_it() -> None:
    (rollout,) = make_rollouts(0, 1)
    raw, scaled = make(scale_by_returns=False), make()
    bonus = raw.compute(rollout)
    scaled.compute(rollout)
    assert raw.metrics()["error"] == pytest.approx(float(bonus.mean()))
    assert scaled.metrics()["error"] == pytest.approx(raw.metrics()["error"])
    assert scaled.metrics()["bonus_mean"] != pytest.approx(raw.metrics()["error"])


def test_a_state_is_paid_for_by_the_step_that_leads_to_it() -> None:
    (rollout,) = make_rollouts(0, 1)
    moved = rollout.next_observations.clone()  # type: ignore[union-attr]
    moved[3, 1] += 1
    before, after = (
        make(normalize_observations=False, scale_by_returns=False).compute(changed(rollout, next_observations=states))
        for states in (rollout.next_observations, moved)
    )
    assert (before != after).nonzero().tolist() == [[3, 1]]


def test_the_warm_up_pays_and_trains_nothing_and_the_statistics_then_go_on() -> None:
    reward = make(warmup=40)
    for number, rollout in enumerate(make_rollouts(0, 5)):
        bonus, losses = reward.compute(rollout), reward.update(rollout)
        assert bonus.any() == bool(losses) == (number >= 2)
        assert int(reward.encoder.normalizer.moments.count) == 16 * (number + 1)  # type: ignore[union-attr]


def test_the_predictor_is_deeper_and_starts_unlike_its_target() -> None:
    reward = make()
    assert len(reward.predictor.network) == len(reward.encoder.network) + 4  # type: ignore[arg-type]
    assert not torch.equal(reward.predictor.network[0].weight, reward.encoder.network[0].weight)  # type: ignore[index]
    assert not any(parameter.requires_grad for parameter in reward.encoder.parameters())
    assert all(parameter.requires_grad for parameter in reward.predictor.parameters())


def test_only_the_predictor_is_trained_towards_the_target() -> None:
    reward = make(warmup=1, learning_rate=1e-3, update_fraction=1.0)
    target = copy.deepcopy([*reward.encoder.parameters()])
    (rollout,) = make_rollouts(0, 1, Shape(n_steps=64))
    losses = []
    for _ in range(40):
        reward.compute(rollout)
        losses.append(reward.update(rollout)["predictor_loss"])
    assert losses[-1] < 0.1 * losses[0]
    assert all(torch.equal(*pair) for pair in zip(target, reward.encoder.parameters(), strict=True))


def test_the_error_falls_where_it_has_been_and_stays_high_elsewhere() -> None:
    parameters = {"embedding_size": 16, "batch_size": 64, "learning_rate": 1e-3, "update_fraction": 1.0, "warmup": 1}
    reward = RND(noisy_tv.SPACE, noisy_tv.ACTIONS, 4, scale_by_returns=False, **parameters)
    # All places are known to the statistics, but the predictor has seen three.
    reward.compute(noisy_tv.walk(99))
    for seed in range(40):
        reward.update(noisy_tv.walk(seed, places=3))
    rollout = noisy_tv.walk(100)
    bonus = reward.compute(rollout).numpy()
    known, new = (bonus[np.isin(rollout.actions, places)].mean() for places in ([0, 1, 2], [3, 4]))
    assert new > 20 * known


def test_images_and_dicts() -> None:
    space = spaces.Dict({"image": spaces.Box(0, 255, (36, 36, 1), np.uint8), "state": BOX})
    rng = np.random.default_rng(0)

    def observations() -> dict[str, Any]:
        image = rng.integers(0, 256, (6, 2, 36, 36, 1), np.uint8)
        return {"image": image, "state": rng.normal(size=(6, 2, 3)).astype(np.float32)}

    reward = RND(space, DISCRETE, 2, embedding_size=SIZE, warmup=1, learning_rate=1e-3, update_fraction=1.0)
    rollout = Rollout(
        observations=observations(),
        actions=np.zeros((6, 2)),
        next_observations=observations(),
        dones=np.zeros((6, 2)),
    )
    errors = []
    for _ in range(10):
        assert reward.compute(rollout).gt(0).all()
        errors.append(reward.metrics()["error"])
        reward.update(rollout)
    assert errors[-1] < 0.8 * errors[0]
    assert reward.encoder(rollout.steps(rollout.observations)).shape == (12, 2 * SIZE)


@pytest.mark.parametrize(("parameter", "value"), [("discount", 1.0), ("discount", -0.1), ("scale_by_returns", "no")])
def test_parameters_out_of_range(parameter: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^{parameter} must be .+, got "):
        make(**{parameter: value})
