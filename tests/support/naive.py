"""Every equation of SPEC.md once more, as loops over environments and time steps in float64.

Slow and plain on purpose: a reader can hold each function against the specification. Nothing of `revd` is used here;
rewards are given the embeddings and pay for them.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]


def distance(a: Points, b: Points) -> float:
    return math.sqrt(sum((float(p) - float(q)) ** 2 for p, q in zip(a, b, strict=True)))


def kth(distances: list[float], k: int) -> float:
    """The k-th smallest, infinite where there are fewer."""
    return sorted(distances)[k - 1] if len(distances) >= k else math.inf


def mu(k: int, t: int, states: Points, *, merge: bool = False) -> float:
    """Distance of state t to its k-th nearest *other* state. Merged: others are not its copies, and count once."""
    if merge:
        others = [state for state in distinct(states) if not equal(state, states[t])]
        return nu(min(k, len(others)) if len(states) > k and others else k, states[t], np.array(others))
    return kth([distance(states[t], states[s]) for s in range(len(states)) if s != t], k)


def nu(k: int, state: Points, previous: Points) -> float:
    """Distance of a state to the k-th nearest state of another episode."""
    return kth([distance(state, other) for other in previous], k)


def merged_nu(k: int, state: Points, previous: Points) -> float:
    """The same among distinct states; if enough states were few distinct ones, the farthest counts as the k-th."""
    once = distinct(previous)
    return nu(min(k, len(once)) if len(previous) >= k else k, state, once)


def equal(a: Points, b: Points) -> bool:
    return all(float(p) == float(q) for p, q in zip(a, b, strict=True))


def distinct(states: Points) -> Points:
    """Every state once, in order of their last visits."""
    last = [i for i in range(len(states)) if not any(equal(states[i], later) for later in states[i + 1 :])]
    return states[last]


def copies(state: Points, states: Points) -> int:
    return sum(equal(state, other) for other in states)


def neighbor_distances(x: Points, y: Points | None, k: int) -> Points:
    """(n, k): all k distances of every point, by direct differences."""
    if y is None:
        return np.array([[mu(j, t, x) for j in range(1, k + 1)] for t in range(len(x))])
    return np.array([[nu(j, state, y) for j in range(1, k + 1)] for state in x])


def renyi_divergence(x: Points, y: Points, *, k: int, alpha: float) -> float:
    n, m, d = len(x), len(y), x.shape[1]
    constant = math.gamma(k) ** 2 / (math.gamma(k - alpha + 1) * math.gamma(k + alpha - 1))
    terms = [((n - 1) * mu(k, i, x) ** d / (m * nu(k, x[i], y) ** d)) ** (1 - alpha) * constant for i in range(n)]
    return math.log(sum(terms) / n) / (alpha - 1)


def pseudo_count(squares: list[float], mean_square: float, *, eps: float, cluster_distance: float) -> float:
    """The visit itself, and a kernel over the squared distances to the nearest earlier states."""
    count = 1.0
    for square in squares:
        relative = square / mean_square if mean_square > 0 else 0.0
        count += eps / (max(relative - cluster_distance, 0.0) + eps)
    return count


def elliptical(phi: Points, ended: list[bool], covariance: Points, ridge: float) -> tuple[list[float], Points]:
    """phi_t^T C^-1 phi_t of one environment's steps; C grows after each step and starts anew after an episode."""
    bonuses = []
    for state, done in zip(phi, ended, strict=True):
        bonuses.append(float(state @ np.linalg.inv(covariance) @ state))
        covariance = ridge * np.eye(len(state)) if done else covariance + np.outer(state, state)
    return bonuses, covariance


@dataclass
class Steps:
    """One rollout of embeddings, (n_steps, n_envs, d), with everything that decides what a segment is."""

    phi: Points
    dones: NDArray[np.bool_]
    lengths: list[int]
    phi_next: Points | None = None

    @property
    def n_envs(self) -> int:
        return self.phi.shape[1]

    def zeros(self) -> Points:
        return np.zeros(self.phi.shape[:2])


def true_episodes(dones: list[bool]) -> list[tuple[list[int], bool]]:
    """The steps of each true episode of one column, and whether it ended there."""
    parts: list[tuple[list[int], bool]] = [([], False)]
    for t, done in enumerate(dones):
        parts[-1][0].append(t)
        if done:
            parts[-1] = (parts[-1][0], True)
            parts.append(([], False))
    return [part for part in parts if part[0]]


@dataclass
class NaiveSegments:
    """Yields the inputs of a k-NN reward: (environment, paid steps, E, how many of E are carried, E~)."""

    n_envs: int
    d: int
    k: int
    boundary: str = "rollout"
    memory_size: int = 10_000
    running: list[Points] = field(init=False)
    previous: list[Points] = field(init=False)

    def __post_init__(self) -> None:
        self.running = [np.zeros((0, self.d)) for _ in range(self.n_envs)]
        self.previous = [np.zeros((0, self.d)) for _ in range(self.n_envs)]

    def cut(self, steps: Steps) -> list[tuple[int, list[int], Points, int, Points]]:
        segments = []
        for env in range(self.n_envs):
            length = steps.lengths[env]
            if self.boundary == "rollout":
                if length > 0:
                    states = steps.phi[:length, env]
                    segments.append((env, list(range(length)), states, 0, self.previous[env]))
                    if length >= self.k:
                        self.previous[env] = states
                continue
            for paid, ended in true_episodes(list(steps.dones[:length, env])):
                carried = self.running[env]
                states = np.concatenate([carried, steps.phi[paid, env]])
                segments.append((env, paid, states, len(carried), self.previous[env]))
                self.running[env] = states[-self.memory_size :]
                if ended:
                    self.finish(env)
        return segments

    def finish(self, env: int) -> None:
        if len(self.running[env]) >= self.k:
            self.previous[env] = self.running[env]
        self.running[env] = np.zeros((0, self.d))

    def end_episodes(self) -> None:
        if self.boundary == "episode":
            for env in range(self.n_envs):
                self.finish(env)


@dataclass
class NaiveREVD:
    segments: NaiveSegments
    k: int
    alpha: float = 0.5
    eps: float = 1e-4
    scale_by_spread: bool = True
    merge: bool = False
    nearest: dict[int, list[float]] = field(default_factory=dict)

    def spread(self, env: int, states: Points, carried: int) -> float:
        """L: carried states know their nearest so far, even if the memory's capacity has dropped it since."""
        new = range(carried, len(states))
        known = self.nearest.get(env, [])[:carried]
        carried_nearest = [min([known[i], *(distance(states[i], states[j]) for j in new)]) for i in range(carried)]
        nearest = carried_nearest + [mu(1, t, states) for t in new]
        self.nearest[env] = nearest[-self.segments.memory_size :]
        return math.tanh(sum(nearest) / len(nearest))

    def merged_spread(self, env: int, states: Points, carried: int) -> float:
        """L, a mean over distinct states. Those that this rollout does not visit know their nearest so far."""
        known, new = self.nearest.get(env, []), states[carried:]
        nearest = []
        for i, state in enumerate(states):
            if copies(state, new) > 0:
                nearest.append(mu(1, i, states, merge=True))
            else:
                nearest.append(min([known[i], *(distance(state, other) for other in new)]))
        self.nearest[env] = nearest[-self.segments.memory_size :]
        once = [nearest[i] for i in range(len(states)) if copies(states[i], states[i + 1 :]) == 0]
        found = [value for value in once if math.isfinite(value)]
        return math.tanh(sum(found) / len(found)) if found else 0.0

    def compute(self, steps: Steps) -> Points:
        bonus = steps.zeros()
        for env, paid, states, carried, previous in self.segments.cut(steps):
            spread = (self.merged_spread if self.merge else self.spread)(env, states, carried)
            spread = spread if self.scale_by_spread else 1.0
            for offset, t in enumerate(paid):
                state = states[carried + offset]
                mu_k = mu(self.k, carried + offset, states, merge=self.merge)
                nu_k = merged_nu(self.k, state, previous) if self.merge else nu(self.k, state, previous)
                if math.isfinite(mu_k) and math.isfinite(nu_k):
                    bonus[t, env] = spread * (nu_k / (mu_k + self.eps)) ** (1 - self.alpha)
                    bonus[t, env] /= math.sqrt(copies(state, states)) if self.merge else 1
        return bonus


@dataclass
class NaiveRE3:
    segments: NaiveSegments
    k: int
    log: bool = True
    merge: bool = False

    def compute(self, steps: Steps) -> Points:
        bonus = steps.zeros()
        for env, paid, states, carried, _ in self.segments.cut(steps):
            for offset, t in enumerate(paid):
                mu_k = mu(self.k, carried + offset, states, merge=self.merge)
                if math.isfinite(mu_k):
                    bonus[t, env] = math.log(mu_k + 1) if self.log else mu_k
                    bonus[t, env] /= math.sqrt(copies(states[carried + offset], states)) if self.merge else 1
        return bonus


@dataclass
class NaiveRISE:
    segments: NaiveSegments
    k: int
    alpha: float = 0.5
    merge: bool = False

    def compute(self, steps: Steps) -> Points:
        bonus = steps.zeros()
        for env, paid, states, carried, _ in self.segments.cut(steps):
            for offset, t in enumerate(paid):
                mu_k = mu(self.k, carried + offset, states, merge=self.merge)
                if math.isfinite(mu_k):
                    bonus[t, env] = mu_k ** (1 - self.alpha)
                    bonus[t, env] /= math.sqrt(copies(states[carried + offset], states)) if self.merge else 1
        return bonus


@dataclass
class NaiveCounts:
    """Counts of hashable states, given as `steps[t][env]`; a time-major loop with a dictionary for each table."""

    n_envs: int
    scope: str = "lifelong"
    lifelong: dict[Any, int] = field(default_factory=dict)
    episodes: list[dict[Any, int]] = field(init=False)

    def __post_init__(self) -> None:
        self.end_episodes()

    def end_episodes(self) -> None:
        self.episodes = [{} for _ in range(self.n_envs)]

    def compute(self, states: list[list[Any]], dones: NDArray[np.bool_], lengths: list[int]) -> Points:
        bonus = np.zeros(dones.shape)
        for t, env in np.ndindex(*dones.shape):
            if t >= lengths[env]:
                continue
            state, tables = states[t][env], {"lifelong": self.lifelong, "episode": self.episodes[env]}
            for table in tables.values():
                table[state] = table.get(state, 0) + 1
            used = tables.values() if self.scope == "both" else [tables[self.scope]]
            bonus[t, env] = 1 / math.sqrt(math.prod(table[state] for table in used))
            if dones[t, env]:
                self.episodes[env] = {}
        return bonus


@dataclass
class NaiveNGU:
    """`err` is RND's error at the rollout's states, (n_steps, n_envs)."""

    segments: NaiveSegments
    k: int = 10
    kernel_eps: float = 1e-4
    cluster_distance: float = 0.008
    c: float = 0.001
    s_max: float = 8.0
    momentum: float = 0.99
    largest_modulator: float = 5.0
    mean_square: float = 0.0
    errors: list[float] = field(default_factory=list)

    def compute(self, steps: Steps, err: Points) -> Points:
        squares: dict[tuple[int, int], list[float]] = {}
        for env, paid, states, carried, _ in self.segments.cut(steps):
            for offset, t in enumerate(paid):
                earlier = states[: carried + offset]
                found = sorted(distance(steps.phi[t, env], state) for state in earlier)
                squares[t, env] = [value**2 for value in found[: self.k]]
                self.errors.append(err[t, env])
        NaiveRIDE._follow(self, [square for found in squares.values() for square in found])  # type: ignore[arg-type]
        bonus = steps.zeros()
        for (t, env), found in squares.items():
            constants = {"eps": self.kernel_eps, "cluster_distance": self.cluster_distance}
            similarity = math.sqrt(pseudo_count(found, self.mean_square, **constants) - 1) + self.c
            alpha = 1 + (err[t, env] - np.mean(self.errors)) / np.std(self.errors)
            if found and similarity <= self.s_max:
                bonus[t, env] = 1 / similarity * min(max(alpha, 1), self.largest_modulator)
        return bonus


@dataclass
class NaiveRIDE:
    segments: NaiveSegments
    k: int = 10
    kernel_eps: float = 1e-4
    cluster_distance: float = 0.008
    c: float = 0.001
    s_max: float = 8.0
    momentum: float = 0.99
    mean_square: float = 0.0

    def compute(self, steps: Steps) -> Points:
        assert steps.phi_next is not None
        squares: dict[tuple[int, int], list[float]] = {}
        for env, paid, states, carried, _ in self.segments.cut(steps):
            for offset, t in enumerate(paid):
                earlier = states[: carried + offset + 1]  # up to s_t; s_{t+1} itself is the 1 of the count
                found = sorted(distance(steps.phi_next[t, env], state) for state in earlier)
                squares[t, env] = [value**2 for value in found[: self.k]]
        self._follow([square for found in squares.values() for square in found])
        bonus = steps.zeros()
        for (t, env), found in squares.items():
            count = pseudo_count(found, self.mean_square, eps=self.kernel_eps, cluster_distance=self.cluster_distance)
            visits = math.sqrt(count) + self.c
            if visits <= self.s_max:
                bonus[t, env] = distance(steps.phi_next[t, env], steps.phi[t, env]) / visits
        return bonus

    def _follow(self, squares: list[float]) -> None:
        if squares:
            mean = sum(squares) / len(squares)
            momentum = self.momentum if self.mean_square > 0 else 0.0
            self.mean_square = momentum * self.mean_square + (1 - momentum) * mean
