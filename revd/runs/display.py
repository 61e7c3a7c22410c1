"""Shows the progress of one training: a bar on a terminal, lines in a log."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from revd.runs.directory import Status

if TYPE_CHECKING:
    from revd.training.progress import Progress

SECONDS_BETWEEN_LINES = 15.0


def showing_progress(console: Console, total_steps: int) -> "AbstractContextManager[Callable[[Progress], None]]":
    """A function that shows progress: as a bar on a terminal, else as a line every `SECONDS_BETWEEN_LINES`."""
    return _live_bar(console, total_steps) if console.is_terminal else _progress_lines(console)


def speed_line(status: Status) -> str:
    """The speed of a finished training, and how its time was spent; shares below half a percent are left out."""
    spent = status.seconds or {}
    shares = {name: round(100 * seconds / sum(spent.values())) for name, seconds in spent.items() if seconds > 0}
    parts = ", ".join(f"{name} {share}%" for name, share in shares.items() if share)
    return f"{number(status.steps_per_second, decimals=0)} steps/s: {parts}"


def measures(status: "Status | Progress", *, final: float | None = None) -> str:
    """Return, share of the bonus and speed, as far as they are known; the final return instead of the last one."""
    words = []
    if final is not None:
        words.append(f"final return {number(final)}")
    elif status.episode_return is not None:
        words.append(f"return {number(status.episode_return)}")
    if status.bonus_share is not None:
        words.append(f"bonus {percent(status.bonus_share)}")
    if status.steps_per_second is not None:
        words.append(f"{number(status.steps_per_second, decimals=0)} steps/s")
    return "  ".join(words)


def number(value: float | None, *, decimals: int = 1) -> str:
    """A number, or a dash for None."""
    return "-" if value is None else f"{value:,.{decimals}f}"


def percent(value: float | None) -> str:
    """A share in percent, or a dash for None."""
    return "-" if value is None else f"{100 * value:.1f}%"


def duration(seconds: float) -> str:
    """Minutes and seconds, after the hours if there are any."""
    hours, rest = divmod(round(seconds), 3600)
    minutes = f"{rest // 60:02d}:{rest % 60:02d}"
    return f"{hours}:{minutes}" if hours else minutes


def print_line(console: Console, line: str) -> None:
    """Print a line for logs and for copying: without wrapping, colours or markup."""
    console.print(line, soft_wrap=True, highlight=False, markup=False)


@contextmanager
def _live_bar(console: Console, total_steps: int) -> "Iterator[Callable[[Progress], None]]":
    columns = (
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("left  {task.fields[measures]}"),
    )
    with Bar(*columns, console=console, expand=True) as bar:
        task = bar.add_task("", total=total_steps, measures="")

        def show(progress: "Progress") -> None:
            # The last rollout usually exceeds the steps asked for.
            done = min(progress.steps, progress.total_steps)
            bar.update(task, completed=done, measures=measures(progress))

        yield show


@contextmanager
def _progress_lines(console: Console) -> "Iterator[Callable[[Progress], None]]":
    printed = -SECONDS_BETWEEN_LINES

    def show(progress: "Progress") -> None:
        nonlocal printed
        done = progress.steps >= progress.total_steps
        if done or time.monotonic() - printed >= SECONDS_BETWEEN_LINES:
            printed = time.monotonic()
            print_line(console, f"{progress.steps:,} of {progress.total_steps:,} steps  {measures(progress)}")

    yield show
