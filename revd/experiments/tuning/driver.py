"""The search itself: asks for trials, runs them, and tells what came of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from revd.experiments.config import TrainConfig
from revd.experiments.launcher import WatchedRun, refuse_another_run
from revd.experiments.launchers.attempts import Backend
from revd.experiments.launchers.local import LocalBackend
from revd.experiments.rundir import RunDirectory, Status
from revd.experiments.termination import interrupt_on_termination
from revd.experiments.tuning.config import TuneConfig
from revd.experiments.tuning.directory import SearchDirectory
from revd.experiments.tuning.journal import Journal, Proposal
from revd.experiments.tuning.parameters import with_values
from revd.experiments.tuning.records import TrialRecord, write_results
from revd.experiments.tuning.scores import PARTS, parts_past, run_scores, trial_scores

#: So many failures one after the other are no fault of the values that were tried.
FAILURES_IN_A_ROW = 5

Watch = Callable[[Sequence[TrialRecord]], None]


class SearchFailedError(RuntimeError):
    """A search that broke off, because one trial after the other failed. It can be gone on with."""


def tune(
    config: TuneConfig, *, watch: Watch, backend: Backend | None = None, interval: float = 0.5
) -> list[TrialRecord]:
    """
    Search, and return how all trials ended, in the order of their numbers.

    Trials are ordinary runs, `jobs` of them at a time. What the directory already holds is gone on with: trials that
    were cut off continue from their checkpoints, those that ended count, and only the missing ones are begun. A trial
    that fails leaves the others alone; a SearchFailedError comes when one after the other does. `watch` sees all trials
    every `interval` seconds. An interrupt ends the running ones, then goes on. `backend` says where runs are started:
    as processes of this machine, if it is not given.
    """
    directory = SearchDirectory(config.directory)
    directory.open(config)
    with interrupt_on_termination(), directory.locked(config):
        journal = Journal(directory.journal, config.space, seed=config.training.seed, prune=config.prune)
        search = _Search(config, directory, journal, LocalBackend() if backend is None else backend)
        with _stopped_at_last(search):
            while True:
                search.advance()
                watch(search.records())
                if not search.open:
                    return search.records()
                time.sleep(interval)


class _Search:
    """The trials that are open, and who is told when they end."""

    def __init__(self, config: TuneConfig, directory: SearchDirectory, journal: Journal, backend: Backend) -> None:
        self._config = config
        self._directory = directory
        self._journal = journal
        self._backend = backend
        self._failures = 0
        self.open = [self._trial(proposal) for proposal in journal.left_open()]
        # A killed process may not have come to it.
        self._write_results()

    def advance(self) -> None:
        """End the trials that are at their end, then start runs as far as there is room."""
        ended = [trial for trial in self.open if trial.ends(self._journal)]
        self.open = [trial for trial in self.open if trial not in ended]
        if ended:
            self._write_results()
        for trial in ended:
            self._count(trial)
        self._start_runs()

    def records(self) -> list[TrialRecord]:
        """All trials as they stand."""
        live = {trial.proposal.number: trial.record() for trial in self.open}
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
        write_results(self._directory.results, self.records(), list(self._config.search))

    def _trial(self, proposal: Proposal) -> _Trial:
        training = with_values(self._config.training, self._config.space, proposal.values)
        runs = self._directory.runs(proposal.number, training, self._config.seeds)
        for run in runs:
            refuse_another_run(run)
        return _Trial(proposal, runs, self._config, self._backend)

    def _count(self, trial: _Trial) -> None:
        self._failures = 0 if trial.error is None else self._failures + 1
        if self._failures == FAILURES_IN_A_ROW:
            raise SearchFailedError(
                f"{self._failures} trials failed one after the other, the last one: {trial.error}; "
                "once the cause is found, the same command goes on"
            )


class _Trial:
    """One open trial and its runs."""

    def __init__(
        self, proposal: Proposal, trainings: Sequence[TrainConfig], config: TuneConfig, backend: Backend
    ) -> None:
        self.proposal = proposal
        self.runs = [WatchedRun(training, backend, config.retries) for training in trainings]
        self.error: str | None = None
        self._directories = [RunDirectory(training.directory) for training in trainings]
        self._config = config
        self._last = config.seeds * PARTS
        self._past: list[int] = []
        self._steps = 0

    def record(self) -> TrialRecord:
        """How it stands."""
        proposal = self.proposal
        return TrialRecord(
            number=proposal.number, state="running", values=proposal.values, score=proposal.score, steps=self._steps
        )

    def ends(self, journal: Journal) -> bool:
        """Report what is new; end the trial, if it is time to, and say so."""
        # In this order: what a run says last is in its status once it has ended.
        over = [run.ended for run in self.runs]
        statuses = [run.look().status for run in self.runs]
        self._steps = sum(status.steps for status in statuses)
        broken = [status for ended, status in zip(over, statuses, strict=True) if ended and status.state != "finished"]
        if self.proposal.reports(self._new_scores(statuses)):
            journal.prune(self.proposal, steps=self._steps)
        elif broken:
            self._fail(journal, broken[0].error or f"it was {broken[0].state}")
        elif all(over):
            self._complete(journal)
        else:
            return False
        self.ask_to_stop()
        self.stop()
        return True

    def ask_to_stop(self) -> None:
        """Let its runs know that they are to end."""
        for run in self.runs:
            run.ask_to_stop()

    def stop(self) -> None:
        """Wait until they have."""
        for run in self.runs:
            run.stop()

    def _new_scores(self, statuses: Sequence[Status]) -> dict[int, float]:
        """Those on the way, if there may be new ones: files grow long, and are not read for nothing."""
        past = [parts_past(status.steps, self._config.training.steps) for status in statuses]
        if past == self._past:
            return {}
        self._past = past
        return {part: score for part, score in self._scores().items() if part < self._last}

    def _scores(self) -> dict[int, float]:
        steps, metric = self._config.training.steps, self._config.metric
        return trial_scores([run_scores(directory, steps, metric) for directory in self._directories])

    def _complete(self, journal: Journal) -> None:
        score = self._scores().get(self._last)
        if score is None:
            self._fail(journal, f"no episode ended within {self._config.training.steps:,} steps; it takes more --steps")
        else:
            journal.complete(self.proposal, score, steps=self._steps)

    def _fail(self, journal: Journal, error: str) -> None:
        self.error = error
        journal.fail(self.proposal, error, steps=self._steps)


@contextmanager
def _stopped_at_last(search: _Search) -> Iterator[None]:
    try:
        yield
    finally:
        for trial in search.open:
            trial.ask_to_stop()
        for trial in search.open:
            trial.stop()
