"""The callback that counts which states a training has visited."""

from __future__ import annotations

import warnings
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from revd.coverage.counter import CellBatch, VisitCounter
from revd.coverage.defaults import default_grid, tasks_with_defaults
from revd.coverage.grid import CellFunction, Grid
from revd.coverage.lookup import import_cells
from revd.coverage.state import CounterState, read_visits, write_visits
from revd.sb3.terminal_observations import TerminalObservations

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecEnv, VecNormalize

    from revd.coverage.stages import Visits

#: Bytes of observations that wait to be counted together. Only rollouts of images are larger.
_WAITING_BYTES = 2**23
#: Visits that are worth counting. Off-policy algorithms end a rollout after a few steps.
_MANY_VISITS = 256


class CoverageCallback(BaseCallback):
    """Counts the distinct cells that a training has visited: a measure of exploration, with or without a bonus.

    Each step counts the state that it leads to, at the end of an episode its last one. Observations are those before
    VecNormalize. It works with all algorithms of SB3 and sb3-contrib but ARS, alone or with other callbacks in a list.

    After each rollout it logs

    - `exploration/coverage`: distinct cells so far,
    - `exploration/coverage_share`: their share of all cells of the grid, if it has ends,
    - `exploration/coverage_rollout`: distinct cells of this rollout.

    A second `learn()` continues to count, and its steps follow those of the first.

    Args:
        cell: A `Grid`, a function `(observations, infos) -> cells`, or "MODULE:NAME" of one of both. The function gets
            a batch of n observations (n, …), or a dict of them, and their n infos. It returns integers, (n,) or (n, d),
            or texts, (n,). Pairs of integers have heat maps. None: the default grid of classic control and MiniGrid.
        verbose: SB3's verbosity.
    """

    def __init__(self, cell: Grid | CellFunction | str | None = None, *, verbose: int = 0) -> None:
        super().__init__(verbose)
        if cell is not None and not (isinstance(cell, Grid | str) or callable(cell)):
            raise TypeError(f"cell must be a Grid, a function, 'MODULE:NAME' or None, got {cell!r}")
        self.latest: dict[str, float] = {}
        self._cell = import_cells(cell) if isinstance(cell, str) else cell
        self._counter = None if self._cell is None else VisitCounter(self._cell)
        self._pending: CounterState | None = None
        self._normalization: VecNormalize | None = None
        self._below: TerminalObservations | None = None
        self._earlier_steps = 0
        self._observations: list[Any] = []
        self._infos: list[dict[str, Any]] = []
        self._waiting, self._waiting_bytes = 0, 0
        self._batches: list[CellBatch] = []
        self._warned = False

    @property
    def coverage(self) -> int:
        """Distinct cells visited so far."""
        return 0 if self._counter is None else self._counter.distinct

    @property
    def description(self) -> str | None:
        """The cells in one line; None while they are not known."""
        return None if self._counter is None else self._counter.description

    @property
    def visits(self) -> Visits | None:
        """The visits of the plane at some stages of the training, for heat maps; None if the cells have no plane."""
        return None if self._counter is None else self._counter.state().visits

    def save(self, path: str | PathLike[str]) -> None:
        """Write all counts to one safetensors file: no pickles."""
        if self._counter is not None:
            self._count()
        write_visits(path, self.state())

    def load(self, path: str | PathLike[str]) -> None:
        """Continue from the counts that `save` wrote."""
        self.restore(read_visits(path))

    def state(self) -> CounterState:
        """The counts of completed rollouts; an off-policy algorithm's last 255 steps may be missing."""
        if self._counter is None:
            raise ValueError("there is nothing to save before training has started")
        return self._counter.state()

    def restore(self, state: CounterState) -> None:
        """Continue from a state."""
        if self._counter is None:
            self._pending = state
        else:
            self._counter.restore(state)

    def _init_callback(self) -> None:
        if self._counter is None:
            self._counter = VisitCounter(_default_cells(self.training_env))
        if self._pending is not None:
            self._counter.restore(self._pending)
            self._pending = None

    def _on_training_start(self) -> None:
        normalization = self.model.get_vec_normalize_env()
        self._normalization = normalization if normalization is not None and normalization.norm_obs else None
        self._below = None if self._normalization is None else TerminalObservations.below(self._normalization)
        # SB3 restarts num_timesteps with each learn(), unless it is told not to. The visits continue.
        assert self._counter is not None
        self._earlier_steps = max(self._counter.steps - self.num_timesteps, 0)

    def _on_step(self) -> bool:
        if "new_obs" not in self.locals:
            raise RuntimeError(
                "the callback is not shown the steps: pass CoverageCallback to learn() itself or in a list. "
                "ARS shows no steps to any callback"
            )
        assert self._counter is not None
        self._waiting += len(self.locals["infos"])
        if self._counter.reads_infos:
            self._infos += self.locals["infos"]
        if self._counter.reads_observations:
            observations = self._successors()
            self._observations.append(observations)
            self._waiting_bytes += _n_bytes(observations)
            if self._waiting_bytes > _WAITING_BYTES:
                self._find_cells()
        return True

    def _on_rollout_end(self) -> None:
        assert self._counter is not None
        if isinstance(self.model, OnPolicyAlgorithm) or self._waiting >= _MANY_VISITS:
            self._count()
        self.latest = {"coverage": self._counter.distinct, "coverage_rollout": self._counter.last_distinct}
        if self._counter.share is not None:
            self.latest["coverage_share"] = self._counter.share
        for name, value in self.latest.items():
            self.logger.record(f"exploration/{name}", value)

    def _on_training_end(self) -> None:
        self._count()
        if self._normalization is not None:
            TerminalObservations.remove(self._normalization)

    def _successors(self) -> Any:
        """The observations that the step has led to, before VecNormalize; at an episode's end its last one."""
        if self._normalization is not None and self._below is not None:
            observations = self._normalization.get_original_obs()
            for env, terminal in self._below.latest.items():
                _put_row(observations, env, terminal)
            return observations
        observations = _copied(self.locals["new_obs"])
        dones = self.locals["dones"]
        for env in np.flatnonzero(dones).tolist() if dones.any() else ():
            terminal = self.locals["infos"][env].get("terminal_observation")
            if terminal is not None:
                _put_row(observations, env, terminal)
        return observations

    def _find_cells(self) -> None:
        """Turn the observations and infos that wait into cells."""
        assert self._counter is not None
        if self._waiting:
            observations = _concatenated(self._observations)
            self._batches.append(self._counter.batch(observations, self._infos, self._waiting))
            self._observations, self._infos = [], []
            self._waiting, self._waiting_bytes = 0, 0

    def _count(self) -> None:
        """Count all visits that wait."""
        assert self._counter is not None
        self._find_cells()
        if self._batches:
            self._counter.count(self._batches, self._earlier_steps + self.num_timesteps)
            self._batches = []
        if self._counter.full is not None and not self._warned:
            self._warned = True
            warnings.warn(f"{self._counter.full}; larger cells are fewer", stacklevel=2)


def _default_cells(env: VecEnv) -> Grid:
    """The default grid of the task that an environment steps; a ValueError if there is none."""
    spec = env.get_attr("spec")[0]
    name = getattr(spec, "id", None)
    grid = None if name is None else default_grid(name, env.observation_space)
    if grid is None:
        task = "this task" if name is None else f"{name!r}"
        raise ValueError(
            f"CoverageCallback knows no cells of {task} with observations of shape {env.observation_space.shape}: pass "
            "cell=, a Grid or a function (observations, infos) -> integers. It has grids for the unchanged "
            f"observations of {', '.join(tasks_with_defaults())}"
        )
    return grid


def _copied(observations: Any) -> Any:
    # Some vectorised environments write the next observations into the same memory.
    if isinstance(observations, dict):
        return {key: np.array(part) for key, part in observations.items()}
    return np.array(observations)


def _put_row(observations: Any, env: int, row: Any) -> None:
    if isinstance(observations, dict):
        for key, part in observations.items():
            part[env] = row[key]
        return
    observations[env] = row


def _n_bytes(observations: Any) -> int:
    parts = observations.values() if isinstance(observations, dict) else (observations,)
    return sum(part.nbytes for part in parts)


def _concatenated(batches: list[Any]) -> Any:
    if not batches:
        return None
    if isinstance(batches[0], dict):
        return {key: np.concatenate([batch[key] for batch in batches]) for key in batches[0]}
    return np.concatenate(batches)
