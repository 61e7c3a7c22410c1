"""The weight of every step, against a naive loop."""

from typing import Any

import numpy as np
import pytest

from revd.weighting.schedule import WeightSchedule


def test_per_rollout_all_steps_have_one_weight() -> None:
    schedule = WeightSchedule(weight=0.5, decay=0.1)
    for rollout in (1, 2, 3):
        weights = schedule.next_weights(np.full(4, 2))
        assert weights.shape == (4, 1)
        np.testing.assert_array_equal(weights, 0.5 * 0.9**rollout)
    assert (schedule.rollouts, schedule.steps) == (3, 24)


def test_per_step_each_row_counts_the_environments_that_made_it() -> None:
    schedule = WeightSchedule(weight=0.5, decay=0.1, decay_per="step")
    steps = 0
    for new_steps in ([2, 2, 1], [3, 1]):
        expected = []
        for number in new_steps:
            steps += number
            expected.append([0.5 * 0.9**steps])
        np.testing.assert_allclose(schedule.next_weights(np.array(new_steps)), expected, rtol=1e-12)
    assert (schedule.rollouts, schedule.steps) == (2, 9)


@pytest.mark.parametrize("decay_per", ["rollout", "step"])
def test_the_counters_are_all_the_state(decay_per: Any) -> None:
    first = WeightSchedule(decay=0.1, decay_per=decay_per)
    first.next_weights(np.full(3, 2))
    second = WeightSchedule(decay=0.1, decay_per=decay_per, rollouts=first.rollouts, steps=first.steps)
    np.testing.assert_array_equal(first.next_weights(np.full(3, 2)), second.next_weights(np.full(3, 2)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weight": -1}, "weight must be a number of at least 0, got -1"),
        ({"weight": "auto"}, "weight must be a number of at least 0, got 'auto'"),
        ({"decay": 1.5}, r"decay must be inside \[0, 1\], got 1.5"),
        ({"decay_per": "batch"}, "decay_per must be 'rollout' or 'step', got 'batch'"),
    ],
)
def test_bad_arguments_are_errors(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WeightSchedule(**arguments)
