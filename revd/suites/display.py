"""How trainings look while they run: live on a terminal, as plain lines in a log."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from revd.episodes import FINAL_RETURN
from revd.runs.directory import Status

if TYPE_CHECKING:
    from revd.suites.scheduler import Run
    from revd.training.progress import Progress

SECONDS_BETWEEN_LINES = 15.0
#: What the returns in the table are.
RETURNS = f"Return of a finished run: {FINAL_RETURN}; of others: mean of the last episodes so far."
_COLOURS = {"waiting": "dim", "running": "cyan", "interrupted": "yellow", "finished": "green", "failed": "bold red"}


def watching(console: Console) -> "AbstractContextManager[Callable[[Sequence[Run]], None]]":
    """A function that shows the state of many runs: a live table on a terminal, else a line now and then."""
    return _live_table(console) if console.is_terminal else _plain_lines(console)


def reporting(console: Console, total_steps: int) -> "AbstractContextManager[Callable[[Progress], None]]":
    """A function that shows the progress of one training: a bar on a terminal, else a line now and then."""
    return _live_bar(console, total_steps) if console.is_terminal else _plain_progress(console)


def runs_table(runs: "Sequence[Run]", *, elapsed: float) -> Table:
    """One row for each run; the caption sums up. A task that all share is the title, to fit a narrow terminal."""
    tasks = {run.config.task for run in runs}
    table = Table(
        title=tasks.pop() if len(tasks) == 1 else None,
        caption=f"{_summary(runs, elapsed)}\n{RETURNS}",
        caption_justify="left",
        header_style="bold",
    )
    for name in (["task"] if table.title is None else []) + ["method"]:
        table.add_column(name, no_wrap=True)
    for name in ("seed", "progress", "return", "bonus\nshare", "steps/s"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("state", overflow="fold")
    for run in runs:
        table.add_row(*([run.config.task] if table.title is None else []), *_cells(run))
    return table


def run_line(run: "Run") -> str:
    """The same as a line of text."""
    name = f"{run.config.task}  {run.config.method}  seed {run.config.seed}"
    done = f"{100 * fraction_done(run.status):.0f}%"
    return f"{name}  {_state(run.status)}  {done}  {_measures(run.status, final=run.final)}".rstrip()


def speed_line(status: Status) -> str:
    """How fast a finished training was, and where its time went if it took a percent or more, as text."""
    spent = status.seconds or {}
    shares = {name: round(100 * seconds / sum(spent.values())) for name, seconds in spent.items() if seconds > 0}
    parts = ", ".join(f"{name} {share}%" for name, share in shares.items() if share)
    return f"{number(status.steps_per_second, decimals=0)} steps/s: {parts}"


def number(value: float | None, *, decimals: int = 1) -> str:
    """A number, or a dash where there is none."""
    return "-" if value is None else f"{value:,.{decimals}f}"


def percent(value: float | None) -> str:
    """A share, or a dash where there is none."""
    return "-" if value is None else f"{100 * value:.1f}%"


def fraction_done(status: "Status | Progress") -> float:
    """Between 0 and 1; the last rollout of a training usually goes a little beyond the steps asked for."""
    return min(status.steps / status.total_steps, 1.0) if status.total_steps else 0.0


def duration(seconds: float) -> str:
    """Minutes and seconds, with hours where there are any."""
    hours, rest = divmod(round(seconds), 3600)
    minutes = f"{rest // 60:02d}:{rest % 60:02d}"
    return f"{hours}:{minutes}" if hours else minutes


def _cells(run: "Run") -> list[RenderableType]:
    status = run.status
    return [
        run.config.method,
        str(run.config.seed),
        _bar(status),
        number(run.final if status.state == "finished" else status.episode_return),
        percent(status.bonus_share),
        number(status.steps_per_second, decimals=0),
        Text(_state(status), style=_COLOURS[status.state]),
    ]


def _bar(status: Status) -> Table:
    grid = Table.grid(padding=(0, 1))
    done = fraction_done(status)
    grid.add_row(ProgressBar(total=1.0, completed=done, width=12), f"{100 * done:3.0f}%")
    return grid


def _state(status: Status) -> str:
    return f"{status.state}: {status.error}" if status.error else status.state


def _measures(status: "Status | Progress", *, final: float | None = None) -> str:
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


def _summary(runs: "Sequence[Run]", elapsed: float) -> str:
    ended = sum(run.status.state in ("interrupted", "finished", "failed") for run in runs)
    words = [f"{ended} of {len(runs)} runs ended", f"{duration(elapsed)} elapsed"]
    running = [run.status for run in runs if run.status.state == "running"]
    speed = sum(status.steps_per_second or 0.0 for status in running)
    open_runs = [run.status for run in runs if run.status.state in ("waiting", "running")]
    left = sum(max(status.total_steps - status.steps, 0) for status in open_runs)
    if speed > 0 and left:
        words.append(f"about {duration(left / speed)} left")
    return " · ".join(words)


@contextmanager
def _live_table(console: Console) -> "Iterator[Callable[[Sequence[Run]], None]]":
    started = time.monotonic()
    with Live(console=console, auto_refresh=False) as live:

        def show(runs: "Sequence[Run]") -> None:
            live.update(runs_table(runs, elapsed=time.monotonic() - started), refresh=True)

        yield show


@contextmanager
def _plain_lines(console: Console) -> "Iterator[Callable[[Sequence[Run]], None]]":
    states: dict[int, str] = {}
    printed = time.monotonic()

    def show(runs: "Sequence[Run]") -> None:
        nonlocal printed
        due = time.monotonic() - printed >= SECONDS_BETWEEN_LINES
        if due:
            printed = time.monotonic()
        for index, run in enumerate(runs):
            changed = states.get(index, "waiting") != run.status.state
            if changed or (due and run.status.state == "running"):
                _print_line(console, run_line(run))
            states[index] = run.status.state

    yield show


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
            done = min(progress.steps, progress.total_steps)
            bar.update(task, completed=done, measures=_measures(progress))

        yield show


@contextmanager
def _plain_progress(console: Console) -> "Iterator[Callable[[Progress], None]]":
    printed = -SECONDS_BETWEEN_LINES

    def show(progress: "Progress") -> None:
        nonlocal printed
        done = progress.steps >= progress.total_steps
        if done or time.monotonic() - printed >= SECONDS_BETWEEN_LINES:
            printed = time.monotonic()
            _print_line(console, f"{progress.steps:,} of {progress.total_steps:,} steps  {_measures(progress)}")

    yield show


def _print_line(console: Console, line: str) -> None:
    # Without rich's wrapping, so that one message stays one line of a log.
    console.print(line, soft_wrap=True, highlight=False, markup=False)
