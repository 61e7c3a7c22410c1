from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import revd
from revd import RE3, REVD, RIDE, IntrinsicReward, make_reward
from revd.rewards import REWARDS, check_parameters
from tests.support.rollouts import BOX, DISCRETE


@pytest.mark.parametrize(("name", "method"), [("revd", REVD), ("re3", RE3), ("ride", RIDE)])
def test_methods_by_name(name: str, method: type[IntrinsicReward]) -> None:
    reward = make_reward(name, BOX, DISCRETE, n_envs=3, k=2, embedding_size=7)
    assert type(reward) is method
    assert (reward.n_envs, reward.config.k, reward.config.embedding_size) == (3, 2, 7)
    assert (reward.observation_space, reward.action_space) == (BOX, DISCRETE)


def test_every_registered_method_is_covered_here() -> None:
    assert set(REWARDS) == {
        "revd",
        "re3",
        "ride",
        "rise",
        "counts",
        "rnd",
        "icm",
        "disagreement",
        "ngu",
        "e3b",
        "noveld",
        "drnd",
    }


def test_public_names() -> None:
    assert set(revd.__all__) <= set(dir(revd))
    for name in revd.__all__:
        public = getattr(revd, name)
        assert (public.__name__, public.__module__.split(".")[0]) == (name, "revd")
    with pytest.raises(AttributeError, match="module 'revd' has no attribute 'RND'"):
        _ = revd.RND


def test_an_instance_passes_through() -> None:
    reward = REVD(BOX, DISCRETE, 2)
    assert make_reward(reward, BOX, DISCRETE, n_envs=2) is reward


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((spaces.Box(-1, 1, (4,)), DISCRETE, 2), "the REVD instance was made for observation_space Box"),
        ((BOX, spaces.Discrete(5), 2), r"made for action_space Discrete\(4\), not Discrete\(5\)"),
        ((BOX, DISCRETE, 3), "made for n_envs 2, not 3"),
    ],
)
def test_an_instance_must_fit(arguments: tuple[Any, Any, int], message: str) -> None:
    observation_space, action_space, n_envs = arguments
    with pytest.raises(ValueError, match=message):
        make_reward(REVD(BOX, DISCRETE, 2), observation_space, action_space, n_envs=n_envs)


def test_an_instance_takes_no_parameters() -> None:
    with pytest.raises(ValueError, match=r"parameters \(k, eps\) cannot change the REVD instance"):
        make_reward(REVD(BOX, DISCRETE, 2), BOX, DISCRETE, n_envs=2, k=3, eps=0.1)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("rvd", {}, r"unknown reward 'rvd'; did you mean 'revd'.*valid: .*re3, revd, ride"),
        ("REVD", {}, r"did you mean 'revd'"),
        ("fabric", {}, r"unknown reward 'fabric'"),
        (None, {}, r"unknown reward 'None'"),
        (["revd"], {}, r"unknown reward .*revd"),
        ("revd", {"alfa": 0.5}, r"unknown parameter of REVD 'alfa'; did you mean 'alpha'"),
        ("revd", {"log": True}, r"unknown parameter of REVD 'log'"),
        ("re3", {"logs": True}, r"unknown parameter of RE3 'logs'; did you mean 'log'"),
        ("ride", {"learningrate": 1}, r"unknown parameter of RIDE 'learningrate'; did you mean 'learning_rate'"),
        ("ride", {"boundary": "episode"}, r"unknown parameter of RIDE 'boundary'"),
    ],
)
def test_misspelt_names_get_the_nearest_valid_ones(name: Any, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_reward(name, BOX, DISCRETE, n_envs=2, **parameters)
    with pytest.raises(ValueError, match=message):
        check_parameters(name, parameters)


BAD = {
    "revd": {
        "alpha": [0, 1, 1.0, 1.5, -0.5, np.nan, "0,5", None],
        "eps": [0, -1e-4, np.inf, np.nan],
        "k": [0, -1, 1.5, True, "3"],
        "boundary": ["episodes", None],
        "memory_size": [0, 3, 10.0],
        "embedding_size": [0, 2.0],
        "warmup": [0],
        "scale_by_spread": ["no", 0],
        "normalize_observations": ["false"],
        "normalize": ["std", None, True],
        "seed": [-1, 0.5],
    },
    "re3": {"log": ["off"], "k": [0], "boundary": ["step"], "memory_size": [3], "normalize": ["rsm"], "seed": [None]},
    "rise": {"alpha": [0, 1, -0.5, np.nan, "0,5"], "k": [0]},
    "counts": {
        "mode": ["hashed", None],
        "scope": ["rollout", True],
        "hash_bits": [0, 64, 8.0],
        "memory_size": [0],
    },
    "ride": {
        "k": [0],
        "inverse": [None],
        "batch_size": [0],
        "memory_size": [0],
        "learning_rate": [0, -1, np.inf, np.nan],
        "kernel_eps": [0],
        "s_max": [0],
        "cluster_distance": [-0.1, np.nan],
        "c": [-1],
        "momentum": [1, -0.1, np.nan],
        "embedding_size": [-1],
    },
}


@pytest.mark.parametrize(
    ("method", "name", "value"),
    [(method, name, value) for method, names in BAD.items() for name, values in names.items() for value in values],
)
def test_values_out_of_range_name_the_parameter_and_what_is_valid(method: str, name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^{name} must be .+, got "):
        make_reward(method, BOX, DISCRETE, n_envs=2, **{name: value})
    with pytest.raises(ValueError, match=rf"^{name} must be "):
        check_parameters(method, {name: value})


def test_good_parameters_pass_before_spaces_are_known() -> None:
    check_parameters("revd", {"k": 5, "alpha": 0.3})
    check_parameters(REVD(BOX, DISCRETE, 1), {})


@pytest.mark.parametrize("method", REWARDS)
@pytest.mark.parametrize(
    ("observation_space", "action_space", "n_envs", "message"),
    [
        (spaces.Tuple([BOX]), DISCRETE, 2, "observation_space is a Tuple space"),
        (BOX, spaces.Tuple([DISCRETE]), 2, "action_space is a Tuple space"),
        (spaces.Text(3), DISCRETE, 2, "observation_space is a Text space"),
        (BOX, spaces.Dict({"a": DISCRETE}), 2, "action_space is a Dict space"),
        (BOX, DISCRETE, 0, "n_envs must be an integer of at least 1, got 0"),
        (BOX, DISCRETE, 2.0, "n_envs must be an integer of at least 1, got 2.0"),
    ],
)
def test_spaces_and_numbers_that_no_method_supports(
    method: str, observation_space: Any, action_space: Any, n_envs: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        make_reward(method, observation_space, action_space, n_envs=n_envs)


def test_numpy_scalars_are_numbers_too():
    box, actions = spaces.Box(-1, 1, (2,)), spaces.Discrete(2)
    config = make_reward("revd", box, actions, n_envs=1, k=np.int64(2), alpha=np.float32(0.25)).config
    assert (type(config.k), config.k, type(config.alpha), config.alpha) == (int, 2, float, 0.25)
