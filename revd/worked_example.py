"""The paper's worked example: an episode that spreads, one that lingers, and REVD's bonus for each.

The paper shows three trajectories without coordinates; those here are our own. The states are points in the plane, and
they serve as embeddings too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch

from revd.arrays import Array
from revd.functional import discrepancy, episode_distances, renyi_divergence, spread

Point: TypeAlias = tuple[float, float]

# The paper's constants for this example.
K = 3
EPS = 1e-4
ALPHA = 0.5

#: States of each episode.
LENGTH = 40
#: Standard deviation of the states around the path of an agent that travels.
JITTER = 0.2
REFERENCE: tuple[Point, ...] = ((0, 0), (2, 1.2), (4, 0.3), (5.5, 1.8), (3.8, 3), (1.8, 2.6), (0.3, 4), (-1, 2.2))
SPREADING: tuple[Point, ...] = (
    (0, 0),
    (-2.4, -1),
    (-3.2, 2.5),
    (-1.5, 5.5),
    (1.5, 5.2),
    (4.5, 7),
    (8, 5.5),
    (7.8, 2),
    (9, -1),
    (6, -3),
    (2.5, -2.4),
)
#: Centre of the region where the third episode lingers, and the number of steps to reach it.
REGION: Point = (1.6, -2.2)
APPROACH = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoredEpisode:
    """An episode and its REVD bonus.

    Attributes:
        name: What the agent does in the episode.
        states: (n, 2), in order of time.
        unscaled: (n,), [nu_k / (mu_k + eps)]^(1 - alpha) of each state: the bonus without L.
        spread: L.
        divergence: Estimate of the Rényi divergence from the reference.
    """

    name: str
    states: Array
    unscaled: Array
    spread: float
    divergence: float

    @property
    def bonus(self) -> Array:
        """(n,), the bonus of each state, L included."""
        return self.spread * self.unscaled

    @property
    def mean_bonus(self) -> float:
        """The mean bonus of a step."""
        return float(self.bonus.mean())

    @property
    def mean_unscaled(self) -> float:
        """The mean bonus of a step without L."""
        return float(self.unscaled.mean())


@dataclass(frozen=True, kw_only=True, eq=False)
class Example:
    """The three episodes: (a) the reference, (n, 2); (b) spreading; (c) lingering."""

    reference: Array
    spreading: ScoredEpisode
    lingering: ScoredEpisode

    @property
    def scored(self) -> tuple[ScoredEpisode, ScoredEpisode]:
        """The two scored episodes."""
        return self.spreading, self.lingering


def make_example(*, radius: float, seed: int) -> Example:
    """Draw the three episodes, which start near the origin, and score the last two against the first.

    Args:
        radius: Standard deviation of the states in the region where the third episode lingers.
        seed: Seed of the noise in all three.
    """
    if not 0 <= radius < math.inf:
        raise ValueError(f"radius must be a number of at least 0, got {radius}")
    if seed < 0:
        raise ValueError(f"seed must be at least 0, got {seed}")
    generator = np.random.default_rng(seed)
    reference = _travel(REFERENCE, generator)
    spreading = _travel(SPREADING, generator)
    lingering = _linger(radius, generator)
    return Example(
        reference=reference,
        spreading=score_episode("spreading", spreading, reference),
        lingering=score_episode("lingering", lingering, reference),
    )


def score_episode(name: str, states: Array, reference: Array) -> ScoredEpisode:
    """Compare an episode, (n, 2), with the one before it, (m, 2)."""
    current, previous = torch.from_numpy(states), torch.from_numpy(reference)
    own, other = episode_distances(current, previous, k=K)
    return ScoredEpisode(
        name=name,
        states=states,
        unscaled=discrepancy(own[:, -1], other[:, -1], eps=EPS, alpha=ALPHA).double().numpy(),
        spread=float(spread(own[:, 0])),
        divergence=float(renyi_divergence(current, previous, k=K, alpha=ALPHA)),
    )


def _travel(corners: Sequence[Point], generator: np.random.Generator) -> Array:
    """Equal steps along a path through the corners, with noise."""
    path = _equal_steps(corners, LENGTH)
    return path + generator.normal(scale=JITTER, size=path.shape)


def _linger(radius: float, generator: np.random.Generator) -> Array:
    """Go straight into a region and stay in it until the end."""
    approach = _equal_steps([(0, 0), REGION], APPROACH + 1)[:-1]
    return np.concatenate([approach, generator.normal(REGION, radius, size=(LENGTH - APPROACH, 2))])


def _equal_steps(corners: Sequence[Point], number: int) -> Array:
    """Points at equal distances along the straight lines between the corners, both ends included."""
    points = np.array(corners, dtype=np.float64)
    lengths = np.linalg.norm(np.diff(points, axis=0), axis=1)
    travelled = np.concatenate([[0.0], lengths.cumsum()])
    at = np.linspace(0, travelled[-1], number)
    return np.stack([np.interp(at, travelled, axis) for axis in points.T], axis=-1)
