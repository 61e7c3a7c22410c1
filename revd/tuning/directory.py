"""The directory of a search: what is searched, the trials as Optuna knows them, a run for each seed of each."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory, write_json
from revd.storage.atomic import leftovers
from revd.tuning.config import TuneConfig

#: What a run says that was not stopped by the user.
PRUNED = "stopped by the search: other trials did better"


class SearchDirectory:
    """Paths of one search, and what it was made for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Not config.json, which means a run to whoever looks for some.
        self.description = path / "study.json"
        self.journal = path / "study.journal"
        self.results = path / "results.csv"
        self.trials = path / "trials"

    def open(self, config: TuneConfig) -> None:
        """Refuse a directory that holds another search: its trials would be compared with those of this one."""
        if self.path.exists() and not self.path.is_dir():
            raise FileExistsError(f"output {str(self.path)!r} is a file; it must be a directory")
        if RunDirectory(self.path).config.exists():
            raise FileExistsError(f"output {str(self.path)!r} holds a run, and no search; choose another --output")
        if self.journal.exists() and not self.description.exists():
            raise FileExistsError(
                f"{str(self.journal)!r} holds trials, but {self.description.name} beside it, which says what was "
                "searched, is gone; put it back, or choose another directory with --output"
            )
        differences = self._differences(config)
        if differences:
            raise FileExistsError(
                f"output {str(self.path)!r} already holds another search ({'; '.join(differences)}); "
                "choose another directory with --output"
            )

    @contextmanager
    def locked(self, config: TuneConfig) -> Iterator[None]:
        """Keep the search to this process, and write down what it is. A FileExistsError says who else is at work."""
        with RunDirectory(self.path).locked():
            # Asked again, now that nobody else can write here.
            self.open(config)
            for path in leftovers(self.path):
                path.unlink()
            with naming(self.description):
                write_json(self.description, _describe(config))
            yield

    def runs(self, number: int, training: TrainConfig, seeds: int) -> list[TrainConfig]:
        """The runs of a trial, with the same seeds as those of all others: what differs is not luck alone."""
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
            there: dict[str, Any] = json.loads(self.description.read_text())
            training = TrainConfig.from_dict(there["training"])
            search = dict(there["search"])
            values = {"steps": training.steps, "seeds": there["seeds"], "metric": there["metric"]}
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError, OSError) as error:
            raise ValueError(f"{str(self.description)!r} is damaged or describes no search: {error}") from error
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
def naming(path: Path) -> Iterator[None]:
    """Have errors name the file that was to be written: the system does not, or knows a temporary name."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def note_pruned(directory: RunDirectory) -> None:
    """Say in a run that was stopped why it was; left undone if that cannot be written, since the table says it too."""
    status = directory.read_status()
    if status is None or status.state == "finished":
        return
    with suppress(OSError, ValueError), directory.locked(takeover_after=None):
        directory.finish(replace(status, state="interrupted", error=PRUNED))


def _describe(config: TuneConfig) -> dict[str, Any]:
    return {
        "training": {**config.training.to_dict(), "output": None},
        "search": config.search,
        "seeds": config.seeds,
        "metric": config.metric,
    }
