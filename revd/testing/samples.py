"""Random rollouts over any supported space, which depend only on a seed."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from revd.rollout import Rollout, map_observations
from revd.spaces import dict_parts

if TYPE_CHECKING:
    from revd.rollout import Observations
    from revd.spaces import Space


@dataclass(frozen=True, kw_only=True)
class SampleSettings:
    """Size and content of sampled rollouts.

    Attributes:
        n_steps: Rows.
        n_envs: Columns.
        done_rate: How often an episode ends.
        duplicate_rate: How often a state repeats an earlier one exactly.
        ragged: Whether `lengths` excludes the ends of columns, which then hold garbage.
    """

    n_steps: int
    n_envs: int = 2
    done_rate: float = 0.15
    duplicate_rate: float = 0.0
    ragged: bool = False


def sample_rollout(observation_space: Space, action_space: Space, sample: SampleSettings, seed: int) -> Rollout:
    """Sample a rollout; a successor is the next state, or a separate one at the end of an episode."""
    rng = np.random.default_rng(seed)
    n_steps, n_envs = sample.n_steps, sample.n_envs
    # One more state for the last successors, and as many again that only end episodes.
    sources = np.arange(2 * (n_steps + 1))[:, None].repeat(n_envs, axis=1)
    for step, env in np.argwhere(rng.random((n_steps, n_envs)) < sample.duplicate_rate):
        sources[step + 1, env] = sources[rng.integers(step + 1), env]
    dones = rng.random((n_steps, n_envs)) < sample.done_rate
    following = np.where(dones, sources[n_steps + 2 :], sources[1 : n_steps + 1])
    states = _draw(observation_space, len(sources), n_envs, seed)
    rollout = Rollout(
        observations=_select_rows(states, sources[:n_steps]),
        actions=_draw(action_space, n_steps, n_envs, seed),
        next_observations=_select_rows(states, following),
        dones=dones,
        lengths=rng.integers(1, n_steps + 1, n_envs) if sample.ragged else None,
    )
    return with_garbage(rollout) if sample.ragged else rollout


def with_garbage(rollout: Rollout) -> Rollout:
    """Copy a rollout, with NaN or the largest number in all steps beyond `lengths`."""
    padded = ~rollout.valid

    def spoil(values: Tensor) -> Tensor:
        garbage = torch.nan if values.is_floating_point() else _largest(values)
        return values.masked_fill(padded.reshape(*padded.shape, *[1] * (values.ndim - 2)), garbage)

    return changed(
        rollout,
        observations=map_observations(spoil, rollout.observations),
        next_observations=map_observations(spoil, rollout.successors),
        dones=rollout.dones | padded,
    )


def changed(rollout: Rollout, **values: Any) -> Rollout:
    """Copy a rollout with other values of some fields."""
    return Rollout(**{field.name: values.get(field.name, getattr(rollout, field.name)) for field in fields(Rollout)})


def _draw(space: Space, n_steps: int, n_envs: int, seed: int) -> Any:
    """Sample (n_steps, n_envs, *shape), or a dict of such, without using the space's own generator."""
    parts = dict_parts(space)
    if parts is not None:
        return {key: _draw(part, n_steps, n_envs, seed) for key, part in parts.items()}
    space = deepcopy(space)
    space.seed(seed)
    return torch.as_tensor(np.array([[space.sample() for _ in range(n_envs)] for _ in range(n_steps)]))


def _select_rows(states: Observations, rows: np.ndarray[Any, Any]) -> Observations:
    """Select row `rows[t, env]` of each column."""
    return map_observations(lambda values: values[rows, np.arange(rows.shape[1])], states)


def _largest(values: Tensor) -> int | bool:
    return True if values.dtype == torch.bool else torch.iinfo(values.dtype).max
