import math

import pytest
import torch

from revd.functional import discrepancy, spread


def test_discrepancy_is_the_equation():
    own, previous = torch.tensor([[1.5, 0.0], [2.0, 4.0]]), torch.tensor([[8.0, 9.0], [0.0, 1.0]])
    ratios = discrepancy(own, previous, eps=0.5, alpha=0.75)
    expected = [[(8 / 2.0) ** 0.25, (9 / 0.5) ** 0.25], [0.0, (1 / 4.5) ** 0.25]]
    torch.testing.assert_close(ratios, torch.tensor(expected))


@pytest.mark.parametrize(("own", "previous"), [(math.inf, 1.0), (1.0, math.inf), (math.inf, math.inf)])
def test_without_a_neighbour_there_is_no_discrepancy(own, previous):
    assert discrepancy(torch.tensor([own]), torch.tensor([previous]), eps=1e-4, alpha=0.5).tolist() == [0.0]


def test_spread_is_the_tanh_of_the_mean_for_each_episode():
    nearest = torch.tensor([[0.5, 1.0, 1.5], [0.0, 0.0, 0.3]])
    torch.testing.assert_close(spread(nearest), torch.tensor([math.tanh(1.0), math.tanh(0.1)]))


def test_spread_leaves_padding_out_and_is_zero_for_a_lone_state():
    nearest = torch.tensor([[0.5, 1.5, math.inf], [math.inf, math.inf, math.inf]])
    torch.testing.assert_close(spread(nearest), torch.tensor([math.tanh(1.0), 0.0]))
