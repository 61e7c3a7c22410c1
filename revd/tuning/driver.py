"""The search itself: asks for trials, runs them, and tells what came of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from revd.runs.termination import interrupt_on_termination
from revd.storage.atomic import is_full_disk
from revd.suites.backends.interface import Backend
from revd.suites.backends.local import WORKER, LocalBackend
from revd.tuning.config import TuneConfig
from revd.tuning.directory import SearchDirectory, naming
from revd.tuning.journal import Journal, Proposal
from revd.tuning.parameters import with_values
from revd.tuning.records import TrialRecord, write_results
from revd.tuning.trial import OpenTrial

#: So many failures one after the other are no fault of the values that were tried.
FAILURES_IN_A_ROW = 5
#: How long a run is waited for that a worker of a killed driver still has; it ends once it knows.
SECONDS_OF_PATIENCE = 120.0

Watch = Callable[[Sequence[TrialRecord]], None]


class SearchFailedError(RuntimeError):
    """A search that broke off: one trial after the other failed, or the disk is full. It can be gone on with.

    Attributes:
        records: How its trials stood.
    """

    def __init__(self, message: str, records: Sequence[TrialRecord]) -> None:
        super().__init__(message)
        self.records = records


def tune(
    config: TuneConfig, *, watch: Watch, backend: Backend | None = None, interval: float = 0.5
) -> list[TrialRecord]:
    """
    Search, and return how all trials ended, in the order of their numbers.

    Trials are ordinary runs, `jobs` of them at a time. What the directory already holds is gone on with: trials that
    were cut off or failed continue from their checkpoints, those that ended count, and only the missing ones are begun.
    A trial that fails leaves the others alone; a SearchFailedError comes when one after the other does, or when there
    is no room for what the search itself writes. `watch` sees all trials every `interval` seconds. An interrupt ends
    the running ones, then goes on. `backend` says where runs are started: as processes of this machine, if it is not
    given.
    """
    directory = SearchDirectory(config.directory)
    directory.open(config)
    search: _Search | None = None
    try:
        with interrupt_on_termination(), directory.locked(config):
            search = _Search(config, directory, backend or local_backend())
            return _run(search, watch, interval)
    except OSError as error:
        if not is_full_disk(error):
            raise
        raise SearchFailedError(
            f"the disk of {str(directory.path)!r} is full: {error}; once there is room, the same command goes on",
            search.records() if search else [],
        ) from error


def local_backend() -> Backend:
    """Processes of this machine that wait for those of a driver that was killed."""
    return LocalBackend((*WORKER, "--wait", str(SECONDS_OF_PATIENCE)))


def _run(search: _Search, watch: Watch, interval: float) -> list[TrialRecord]:
    with _stopped_at_last(search):
        while True:
            search.advance()
            watch(search.records())
            if not search.open:
                return search.records()
            time.sleep(interval)


class _Search:
    """The trials that are open, those that failed, and who is told when they end."""

    def __init__(self, config: TuneConfig, directory: SearchDirectory, backend: Backend) -> None:
        self._config = config
        self._directory = directory
        self._backend = backend
        self._journal = Journal(directory.journal, config.space, seed=config.training.seed, prune=config.prune)
        self._failures = 0
        # In the journal they stay open, so that the same command takes them up again.
        self._failed: list[OpenTrial] = []
        self.open = [self._trial(proposal) for proposal in self._journal.left_open()]
        self._taken_up = list(self.open)
        # A killed process may not have come to it.
        self._write_results()

    def advance(self) -> None:
        """End the trials that are at their end, then start runs as far as there is room."""
        ended = [trial for trial in self.open if trial.ends(self._journal)]
        self.open = [trial for trial in self.open if trial not in ended]
        self._failed += [trial for trial in ended if trial.error is not None]
        if ended:
            self._write_results()
        for trial in ended:
            self._count(trial)
        self._start_runs()

    def records(self) -> list[TrialRecord]:
        """All trials as they stand."""
        live = {trial.proposal.number: trial.record() for trial in (*self.open, *self._failed)}
        return [live.get(record.number, record) for record in self._journal.records()]

    def _start_runs(self) -> None:
        """The runs of open trials come before new trials, so that few are open at a time."""
        free = self._config.jobs - sum(run.running for trial in self.open for run in trial.runs)
        while free > 0:
            waiting = [run for trial in self.open for run in trial.runs if run.waits]
            if not waiting and len(self._journal) < self._config.trials:
                self.open.append(self._trial(self._journal.begin()))
                waiting = [run for run in self.open[-1].runs if run.waits]
            if not waiting:
                return
            waiting[0].start()
            free -= 1

    def _write_results(self) -> None:
        with naming(self._directory.results):
            write_results(self._directory.results, self.records(), list(self._config.search))

    def _trial(self, proposal: Proposal) -> OpenTrial:
        training = with_values(self._config.training, self._config.space, proposal.values)
        runs = self._directory.runs(proposal.number, training, self._config.seeds)
        return OpenTrial(proposal, runs, self._config, self._backend)

    def _count(self, trial: OpenTrial) -> None:
        self._failures = 0 if trial.error is None else self._failures + 1
        if self._failures < FAILURES_IN_A_ROW:
            return
        # Where others have ended, those that fail again may be the few whose values do not work.
        if trial not in self._taken_up or all(one.state in ("running", "failed") for one in self._journal.records()):
            raise SearchFailedError(
                f"{self._failures} trials failed one after the other, the last one: {trial.error}; "
                "once the cause is found, the same command goes on with them",
                self.records(),
            )


@contextmanager
def _stopped_at_last(search: _Search) -> Iterator[None]:
    try:
        yield
    finally:
        for trial in search.open:
            trial.ask_to_stop()
        for trial in search.open:
            trial.stop()
