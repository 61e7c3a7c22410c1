"""Points that make a neighbour search hard, and a naive search in float64."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

from revd.functional.search import ReferenceSet

KINDS = ["spread", "walk", "regions", "duplicates", "constant", "-6", "6"]


def clouds(kind: str, n: int, d: int, seed: int, batches: int = 2) -> Tensor:
    """(batches, n, d) of a kind: a power of ten is the magnitude of a Gaussian cloud."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(batches, n, d, generator=generator)
    if kind == "spread":
        return noise
    if kind == "walk":
        return torch.nn.functional.layer_norm(noise[:, :1], (d,)) + 1e-3 * noise.cumsum(dim=1)
    if kind == "regions":
        places = 1e3 * torch.randn(batches, 4, d, generator=generator)
        return places[:, torch.arange(n) % 4] + 1e-2 * noise
    if kind == "duplicates":
        return noise[:, torch.randint(0, max(n // 3, 1), (n,), generator=generator)]
    if kind == "constant":
        return torch.full_like(noise, 3.7)
    return 10.0 ** float(kind) * noise


def exact(x: Tensor, reference: ReferenceSet, k: int) -> np.ndarray:
    """All distances in float64, sorted."""
    distances = (x.double()[:, :, None] - reference.columns.double()[:, None]).norm(dim=-1)
    columns = torch.arange(reference.columns.shape[1], device=x.device)
    if reference.same_points:
        distances.diagonal(dim1=1, dim2=2).fill_(torch.inf)
    if reference.own is not None:
        distances.masked_fill_(columns == reference.own[..., None], torch.inf)
    if reference.visible is not None:
        distances.masked_fill_(columns >= reference.visible[..., None], torch.inf)
    return distances.sort(dim=-1).values[..., :k].cpu().numpy()


def assert_exact(found: Tensor, x: Tensor, reference: ReferenceSet, k: int) -> None:
    """Every distance is right to 1e-5, a distance of 0 exactly."""
    expected = exact(x, reference, k)
    values = found.cpu().numpy()
    np.testing.assert_array_equal(np.isinf(values), np.isinf(expected))
    finite = np.isfinite(expected)
    np.testing.assert_allclose(values[finite], expected[finite], rtol=1e-5)
    np.testing.assert_array_equal(values[finite & (expected == 0)], 0)


@st.composite
def searches(
    draw: st.DrawFn, *, n: int, m: int, d: tuple[int, ...], k: tuple[int, ...]
) -> tuple[Tensor, list[ReferenceSet], int]:
    """Points, one or two sets and a number of neighbours, within the given sizes."""
    kind, seed = draw(st.sampled_from(KINDS)), draw(st.integers(0, 10_000))
    dimension = draw(st.sampled_from(d))
    rows, columns = draw(st.integers(2, n)), draw(st.integers(1, m))
    x, y = clouds(kind, rows, dimension, seed), clouds(kind, columns, dimension, seed + 1)
    generator = torch.Generator().manual_seed(seed)

    def limits(columns: int) -> Tensor | None:
        if draw(st.booleans()):
            return None
        return torch.randint(0, columns + 1, (2, rows), generator=generator)

    first = draw(st.sampled_from(["within", "own", "other"]))
    if first == "within":
        references = [ReferenceSet(x, visible=limits(rows), same_points=True)]
    elif first == "own":
        own = torch.randint(0, columns, (2, rows), generator=generator)
        references = [ReferenceSet(y, visible=limits(columns), own=own)]
    else:
        references = [ReferenceSet(y, visible=limits(columns))]
    if draw(st.booleans()):
        z = clouds(kind, draw(st.integers(1, m)), dimension, seed + 2)
        references.append(ReferenceSet(z, visible=limits(z.shape[1])))
    most = min(
        reference.columns.shape[1] - (reference.same_points or reference.own is not None) for reference in references
    )
    return x, references, draw(st.sampled_from([number for number in k if number <= max(1, most)]))
