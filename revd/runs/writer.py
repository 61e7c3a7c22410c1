"""Writes the logs, the status and the checkpoints of a run while it trains."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from revd.coverage.state import write_visits
from revd.runs.directory import RunDirectory, Status
from revd.storage.csv_file import CsvFile, Limit
from revd.storage.run_files import EPISODE_COLUMNS, EVALUATION_COLUMNS, STEPS_COLUMN
from revd.training.csv_log import STEPS
from revd.training.progress import mean_return
from revd.training.session import Listeners
from revd.training.snapshot import visits_of

if TYPE_CHECKING:
    from revd.runs.config import TrainConfig
    from revd.runs.lease import Lease
    from revd.training.evaluation import EvaluationResult
    from revd.training.progress import Episode, Progress
    from revd.training.session import Training
    from revd.training.snapshot import Snapshot

Report = Callable[["Progress"], None]

# A rollout may take milliseconds, and people read the status.
SECONDS_BETWEEN_STATUSES = 0.5


@dataclass(frozen=True, kw_only=True)
class OpenLogs:
    """The open logs of a session, and the listeners that write them."""

    progress: CsvFile
    listeners: Listeners


class RunWriter:
    """Writes a session's logs, status and checkpoints, and reports its progress.

    Args:
        config: The training.
        run: Its directory, started.
        lease: The lease of the directory; checked before files are replaced.
        report: Called after each rollout.
        training: The training before the session's first step.
    """

    def __init__(
        self, config: TrainConfig, run: RunDirectory, lease: Lease, report: Report | None, training: Training
    ) -> None:
        self.status = Status(
            state="running",
            steps=training.steps,
            total_steps=config.steps,
            episode_return=mean_return(training.model),
        )
        self._steps_before = training.steps
        self._config = config
        self._run = run
        self._lease = lease
        self._report = report
        self._status_time = -SECONDS_BETWEEN_STATUSES

    @contextmanager
    def open_logs(self, steps: int) -> Iterator[OpenLogs]:
        """Open the logs without rows after `steps`, those of the checkpoint, so that no step is counted twice."""
        with ExitStack() as stack:
            progress = stack.enter_context(self._open(self._run.progress, [STEPS], Limit(STEPS, steps)))
            episodes = stack.enter_context(self._open(self._run.episodes, EPISODE_COLUMNS, Limit(STEPS_COLUMN, steps)))
            _warn_of_lost_rows(self._run, progress, steps)
            yield OpenLogs(progress=progress, listeners=self._listeners(progress, episodes, steps))

    def final_status(self, training: Training) -> Status:
        """The status of the finished run, with this session's speed and how its time was spent."""
        seconds, steps = training.seconds, training.steps - self._steps_before
        if not steps:
            # An earlier session took all steps and failed afterwards.
            return replace(self.status, state="finished")
        return replace(self.status, state="finished", steps_per_second=steps / seconds.total, seconds=asdict(seconds))

    def _open(self, path: Path, columns: Sequence[str], until: Limit | None = None) -> closing[CsvFile]:
        return closing(CsvFile(path, columns, until=until, before_replacing=self._lease.check))

    def _listeners(self, progress: CsvFile, episodes: CsvFile, steps: int) -> Listeners:
        def on_episode(episode: Episode) -> None:
            episodes.append(dict(zip(EPISODE_COLUMNS, asdict(episode).values(), strict=True)))

        def on_checkpoint(steps: int, snapshot: Snapshot) -> None:
            self._lease.check()
            # A resumed run keeps the rows before its checkpoint, so they must be on disk first.
            progress.sync()
            episodes.sync()
            self._run.checkpoints.write(steps, snapshot)
            visits = visits_of(snapshot)
            if visits is not None and visits.plane is not None:
                write_visits(self._run.visits, visits)

        return Listeners(
            on_rollout=self._on_rollout,
            on_episode=on_episode,
            on_checkpoint=on_checkpoint,
            checkpoint_every=self._config.checkpoint_every,
            on_evaluation=self._on_evaluation(steps),
            eval_every=self._config.eval_every,
            eval_episodes=self._config.eval_episodes,
        )

    def _on_evaluation(self, steps: int) -> Callable[[EvaluationResult], None]:
        if self._run.evaluations.exists():
            with self._open(self._run.evaluations, EVALUATION_COLUMNS, Limit(STEPS_COLUMN, steps)):
                pass

        def write(evaluation: EvaluationResult) -> None:
            with self._open(self._run.evaluations, EVALUATION_COLUMNS) as file:
                file.append(asdict(evaluation))
                file.sync()

        return write

    def _on_rollout(self, progress: Progress) -> None:
        self.status = Status(
            state="running",
            steps=progress.steps,
            total_steps=progress.total_steps,
            episode_return=progress.episode_return,
            bonus_share=progress.bonus_share,
            steps_per_second=progress.steps_per_second,
        )
        if time.monotonic() - self._status_time >= SECONDS_BETWEEN_STATUSES:
            self._lease.check()
            self._run.write_status(self.status)
            self._status_time = time.monotonic()
        if self._report is not None:
            self._report(progress)


def _warn_of_lost_rows(run: RunDirectory, progress: CsvFile, steps: int) -> None:
    """Warn if `progress.csv` ends before the checkpoint: each rollout's row is written before its checkpoint."""
    last = 0 if progress.last is None else int(float(progress.last[STEPS]))
    if last != steps:
        warnings.warn(
            f"{str(run.progress)!r} has lost rows: it ends after {last:,} steps, the checkpoint is of {steps:,}; "
            "the run resumes without them",
            stacklevel=2,
        )
