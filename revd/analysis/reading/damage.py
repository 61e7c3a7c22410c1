"""Checks whether `episodes.csv` holds every row that the training wrote.

Each row has the step at which an episode ended and the episode's length. An episode must therefore begin where its
environment's previous episode ended, or where a session began. For a finished run, `status.json` also has the mean of
the last returns as the algorithm computed it.
"""

import math
from collections.abc import Mapping
from typing import Any, TypeGuard

import numpy as np

from revd.arrays import Array
from revd.episodes import PARTS, EpisodeFile
from revd.storage.run_files import STATUS

#: Episodes in Stable-Baselines3's mean return, unless `stats_window_size` is set.
_DEFAULT_WINDOW = 100
_INTEGER_LIMIT = 2**63


def find_damage(
    file: EpisodeFile, *, config: Mapping[str, Any], status: Mapping[str, Any], origin: Mapping[str, Any]
) -> str | None:
    """Describe in one sentence what is wrong with the episodes of a run; None if no damage is found.

    Args:
        file: The episodes.
        config: Content of `config.json`.
        status: Content of `status.json`.
        origin: Content of `run.json`.
    """
    finished = status.get("state") == "finished"
    return (
        _find_bad_rows(file)
        or (_find_cut_row(file) if finished else None)
        or _find_gap(file, config, origin)
        or (_find_wrong_mean(file, config, status) if finished else None)
        or _find_missing_end(file, config, status)
    )


def _find_bad_rows(file: EpisodeFile) -> str | None:
    more = len(file.faults) - 1
    return file.faults[0] + (f", and {more:,} more like it" if more > 0 else "") if file.faults else None


def _find_cut_row(file: EpisodeFile) -> str | None:
    return "its last line is cut off" if file.is_cut else None


def _find_gap(file: EpisodeFile, config: Mapping[str, Any], origin: Mapping[str, Any]) -> str | None:
    """Find an episode that neither follows its environment's previous one nor begins a session."""
    n_envs, sessions = _environment_count(config), _session_starts(origin)
    if n_envs is None or not origin or not _has_lengths(file):
        return None
    ends: dict[float, float] = {}
    for line, env, end, length in zip(file.lines, file.envs, file.episodes.steps, file.lengths, strict=True):
        start, last = end - length * n_envs, ends.get(env, 0.0)
        if end <= last:
            return f"line {line} is a second episode of environment {env:g} that ended after {end:,.0f} steps"
        if start > last and start not in sessions:
            return (
                f"rows are missing before line {line}: environment {env:g} has no episode from {last:,.0f} to "
                f"{start:,.0f} steps"
            )
        ends[env] = end
    return None


def _find_wrong_mean(file: EpisodeFile, config: Mapping[str, Any], status: Mapping[str, Any]) -> str | None:
    """Compare the mean of the last returns with the mean that the training reported."""
    reported = status.get("episode_return")
    if not _is_number(reported):
        return None
    latest = _last_returns(file, config)
    if not len(latest):
        return f"it has no episodes, though {STATUS} has a mean return of {reported:,.1f}"
    found = float(latest.mean())
    if math.isclose(found, reported, rel_tol=1e-6, abs_tol=1e-6):
        return None
    return (
        f"its last {len(latest):,} returns have the mean {found:,.1f}, but at the end of the training it was "
        f"{reported:,.1f} ({STATUS})"
    )


def _find_missing_end(file: EpisodeFile, config: Mapping[str, Any], status: Mapping[str, Any]) -> str | None:
    """Find an end without episodes, longer than any episode and than a tenth of the steps."""
    n_envs, reached = _environment_count(config), status.get("steps")
    if n_envs is None or not _is_number(reached) or not _has_lengths(file) or len(set(file.envs)) < n_envs:
        # If some environment has not ended an episode, all of them may be long.
        return None
    last = float(file.episodes.steps[-1])
    missing = reached - last
    longest = float(file.lengths.max()) * n_envs
    if missing <= max(longest, reached / PARTS) or _mean_confirms_end(file, config, status):
        return None
    return f"it ends after {last:,.0f} of {reached:,.0f} steps, and no episode in it is as long as what is missing"


def _mean_confirms_end(file: EpisodeFile, config: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Whether the reported mean proves that these are the last episodes; equal returns prove nothing."""
    return (
        status.get("state") == "finished"
        and _is_number(status.get("episode_return"))
        and _find_wrong_mean(file, config, status) is None
        and float(np.ptp(_last_returns(file, config))) > 0
    )


def _last_returns(file: EpisodeFile, config: Mapping[str, Any]) -> Array:
    """The returns in the algorithm's mean at the end of the training."""
    parameters = _mapping(_mapping(config.get("resolved")).get("algo_params"))
    window = parameters.get("stats_window_size")
    return file.episodes.returns[-window if _is_count(window) else -_DEFAULT_WINDOW :]


def _has_lengths(file: EpisodeFile) -> bool:
    return bool(np.isfinite(file.lengths).all() and np.isfinite(file.envs).all())


def _environment_count(config: Mapping[str, Any]) -> int | None:
    n_envs = config.get("n_envs")
    return n_envs if _is_count(n_envs) else None


def _session_starts(origin: Mapping[str, Any]) -> set[float]:
    """The steps at which sessions began; all environments start new episodes there."""
    resumed = origin.get("resumed")
    sessions = [_mapping(session).get("steps") for session in resumed] if isinstance(resumed, list) else []
    return {float(steps) for steps in sessions if _is_number(steps)}


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _INTEGER_LIMIT


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < _INTEGER_LIMIT


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
