from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from revd.spaces import (
    MIN_IMAGE_SIDE,
    check_space,
    dict_parts,
    discrete_bounds,
    discrete_sizes,
    feature_size,
    features,
    image_channel_axis,
    is_binary,
    scale_pixels,
)

BOX = spaces.Box(-1, 1, (2, 3), np.float32)
SUPPORTED = [
    BOX,
    spaces.Discrete(3, start=2),
    spaces.MultiDiscrete([2, 3]),
    spaces.MultiBinary(4),
    spaces.Dict({"a": BOX, "b": spaces.Dict({"c": spaces.Discrete(2)})}),
]


def pixels(*shape: int) -> spaces.Box:
    return spaces.Box(0, 255, shape, np.uint8)


@pytest.mark.parametrize("space", SUPPORTED, ids=lambda space: type(space).__name__)
def test_supported_spaces_pass(space: spaces.Space[Any]) -> None:
    check_space(space, "observation_space")


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Tuple([BOX]), "observation_space is a Tuple space, .* use a Dict space"),
        (spaces.Text(5), "observation_space is a Text space; supported are Box, Discrete"),
        (spaces.Sequence(BOX), "observation_space is a Sequence space; supported"),
        (spaces.Dict({"a": spaces.Dict({"b.c": spaces.Text(5)})}), r"observation_space\['a'\]\['b.c'\] is a Text"),
        (spaces.Dict({"a": spaces.Tuple([BOX])}), r"observation_space\['a'\] is a Tuple space"),
        (spaces.Dict({}), "observation_space is an empty Dict space"),
        (spaces.Dict({"a": spaces.Dict({})}), r"observation_space\['a'\] is an empty Dict space"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_spaces_get_an_error_that_says_where(space: spaces.Space[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_space(space, "observation_space")


def test_dict_parts() -> None:
    assert dict_parts(BOX) is None
    assert dict_parts(spaces.Dict({"b": BOX, "a": spaces.Discrete(2)})) == {"a": spaces.Discrete(2), "b": BOX}


@pytest.mark.parametrize(
    ("space", "axis"),
    [
        (pixels(4, 84, 84), 0),
        (pixels(84, 84, 4), 2),
        (pixels(210, 160, 3), 2),
        (pixels(3, 210, 160), 0),
        (pixels(MIN_IMAGE_SIDE, MIN_IMAGE_SIDE, 1), 2),
        (pixels(1, MIN_IMAGE_SIDE, MIN_IMAGE_SIDE), 0),
        (pixels(40, 40, 40), 0),
        (pixels(MIN_IMAGE_SIDE - 1, 84, 3), None),
        (pixels(3, 84, MIN_IMAGE_SIDE - 1), None),
        (pixels(7, 7, 3), None),
        (pixels(84, 84), None),
        (pixels(2, 84, 84, 3), None),
        (spaces.Box(0, 1, (4, 84, 84), np.float32), None),
        (spaces.Discrete(3), None),
        (spaces.Dict({"a": BOX}), None),
    ],
    ids=str,
)
def test_image_channel_axis(space: spaces.Space[Any], axis: int | None) -> None:
    assert image_channel_axis(space) == axis


def test_discrete_features_are_one_hot_from_the_start() -> None:
    space = spaces.Discrete(3, start=-1)
    assert features(space, torch.tensor([-1, 1, 0])).tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert features(space, torch.tensor([[-1.0], [1.0]])).tolist() == [[1, 0, 0], [0, 0, 1]]


def test_multi_discrete_features_are_joined_one_hots() -> None:
    space = spaces.MultiDiscrete([2, 3], start=[0, 5])
    assert features(space, torch.tensor([[1, 5], [0, 7]])).tolist() == [[0, 1, 1, 0, 0], [1, 0, 0, 0, 1]]
    square = spaces.MultiDiscrete([[2, 2], [2, 3]])
    assert features(square, torch.tensor([[[0, 1], [0, 2]]])).tolist() == [[1, 0, 0, 1, 1, 0, 0, 0, 1]]


def test_binary_and_box_features_are_flat_numbers() -> None:
    assert features(spaces.MultiBinary([2, 2]), torch.tensor([[[0, 1], [1, 1]]])).tolist() == [[0, 1, 1, 1]]
    assert features(BOX, torch.arange(6.0).reshape(1, 2, 3)).tolist() == [[0, 1, 2, 3, 4, 5]]
    assert features(spaces.Box(-1, 1, (), np.float32), torch.tensor([0.5, 0.25])).tolist() == [[0.5], [0.25]]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_pixels_are_divided_by_255_whatever_type_they_arrive_in(dtype: torch.dtype) -> None:
    values = torch.tensor([[0, 51, 255]], dtype=dtype)
    scaled = features(pixels(3), values)
    assert scaled.dtype == torch.float32
    np.testing.assert_allclose(scaled, [[0, 0.2, 1]], rtol=1e-6)
    assert torch.equal(scale_pixels(spaces.Box(0, 255, (3,), np.float32), values), values.float())


def test_a_multi_binary_space_is_not_a_picture() -> None:
    assert features(spaces.MultiBinary(2), torch.tensor([[0, 1]], dtype=torch.int8)).tolist() == [[0, 1]]


@pytest.mark.parametrize(
    ("space", "values", "message"),
    [
        (spaces.Discrete(3, start=1), [0], "a value lies outside Discrete"),
        (spaces.Discrete(3), [1, 3], "a value lies outside Discrete"),
        (spaces.MultiDiscrete([2, 3]), [[0, 2], [2, 0]], "a value lies outside part 0 of MultiDiscrete"),
        (spaces.MultiDiscrete([2, 3]), [[0, -1]], "a value lies outside part 1 of MultiDiscrete"),
    ],
    ids=str,
)
def test_values_outside_their_space(space: spaces.Space[Any], values: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        features(space, torch.tensor(values))


@pytest.mark.parametrize("space", SUPPORTED[:-1], ids=lambda space: type(space).__name__)
def test_feature_size_is_the_length_of_features(space: spaces.Space[Any]) -> None:
    assert features(space, torch.as_tensor(np.array([space.sample()]))).shape == (1, feature_size(space))


def test_kinds() -> None:
    assert discrete_sizes(spaces.Discrete(3, start=1)) == [3]
    assert discrete_sizes(spaces.MultiDiscrete([[2, 3]])) == [2, 3]
    assert discrete_sizes(BOX) is None
    assert is_binary(spaces.MultiBinary(2))
    assert not is_binary(BOX)


def test_bounds_of_discrete_values() -> None:
    def bounds(space: spaces.Space[Any]) -> list[Any]:
        return [bound.tolist() for bound in discrete_bounds(space) or ()]

    assert bounds(spaces.Discrete(3, start=-1)) == [-1, 1]
    assert bounds(spaces.MultiDiscrete([2, 5], start=[0, 1])) == [[0, 1], [1, 5]]
    assert bounds(spaces.MultiBinary(4)) == [0, 1]
    assert bounds(BOX) == []


@pytest.mark.parametrize(
    "space", [spaces.Box(0, 1, (0,)), spaces.Box(0, 1, (3, 0)), spaces.Discrete(2**24 + 1)], ids=str
)
def test_spaces_of_no_size_or_too_large_a_size_are_refused(space):
    with pytest.raises(ValueError, match=r"observation_space is .* become \d+ numbers; from 1 to 16777216 can be"):
        check_space(space, "observation_space")
