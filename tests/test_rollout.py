from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from revd import Rollout
from revd.rollout import map_observations
from revd.spaces import features
from tests.support.rollouts import BOX, DISCRETE, changed, make_rollout


def test_arrays_are_shared_not_copied() -> None:
    observations = np.zeros((2, 1, 3), np.float32)
    rollout = Rollout(
        observations=observations,
        actions=np.zeros((2, 1), np.int64),
        next_observations={"a": observations},
        dones=np.zeros((2, 1), bool),
    )
    observations[1, 0, 2] = 5
    assert rollout.observations[1, 0, 2] == 5
    assert rollout.next_observations["a"][1, 0, 2] == 5
    assert (rollout.n_steps, rollout.n_envs) == (2, 1)
    assert rollout.valid.all()


def test_arrays_that_torch_cannot_share_are_copied() -> None:
    frozen = np.arange(6, dtype=np.float32).reshape(2, 1, 3)
    frozen.flags.writeable = False
    rollout = changed(make_rollout(0), observations=np.repeat(frozen[:1], 2, axis=1).repeat(8, axis=0)[::-1])
    assert rollout.observations.shape == (8, 2, 3)
    other = Rollout(
        observations=frozen, actions=np.zeros((2, 1)), next_observations=frozen, dones=np.array([[0], [1]], np.uint8)
    )
    assert other.observations.tolist() == frozen.tolist()
    assert other.dones.dtype == torch.bool


def test_nested_dicts_of_arrays() -> None:
    values = {"a": np.zeros((2, 1, 3)), "b": {"c": np.ones((2, 1), np.int64)}}
    rollout = Rollout(
        observations=values, actions=np.zeros((2, 1)), next_observations=values, dones=np.zeros((2, 1), bool)
    )
    assert rollout.observations["b"]["c"].tolist() == [[1], [1]]
    doubled = map_observations(lambda tensor: 2 * tensor, rollout.observations)
    assert doubled["b"]["c"].tolist() == [[2], [2]]


def test_lengths_mark_valid_steps() -> None:
    rollout = changed(make_rollout(0), lengths=np.array([3, 0], np.int32))
    assert rollout.lengths is not None
    assert rollout.lengths.dtype == torch.int64
    assert rollout.valid.T.int().tolist() == [[1, 1, 1, 0, 0, 0, 0, 0], [0] * 8]
    assert torch.equal(rollout.valid_on(torch.device("cpu")), rollout.valid)
    assert rollout.n_valid == 3


def test_without_lengths_every_step_is_valid() -> None:
    rollout = make_rollout(0)
    assert rollout.valid.all()
    assert torch.equal(rollout.valid_on(torch.device("cpu")), rollout.valid)
    assert rollout.n_valid == 16


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dones": np.zeros(8, bool)}, r"dones must have shape \(n_steps, n_envs\), neither 0, got \(8,\)"),
        ({"dones": np.zeros((0, 2), bool)}, "dones must have shape"),
        ({"dones": np.zeros((7, 2), bool)}, r"observations must start with .* \(7, 2\) as dones does"),
        ({"actions": np.zeros(8)}, r"actions must start with \(n_steps, n_envs\) = \(8, 2\) .* got shape \(8,\)"),
        ({"actions": np.zeros((2, 8))}, r"actions must start with .* got shape \(2, 8\)"),
        ({"next_observations": np.zeros((8, 3, 3))}, "next_observations must start with"),
        ({"observations": {"a": {"b": np.zeros((2, 8))}}}, r"observations\['a'\]\['b'\] must start with"),
        ({"lengths": [1, 2, 3]}, r"lengths must have shape \(2,\), got \(3,\)"),
        ({"lengths": [1, 9]}, r"lengths must lie in 0 … 8, got \[1, 9\]"),
        ({"lengths": [-1, 2]}, "lengths must lie in 0 … 8"),
        ({"lengths": [1.5, 2.0]}, "lengths must be integers"),
    ],
)
def test_shapes_must_be_time_major(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        changed(make_rollout(0), **fields)


DICT = spaces.Dict({"a": BOX, "b": spaces.Dict({"c": DISCRETE})})


@pytest.mark.parametrize(
    ("fields", "space", "message"),
    [
        ({}, spaces.Box(-1, 1, (4,)), r"observations must have shape \(8, 2, 4\) for Box.* got \(8, 2, 3\)"),
        ({"next_observations": np.zeros((8, 2, 4))}, BOX, r"next_observations must have shape \(8, 2, 3\)"),
        ({"actions": np.zeros((8, 2, 1))}, BOX, r"actions must have shape \(8, 2\) for Discrete\(4\), got \(8, 2, 1\)"),
        ({}, DICT, r"observations must be a dict with the keys \['a', 'b'\], got one tensor"),
        ({"observations": {"a": np.zeros((8, 2, 3))}}, DICT, r"with the keys \['a', 'b'\], got \['a'\]"),
        ({"observations": {"a": np.zeros((8, 2, 3))}}, BOX, r"observations is a dict with the keys \['a'\], but"),
        (
            {"observations": {"a": np.zeros((8, 2, 3)), "b": {"c": np.zeros((8, 2, 1))}}},
            DICT,
            r"observations\['b'\]\['c'\] must have shape \(8, 2\)",
        ),
    ],
)
def test_shapes_must_fit_the_spaces(fields: dict[str, Any], space: spaces.Space[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        changed(make_rollout(0), **fields).check_against(space, DISCRETE, 2)


def test_number_of_environments_must_fit() -> None:
    with pytest.raises(ValueError, match="the rollout has 2 environments, the reward was made for n_envs=3"):
        make_rollout(0).check_against(BOX, DISCRETE, 3)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("name", ["observations", "next_observations", "actions"])
def test_values_must_be_finite_in_float32(name: str, bad: float) -> None:
    values = np.zeros((8, 2, 3))
    values[5, 1, 2] = values[6, 0, 0] = bad
    rollout = changed(make_rollout(0), **{name: values})
    action_space = BOX if name == "actions" else DISCRETE
    with pytest.raises(ValueError, match=rf"{name} hold .* step 5 of environment 1 \(2 of 16 entries"):
        rollout.check_against(BOX, action_space, 2)


def test_values_of_a_dict_must_be_finite() -> None:
    values = {"a": np.zeros((8, 2, 3)), "b": {"c": np.zeros((8, 2))}}
    values["b"]["c"][3, 0] = np.nan
    rollout = changed(make_rollout(0), observations=values)
    with pytest.raises(ValueError, match=r"observations\['b'\]\['c'\] hold .* step 3 of environment 0"):
        rollout.check_against(DICT, DISCRETE, 2)


@pytest.mark.parametrize(
    ("space", "values"),
    [
        (spaces.Discrete(4, start=1), np.ones((8, 2), np.int64)),
        (spaces.MultiDiscrete([2, 5], start=[0, 1]), np.ones((8, 2, 2), np.int64)),
        (spaces.MultiBinary(3), np.ones((8, 2, 3), np.int8)),
    ],
    ids=str,
)
def test_discrete_values_must_lie_in_their_space(space: spaces.Space[Any], values: Any) -> None:
    rollout = changed(make_rollout(0), observations=values, next_observations=values)
    rollout.check_against(space, DISCRETE, 2)
    wrong = values.copy()
    wrong[4, 1] = 9
    with pytest.raises(ValueError, match=r"next_observations hold .* outside .* at step 4 of environment 1"):
        changed(rollout, next_observations=wrong).check_against(space, DISCRETE, 2)
    changed(rollout, next_observations=wrong, lengths=[8, 4]).check_against(space, DISCRETE, 2)


def test_padded_steps_may_hold_anything() -> None:
    values = np.zeros((8, 2, 3))
    values[4:, 1] = np.nan
    rollout = changed(make_rollout(0), observations=values, lengths=[8, 4])
    rollout.check_against(BOX, DISCRETE, 2)
    with pytest.raises(ValueError, match="step 4 of environment 1"):
        changed(rollout, lengths=[8, 5]).check_against(BOX, DISCRETE, 2)


@pytest.mark.parametrize("name", ["observations", "actions", "next_observations", "dones", "lengths"])
@pytest.mark.parametrize(
    "bad",
    [
        "text",
        object(),
        np.array(["a", "b"]),
        np.zeros((8, 2), object),
        np.zeros((8, 2), "M8[s]"),
        np.zeros((8, 2), complex),
        [[1.0], [1.0, 2.0]],
        [[10**400]],
        torch.zeros(8, 2).to_sparse(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_array_of_real_numbers_is_named(name: str, bad: Any) -> None:
    with pytest.raises(TypeError, match=rf"^{name} must be .* of (real )?numbers, got "):
        changed_to(name, bad)


def test_successors_may_be_missing() -> None:
    whole = make_rollout(0)
    assert whole.successors is whole.next_observations
    rollout = changed_to("next_observations", None)
    rollout.check_against(BOX, DISCRETE, 2)
    with pytest.raises(ValueError, match="the rollout has no next_observations"):
        _ = rollout.successors


@pytest.mark.parametrize("name", ["observations", "actions", "dones"])
def test_nothing_is_no_array(name: str) -> None:
    with pytest.raises(TypeError, match=rf"^{name} must be an array or a tensor of numbers, got NoneType"):
        changed_to(name, None)


def changed_to(name: str, value: Any) -> Rollout:
    rollout = make_rollout(0)
    fields = {field: getattr(rollout, field) for field in ("observations", "actions", "next_observations", "dones")}
    return Rollout(**{**fields, name: value})


@pytest.mark.parametrize("dtype", ["u2", "u4", "u8", ">i4", ">f4", ">f8", "<i2"])
def test_types_that_torch_can_hardly_use_are_converted(dtype: str) -> None:
    values = np.arange(48).reshape(8, 2, 3).astype(dtype)
    rollout = changed(make_rollout(0), observations=values, next_observations=values, lengths=[8, 3])
    rollout.check_against(BOX, DISCRETE, 2)
    assert rollout.observations.tolist() == values.tolist()
    assert len(rollout.steps(rollout.observations)) == 11


def test_gradients_stay_outside() -> None:
    values = torch.zeros(8, 2, 3, requires_grad=True)
    assert not changed(make_rollout(0), observations=values).observations.requires_grad


@pytest.mark.parametrize(
    ("space", "dtype", "good", "bad"),
    [
        (spaces.Discrete(200), np.int8, 100, -1),
        (spaces.Discrete(300), np.uint8, 255, None),
        (spaces.Discrete(300, start=-100), np.int8, 100, -101),
        (spaces.Discrete(3), np.float32, 2.0, 1.5),
        (spaces.Discrete(3), np.float64, 2.0, 1 + 1e-9),
        (spaces.Discrete(2), np.bool_, True, None),
        (spaces.MultiBinary(1), np.float64, 1.0, 0.5),
    ],
    ids=str,
)
def test_bounds_are_compared_in_full_and_values_are_whole(
    space: spaces.Space[Any], dtype: Any, good: Any, bad: Any
) -> None:
    shape = (8, 2, *(space.shape or ()))
    rollout = changed(make_rollout(0), actions=np.full(shape, good, dtype))
    rollout.check_against(BOX, space, 2)
    one_hot = features(space, rollout.steps(rollout.actions))
    assert one_hot.sum(dim=-1).unique().tolist() == [1.0]
    if bad is not None:
        with pytest.raises(ValueError, match="actions hold a value outside"):
            changed(rollout, actions=np.full(shape, bad, np.float64)).check_against(BOX, space, 2)


def test_keys_of_any_kind_are_listed() -> None:
    values = {1: np.zeros((8, 2)), "a": np.zeros((8, 2))}
    for space in (DICT, BOX):
        with pytest.raises(ValueError, match=r"\[1, 'a'\]"):
            changed(make_rollout(0), observations=values).check_against(space, DISCRETE, 2)


def test_lengths_are_counts() -> None:
    with pytest.raises(ValueError, match=r"lengths must be integers, got torch\.bool"):
        changed(make_rollout(0), lengths=np.array([True, False]))
