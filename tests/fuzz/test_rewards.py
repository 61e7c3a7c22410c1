"""Every reward, with any parameters, spaces and rollouts: finite bonuses or an error that names what is wrong."""

import math
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import strategies as st

from revd import Rollout, make_reward
from revd.rewards import REWARDS, check_parameters
from revd.sb3 import IntrinsicRewardCallback
from tests.fuzz.rollouts import FIELDS, ODD_SPACES, SIMPLE, SPACES, honest, spoilt
from tests.fuzz.support import JUNK, documented, fuzz, sometimes

GOOD: dict[str, st.SearchStrategy[Any]] = {
    "normalize": st.sampled_from(["none", "rms", "standard"]),
    "seed": st.integers(0, 2**62),
    "embedding_size": st.integers(1, 9),
    "normalize_observations": st.booleans(),
    "warmup": st.integers(1, 12),
    "k": st.integers(1, 4),
    "boundary": st.sampled_from(["rollout", "episode"]),
    "memory_size": st.integers(5, 9),
    "alpha": st.floats(1e-15, 1 - 1e-15),
    "eps": st.floats(1e-15, 1e15),
    "scale_by_spread": st.booleans(),
    "log": st.booleans(),
    "inverse": st.booleans(),
    "learning_rate": st.floats(1e-15, 0.1),
    "batch_size": st.integers(1, 20),
    "kernel_eps": st.floats(1e-15, 1e15),
    "cluster_distance": st.floats(0, 1e15),
    "c": st.floats(1e-15, 1e15),
    "s_max": st.floats(1e-15, 1e15),
    "momentum": st.floats(0, 1, exclude_max=True),
    "update_fraction": st.floats(1e-15, 1),
    "scale_by_returns": st.booleans(),
    "discount": st.floats(0, 1, exclude_max=True),
    "eta": st.floats(1e-15, 1e15),
    "forward_weight": st.floats(0, 1),
    "n_models": st.integers(2, 4),
    "model_share": st.floats(1e-15, 1),
    "features": st.sampled_from(["random", "inverse", "dynamics"]),
    "init": st.sampled_from(["orthogonal", "torch"]),
    "merge_duplicates": st.booleans(),
    "mode": st.sampled_from(["auto", "hash"]),
    "scope": st.sampled_from(["lifelong", "episode", "both"]),
    "hash_bits": st.integers(1, 32),
    "largest_modulator": st.floats(1, 1e15),
    "ridge": st.floats(1e-15, 1e15),
    "scale_by_deviation": st.booleans(),
    "n_targets": st.integers(2, 6),
}
#: What an error about a rollout or a training may name.
NAMES = (*FIELDS, "n_steps", "n_envs", "embedding", "bonus", "loss")


def names_of(method: str) -> list[str]:
    return [entry.name for entry in fields(REWARDS[method].config_type)]


def good_parameters(method: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={name: GOOD[name] for name in names_of(method)})


def any_parameters(method: str) -> st.SearchStrategy[dict[str, Any]]:
    known = st.fixed_dictionaries({}, optional={name: sometimes(GOOD[name]) for name in names_of(method)})
    return sometimes(known, st.dictionaries(st.text(max_size=8), JUNK, max_size=2))


def test_every_parameter_has_good_values() -> None:
    assert set(GOOD) == {name for method in REWARDS for name in names_of(method)}


@fuzz(data=st.data(), method=sometimes(st.sampled_from(list(REWARDS)), JUNK))
def test_any_parameters(data: Any, method: Any) -> None:
    known = method if isinstance(method, str) and method in REWARDS else "revd"
    parameters = data.draw(any_parameters(known))
    observation, action = data.draw(sometimes(SPACES, ODD_SPACES)), data.draw(sometimes(SIMPLE, ODD_SPACES))
    n_envs = data.draw(sometimes(st.integers(1, 5)))
    expected = (*names_of(known), "reward", "parameter", "observation_space", "action_space", "n_envs")
    with documented(expected, (ValueError,)):
        make_reward(method, observation, action, n_envs=n_envs, **{"embedding_size": 4} | parameters)
    with documented(expected, (ValueError,)):
        check_parameters(method, parameters)


@pytest.mark.parametrize("method", REWARDS)
@fuzz(data=st.data())
def test_any_rollouts(method: str, data: Any) -> None:
    observation, action, n_envs = data.draw(SPACES), data.draw(SIMPLE), data.draw(st.integers(1, 3))
    small = {"embedding_size": 4} if "embedding_size" in names_of(method) else {}
    parameters = small | data.draw(good_parameters(method))
    reward = make_reward(method, observation, action, n_envs=n_envs, **parameters)
    for _ in range(data.draw(st.integers(1, 3))):
        made = honest(observation, action, n_envs)
        given = data.draw(sometimes(made, made.flatmap(spoilt)))
        with documented(NAMES):
            rollout = Rollout(**given)
            bonus = reward.compute(rollout)
            assert bonus.shape == rollout.dones.shape
            assert bonus.isfinite().all()
            assert all(map(math.isfinite, reward.metrics().values())), reward.metrics()
            losses = reward.update(rollout)
            assert all(map(math.isfinite, losses.values())), losses
        if data.draw(st.booleans()):
            reward.end_episodes()
    for name, value in reward.state_dict().items():
        assert not value.isnan().any(), name


@fuzz(
    data=st.data(),
    reward=sometimes(st.sampled_from(list(REWARDS))),
    weight=sometimes(st.floats(0, 1e300)),
    decay=sometimes(st.floats(0, 1)),
    decay_per=sometimes(st.sampled_from(["rollout", "step"])),
    extrinsic_weight=sometimes(st.floats(0, 1e300)),
    normalize=sometimes(GOOD["normalize"]),
)
def test_any_arguments_of_the_callback(data: Any, reward: Any, **arguments: Any) -> None:
    known = reward if isinstance(reward, str) and reward in REWARDS else "revd"
    parameters = data.draw(
        any_parameters(known).filter(lambda found: not set(found) & {*arguments, "reward", "verbose", "self"})
    )
    with documented((*arguments, *names_of(known), "reward", "parameter"), (ValueError,)):
        IntrinsicRewardCallback(reward, **arguments, **parameters)
