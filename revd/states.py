"""The states of a rollout's transitions, of which repeated ones are evaluated once.

Most successors are the next observations, and small worlds show the same views again and again. What a network says of
a state is then copied. This needs a network whose answer for one state does not depend on the others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from revd.functional.search.equal_rows import equal_rows, first_of_each, row_keys
from revd.observations import Observations, named_tensors, select

#: Which states of the transitions.
Field: TypeAlias = Literal["observations", "successors"]
Network: TypeAlias = Callable[[Observations], Tensor]
#: Observations with more numbers, images, repeat too rarely: to look for repeats would take longer than they save.
#: Their successors still are the next observations.
LARGE = 2**12


class States:
    """The observations and successors of n transitions.

    Args:
        observations: (n, *obs_shape), or a dict of them.
        successors: The same; None for rewards that do not read them.
    """

    def __init__(self, observations: Observations, successors: Observations | None) -> None:
        self.observations = observations
        self.successors = successors

    def evaluate(self, network: Network, *fields: Field, rows: Tensor | None = None) -> list[Tensor]:
        """What a network says of each field, (n, …) each, or of the given rows of it only.

        On a CPU each distinct state is shown to the network once, if states are small or successors are asked for. On a
        GPU all are shown, since it would have to be waited for.

        Args:
            network: Maps observations (n, *obs_shape) to (n, …).
            fields: What is evaluated.
            rows: Indices on the host, (r,).
        """
        if not self._on_cpu or len(self) == 0 or (self._are_large and "successors" not in fields):
            parts = (self._part(field) for field in fields)
            return [network(part if rows is None else select(part, rows)) for part in parts]
        places = [self._places[field] if rows is None else self._places[field][rows] for field in fields]
        distinct, numbers = torch.cat(places).unique(return_inverse=True)
        values = self._evaluate_places(network, distinct)
        return list(values[numbers.to(values.device)].split([len(each) for each in places]))

    def counted(self) -> tuple[Observations, Tensor | None]:
        """The distinct observations and how often each occurs; all of them and None where that saves no time."""
        if not self._on_cpu or len(self) == 0 or self._are_large:
            return self.observations, None
        rows, counts = self._places["observations"].unique(return_counts=True)
        return (self.observations, None) if len(rows) > len(self) // 2 else (select(self.observations, rows), counts)

    def __len__(self) -> int:
        return len(self._leaves("observations")[0])

    def _evaluate_places(self, network: Network, places: Tensor) -> Tensor:
        """What a network says of the states at places in ascending order; from n on, these are successors."""
        n = len(self)
        ours, others = places[places < n], places[places >= n] - n
        values = []
        if len(ours) > 0.9 * n:
            # Most of them: to copy these would take longer than to evaluate the others too.
            values.append(network(self.observations)[ours])
        elif len(ours):
            values.append(network(select(self.observations, ours)))
        if len(others):
            values.append(network(select(self._part("successors"), others)))
        return torch.cat(values)

    @cached_property
    def _places(self) -> dict[Field, Tensor]:
        """For each state the first observation that equals it, (n,); for other successors, their own row + n."""
        ours = self._leaves("observations")
        keys, numbers, first = first_of_each(row_keys(ours))
        rows, earlier = torch.arange(len(self), device="cpu"), first[numbers]
        places: dict[Field, Tensor] = {"observations": torch.where(equal_rows(ours, ours, earlier), earlier, rows)}
        if self.successors is not None:
            others = self._leaves("successors")
            candidates = first[torch.searchsorted(keys, row_keys(others)).clamp(max=len(keys) - 1)]
            equal = equal_rows(others, ours, candidates)
            places["successors"] = torch.where(equal, candidates, rows + len(self))
        return places

    @property
    def _on_cpu(self) -> bool:
        return all(tensor.device.type == "cpu" for tensor in self._leaves("observations"))

    @property
    def _are_large(self) -> bool:
        return sum(tensor[:1].numel() for tensor in self._leaves("observations")) > LARGE

    def _leaves(self, field: Field) -> list[Tensor]:
        """The tensors of a field; those of dicts by key, since two dicts may have another order."""
        return [tensor for _, tensor in sorted(named_tensors(field, self._part(field)), key=lambda pair: pair[0])]

    def _part(self, field: Field) -> Observations:
        part = self.observations if field == "observations" else self.successors
        assert part is not None, "the rollout has no successors"
        return part
