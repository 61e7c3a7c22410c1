"""Running a search: begins trials, starts their runs, and records the results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from revd.runs.termination import interrupt_on_termination
from revd.storage.atomic import is_full_disk
from revd.suites.launchers.interface import Launcher
from revd.suites.launchers.local import WORKER, LocalLauncher
from revd.tuning.config import TuneConfig
from revd.tuning.directory import SearchDirectory, name_file_in_errors
from revd.tuning.journal import Journal, JournalTrial
from revd.tuning.parameters import with_values
from revd.tuning.records import TrialRecord, write_results
from revd.tuning.trial import RunningTrial

#: A search fails after this many consecutive failures, because the tried values are not their cause.
MAX_CONSECUTIVE_FAILURES = 5
#: How long to wait for a run that a worker of a killed driver still holds; that worker stops by itself.
LEASE_WAIT_SECONDS = 120.0

Watch = Callable[[Sequence[TrialRecord]], None]


class SearchFailedError(RuntimeError):
    """A search has failed.

    Too many consecutive trials failed, or the disk is full. The search can be resumed.

    Attributes:
        records: The trials at that time.
    """

    def __init__(self, message: str, records: Sequence[TrialRecord]) -> None:
        super().__init__(message)
        self.records = records


def tune(
    config: TuneConfig, *, watch: Watch, launcher: Launcher | None = None, interval: float = 0.5
) -> list[TrialRecord]:
    """Search, and return the records of all trials in the order of their numbers.

    A search in the same directory is resumed: interrupted and failed trials continue from their checkpoints, and only
    missing trials are begun. A failed trial does not affect the others. An interrupt stops the running trials before it
    is raised.

    Args:
        config: The search.
        watch: Called with the records of all trials every `interval` seconds.
        launcher: Where runs are started; by default as processes of this machine.
        interval: Seconds between two looks at the runs.

    Raises:
        SearchFailedError: Too many consecutive trials failed, or the disk is full.
    """
    directory = SearchDirectory(config.directory)
    directory.open(config)
    search: _Search | None = None
    try:
        with interrupt_on_termination(), directory.locked(config):
            search = _Search(config, directory, launcher or local_launcher())
            return _run(search, watch, interval)
    except OSError as error:
        if not is_full_disk(error):
            raise
        raise SearchFailedError(
            f"the disk of {str(directory.path)!r} is full: {error}; free some space, then run the same "
            "command to resume",
            search.records() if search else [],
        ) from error


def local_launcher() -> Launcher:
    """Processes of this machine, which wait for runs that workers of a killed driver still hold."""
    return LocalLauncher((*WORKER, "--wait", str(LEASE_WAIT_SECONDS)))


def _run(search: _Search, watch: Watch, interval: float) -> list[TrialRecord]:
    with _stop_on_exit(search):
        while True:
            search.advance()
            watch(search.records())
            if not search.open:
                return search.records()
            time.sleep(interval)


class _Search:
    """The state of a search: its running and failed trials, and its journal."""

    def __init__(self, config: TuneConfig, directory: SearchDirectory, launcher: Launcher) -> None:
        self._config = config
        self._directory = directory
        self._launcher = launcher
        self._journal = Journal(directory.journal, config.space, seed=config.training.seed, prune=config.prune)
        self._failures = 0
        # They stay unfinished in the journal, so that the same command resumes them.
        self._failed: list[RunningTrial] = []
        self.open = [self._open_trial(entry) for entry in self._journal.unfinished()]
        self._resumed = list(self.open)
        # A killed process may not have written them.
        self._write_results()

    def advance(self) -> None:
        """End trials that are done, then start runs up to the number of jobs."""
        ended = [trial for trial in self.open if trial.advance(self._journal)]
        self.open = [trial for trial in self.open if trial not in ended]
        self._failed += [trial for trial in ended if trial.error is not None]
        if ended:
            self._write_results()
        for trial in ended:
            self._count_failures(trial)
        self._start_runs()

    def records(self) -> list[TrialRecord]:
        """The current records of all trials."""
        live = {trial.entry.number: trial.record() for trial in (*self.open, *self._failed)}
        return [live.get(record.number, record) for record in self._journal.records()]

    def _start_runs(self) -> None:
        """Start the runs of open trials before new trials, so that few trials are open at a time."""
        free = self._config.jobs - sum(run.running for trial in self.open for run in trial.runs)
        while free > 0:
            waiting = [run for trial in self.open for run in trial.runs if run.waits]
            if not waiting and len(self._journal) < self._config.trials:
                self.open.append(self._open_trial(self._journal.begin()))
                waiting = [run for run in self.open[-1].runs if run.waits]
            if not waiting:
                return
            waiting[0].start()
            free -= 1

    def _write_results(self) -> None:
        with name_file_in_errors(self._directory.results):
            write_results(self._directory.results, self.records(), list(self._config.search))

    def _open_trial(self, entry: JournalTrial) -> RunningTrial:
        training = with_values(self._config.training, self._config.space, entry.values)
        runs = self._directory.runs(entry.number, training, self._config.seeds)
        return RunningTrial(entry, runs, self._config, self._launcher)

    def _count_failures(self, trial: RunningTrial) -> None:
        self._failures = 0 if trial.error is None else self._failures + 1
        if self._failures < MAX_CONSECUTIVE_FAILURES:
            return
        # If other trials have ended, the resumed trials that fail again may just have values that do not work.
        none_ended = all(record.state in ("running", "failed") for record in self._journal.records())
        if trial not in self._resumed or none_ended:
            raise SearchFailedError(
                f"{self._failures} consecutive trials failed, the last one: {trial.error}; "
                "fix the cause, then run the same command to resume them",
                self.records(),
            )


@contextmanager
def _stop_on_exit(search: _Search) -> Iterator[None]:
    try:
        yield
    finally:
        for trial in search.open:
            trial.ask_to_stop()
        for trial in search.open:
            trial.stop()
