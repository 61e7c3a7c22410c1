"""How a search looks while it runs and at its end: live on a terminal, as plain lines in a log."""

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
from revd.tuning.parameters import Space
from revd.tuning.records import TrialRecord, all_tie, best, rank, ranked
from revd.tuning.space import DIGITS, written

#: Trials that a live table shows besides those that run.
SHOWN = 10
#: Trials that are named where several have the same score.
NAMED = 3

_COLOURS = {"running": "cyan", "finished": "green", "pruned": "yellow", "failed": "bold red"}

Show = Callable[[Sequence[TrialRecord]], None]


def watching_trials(console: Console, config: TuneConfig) -> AbstractContextManager[Show]:
    """A function that shows how a search goes: a live table on a terminal, else a line now and then."""
    return _live_table(console, config) if console.is_terminal else _plain_lines(console)


def space_table(space: Space) -> Table:
    """What is searched: the values, and the one without a search."""
    table = Table(header_style="bold")
    for name in ("parameter", "values", "now"):
        table.add_column(name, no_wrap=True)
    for axis in space:
        table.add_row(axis.name, str(axis.dimension), written(axis.parameter.present))
    return table


def trials_table(records: Sequence[TrialRecord], *, caption: str | None = None) -> Table:
    """One row for each trial, the best first; only those that finished have a rank, and equal scores the same."""
    table = Table(caption=caption, caption_justify="left", header_style="bold")
    names = list(records[0].values) if records else []
    for name in ("rank", "trial", *names, "score", "steps"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("state", overflow="fold")
    for one in ranked(records):
        table.add_row(
            str(rank(one, records) or ""),
            str(one.number),
            *(shortened(one.values.get(name)) for name in names),
            number(one.score, decimals=2),
            f"{one.steps:,}",
            Text(_state(one), style=_COLOURS[one.state]),
        )
    return table


def trial_line(record: TrialRecord) -> str:
    """The same as a line of text."""
    values = "  ".join(f"{name}={shortened(value)}" for name, value in record.values.items())
    score = "" if record.score is None else f"  score {number(record.score, decimals=2)}"
    return f"trial {record.number}  {values}  {_state(record)}  {record.steps:,} steps{score}"


def shortened(value: Any) -> str:
    """A value with as many digits as one compares."""
    return f"{value:.{DIGITS}g}" if isinstance(value, float) else written(value)


def summary(records: Sequence[TrialRecord], *, trials: int) -> str:
    """How far a search is, in a few words."""
    counts = {state: sum(one.state == state for one in records) for state in ("finished", "pruned", "failed")}
    words = [f"{sum(counts.values())} of {max(trials, len(records))} trials ended"]
    words += [f"{count} {state}" for state, count in counts.items() if count and state != "finished"]
    first = best(records)
    if first:
        words.append(f"best {number(first[0].score, decimals=2)} ({trials_named(first)})")
    elif all_tie(records):
        words.append("no best, all scores are equal")
    return " · ".join(words)


def trials_named(records: Sequence[TrialRecord]) -> str:
    """`trial 3`, `trials 3 and 5`, or `trials 3, 5, 7 and 4 more`."""
    numbers = [str(one.number) for one in records]
    if len(numbers) == 1:
        return f"trial {numbers[0]}"
    if len(numbers) > NAMED + 1:
        return f"trials {', '.join(numbers[:NAMED])} and {len(numbers) - NAMED} more"
    return f"trials {', '.join(numbers[:-1])} and {numbers[-1]}"


def _state(record: TrialRecord) -> str:
    return f"{record.state}: {record.error}" if record.error else record.state


@contextmanager
def _live_table(console: Console, config: TuneConfig) -> Iterator[Show]:
    started = time.monotonic()
    with Live(console=console, auto_refresh=False) as live:

        def show(records: Sequence[TrialRecord]) -> None:
            caption = f"{summary(records, trials=config.trials)} · {duration(time.monotonic() - started)} elapsed"
            running = [one for one in records if one.state == "running"]
            others = [one for one in ranked(records) if one.state != "running"]
            live.update(trials_table([*running, *others[:SHOWN]], caption=caption), refresh=True)

        yield show
        # The table of all trials comes next.
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
        for one in records:
            if states.get(one.number) != one.state or (due and one.state == "running"):
                console.print(trial_line(one), soft_wrap=True, highlight=False, markup=False)
            states[one.number] = one.state

    yield show
