"""Putting the runs of archives and directories together: one run for each training, and a name for each run."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from revd.analysis.reading.archive import name_in_archive
from revd.analysis.reading.runs import RecordedRun, sort_key
from revd.analysis.statistics.bins import bin_episodes
from revd.analysis.statistics.grouping import differing_settings


@dataclass(frozen=True, kw_only=True)
class MergedRuns:
    """Runs by name, and those that are left out, since a run of the same training is kept."""

    named: dict[str, RecordedRun]
    left_out: tuple[RecordedRun, ...]


def merge_runs(runs: Sequence[RecordedRun]) -> MergedRuns:
    """Keep one run of each training, and give each a name of its own.

    Of two runs of a training, the finished one is kept, else the one that got further.

    Raises:
        ValueError: Two finished runs of a training have other returns, or a run has the name of one with other
            settings.
    """
    kept: list[RecordedRun] = []
    left_out: list[RecordedRun] = []
    for run in runs:
        place = next((index for index, other in enumerate(kept) if _is_same_training(run, other)), len(kept))
        kept.append(run)
        if place < len(kept) - 1:
            kept[place], other = _ordered(kept[place], kept.pop())
            left_out.append(other)
    return MergedRuns(named=_name(kept), left_out=tuple(left_out))


def _is_same_training(run: RecordedRun, other: RecordedRun) -> bool:
    return _identity(run) == _identity(other) and not differing_settings(run, other)


def _identity(run: RecordedRun) -> tuple[object, ...]:
    return run.task, run.sparse, run.method, run.seed, run.total_steps


def _ordered(run: RecordedRun, other: RecordedRun) -> tuple[RecordedRun, RecordedRun]:
    """Two runs of one training, the better one first."""
    if run.is_comparable and other.is_comparable and not _have_equal_returns(run, other):
        raise ValueError(
            f"{str(run.directory)!r} and {str(other.directory)!r} are finished runs of the same training with other "
            "returns; leave one of them out"
        )
    return (run, other) if _progress(run) >= _progress(other) else (other, run)


def _progress(run: RecordedRun) -> tuple[bool, int, bool]:
    # Of equal runs the archived one is kept, which has its name.
    return run.is_comparable, run.reached, name_in_archive(run.directory) is not None


def _have_equal_returns(run: RecordedRun, other: RecordedRun) -> bool:
    """Whether their bins are equal, up to the digits that an archive keeps."""
    bins, others = (bin_episodes(each.episodes, each.total_steps) for each in (run, other))
    if not (np.array_equal(bins.steps, others.steps) and np.array_equal(bins.counts, others.counts)):
        return False
    return bool(np.allclose(bins.means, others.means, rtol=1e-8, atol=1e-12))


def _name(runs: Sequence[RecordedRun]) -> dict[str, RecordedRun]:
    """Name runs of archives as they were, and others by their path below the directory that holds them all."""
    archived = [(name, run) for run in runs if (name := name_in_archive(run.directory)) is not None]
    others = [run for run in runs if name_in_archive(run.directory) is None]
    root = os.path.commonpath([run.directory.resolve().parent for run in others]) if others else ""
    below = [(Path(os.path.relpath(run.directory.resolve(), root)).as_posix(), run) for run in others]
    named: dict[str, RecordedRun] = {}
    for name, run in [*archived, *below]:
        named[_free_name(name, run, named)] = run
    return dict(sorted(named.items(), key=lambda item: (*sort_key(item[1])[:3], PurePosixPath(item[0]))))


def _free_name(name: str, run: RecordedRun, taken: dict[str, RecordedRun]) -> str:
    """The name, or, if a run of another task, method or seed has it, the name with a number."""
    free, number = name, 2
    while (other := taken.get(free)) is not None:
        if _identity(other) == _identity(run):
            raise ValueError(
                f"{str(run.directory)!r} and {str(other.directory)!r} are the same training by their names, but "
                f"{'; '.join(differing_settings(other, run))}"
            )
        free, number = f"{name}~{number}", number + 1
    return free
