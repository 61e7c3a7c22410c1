"""Mean and deviation over recent rollouts against a sum over all of them."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from revd.moments import RecentMoments
from tests.weighting.naive import recent_moments

values = st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=6)


def updated(rollouts):
    moments = RecentMoments()
    for rollout in rollouts:
        moments.update(torch.tensor(np.asarray(rollout)))
    return moments


@given(rollouts=st.lists(values, min_size=1, max_size=8))
def test_each_rollout_counts_less_than_the_next_however_long_it_is(rollouts):
    moments = updated(rollouts)
    mean, deviation = recent_moments(rollouts)
    scale = 1 + max(abs(value) for rollout in rollouts for value in rollout)
    assert float(moments.mean) == pytest.approx(mean, abs=1e-9 * scale)
    assert float(moments.deviation) == pytest.approx(deviation, rel=1e-6, abs=1e-5 * scale)


def test_by_hand():
    moments = updated([[1.0, 3.0], [[4.0]]])
    assert float(moments.mean) == pytest.approx((0.9 * 2 + 4) / 1.9, rel=1e-12)
    assert float(moments.deviation) == pytest.approx(np.sqrt((0.9 * 5 + 16) / 1.9 - (5.8 / 1.9) ** 2), rel=1e-12)


def test_nothing_has_been_seen_before_the_first_rollout():
    assert (float(RecentMoments().mean), float(RecentMoments().deviation)) == (0, 0)


@pytest.mark.parametrize("value", [0.0, 0.1, -1.0 / 3, 1e-30, 12345.678, 3e37])
def test_what_varies_by_rounding_only_does_not_vary(value):
    moments = updated([np.full(97 + index, value, np.float32) for index in range(5)])
    assert float(moments.deviation) == 0
    assert float(moments.mean) == pytest.approx(float(np.float32(value)), rel=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1.0, 1e3])
def test_a_small_variation_is_seen(offset):
    noise = np.random.default_rng(0).normal(size=(5, 1000)) * 0.01
    assert float(updated(offset + noise).deviation) == pytest.approx(0.01, rel=0.1)


def test_the_state_is_in_buffers():
    moments = updated([[1.0, 2.0], [5.0, 9.0]])
    fresh = RecentMoments()
    fresh.load_state_dict(moments.state_dict())
    for each in (moments, fresh):
        each.update(torch.tensor([7.0, -1.0]))
    assert torch.equal(fresh.deviation, moments.deviation)
    assert torch.equal(fresh.mean, moments.mean)
    assert {buffer.dtype for buffer in moments.buffers()} == {torch.float64}
