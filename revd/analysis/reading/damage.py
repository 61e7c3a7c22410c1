"""
Whether the rows of `episodes.csv` are all that a training wrote.

Rows say when an episode ended and how long it was, so that each must begin where its environment's last one ended, or
where a session began. Of a finished run, `status.json` has the mean of the last returns as the algorithm saw them.
"""

import math
from collections.abc import Mapping
from typing import Any, TypeGuard

import numpy as np

from revd.episodes import PARTS, Array, EpisodeFile

#: Episodes over which Stable-Baselines3 takes its mean, unless it was told otherwise.
_USUAL_WINDOW = 100
_TOO_MANY = 2**63


def find_damage(
    file: EpisodeFile, *, config: Mapping[str, Any], status: Mapping[str, Any], origin: Mapping[str, Any]
) -> str | None:
    """What is wrong with the episodes of a run, in one sentence; None if nothing is known to be.

    Args:
        file: The episodes.
        config: What `config.json` says.
        status: What `status.json` says.
        origin: What `run.json` says.
    """
    finished = status.get("state") == "finished"
    return (
        _bad_rows(file)
        or (_cut_row(file) if finished else None)
        or _gap(file, config, origin)
        or (_other_mean(file, config, status) if finished else None)
        or _missing_end(file, config, status)
    )


def _bad_rows(file: EpisodeFile) -> str | None:
    more = len(file.faults) - 1
    return file.faults[0] + (f", and {more:,} more like it" if more > 0 else "") if file.faults else None


def _cut_row(file: EpisodeFile) -> str | None:
    return "its last line is cut off" if file.is_cut else None


def _gap(file: EpisodeFile, config: Mapping[str, Any], origin: Mapping[str, Any]) -> str | None:
    """An episode that begins after its environment's last one ended, though no session began there."""
    n_envs, sessions = _environments(config), _sessions(origin)
    if n_envs is None or not origin or not _tells_lengths(file):
        return None
    ends: dict[float, float] = {}
    for line, env, end, length in zip(file.lines, file.envs, file.episodes.steps, file.lengths, strict=True):
        start, last = end - length * n_envs, ends.get(env, 0.0)
        if end <= last:
            return f"line {line} is a second episode of environment {env:g} that ended after {end:,.0f} steps"
        if start > last and start not in sessions:
            return (
                f"rows are missing before line {line}: nothing is known of environment {env:g} from {last:,.0f} to "
                f"{start:,.0f} steps"
            )
        ends[env] = end
    return None


def _other_mean(file: EpisodeFile, config: Mapping[str, Any], status: Mapping[str, Any]) -> str | None:
    """Whether the last episodes are not those whose mean the training itself reported."""
    reported = status.get("episode_return")
    if not _is_number(reported):
        return None
    latest = _latest(file, config)
    if not len(latest):
        return f"it has no episodes, though status.json has a mean return of {reported:,.1f}"
    found = float(latest.mean())
    if math.isclose(found, reported, rel_tol=1e-6, abs_tol=1e-6):
        return None
    return (
        f"its last {len(latest):,} returns have the mean {found:,.1f}, but at the end of the training it was "
        f"{reported:,.1f} (status.json)"
    )


def _missing_end(file: EpisodeFile, config: Mapping[str, Any], status: Mapping[str, Any]) -> str | None:
    """Whether it says nothing of more steps before the end than any of its episodes took, and than a tenth."""
    n_envs, reached = _environments(config), status.get("steps")
    if n_envs is None or not _is_number(reached) or not _tells_lengths(file) or len(set(file.envs)) < n_envs:
        # Where not every environment has ended an episode, all of them may be long.
        return None
    last = float(file.episodes.steps[-1])
    silent = reached - last
    if silent <= max(float(file.lengths.max()) * n_envs, reached / PARTS) or _is_vouched_for(file, config, status):
        return None
    return f"it ends after {last:,.0f} of {reached:,.0f} steps, and no episode in it is as long as what is missing"


def _is_vouched_for(file: EpisodeFile, config: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Whether the reported mean says that these are the last episodes; one of equal returns says nothing."""
    return (
        status.get("state") == "finished"
        and _is_number(status.get("episode_return"))
        and _other_mean(file, config, status) is None
        and float(np.ptp(_latest(file, config))) > 0
    )


def _latest(file: EpisodeFile, config: Mapping[str, Any]) -> Array:
    """The returns over which the algorithm took its mean at the end."""
    parameters = _mapping(_mapping(config.get("resolved")).get("algo_params"))
    window = parameters.get("stats_window_size")
    return file.episodes.returns[-window if _is_count(window) else -_USUAL_WINDOW :]


def _tells_lengths(file: EpisodeFile) -> bool:
    return bool(np.isfinite(file.lengths).all() and np.isfinite(file.envs).all())


def _environments(config: Mapping[str, Any]) -> int | None:
    n_envs = config.get("n_envs")
    return n_envs if _is_count(n_envs) else None


def _sessions(origin: Mapping[str, Any]) -> set[float]:
    """The steps at which sessions began, and with them the episodes of all environments."""
    resumed = origin.get("resumed")
    sessions = [_mapping(session).get("steps") for session in resumed] if isinstance(resumed, list) else []
    return {float(steps) for steps in sessions if _is_number(steps)}


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _TOO_MANY


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < _TOO_MANY


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
