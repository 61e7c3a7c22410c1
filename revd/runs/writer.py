"""What is written while a training runs: its logs, its status and its checkpoints."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from revd.runs.directory import RunDirectory, Status
from revd.storage.csv_file import CsvFile, Limit
from revd.storage.run_files import EPISODE_COLUMNS, EVALUATION_COLUMNS, STEPS_COLUMN
from revd.training.csv_log import STEPS
from revd.training.progress import mean_return
from revd.training.session import Listeners

if TYPE_CHECKING:
    from revd.runs.config import TrainConfig
    from revd.runs.lease import Lease
    from revd.training.evaluation import Evaluation
    from revd.training.progress import Episode, Progress
    from revd.training.session import Training
    from revd.training.snapshot import Snapshot

Report = Callable[["Progress"], None]

# A rollout may take milliseconds; the status file is for eyes.
SECONDS_BETWEEN_STATUSES = 0.5


@dataclass(frozen=True, kw_only=True)
class Logs:
    """The open logs of a session, and who writes them."""

    progress: CsvFile
    listeners: Listeners


class Observer:
    """Keeps the status file up to date, writes the logs and passes progress on.

    Args:
        config: The training.
        directory: Its run directory, started.
        held: The right to write there, asked for again before files are replaced.
        report: Called after each rollout.
        training: The training, where it starts or goes on.
    """

    def __init__(
        self, config: TrainConfig, directory: RunDirectory, held: Lease, report: Report | None, training: Training
    ) -> None:
        self.status = Status(
            state="running",
            steps=training.steps,
            total_steps=config.steps,
            episode_return=mean_return(training.model),
        )
        self._steps_before = training.steps
        self._config = config
        self._directory = directory
        self._held = held
        self._report = report
        self._written = -SECONDS_BETWEEN_STATUSES

    @contextmanager
    def logs(self, steps: int) -> Iterator[Logs]:
        """Open the logs, taken back to the `steps` that the checkpoint holds, so that no step is counted twice."""
        with ExitStack() as stack:
            progress = stack.enter_context(self._open(self._directory.progress, [STEPS], Limit(STEPS, steps)))
            episodes = stack.enter_context(
                self._open(self._directory.episodes, EPISODE_COLUMNS, Limit(STEPS_COLUMN, steps))
            )
            _warn_of_gaps(self._directory, progress, steps)
            yield Logs(progress=progress, listeners=self._listeners(progress, episodes, steps))

    def finished(self, training: Training) -> Status:
        """The status at the end, with the speed of this session, its last update included, and where the time went."""
        seconds, steps = training.seconds, training.steps - self._steps_before
        if not steps:
            # All was done already when an earlier session broke off.
            return replace(self.status, state="finished")
        return replace(self.status, state="finished", steps_per_second=steps / seconds.total, seconds=asdict(seconds))

    def _open(self, path: Path, columns: Sequence[str], until: Limit | None = None) -> closing[CsvFile]:
        return closing(CsvFile(path, columns, until=until, before_replacing=self._held.check))

    def _listeners(self, progress: CsvFile, episodes: CsvFile, steps: int) -> Listeners:
        def on_episode(episode: Episode) -> None:
            episodes.append(dict(zip(EPISODE_COLUMNS, asdict(episode).values(), strict=True)))

        def on_checkpoint(steps: int, snapshot: Snapshot) -> None:
            self._held.check()
            # A checkpoint stands for the rows up to it, so they are on disk before it is.
            progress.sync()
            episodes.sync()
            self._directory.checkpoints.write(steps, snapshot)

        return Listeners(
            on_rollout=self._on_rollout,
            on_episode=on_episode,
            on_checkpoint=on_checkpoint,
            checkpoint_every=self._config.checkpoint_every,
            on_evaluation=self._on_evaluation(steps),
            eval_every=self._config.eval_every,
            eval_episodes=self._config.eval_episodes,
        )

    def _on_evaluation(self, steps: int) -> Callable[[Evaluation], None]:
        if self._directory.evaluations.exists():
            with self._open(self._directory.evaluations, EVALUATION_COLUMNS, Limit(STEPS_COLUMN, steps)):
                pass

        def write(evaluation: Evaluation) -> None:
            with self._open(self._directory.evaluations, EVALUATION_COLUMNS) as file:
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
        if time.monotonic() - self._written >= SECONDS_BETWEEN_STATUSES:
            self._held.check()
            self._directory.write_status(self.status)
            self._written = time.monotonic()
        if self._report is not None:
            self._report(progress)


def _warn_of_gaps(directory: RunDirectory, progress: CsvFile, steps: int) -> None:
    """Each rollout has a row in `progress.csv` before a checkpoint stands for it."""
    last = 0 if progress.last is None else int(float(progress.last[STEPS]))
    if last != steps:
        warnings.warn(
            f"{str(directory.progress)!r} has lost rows: it ends after {last:,} steps, the checkpoint is of {steps:,}; "
            "the run goes on without them",
            stacklevel=2,
        )
