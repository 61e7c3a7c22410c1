"""The display of a search: a live table on a terminal, plain lines in a log, and the final table."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from revd.runs.display import SECONDS_BETWEEN_LINES, duration, number
from revd.tuning.config import TuneConfig
from revd.tuning.parameters import SearchSpace
from revd.tuning.records import TrialRecord, all_scores_equal, best_trials, rank, sort_trials
from revd.tuning.space import DIGITS, format_value

#: Most trials in the live table besides the running ones.
MAX_SHOWN = 10
#: Most trials that are listed by number.
MAX_NAMED = 3

_COLOURS = {"running": "cyan", "finished": "green", "pruned": "yellow", "failed": "bold red"}

Show = Callable[[Sequence[TrialRecord]], None]


def trial_display(console: Console, config: TuneConfig) -> AbstractContextManager[Show]:
    """A function that displays records: in a live table on a terminal, else in occasional lines."""
    return _live_table(console, config) if console.is_terminal else _plain_lines(console)


def space_table(space: SearchSpace) -> Table:
    """A table of the searched parameters, with their values and defaults."""
    table = Table(header_style="bold")
    for name in ("parameter", "values", "default"):
        table.add_column(name, no_wrap=True)
    for dimension in space:
        table.add_row(dimension.name, str(dimension.candidates), format_value(dimension.parameter.default))
    return table


def trials_table(records: Sequence[TrialRecord], *, caption: str | None = None) -> Table:
    """One row for each trial, the best first.

    Only finished trials have a rank, and equal scores have equal ranks.
    """
    table = Table(caption=caption, caption_justify="left", header_style="bold")
    names = list(records[0].values) if records else []
    for name in ("rank", "trial", *names, "score", "steps"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("state", overflow="fold")
    for record in sort_trials(records):
        table.add_row(
            str(rank(record, records) or ""),
            str(record.number),
            *(format_short(record.values.get(name)) for name in names),
            number(record.score, decimals=2),
            f"{record.steps:,}",
            Text(_state(record), style=_COLOURS[record.state]),
        )
    return table


def trial_line(record: TrialRecord) -> str:
    """One trial as a line of text."""
    values = "  ".join(f"{name}={format_short(value)}" for name, value in record.values.items())
    score = "" if record.score is None else f"  score {number(record.score, decimals=2)}"
    return f"trial {record.number}  {values}  {_state(record)}  {record.steps:,} steps{score}"


def format_short(value: Any) -> str:
    """Format a value with `DIGITS` significant digits."""
    return f"{value:.{DIGITS}g}" if isinstance(value, float) else format_value(value)


def summary(records: Sequence[TrialRecord], *, trials: int) -> str:
    """The progress of a search, in one line."""
    counts = {state: sum(record.state == state for record in records) for state in ("finished", "pruned", "failed")}
    words = [f"{sum(counts.values())} of {max(trials, len(records))} trials ended"]
    words += [f"{count} {state}" for state, count in counts.items() if count and state != "finished"]
    best = best_trials(records)
    if best:
        words.append(f"best {number(best[0].score, decimals=2)} ({trial_names(best)})")
    elif all_scores_equal(records):
        words.append("no best, all scores are equal")
    return " · ".join(words)


def trial_names(records: Sequence[TrialRecord]) -> str:
    """`trial 3`, `trials 3 and 5`, or `trials 3, 5, 7 and 4 more`."""
    numbers = [str(record.number) for record in records]
    if len(numbers) == 1:
        return f"trial {numbers[0]}"
    if len(numbers) > MAX_NAMED + 1:
        return f"trials {', '.join(numbers[:MAX_NAMED])} and {len(numbers) - MAX_NAMED} more"
    return f"trials {', '.join(numbers[:-1])} and {numbers[-1]}"


def _state(record: TrialRecord) -> str:
    return f"{record.state}: {record.error}" if record.error else record.state


@contextmanager
def _live_table(console: Console, config: TuneConfig) -> Iterator[Show]:
    started = time.monotonic()
    with Live(console=console, auto_refresh=False) as live:

        def show(records: Sequence[TrialRecord]) -> None:
            caption = f"{summary(records, trials=config.trials)} · {duration(time.monotonic() - started)} elapsed"
            running = [record for record in records if record.state == "running"]
            others = [record for record in sort_trials(records) if record.state != "running"]
            live.update(trials_table([*running, *others[:MAX_SHOWN]], caption=caption), refresh=True)

        yield show
        # The final table follows.
        live.update("", refresh=True)


@contextmanager
def _plain_lines(console: Console) -> Iterator[Show]:
    states: dict[int, str] = {}
    printed = time.monotonic()

    def show(records: Sequence[TrialRecord]) -> None:
        nonlocal printed
        due = time.monotonic() - printed >= SECONDS_BETWEEN_LINES
        if due:
            printed = time.monotonic()
        for record in records:
            if states.get(record.number) != record.state or (due and record.state == "running"):
                console.print(trial_line(record), soft_wrap=True, highlight=False, markup=False)
            states[record.number] = record.state

    yield show
