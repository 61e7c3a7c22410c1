"""Every distinct state of a rollout is evaluated once, and every step gets its own answer."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from revd import Rollout
from revd.rollout import Observations
from revd.states import LARGE, States

FIELDS = [("observations",), ("successors",), ("observations", "successors")]


class Network:
    """Twice the sum of each state; it notes how many states it is shown."""

    def __init__(self) -> None:
        self.shown = 0

    def __call__(self, observations: Observations) -> Tensor:
        parts = observations.values() if isinstance(observations, dict) else [observations]
        sums = [part.double().flatten(1).sum(dim=1) if part.ndim > 1 else part.double() for part in parts]
        self.shown += len(sums[0])
        return 2 * torch.stack(sums).sum(dim=0)


def small_world(rng: np.random.Generator, n: int, *, chained: bool, as_dict: bool) -> States:
    states = torch.as_tensor(rng.integers(0, 4, (n + 1, 2)))
    ours, others = states[:-1], states[1:] if chained else torch.as_tensor(rng.integers(2, 6, (n, 2)))
    if as_dict:
        parts = ({"a": each[:, :1].float(), "b": each[:, 1]} for each in (ours, others))
        return States(*parts)
    return States(ours.float(), others.float())


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 30),
    chained=st.booleans(),
    as_dict=st.booleans(),
    fields=st.sampled_from(FIELDS),
    some=st.booleans(),
)
def test_equals_one_call_for_each_field(
    seed: int, n: int, chained: bool, as_dict: bool, fields: Any, some: bool
) -> None:
    rng = np.random.default_rng(seed)
    states = small_world(rng, n, chained=chained, as_dict=as_dict)
    rows = torch.as_tensor(rng.permutation(n)[: n // 2 + 1]) if some else None
    network = Network()
    found = states.evaluate(network, *fields, rows=rows)
    expected = [Network()(getattr(states, field)) for field in fields]
    if rows is not None:
        expected = [values[rows] for values in expected]
    assert [each.tolist() for each in found] == [each.tolist() for each in expected]
    # If nine of ten observations are asked for, all are shown.
    expected_shown = n_distinct(states, fields, rows)
    assert expected_shown <= network.shown <= expected_shown + n // 10


def n_distinct(states: States, fields: Any, rows: Tensor | None) -> int:
    """How many states are asked for; equal ones count once if they are among the observations."""
    known = {tuple(state) for state in numbers(states.observations).tolist()}
    found: set[Any] = set()
    for field in fields:
        values = numbers(getattr(states, field))
        for row in range(len(values)) if rows is None else rows.tolist():
            state = tuple(values[row].tolist())
            found.add(state if state in known else row)
    return len(found)


def numbers(observations: Observations) -> Tensor:
    """Observations as rows of numbers."""
    if isinstance(observations, dict):
        return torch.stack([observations["a"][:, 0], observations["b"].float()], dim=1)
    return observations


def test_dicts_are_compared_by_key() -> None:
    """Two dicts of one space may have their keys in another order."""
    rng = np.random.default_rng(0)
    a, b = (torch.as_tensor(rng.integers(0, 3, (8, 2))).float() for _ in range(2))
    states = States({"a": a, "b": b[:, :1]}, {"b": b[:, :1].roll(-1, 0), "a": a.roll(-1, 0)})

    def first_of_a(observations: Observations) -> Tensor:
        assert isinstance(observations, dict)
        return 10 * observations["a"][:, 0] + observations["b"][:, 0]

    ours, others = states.evaluate(first_of_a, "observations", "successors")
    assert ours.tolist() == (10 * a[:, 0] + b[:, 0]).tolist()
    assert others.tolist() == ours.roll(-1).tolist()


def test_images_are_compared_with_successors_only() -> None:
    images = torch.zeros(4, 65, 64, dtype=torch.uint8)
    images[3] = 1
    states, network = States(images, images.roll(-1, 0)), Network()
    (ours,) = states.evaluate(network, "observations")
    assert network.shown == 4
    _, others = states.evaluate(network, "observations", "successors")
    assert network.shown == 4 + 2
    assert others.tolist() == ours.roll(-1).tolist()


def test_a_part_without_numbers_tells_no_states_apart() -> None:
    parts = {"empty": torch.zeros(3, 0), "full": torch.tensor([1.0, 1.0, 2.0])}
    network = Network()
    States(parts, None).evaluate(network, "observations")
    assert network.shown == 2


def test_observations_without_repeats_are_shown_without_a_copy() -> None:
    observations = torch.arange(12.0).reshape(6, 2)
    shown = []
    States(observations, observations.roll(-1, 0)).evaluate(lambda each: shown.append(each) or each, "observations")  # type: ignore[func-returns-value]
    assert shown[0] is observations


def test_gradients_flow_to_the_weights_once_for_each_occurrence() -> None:
    weight = torch.tensor(3.0, requires_grad=True)
    observations = torch.tensor([[1.0], [1.0], [2.0]])
    (values,) = States(observations, None).evaluate(lambda each: weight * each[:, 0], "observations")  # type: ignore[union-attr,index]
    values.sum().backward()
    assert weight.grad == 4


@pytest.mark.parametrize("lengths", [None, np.array([3, 0])])
def test_a_rollout_has_them_in_its_own_shape(lengths: Any) -> None:
    states = np.arange(8, dtype=np.float32).reshape(4, 2, 1) % 3
    rollout = Rollout(
        observations=states[:-1],
        actions=np.zeros((3, 2)),
        next_observations=states[1:],
        dones=np.zeros((3, 2)),
        lengths=lengths,
    )
    ours, others = rollout.evaluate(Network(), "observations", "successors")
    valid = rollout.valid
    assert torch.equal(ours, torch.where(valid, 2 * rollout.observations[..., 0].double(), 0))  # type: ignore[index,call-overload]
    assert torch.equal(others, torch.where(valid, 2 * rollout.successors[..., 0].double(), 0))  # type: ignore[index,call-overload]


def test_a_rollout_without_a_valid_step_has_none() -> None:
    rollout = Rollout(
        observations=np.zeros((2, 1, 3)), actions=np.zeros((2, 1)), dones=np.zeros((2, 1)), lengths=np.array([0])
    )
    assert rollout.evaluate(Network(), "observations")[0].tolist() == [[0], [0]]


@settings(derandomize=True, max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(40, 60), as_dict=st.booleans())
def test_counted_observations_are_the_distinct_ones(seed: int, n: int, as_dict: bool) -> None:
    states = small_world(np.random.default_rng(seed), n, chained=True, as_dict=as_dict)
    observations, counts = states.counted()
    assert counts is not None
    every, distinct = Network()(states.observations), Network()
    assert distinct(observations).repeat_interleave(counts).sort().values.tolist() == every.sort().values.tolist()
    assert distinct.shown <= 16


@pytest.mark.parametrize("width", [1, LARGE + 1])
def test_observations_are_not_counted_where_that_saves_no_time(width: int) -> None:
    rows = torch.zeros(4, width) if width > LARGE else torch.tensor([0.0, 1.0, 2.0, 2.0])[:, None]
    states = States(rows, None)
    assert states.counted() == (states.observations, None)
