"""A running trial of a search: its runs, its scores so far, and its end."""

from __future__ import annotations

from collections.abc import Sequence

from revd.episodes import PARTS
from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory, Status
from revd.suites.launchers.interface import Launcher
from revd.suites.scheduler import ScheduledRun
from revd.tuning.config import TuneConfig
from revd.tuning.directory import mark_pruned
from revd.tuning.journal import Journal, JournalTrial
from revd.tuning.records import TrialRecord
from revd.tuning.scores import passed_parts, run_scores, trial_scores


class RunningTrial:
    """A trial that this process runs.

    Args:
        entry: The trial in the journal.
        trainings: Its runs.
        config: The search.
        launcher: Where its runs are started.

    Attributes:
        error: Why it has failed; None if it has not.
    """

    def __init__(
        self, entry: JournalTrial, trainings: Sequence[TrainConfig], config: TuneConfig, launcher: Launcher
    ) -> None:
        self.entry = entry
        self.runs = [ScheduledRun(training, launcher, config.retries) for training in trainings]
        self.error: str | None = None
        self._directories = [RunDirectory(training.directory) for training in trainings]
        self._config = config
        self._last = config.seeds * PARTS
        self._passed: list[int] = []
        self._steps = 0

    def record(self) -> TrialRecord:
        """The current record of the trial."""
        return TrialRecord(
            number=self.entry.number,
            state="running" if self.error is None else "failed",
            values=self.entry.values,
            score=self.entry.score,
            steps=self._steps,
            error=self.error,
        )

    def advance(self, journal: Journal) -> bool:
        """Store new scores, and end the trial if it is done; return whether it has ended."""
        # The statuses are read after this, because a run writes its last status before it ends.
        over = [run.ended for run in self.runs]
        statuses = self._read_statuses()
        broken = [status for ended, status in zip(over, statuses, strict=True) if ended and status.state != "finished"]
        if journal.should_prune(self.entry, self._new_scores(statuses)):
            self._prune(journal)
        elif broken:
            self._fail(broken[0].error or f"it was {broken[0].state}")
        elif all(over):
            self._complete(journal)
        else:
            return False
        return True

    def ask_to_stop(self) -> None:
        """Ask its runs to stop."""
        for run in self.runs:
            run.ask_to_stop()

    def stop(self) -> None:
        """Wait until its runs have stopped."""
        for run in self.runs:
            run.stop()

    def _read_statuses(self) -> list[Status]:
        statuses = [run.progress().status for run in self.runs]
        self._steps = sum(status.steps for status in statuses)
        return statuses

    def _new_scores(self, statuses: Sequence[Status]) -> dict[int, float]:
        """The scores before the last part.

        Empty if no run has passed a new part, to avoid reading long files.
        """
        passed = [passed_parts(status.steps, self._config.training.steps) for status in statuses]
        if passed == self._passed:
            return {}
        self._passed = passed
        return {part: score for part, score in self._scores().items() if part < self._last}

    def _scores(self) -> dict[int, float]:
        steps, metric = self._config.training.steps, self._config.metric
        return trial_scores([run_scores(directory, steps, metric) for directory in self._directories])

    def _prune(self, journal: Journal) -> None:
        """The journal is written last, so that a process killed before that decides the same again."""
        self._stop_at_once()
        for directory in self._directories:
            mark_pruned(directory)
        self._read_statuses()
        journal.prune(self.entry, steps=self._steps)

    def _complete(self, journal: Journal) -> None:
        self.stop()
        scores = self._scores()
        score = scores.pop(self._last, None)
        if score is None:
            self._fail(
                f"no episode ended within {self._config.training.steps:,} steps; use more --steps and another --output"
            )
        else:
            journal.complete(self.entry, score, scores, steps=self._steps)

    def _fail(self, error: str) -> None:
        """Only this process knows of the failure; the next one resumes the trial."""
        self._stop_at_once()
        self.error = error

    def _stop_at_once(self) -> None:
        self.ask_to_stop()
        self.stop()
