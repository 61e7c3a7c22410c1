"""Every method of ours keeps every contract in every mode; and what they share beyond the contracts."""

import copy
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor

from revd import IntrinsicReward, Rollout, make_reward
from revd.rewards import REWARDS
from revd.testing import reward_checks
from revd.testing.subject import equal, outputs
from tests.support.rollouts import BOX, DISCRETE, Shape, changed, make_rollout, make_rollouts

#: Every method in every mode that keeps another memory.
MODES: dict[str, dict[str, Any]] = {
    "revd": {},
    "revd episode": {"boundary": "episode"},
    "re3": {},
    "re3 episode": {"boundary": "episode"},
    "ride": {},
    "ride forward": {"inverse": False},
    "rise": {},
    "rise episode": {"boundary": "episode"},
    "counts": {"hash_bits": 8},
    "counts both": {"hash_bits": 8, "scope": "both"},
    "rnd": {"warmup": 16},
    "rnd raw": {"normalize_observations": False, "scale_by_returns": False},
    "icm": {},
    "disagreement": {},
    "disagreement inverse": {"features": "inverse"},
    "disagreement dynamics": {"features": "dynamics"},
    "ngu": {},
    "e3b": {},
    "noveld": {"warmup": 16},
    "drnd": {"warmup": 16},
}
#: Methods that whiten observations by default need a short warm-up here; their statistics are never frozen.
RUNNING = {"rnd", "noveld", "drnd"}


def make(mode: str, n_envs: int = 2, **parameters: Any) -> Any:
    name = mode.split()[0]
    return make_reward(name, BOX, DISCRETE, n_envs=n_envs, **{"embedding_size": 4} | MODES.get(mode, {}) | parameters)


def assert_same_state(state: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert state.keys() == other.keys()
    for name, value in state.items():
        assert torch.equal(value, other[name]), name


def test_every_method_is_covered() -> None:
    # test_noise.py covers the one that looks at nothing.
    assert {mode.split()[0] for mode in MODES} == set(REWARDS) - {"noise"}


WARM = {"normalize_observations": True, "warmup": 16}
#: What the modes are used with: as they are, with the bonus normalised, and with normalised observations.
SETTINGS: dict[str, dict[str, Any]] = {"plain": {}, "rms": {"normalize": "rms"}, "warm-up": WARM}


#: Every method of ours draws weights, so that its seed must matter, and pays a bonus that varies.
SHOWN = {"seed": {"seed": 1}, "normalize": {"normalize": "rms"}}


#: What one parameter does is looked for by changing others, so that one of the settings is enough for it.
CASES = [
    (mode, settings, name, check)
    for mode, settings, (name, check) in product(MODES, SETTINGS, reward_checks())
    if name != "parameters" or settings == "plain"
]


@pytest.mark.parametrize(("mode", "settings", "contract", "check"), CASES)
def test_every_contract_is_kept(mode: str, settings: str, contract: str, check: Any) -> None:
    method = REWARDS[mode.split()[0]]
    parameters = {"embedding_size": 4} | MODES[mode] | SETTINGS[settings]
    check(lambda *arguments: method(*arguments, **parameters), parameters=SHOWN)


@pytest.mark.parametrize("mode", MODES)
def test_making_a_reward_leaves_the_global_generator_alone(mode: str) -> None:
    state = torch.get_rng_state()
    make(mode)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("mode", MODES)
def test_bonuses_are_never_negative(mode: str) -> None:
    reward = make(mode)
    assert all((reward.compute(rollout) >= 0).all() for rollout in make_rollouts(0, 3, Shape(duplicate_rate=0.3)))


@pytest.mark.parametrize("mode", MODES)
def test_the_warm_up_itself_can_be_resumed(mode: str) -> None:
    rollouts = make_rollouts(0, 5)
    reward, copied = (make(mode, normalize_observations=True, warmup=40) for _ in range(2))
    outputs(reward, rollouts[:2])
    assert not reward.encoder.ready
    copied.load_state_dict(copy.deepcopy(reward.state_dict()))
    assert equal(outputs(reward, rollouts[2:]), outputs(copied, rollouts[2:]))
    assert reward.encoder.ready


#: Those that train phi.
TRAINED = {"icm", "ngu", "e3b", "ride", "disagreement inverse", "disagreement dynamics"}


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode.split()[0] not in RUNNING and mode not in TRAINED])
def test_frozen_encoders_never_change(mode: str) -> None:
    reward = make(mode, **WARM)
    outputs(reward, make_rollouts(0, 1))
    assert reward.encoder.ready
    before = copy.deepcopy(reward.encoder.state_dict())
    reward.train()
    outputs(reward, make_rollouts(1, 4))
    assert_same_state(reward.encoder.state_dict(), before)
    assert not any(parameter.requires_grad for parameter in reward.encoder.parameters())


class Constant(IntrinsicReward):
    """Pays what it is told to."""

    value = 0.1

    def bonus(self, rollout: Rollout) -> Tensor:
        wobble = torch.arange(rollout.n_steps * rollout.n_envs) % 2 * 1e-8
        return (self.value + wobble).reshape(rollout.n_steps, rollout.n_envs)


def test_rms_leaves_a_bonus_that_varies_by_rounding_only() -> None:
    reward = Constant(BOX, DISCRETE, 2, normalize="rms")
    for rollout in make_rollouts(0, 3):
        torch.testing.assert_close(reward.compute(rollout), torch.full((8, 2), 0.1))


def test_standard_pays_what_varies_by_rounding_only_nothing() -> None:
    reward = Constant(BOX, DISCRETE, 2, normalize="standard")
    for rollout in make_rollouts(0, 3):
        torch.testing.assert_close(reward.compute(rollout), torch.zeros(8, 2), atol=1e-6, rtol=0)


@pytest.mark.parametrize("mode", MODES)
def test_standard_subtracts_the_mean_and_divides_by_the_deviation_of_all_paid_steps(mode: str) -> None:
    """Steps that are padding or lack neighbours are paid nothing, not less than nothing."""
    plain, standard = make(mode), make(mode, normalize="standard")
    paid_before = torch.zeros(0, dtype=torch.float64)
    for rollout in make_rollouts(7, 5, Shape(ragged=True, done_rate=0.3, n_steps=12)):
        raw, bonus = plain.compute(rollout), standard.compute(rollout)
        # These states are all different, so that only steps without neighbours are paid exactly nothing. Other rewards
        # may truly pay 0, unless the whole call pays nothing.
        paid = raw != 0 if mode.startswith(("revd", "re3", "rise")) else rollout.valid & raw.any()
        paid_before = torch.cat([paid_before, raw[paid].double()])
        expected = torch.zeros_like(raw)
        if paid.any():
            expected[paid] = ((raw[paid] - paid_before.mean()) / paid_before.std(unbiased=False)).float()
        torch.testing.assert_close(bonus, expected, rtol=1e-4, atol=1e-5)
        plain.update(rollout)
        standard.update(rollout)
    assert len(paid_before) > 10


def test_a_call_that_pays_nothing_takes_nothing() -> None:
    """A reward that has paid before, then not at all."""
    reward = Constant(BOX, DISCRETE, 2, normalize="standard")
    reward.value = 3.0
    reward.compute(make_rollout(0))
    moments = copy.deepcopy(reward.bonus_moments.state_dict())
    reward.bonus = lambda rollout: torch.zeros(8, 2)  # type: ignore[method-assign]
    assert not reward.compute(make_rollout(0)).any()
    assert_same_state(reward.bonus_moments.state_dict(), moments)


def test_a_method_of_ones_own_needs_a_bonus_only() -> None:
    reward = Constant(BOX, DISCRETE, 2)
    assert reward.update(make_rollout(0)) == {}
    reward.check_rollout_length(1)
    reward.end_episodes()
    reward.value = torch.nan
    with pytest.raises(ValueError, match=r"bonus of Constant .* at step 0 of environment 0"):
        reward.compute(make_rollout(0))
    assert int(reward.calls) == 0


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode.split()[0] not in RUNNING])
def test_warm_up_pays_nothing_and_then_freezes_the_statistics(mode: str) -> None:
    reward = make(mode, normalize_observations=True, warmup=40)
    rollouts = make_rollouts(0, 5)
    for rollout in rollouts[:2]:
        assert not reward.compute(rollout).any()
    reward.compute(rollouts[2])
    seen = torch.cat([rollout.observations.flatten(0, 1) for rollout in rollouts[:3]]).double()
    statistics = copy.deepcopy(reward.encoder.normalizer.moments)
    torch.testing.assert_close(statistics.mean, seen.mean(dim=0))
    torch.testing.assert_close(statistics.std, seen.std(dim=0, unbiased=False))
    reward.compute(rollouts[3])
    assert reward.compute(rollouts[4]).any()
    assert_same_state(statistics.state_dict(), reward.encoder.normalizer.moments.state_dict())


@pytest.mark.parametrize("mode", MODES)
def test_normalised_observations_make_the_bonus_independent_of_scale(mode: str) -> None:
    one, other = make(mode, **WARM), make(mode, **WARM)
    for rollout in make_rollouts(0, 4):
        scaled = changed(
            rollout,
            observations=1000 * rollout.observations + 5,
            next_observations=1000 * rollout.next_observations + 5,
        )
        torch.testing.assert_close(one.compute(rollout), other.compute(scaled), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("name", REWARDS)
def test_padded_discrete_values_may_lie_outside_their_space(name: str) -> None:
    space = spaces.Discrete(5)
    values = torch.randint(5, (8, 1), generator=torch.Generator().manual_seed(0))
    values[6:] = -1
    rollout = Rollout(
        observations=values,
        actions=values,
        next_observations=torch.where(values < 0, values, (values + 1) % 5),
        dones=torch.zeros(8, 1),
        lengths=torch.tensor([6]),
    )
    reward = make_reward(name, space, space, n_envs=1, **({"warmup": 6} if name in RUNNING else {}))
    for _ in range(2):
        bonus = reward.compute(rollout)
        reward.update(rollout)
        # NovelD pays nothing for coming back within an episode.
        reward.end_episodes()
    assert bonus[:6].any()
    assert not bonus[6:].any()


def with_value(rollout: Rollout, name: str, value: float) -> Rollout:
    values = getattr(rollout, name).clone()
    values[3, 1] = value
    return changed(rollout, **{name: values})


BAD_ROLLOUTS = {
    "nan": (
        lambda good: with_value(good, "observations", np.nan),
        "observations hold a NaN .* step 3 of environment 1",
    ),
    "inf": (lambda good: with_value(good, "next_observations", np.inf), "next_observations hold .* step 3 of env"),
    "action": (lambda good: with_value(good, "actions", 4), r"actions hold a value outside Discrete\(4\) at step 3"),
    "shape": (lambda good: changed(good, observations=good.observations[..., :2]), r"must have shape \(8, 2, 3\)"),
    "envs": (lambda _good: make_rollout(0, Shape(n_envs=3)), "has 3 environments, .* n_envs=2"),
    "huge": (lambda good: with_value(good, "observations", 1e25), "embedding at step 3 of environment 1 is too large"),
    "overflow": (lambda good: with_value(good, "observations", 3e38), "embedding at step 3 of .* too large"),
}


#: RND clips what is huge, and reads successors only.
BAD_CASES = [
    (mode, bad)
    for mode, bad in product(MODES, BAD_ROLLOUTS)
    if mode.split()[0] not in RUNNING or bad not in ("huge", "overflow")
]


@pytest.mark.parametrize(("mode", "bad"), BAD_CASES)
def test_a_failed_compute_leaves_the_reward_as_it_was(mode: str, bad: str) -> None:
    spoil, message = BAD_ROLLOUTS[bad]
    reward, other = make(mode, normalize="rms"), make(mode, normalize="rms")
    rollouts = make_rollouts(0, 4)
    for rollout in rollouts:
        before = copy.deepcopy(reward.state_dict())
        with pytest.raises(ValueError, match=message):
            reward.compute(spoil(rollout))
        assert_same_state(reward.state_dict(), before)
        assert equal(outputs(reward, [rollout]), outputs(other, [rollout]))


@pytest.mark.parametrize("mode", MODES)
def test_a_huge_successor_is_an_error_where_it_is_read(mode: str) -> None:
    reward = make(mode)
    before = copy.deepcopy(reward.state_dict())
    rollout = with_value(make_rollout(0), "next_observations", 1e30)
    if mode in ("ride", "ride forward", "icm", "rnd raw"):
        with pytest.raises(ValueError, match="embedding at step 3 of environment 1 is too large"):
            reward.compute(rollout)
        assert_same_state(reward.state_dict(), before)
    else:
        assert reward.compute(rollout).isfinite().all()


@pytest.mark.parametrize("name", ["revd", "re3", "rise"])
def test_rollouts_too_short_for_k(name: str) -> None:
    reward = make(name, k=5)
    reward.check_rollout_length(6)
    for n_steps, use in ((5, "k <= 4, n_steps >= 6"), (1, "n_steps >= 6")):
        with pytest.raises(ValueError, match=rf"k = 5 .* n_steps = {n_steps}: use {use}, or boundary"):
            reward.check_rollout_length(n_steps)
    before = copy.deepcopy(reward.state_dict())
    with pytest.raises(ValueError, match=r"boundary='episode'"):
        reward.compute(make_rollout(0, Shape(n_steps=5)))
    assert_same_state(reward.state_dict(), before)
    make(name, k=5, boundary="episode").compute(make_rollout(0, Shape(n_steps=1)))


@pytest.mark.parametrize("name", REWARDS)
def test_default_parameters_work_with_five_steps(name: str) -> None:
    reward = make_reward(name, BOX, DISCRETE, n_envs=1)
    assert all(bonus.isfinite().all() for bonus in outputs(reward, make_rollouts(0, 3, Shape(n_steps=5, n_envs=1))))


OBSERVATION_SPACES = {
    "image": spaces.Box(0, 255, (40, 40, 2), np.uint8),
    "discrete": spaces.Discrete(6, start=2),
    "multi discrete": spaces.MultiDiscrete([3, 4]),
    "multi binary": spaces.MultiBinary(5),
    "dict": spaces.Dict({"a.b": spaces.Box(0, 255, (5, 5, 1), np.uint8), "c": spaces.Dict({"d": BOX})}),
}


def sampled(space: spaces.Space[Any], n_steps: int, seed: int) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: sampled(part, n_steps, seed) for key, part in space.items()}
    space.seed(seed)
    return np.array([[space.sample() for _ in range(2)] for _ in range(n_steps)])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", OBSERVATION_SPACES)
def test_every_kind_of_observation_is_paid(mode: str, kind: str) -> None:
    space = OBSERVATION_SPACES[kind]
    reward = make_reward(mode.split()[0], space, DISCRETE, n_envs=2, embedding_size=4, **MODES[mode])
    for n_steps in (6, 7, 8):
        rollout = Rollout(
            observations=sampled(space, n_steps, seed=n_steps),
            actions=np.zeros((n_steps, 2)),
            next_observations=sampled(space, n_steps, seed=100 + n_steps),
            dones=np.arange(n_steps)[:, None].repeat(2, axis=1) == 4,
        )
        bonus = reward.compute(rollout)
        reward.update(rollout)
        reward.end_episodes()
    assert bonus.isfinite().all()
    assert bonus.any()
