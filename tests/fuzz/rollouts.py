"""Strategies of spaces, of arrays that may fit them, and of the fields of rollouts."""

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.fuzz.support import JUNK, sometimes

FIELDS = ("observations", "actions", "next_observations", "dones", "lengths")

_BOXES = st.builds(
    lambda shape, dtype: spaces.Box(0, 1 if dtype == np.bool_ else 255, shape, dtype),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=4),
    st.sampled_from([np.float32, np.float64, np.uint8, np.int64, np.uint16]),
)
SIMPLE: st.SearchStrategy[spaces.Space[Any]] = st.one_of(
    _BOXES,
    st.builds(lambda size: spaces.Box(-np.inf, np.inf, (size,)), st.integers(1, 4)),
    st.builds(lambda n, start: spaces.Discrete(n, start=start), st.integers(1, 300), st.integers(-200, 5)),
    st.builds(spaces.MultiDiscrete, st.lists(st.integers(1, 5), min_size=1, max_size=3)),
    st.builds(spaces.MultiBinary, st.integers(1, 4)),
)
SPACES: st.SearchStrategy[spaces.Space[Any]] = st.one_of(
    SIMPLE,
    SIMPLE,
    st.builds(
        lambda parts: spaces.Dict({f"key.{i}": part for i, part in enumerate(parts)}),
        st.lists(SIMPLE, min_size=1, max_size=2),
    ),
)
#: Spaces that no reward takes.
ODD_SPACES = st.one_of(
    st.sampled_from([spaces.Tuple([spaces.Discrete(2)]), spaces.Text(3), spaces.Dict({}), spaces.Box(0, 1, (0,))]),
    st.sampled_from([spaces.Discrete(10**12), spaces.MultiDiscrete([10**9, 10**9])]),
)

_DTYPES = st.sampled_from(
    ["f2", "f4", "f8", ">f4", "?", "i1", "i2", "i8", ">i8", "u1", "u2", "u4", "u8", "c8", "U2", "O", "M8[s]", "g"]
)
_SCALES = st.sampled_from([0.0, 1e-45, 1e-20, 1e-3, 1.0, 1.0, 1e3, 1e14, 1e30, 3e38, np.nan, np.inf])


@st.composite
def arrays(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """Numbers of the shape and of any kind."""
    values = np.asarray(np.random.default_rng(draw(st.integers(0, 9))).normal(size=shape))
    with np.errstate(all="ignore"):
        values = np.asarray(values * draw(_SCALES))
        dtype = np.dtype(draw(_DTYPES))
        if dtype.kind == "M":
            return np.zeros(shape, dtype)
        if dtype.kind in "?iu":
            values = np.nan_to_num(np.abs(values) % 100)
        array = np.asarray(values).astype(dtype)
    return draw(st.sampled_from([lambda value: value, _frozen, _tensor, _reversed]))(array)


@st.composite
def elements(draw: st.DrawFn, space: spaces.Space[Any], leading: tuple[int, int]) -> Any:
    """What an honest environment gives: elements of the space, (n_steps, n_envs, *shape)."""
    if isinstance(space, spaces.Dict):
        return {key: draw(elements(part, leading)) for key, part in space.spaces.items()}
    space.seed(draw(st.integers(0, 9)))
    values = np.array([[space.sample() for _ in range(leading[1])] for _ in range(leading[0])])
    if draw(st.booleans()):
        values[:] = values[:1]
    if values.dtype.kind == "f":
        scale = draw(_SCALES.filter(lambda scale: scale < 1e36))
        with np.errstate(all="ignore"):
            values = np.nan_to_num(values * values.dtype.type(scale))
    return values


@st.composite
def honest(draw: st.DrawFn, observation: spaces.Space[Any], action: spaces.Space[Any], n_envs: int) -> dict[str, Any]:
    """The fields of a rollout that fits the spaces."""
    leading = (draw(st.integers(1, 6)), n_envs)
    counts = st.none() | hnp.arrays(np.int64, n_envs, elements=st.integers(0, leading[0]))
    return {
        "observations": draw(elements(observation, leading)),
        "actions": draw(elements(action, leading)),
        "next_observations": draw(st.none() | elements(observation, leading)),
        "dones": np.random.default_rng(draw(st.integers(0, 9))).random(leading)
        < draw(st.sampled_from([0.0, 0.3, 1.0])),
        "lengths": draw(counts),
    }


@st.composite
def spoilt(draw: st.DrawFn, fields: dict[str, Any]) -> dict[str, Any]:
    """The same, in which some fields may be anything."""
    steps, envs = fields["dones"].shape
    shapes = st.sampled_from([(steps, envs), (steps, envs, 3), (envs, steps), (steps,), (envs,), (0, envs), ()])
    bad = st.one_of(
        JUNK,
        shapes.flatmap(arrays),
        st.dictionaries(st.text(max_size=2) | st.integers(), shapes.flatmap(arrays), max_size=2),
    )
    return {name: draw(sometimes(st.just(value), bad)) for name, value in fields.items()}


def _frozen(array: np.ndarray[Any, Any]) -> Any:
    array.flags.writeable = False
    return array


def _reversed(array: np.ndarray[Any, Any]) -> Any:
    return array[::-1] if array.ndim else array


def _tensor(array: np.ndarray[Any, Any]) -> Any:
    return (
        torch.tensor(array, requires_grad=array.dtype.kind == "f") if array.dtype in (np.float32, np.int64) else array
    )
