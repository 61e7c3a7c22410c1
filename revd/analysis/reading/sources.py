"""Finding runs in directories and archives."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from revd.analysis.reading.archive import ENDING, is_archive, read_archive
from revd.analysis.reading.runs import RecordedRun, load_run, sort_key
from revd.storage.run_files import CONFIG


@dataclass(frozen=True, kw_only=True)
class FoundRuns:
    """Runs, and a message for each directory that looks like a run and could not be read."""

    runs: tuple[RecordedRun, ...]
    unreadable: tuple[str, ...] = ()


def find_runs(paths: Sequence[Path]) -> FoundRuns:
    """Load all runs in archives, and at or below directories, each once.

    A ValueError names a path that does not exist, lists the paths if there are no runs, or says what is wrong with an
    archive.
    """
    archives = {path.resolve(): path for path in paths if is_archive(path)}
    directories = {file.parent.resolve(): file.parent for path in paths for file in path.rglob(CONFIG)}
    runs = [run for path in archives.values() for run in read_archive(path)]
    unreadable = []
    for directory in sorted(directories.values()):
        try:
            runs.append(load_run(directory))
        except ValueError as error:
            unreadable.append(str(error))
    if not runs:
        raise ValueError("; ".join([f"no runs found: {_describe_paths(paths)}", *unreadable]))
    missing = [path for path in paths if not path.exists()]
    if missing:
        # A table of the others would pass for the whole.
        raise ValueError(f"no runs found: {_describe_paths(missing)}")
    return FoundRuns(runs=tuple(sorted(runs, key=sort_key)), unreadable=tuple(unreadable))


def _describe_paths(paths: Sequence[Path]) -> str:
    return ", ".join(f"{str(path)!r} {_why_no_runs(path)}" for path in paths) or "no directory was given"


def _why_no_runs(path: Path) -> str:
    if not path.exists():
        return "does not exist"
    if path.is_dir():
        return f"holds no {CONFIG} at any depth"
    return f"is neither a directory nor an archive of runs (*{ENDING})"
