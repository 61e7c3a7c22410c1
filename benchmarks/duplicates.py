"""What merging duplicates costs and saves in the search: both searches of REVD, merged and not, in turns.

`python benchmarks/duplicates.py [--device cpu|cuda] [--threads 1]` prints a table of environments x steps x d, by the
share of states that are distinct.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import torch
from measure import interleaved, machine, markdown_table, parse_options
from torch import Tensor

from revd.rewards.distinct_segments import merge_duplicates
from revd.rewards.segments import Segments

K = 3
SHAPES = [(32, 128, 128), (10, 256, 64), (10, 2048, 128)]
SHARES = (1.0, 0.5, 0.25, 0.1)


def main() -> None:
    options = parse_options(__doc__, seconds=5)
    print(f"{machine(options.device)}; k = {K}, own and previous segment\n")
    rows = [row(shape, share, options.device, options.seconds) for shape in SHAPES for share in SHARES]
    header = ("states", "distinct", "not merged ms", "merged ms", "merged / not merged")
    print(markdown_table(header, rows))


def row(shape: tuple[int, int, int], share: float, device: str, seconds: float) -> list[str]:
    segments = make_segments(*shape, share, device)
    cases: dict[str, Callable[[], object]] = {
        "not merged": lambda: segments.distances(K),
        "merged": lambda: merged_distances(segments),
    }
    times = interleaved(cases, seconds=seconds, device=device)
    plain, merged = median(times["not merged"]), median(times["merged"])
    return ["x".join(map(str, shape)), f"{share:.0%}", f"{plain:.2f}", f"{merged:.2f}", f"{merged / plain:.2f}"]


def merged_distances(segments: Segments) -> tuple[Tensor, Tensor, Tensor | None]:
    """What REVD asks for: mu_k and nu_k of every step, and its number of copies."""
    states = merge_duplicates(segments, k=K)
    own, previous = states.distances(K)
    return states.per_step(own[..., -1]), states.per_step(previous[..., -1]), states.copies


def make_segments(n_envs: int, n_steps: int, d: int, share: float, device: str) -> Segments:
    """Gaussian states, of which each is drawn from so many per segment; all different with a share of 1."""
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(2, n_envs, n_steps, d, generator=generator)
    if share < 1:
        chosen = torch.randint(0, int(share * n_steps), (2, n_envs, n_steps), generator=generator)
        states = states.gather(2, chosen[..., None].expand_as(states))
    current, previous = states.to(device)
    lengths, zeros = torch.full((n_envs,), n_steps), torch.zeros(n_envs, dtype=torch.int64)
    return Segments(
        columns=torch.arange(n_envs),
        starts=zeros,
        carried=zeros,
        current=current,
        lengths=lengths,
        previous=previous,
        previous_lengths=lengths,
        carried_nearest=current.new_zeros(n_envs, 0),
        running=zeros.bool(),
    )


if __name__ == "__main__":
    main()
