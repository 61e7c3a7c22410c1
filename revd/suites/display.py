"""Shows the state of many runs: a live table on a terminal, lines in a log."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from revd.episodes import FINAL_RETURN
from revd.runs.directory import Status
from revd.runs.display import SECONDS_BETWEEN_LINES, duration, measures, number, percent, print_line

if TYPE_CHECKING:
    from revd.suites.scheduler import RunProgress

#: What the returns in the table are.
RETURNS = f"Return of a finished run: {FINAL_RETURN}; of others: mean of the last episodes so far."
_COLOURS = {"waiting": "dim", "running": "cyan", "interrupted": "yellow", "finished": "green", "failed": "bold red"}


def showing_runs(console: Console) -> "AbstractContextManager[Callable[[Sequence[RunProgress]], None]]":
    """A function that shows the state of many runs: as a live table on a terminal, else as lines."""
    return _live_table(console) if console.is_terminal else _run_lines(console)


def runs_table(runs: "Sequence[RunProgress]", *, elapsed: float) -> Table:
    """One row for each run, with a summary below. A task that all runs share is the title, to save width."""
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


def run_line(run: "RunProgress") -> str:
    """The state of one run as a line of text."""
    name = f"{run.config.task}  {run.config.method}  seed {run.config.seed}"
    done = f"{100 * _fraction_done(run.status):.0f}%"
    return f"{name}  {_state(run.status)}  {done}  {measures(run.status, final=run.final)}".rstrip()


def _fraction_done(status: Status) -> float:
    # The last rollout usually exceeds the steps asked for.
    return min(status.steps / status.total_steps, 1.0) if status.total_steps else 0.0


def _cells(run: "RunProgress") -> list[RenderableType]:
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
    done = _fraction_done(status)
    grid.add_row(ProgressBar(total=1.0, completed=done, width=12), f"{100 * done:3.0f}%")
    return grid


def _state(status: Status) -> str:
    return f"{status.state}: {status.error}" if status.error else status.state


def _summary(runs: "Sequence[RunProgress]", elapsed: float) -> str:
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
def _live_table(console: Console) -> "Iterator[Callable[[Sequence[RunProgress]], None]]":
    started = time.monotonic()
    with Live(console=console, auto_refresh=False) as live:

        def show(runs: "Sequence[RunProgress]") -> None:
            live.update(runs_table(runs, elapsed=time.monotonic() - started), refresh=True)

        yield show


@contextmanager
def _run_lines(console: Console) -> "Iterator[Callable[[Sequence[RunProgress]], None]]":
    states: dict[int, str] = {}
    printed = time.monotonic()

    def show(runs: "Sequence[RunProgress]") -> None:
        nonlocal printed
        due = time.monotonic() - printed >= SECONDS_BETWEEN_LINES
        if due:
            printed = time.monotonic()
        for index, run in enumerate(runs):
            changed = states.get(index, "waiting") != run.status.state
            if changed or (due and run.status.state == "running"):
                print_line(console, run_line(run))
            states[index] = run.status.state

    yield show
