import math

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from revd.functional import pseudo_counts
from tests.support import naive


@settings(derandomize=True, max_examples=50, deadline=None)
@given(
    distances=st.lists(st.sampled_from([0.0, 0.01, 0.5, 1.0, 3.0, math.inf]), min_size=1, max_size=6),
    mean_square=st.sampled_from([1e-3, 1.0, 50.0]),
    eps=st.sampled_from([1e-4, 0.1]),
    cluster_distance=st.sampled_from([0.0, 0.008, 0.5]),
)
def test_equals_the_kernel(distances: list[float], mean_square: float, eps: float, cluster_distance: float) -> None:
    count = pseudo_counts(
        torch.tensor(distances), torch.tensor(mean_square), eps=eps, cluster_distance=cluster_distance
    )
    expected = naive.pseudo_count([d**2 for d in distances], mean_square, eps=eps, cluster_distance=cluster_distance)
    np.testing.assert_allclose(count, expected, rtol=1e-4)


def test_without_neighbours_the_visit_itself_counts() -> None:
    distances = torch.full((2, 3, 4), torch.inf)
    assert pseudo_counts(distances, torch.tensor(1.0), eps=1e-4, cluster_distance=0.008).eq(1).all()


def test_duplicates_count_whole_even_when_there_is_nothing_else() -> None:
    distances = torch.tensor([[0.0, 0.0, torch.inf], [0.0, 0.0, 0.0]])
    assert pseudo_counts(distances, torch.tensor(0.0), eps=1e-4, cluster_distance=0.008).tolist() == [3, 4]


def test_states_within_the_cluster_distance_count_whole() -> None:
    distances = torch.tensor([0.08, 0.1])
    count = pseudo_counts(distances, torch.tensor(1.0), eps=1e-4, cluster_distance=0.008)
    np.testing.assert_allclose(count, 1 + 1 + 1e-4 / (0.01 - 0.008 + 1e-4), rtol=1e-4)
