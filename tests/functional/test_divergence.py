import math

import numpy as np
import pytest
import torch
from torch import Tensor

from revd import episode_distances, renyi_divergence
from revd.functional import divergence_from_distances
from tests.support import naive


def randn(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("n", [4000, 2000])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_converges_to_the_closed_form_between_gaussians(d: int, n: int) -> None:
    alpha = 0.5
    mean = torch.full((d,), 1 / math.sqrt(d))
    estimates = [
        renyi_divergence(randn(n, d, seed=2 * draw), randn(4000, d, seed=2 * draw + 1) + mean, alpha=alpha)
        for draw in range(6)
    ]
    assert float(torch.stack(estimates).mean()) == pytest.approx(alpha / 2, rel=0.1)


@pytest.mark.parametrize("alpha", [0.2, 0.5, 0.9, 1.7, -0.5])
@pytest.mark.parametrize(("n", "m", "d", "k"), [(30, 30, 1, 3), (12, 25, 3, 2), (25, 12, 2, 5)])
def test_equals_the_equation(n: int, m: int, d: int, k: int, alpha: float) -> None:
    x, y = randn(n, d, seed=0), 0.5 + 2 * randn(m, d, seed=1)
    expected = naive.renyi_divergence(x.double().numpy(), y.double().numpy(), k=k, alpha=alpha)
    assert float(renyi_divergence(x, y, k=k, alpha=alpha)) == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_small_samples_of_one_distribution_may_be_negative() -> None:
    estimates = torch.stack([renyi_divergence(randn(40, 2, seed=i), randn(40, 2, seed=100 + i)) for i in range(20)])
    assert (estimates < 0).any()


def test_defaults_are_k_5_and_alpha_one_half() -> None:
    x, y = randn(20, 2, seed=0), randn(20, 2, seed=1)
    assert torch.equal(renyi_divergence(x, y), renyi_divergence(x, y, k=5, alpha=0.5))
    assert not torch.equal(renyi_divergence(x, y), renyi_divergence(x, y, k=4, alpha=0.5))
    assert not torch.equal(renyi_divergence(x, y), renyi_divergence(x, y, k=5, alpha=0.6))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
def test_powers_that_no_float_holds_are_not_formed(scale: float) -> None:
    """The equation's terms by their logarithms, in float64: rho^d alone would be 0 or infinite."""
    x, y, k, alpha = randn(100, 128, seed=0), scale * randn(80, 128, seed=1), 5, 0.5
    rho = torch.cdist(x.double(), x.double()).sort(dim=1).values[:, k]
    nu = torch.cdist(x.double(), y.double()).sort(dim=1).values[:, k - 1]
    ratios = math.log((100 - 1) / 80) + 128 * (rho.log() - nu.log())
    constant = 2 * math.lgamma(k) - math.lgamma(k - alpha + 1) - math.lgamma(k + alpha - 1)
    expected = (((1 - alpha) * ratios + constant).logsumexp(0) - math.log(100)) / (alpha - 1)
    estimate = renyi_divergence(x, y, k=k, alpha=alpha)
    assert estimate.dtype == torch.float32
    assert float(estimate) == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize("d", [1, 128])
def test_duplicates_stay_finite(d: int) -> None:
    constant = torch.zeros(20, d)
    spread = randn(20, d, seed=0)
    for x, y in [(constant, constant), (constant, spread), (spread, constant), (spread, spread)]:
        assert renyi_divergence(x, y).isfinite()


@pytest.mark.parametrize("batch", [(3,), (2, 2)])
def test_batches_are_estimated_one_by_one(batch: tuple[int, ...]) -> None:
    x, y = randn(*batch, 30, 3, seed=0), randn(*batch, 20, 3, seed=1)
    estimates = renyi_divergence(x, y)
    assert estimates.shape == batch
    for index in np.ndindex(batch):
        torch.testing.assert_close(estimates[index], renyi_divergence(x[index], y[index]))


def test_padded_rows_are_left_out() -> None:
    x, y = randn(2, 30, 3, seed=0), randn(2, 20, 3, seed=1)
    n, m = torch.tensor([30, 12]), torch.tensor([9, 20])
    own, other = episode_distances(x, y, k=4, current_lengths=n, previous_lengths=m)
    found = divergence_from_distances(own[..., -1], other[..., -1], n=n, m=m, dimension=3, k=4, alpha=0.3)
    for i in range(2):
        alone = renyi_divergence(x[i, : int(n[i])], y[i, : int(m[i])], k=4, alpha=0.3)
        torch.testing.assert_close(found[i], alone)


def test_without_neighbours_there_is_no_estimate() -> None:
    distances = torch.full((2, 5), torch.inf)
    none = torch.zeros(2, dtype=torch.int64)
    found = divergence_from_distances(distances, distances, n=none, m=none, dimension=3, k=1, alpha=0.5)
    assert found.isnan().all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": 1}, "alpha must be a finite number other than 1, got 1"),
        ({"alpha": 1.0}, "alpha must be"),
        ({"alpha": math.nan}, "alpha must be"),
        ({"alpha": math.inf}, "alpha must be"),
        ({"alpha": 3.5, "k": 2}, r"k must exceed \|alpha - 1\| = 2.5, got k = 2"),
        ({"alpha": 3.0, "k": 2}, r"k must exceed \|alpha - 1\| = 2, got k = 2"),
        ({"alpha": -1.5, "k": 2}, r"k must exceed"),
        ({"k": 0}, "k must exceed"),
        ({"k": 8}, "only 7 points of x"),
    ],
)
def test_errors(parameters: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        renyi_divergence(randn(8, 2, seed=0), randn(9, 2, seed=1), **parameters)
