"""The directory of a search: description, journal, results, and the runs of all trials."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory, write_json
from revd.storage.atomic import leftovers
from revd.storage.plain_file import read_plain_text
from revd.tuning.config import TuneConfig

#: The error in the status of the runs of a pruned trial.
PRUNED_MESSAGE = "stopped by the search: other trials did better"


class SearchDirectory:
    """The paths of one search, and its description."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Not config.json, because that would mark a run.
        self.description = path / "study.json"
        self.journal = path / "study.journal"
        self.results = path / "results.csv"
        self.trials = path / "trials"

    def open(self, config: TuneConfig) -> None:
        """Check that the directory holds no other search; a FileExistsError says what differs."""
        if self.path.exists() and not self.path.is_dir():
            raise FileExistsError(f"output {str(self.path)!r} is a file; it must be a directory")
        if RunDirectory(self.path).config.exists():
            raise FileExistsError(f"output {str(self.path)!r} holds a run, not a search; choose another --output")
        if self.journal.exists() and not self.description.exists():
            raise FileExistsError(
                f"{str(self.journal)!r} holds trials, but {self.description.name} beside it, which describes the "
                "search, is missing; restore it, or choose another directory with --output"
            )
        differences = self._differences(config)
        if differences:
            raise FileExistsError(
                f"output {str(self.path)!r} already holds another search ({'; '.join(differences)}); "
                "choose another directory with --output"
            )

    @contextmanager
    def locked(self, config: TuneConfig) -> Iterator[None]:
        """Lock the directory and write the description.

        A FileExistsError names another process that holds the lock.
        """
        with RunDirectory(self.path).locked():
            # Check again: another process may have written before the lock was taken.
            self.open(config)
            for path in leftovers(self.path):
                path.unlink()
            with name_file_in_errors(self.description):
                write_json(self.description, _describe(config))
            yield

    def runs(self, number: int, training: TrainConfig, seeds: int) -> list[TrainConfig]:
        """The runs of a trial. All trials have the same seeds, so that they can be compared."""
        runs = [
            replace(training, seed=seed, output=self.trials / f"{number:04d}" / f"seed{seed}")
            for seed in range(training.seed, training.seed + seeds)
        ]
        for run in runs:
            if not run.directory.resolve().is_relative_to(self.path.resolve()):
                raise ValueError(f"a symbolic link leads the run {str(run.directory)!r} out of {str(self.path)!r}")
        return runs

    def _differences(self, config: TuneConfig) -> list[str]:
        if not self.description.exists():
            return []
        try:
            stored: dict[str, Any] = json.loads(read_plain_text(self.description))
            training = TrainConfig.from_dict(stored["training"])
            search = dict(stored["search"])
            values = {"steps": training.steps, "seeds": stored["seeds"], "metric": stored["metric"]}
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError, OSError) as error:
            raise ValueError(f"{str(self.description)!r} is damaged or does not describe a search: {error}") from error
        here = config.search
        found = training.differences(config.training)
        found += [
            f"{name} is {value!r} there and {now!r} here"
            for name, value in values.items()
            if value != (now := config.training.steps if name == "steps" else getattr(config, name))
        ]
        return found + [
            f"search has {search.get(name, 'no ' + name)} there and {here.get(name, 'no ' + name)} here"
            for name in {**search, **here}
            if search.get(name) != here.get(name)
        ]


@contextmanager
def name_file_in_errors(path: Path) -> Iterator[None]:
    """Set the file name of errors: the system gives none, or the name of a temporary file."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def mark_pruned(directory: RunDirectory) -> None:
    """Write into the status of a stopped run that it was pruned.

    Ignore errors, because the table has it, too.
    """
    status = directory.read_status()
    if status is None or status.state == "finished":
        return
    with suppress(OSError, ValueError), directory.locked(takeover_after=None):
        directory.finish(replace(status, state="interrupted", error=PRUNED_MESSAGE))


def _describe(config: TuneConfig) -> dict[str, Any]:
    return {
        "training": {**config.training.to_dict(), "output": None},
        "search": config.search,
        "seeds": config.seeds,
        "metric": config.metric,
    }
