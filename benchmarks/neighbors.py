"""Both neighbour searches of an episodic reward (own episode, previous episode) against alternatives.

`python benchmarks/neighbors.py [--device cpu|cuda] [--threads 1]` prints two tables: speed and memory on Gaussian
states, and the largest relative error of a distance, compared with float64, on states that are hard to search.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from statistics import median
from typing import TypeAlias

import torch
from measure import interleaved, machine, markdown_table, parse_options, peak_extra_memory
from torch import Tensor

import revd
from revd.functional.search import ReferenceSet, torch_search

Pair: TypeAlias = tuple[Tensor, Tensor]
Form: TypeAlias = Callable[[Tensor, Tensor], Pair]

K = 5
SHAPES = {
    "cpu": [(10, 256), (1, 2048), (10, 2048), (1, 27_000)],
    "cuda": [(10, 256), (10, 2048), (1024, 256), (1, 27_000)],
}
DIMENSION = 128
#: Rows whose error is measured.
CHECKED = 200
#: Most coordinate differences for which slow forms, which compute or store all of them, are measured.
MAX_DIFFERENCES = 1e9
#: Distances in a tile of the plain tiled form.
TILE = 4_194_304


def main() -> None:
    options = parse_options(__doc__, seconds=30)
    device = options.device
    print(f"{machine(device)}; k = {K}, d = {DIMENSION}, own and previous episode\n")
    rows = [row for shape in SHAPES[device] for row in speeds(*shape, device, options.seconds, options.threads)]
    header = ("states", "form", "median ms", "fastest ms", "ours is faster by", "peak memory MiB", "of n·m·4 bytes")
    print(markdown_table(header, rows))
    print(f"\nLargest relative error of {CHECKED} states' distances, 1x2048\n")
    print(markdown_table(("states", *accurate_forms(device)), errors(device)))


def speeds(episodes: int, n: int, device: str, seconds: float, threads: int) -> list[list[str]]:
    """A row for each form; all forms are measured in turn."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(2, episodes, n, DIMENSION, generator=generator).to(device)
    chosen = forms(device, threads)
    if episodes * n * n * DIMENSION > MAX_DIFFERENCES:
        chosen = {name: form for name, form in chosen.items() if "differences" not in name and "kthvalue" not in name}
    cases: dict[str, Callable[[], object]] = {name: lambda form=form: form(x, y) for name, form in chosen.items()}  # type: ignore[misc]
    if device == "cuda":
        cases = {"ours": cases["ours"], "ours, in a CUDA graph": graph(x, y), **cases}
    times = interleaved(cases, seconds=seconds, device=device, min_repeats=2 if n > 10_000 else 5)
    rows = []
    for name, call in cases.items():
        typical = median(times[name])
        peak = peak_extra_memory(call, device)
        memory = "?" if peak is None else f"{peak / 2**20:.1f}"
        share = "?" if peak is None else f"{peak / (4 * episodes * n * n):.2%}"
        speed = f"{typical / median(times['ours']):.2f}"
        rows.append([f"{episodes}x{n}", name, f"{typical:.3f}", f"{min(times[name]):.3f}", speed, memory, share])
    return rows


def forms(device: str, threads: int) -> dict[str, Form]:
    """Our search, its alternatives, and the matrix products alone, which are a lower bound of the time."""
    known: dict[str, Form] = {
        "ours": ours,
        "torch.cdist + topk": cdist_topk,
        "torch.cdist by differences + topk": cdist_differences_topk,
        "GEMM in tiles + topk": tiles_topk,
        "TxTxd broadcast + kthvalue": broadcast_kthvalue,
    }
    if device == "cpu":
        known["FAISS flat"] = faiss_flat(threads)
        known["scikit-learn brute"] = sklearn_brute
        known["GEMM alone (floor)"] = gemm
    else:
        known["ours without Triton"] = without_triton
        if find_spec("flashlib") is not None:
            known["flashlib flash_knn"] = flash_knn
        known["GEMM alone, float32 (floor)"] = gemm
        known["GEMM alone, TF32"] = gemm_tf32
    return known


def accurate_forms(device: str) -> dict[str, Form]:
    names = ("ours", "ours without Triton", "torch.cdist + topk", "FAISS flat", "flashlib flash_knn")
    return {name: form for name, form in forms(device, 1).items() if name in names}


def errors(device: str) -> list[list[str]]:
    """A row of errors for each kind of states."""
    table = []
    for kind, make in KINDS.items():
        generator = torch.Generator().manual_seed(0)
        x, y = (make(torch.randn(1, 2048, DIMENSION, generator=generator)).to(device) for _ in range(2))
        table.append([kind, *(f"{error(form, x, y):.0e}" for form in accurate_forms(device).values())])
    return table


def error(form: Form, x: Tensor, y: Tensor) -> float:
    rows = torch.arange(0, x.shape[1], x.shape[1] // CHECKED, device=x.device)
    worst = 0.0
    for found, columns, own in zip(form(x, y), (x, y), (True, False), strict=True):
        exact = torch.cdist(x[:, rows].double(), columns.double(), compute_mode="donot_use_mm_for_euclid_dist")
        if own:
            exact.scatter_(-1, rows[None, :, None], torch.inf)
        exact = exact.topk(K, dim=-1, largest=False).values
        relative = (found[:, rows].double() - exact).abs() / exact
        wrong = torch.where(exact > 0, relative, torch.where(found[:, rows] == 0, 0.0, torch.inf))
        worst = max(worst, float(wrong.max()))
    return worst


def walk(noise: Tensor) -> Tensor:
    return torch.nn.functional.layer_norm(noise[:, :1], noise.shape[-1:]) + 1e-3 * noise.cumsum(dim=1)


def regions(noise: Tensor) -> Tensor:
    return 1e3 * noise[:, torch.arange(noise.shape[1]) % 4] + 1e-2 * noise


def duplicates(noise: Tensor) -> Tensor:
    return noise[:, torch.arange(noise.shape[1]) % (noise.shape[1] // 3)]


KINDS: dict[str, Callable[[Tensor], Tensor]] = {
    "Gaussian": lambda noise: noise,
    "random walk, steps of 1e-3": walk,
    "four far regions": regions,
    "exact duplicates": duplicates,
    "constant": lambda noise: torch.full_like(noise, 3.7),
    "magnitude 1e-6": lambda noise: 1e-6 * noise,
    "magnitude 1e6": lambda noise: 1e6 * noise,
}


def ours(x: Tensor, y: Tensor) -> Pair:
    return revd.episode_distances(x, y, k=K)


def without_triton(x: Tensor, y: Tensor) -> Pair:
    own, previous = torch_search.nearest_distances(x, [ReferenceSet(x, same_points=True), ReferenceSet(y)], K)
    return own, previous


def graph(x: Tensor, y: Tensor) -> Callable[[], None]:
    ours(x, y)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        ours(x, y)
    return captured.replay


def cdist_topk(x: Tensor, y: Tensor, mode: str = "use_mm_for_euclid_dist") -> Pair:
    own = torch.cdist(x, x, compute_mode=mode).topk(K + 1, dim=-1, largest=False).values[..., 1:]
    return own, torch.cdist(x, y, compute_mode=mode).topk(K, dim=-1, largest=False).values


def cdist_differences_topk(x: Tensor, y: Tensor) -> Pair:
    return cdist_topk(x, y, "donot_use_mm_for_euclid_dist")


def tiles_topk(x: Tensor, y: Tensor) -> Pair:
    def search(columns: Tensor, k: int) -> Tensor:
        square = columns.square().sum(dim=-1)[:, None]
        found = [
            torch.baddbmm(square, rows, columns.mT, alpha=-2)
            .topk(k, dim=-1, largest=False)
            .values.add_(rows.square().sum(dim=-1, keepdim=True))
            for rows in x.split(max(1, TILE // (len(x) * columns.shape[1])), dim=1)
        ]
        return torch.cat(found, dim=1).clamp_(min=0).sqrt_()

    return search(x, K + 1)[..., 1:], search(y, K)


def broadcast_kthvalue(x: Tensor, y: Tensor) -> Pair:
    """Only the k-th neighbour, episode by episode, as in the method's original code."""

    def search(rows: Tensor, columns: Tensor, k: int) -> Tensor:
        nearest: Tensor = torch.linalg.vector_norm(rows[:, None] - columns[None], dim=-1).kthvalue(k, dim=-1).values
        return nearest

    own = [search(episode, episode, K + 1) for episode in x]
    return torch.stack(own), torch.stack([search(*pair, K) for pair in zip(x, y, strict=True)])


def faiss_flat(threads: int) -> Form:
    import faiss

    faiss.omp_set_num_threads(threads)

    def search(rows: Tensor, columns: Tensor, k: int) -> Tensor:
        index = faiss.IndexFlatL2(columns.shape[-1])
        index.add(columns.numpy())
        return torch.from_numpy(index.search(rows.numpy(), k)[0]).clamp_(min=0).sqrt_()

    def both(x: Tensor, y: Tensor) -> Pair:
        own = [search(episode, episode, K + 1)[:, 1:] for episode in x]
        return torch.stack(own), torch.stack([search(*pair, K) for pair in zip(x, y, strict=True)])

    return both


def sklearn_brute(x: Tensor, y: Tensor) -> Pair:
    from sklearn.neighbors import NearestNeighbors

    def search(rows: Tensor, columns: Tensor, k: int) -> Tensor:
        fitted = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(columns.numpy())
        return torch.from_numpy(fitted.kneighbors(rows.numpy())[0])

    own = [search(episode, episode, K + 1)[:, 1:] for episode in x]
    return torch.stack(own), torch.stack([search(*pair, K) for pair in zip(x, y, strict=True)])


def flash_knn(x: Tensor, y: Tensor) -> Pair:
    from flashlib import flash_knn as search

    return search(x, x, K + 1)[0][..., 1:].sqrt(), search(x, y, K)[0].sqrt()


def gemm(x: Tensor, y: Tensor) -> Pair:
    """The two matrix products alone, tile by tile into one buffer."""
    n = x.shape[1]
    step = max(torch_search.TILE_ROWS, torch_search.TILE_ELEMENTS // n) if x.device.type == "cpu" else max(1, TILE // n)
    buffer = x.new_empty(step if step < n else len(x) * n, n)
    for columns in (x, y):
        if step >= n:
            torch.bmm(x, columns.mT, out=buffer.view(len(x), n, n))
            continue
        for episode, others in zip(x, columns, strict=True):
            for rows in episode.split(step):
                torch.mm(rows, others.mT, out=buffer[: len(rows)])
    return x, y


def gemm_tf32(x: Tensor, y: Tensor) -> Pair:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        return gemm(x, y)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


if __name__ == "__main__":
    main()
