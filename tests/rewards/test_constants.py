"""The defaults are the constants of the papers; docs/methods says why where they are not."""

from typing import Any

import pytest

from revd.rewards import REWARDS
from revd.weighting import automatic, critic, weighting

#: How dynamics models are trained.
DYNAMICS = {"learning_rate": 3e-4, "batch_size": 256, "update_fraction": 0.25}
#: How visits in an episode are counted.
KERNEL = {"k": 10, "kernel_eps": 1e-4, "cluster_distance": 0.008, "c": 0.001, "s_max": 8.0, "momentum": 0.99}
#: By name: what the paper has, or what its page decides.
CONSTANTS: dict[str, dict[str, Any]] = {
    "revd": {"k": 3, "alpha": 0.5, "eps": 1e-4, "embedding_size": 128, "merge_duplicates": True, "boundary": "rollout"},
    "re3": {"k": 3, "log": True},
    "ride": KERNEL | DYNAMICS,
    "rise": {"k": 3, "alpha": 0.5},
    "rnd": {"discount": 0.99, "learning_rate": 1e-4, "update_fraction": 0.25, "scale_by_returns": True},
    "icm": {"eta": 0.01, "forward_weight": 0.2} | DYNAMICS,
    "disagreement": {"n_models": 5, "model_share": 0.8, "features": "random"} | DYNAMICS,
    "ngu": KERNEL | DYNAMICS | {"largest_modulator": 5.0},
    "e3b": {"ridge": 0.1, "scale_by_deviation": True} | DYNAMICS,
    "noveld": {"alpha": 0.5, "learning_rate": 1e-4, "update_fraction": 0.25},
    "drnd": {"n_targets": 5, "alpha": 0.95, "learning_rate": 1e-4, "update_fraction": 0.25},
    "counts": {"scope": "lifelong", "mode": "auto", "hash_bits": 32, "memory_size": 1_000_000},
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_the_defaults_of_a_reward(name: str) -> None:
    defaults = vars(REWARDS[name].config_type())
    assert {field: defaults[field] for field in CONSTANTS[name]} == CONSTANTS[name]


def test_every_reward_has_its_constants_here() -> None:
    assert set(CONSTANTS) == set(REWARDS) - {"noise"}


def test_the_automatic_weights_constants() -> None:
    assert (automatic.GAMMA, automatic.GAE_LAMBDA, weighting.STRENGTH) == (0.99, 0.95, 0.1)
    assert (critic.HIDDEN, critic.LEARNING_RATE, critic.BATCH_SIZE) == (64, 1e-3, 512)
