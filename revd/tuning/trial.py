"""One trial of a search while it is open: its runs, what they are worth so far, and how it ends."""

from __future__ import annotations

from collections.abc import Sequence

from revd.episodes import PARTS
from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory, Status
from revd.suites.backends.interface import Backend
from revd.suites.scheduler import ScheduledRun
from revd.tuning.config import TuneConfig
from revd.tuning.directory import note_pruned
from revd.tuning.journal import Journal, Proposal
from revd.tuning.records import TrialRecord
from revd.tuning.scores import parts_past, run_scores, trial_scores


class OpenTrial:
    """A trial that this process runs.

    Args:
        proposal: What is tried.
        trainings: Its runs.
        config: The search that it belongs to.
        backend: Where its runs are started.

    Attributes:
        error: Why it has failed; None while it has not.
    """

    def __init__(
        self, proposal: Proposal, trainings: Sequence[TrainConfig], config: TuneConfig, backend: Backend
    ) -> None:
        self.proposal = proposal
        self.runs = [ScheduledRun(training, backend, config.retries) for training in trainings]
        self.error: str | None = None
        self._directories = [RunDirectory(training.directory) for training in trainings]
        self._config = config
        self._last = config.seeds * PARTS
        self._past: list[int] = []
        self._steps = 0

    def record(self) -> TrialRecord:
        """How it stands."""
        return TrialRecord(
            number=self.proposal.number,
            state="running" if self.error is None else "failed",
            values=self.proposal.values,
            score=self.proposal.score,
            steps=self._steps,
            error=self.error,
        )

    def ends(self, journal: Journal) -> bool:
        """Report what is new; end the trial, if it is time to, and say so."""
        # In this order: what a run says last is in its status once it has ended.
        over = [run.ended for run in self.runs]
        statuses = self._look()
        broken = [status for ended, status in zip(over, statuses, strict=True) if ended and status.state != "finished"]
        if journal.reports(self.proposal, self._new_scores(statuses)):
            self._prune(journal)
        elif broken:
            self._fail(broken[0].error or f"it was {broken[0].state}")
        elif all(over):
            self._complete(journal)
        else:
            return False
        return True

    def ask_to_stop(self) -> None:
        """Let its runs know that they are to end."""
        for run in self.runs:
            run.ask_to_stop()

    def stop(self) -> None:
        """Wait until they have."""
        for run in self.runs:
            run.stop()

    def _look(self) -> list[Status]:
        statuses = [run.progress().status for run in self.runs]
        self._steps = sum(status.steps for status in statuses)
        return statuses

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

    def _prune(self, journal: Journal) -> None:
        """Told last: whoever is killed before it comes to the same decision again."""
        self._stop_at_once()
        for directory in self._directories:
            note_pruned(directory)
        self._look()
        journal.prune(self.proposal, steps=self._steps)

    def _complete(self, journal: Journal) -> None:
        self.stop()
        scores = self._scores()
        score = scores.pop(self._last, None)
        if score is None:
            self._fail(f"no episode ended within {self._config.training.steps:,} steps; it takes more --steps")
        else:
            journal.complete(self.proposal, score, scores, steps=self._steps)

    def _fail(self, error: str) -> None:
        """Known to this process alone: the next one takes the trial up again."""
        self._stop_at_once()
        self.error = error

    def _stop_at_once(self) -> None:
        self.ask_to_stop()
        self.stop()
