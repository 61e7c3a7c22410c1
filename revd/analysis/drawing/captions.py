"""Titles and captions of figures, which the reports repeat below the pictures."""

import re

from revd.analysis.reading.searches import Search
from revd.analysis.statistics.aggregate import CONFIDENCE, RESAMPLES, Aggregate
from revd.analysis.statistics.curves import WINDOW
from revd.analysis.statistics.figure_data import FigureData
from revd.analysis.statistics.grouping import task_family
from revd.episodes import FINAL_RETURN

#: Most methods in colour, since a legend cannot tell more apart.
MAX_METHODS = 8
# With fewer seeds, resamples hardly differ from the sample, and bootstrap intervals are too narrow.
_ENOUGH_SEEDS = 5


def curve_caption(data: FigureData, *, window: int = WINDOW) -> str:
    """Describe a figure of learning curves."""
    curves = [curve for task in data.curves.values() for curve in task.values()]
    seeds = sorted({curve.seeds for curve in curves})
    count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    unfinished = any(not run.finished for run in data.plan.runs)
    return (
        f"Line: mean over seeds ({count} of each method and task). Band: one sample standard deviation (n - 1) to both "
        "sides, cut off at the smallest and the largest return of any episode on the task. "
        f"Episode return at a step: mean of the last {window} episodes that had ended by then. "
        "A curve ends where the shortest of its runs does."
        + (" Some runs are unfinished or failed." if unfinished else "")
        + _best_methods_note(len(data.drawn), by="final return")
    )


def comparison_caption(found: Aggregate) -> str:
    """Describe a figure of the comparison over tasks."""
    few = " Intervals of so few runs are too narrow." if min(found.seeds.values()) < _ENOUGH_SEEDS else ""
    counts = sorted(set(found.seeds.values()))
    seeds = ", ".join(f"{method} {count}" for method, count in found.seeds.items())
    if len(found.seeds) > MAX_METHODS:
        seeds = " to ".join(str(count) for count in (counts[0], *counts[1:][-1:]))
    return (
        f"Scores: final return of a finished run ({FINAL_RETURN}), normalised for each task so that the worst run of "
        f"all methods is 0 and the best is 1. Shaded: {CONFIDENCE:.0%} stratified bootstrap intervals "
        f"({RESAMPLES:,} resamples). Runs for each task: {seeds}.{few}"
        f"{_best_methods_note(len(found.iqm), by='interquartile mean')}"
    )


def search_caption(search: Search) -> str:
    """Describe the figure of a search."""
    seeds = f"mean over {search.seeds} seeds" if search.seeds > 1 else "of one seed"
    pruned = any(trial.state == "pruned" for trial in search.trials)
    return (
        f"Each mark is a trial: its {search.metric}, {seeds}. The first trial has the default values, if the search "
        "space contains them."
        + (" Pruned trials are at their score when they were stopped, after less training." if pruned else "")
        + _best_trial_note(search)
        + " Trials differ in all parameters at once, and the best of many noisy scores is too good."
    )


def search_title(search: Search) -> str:
    """The name of a search, and its methods, tasks and steps."""
    names = {(run.method, run.task, run.total_steps) for run in search.runs}
    of = "; ".join(f"{method} on {pretty_task(task)}, {steps:,} steps" for method, task, steps in sorted(names))
    return f"Search {search.directory.resolve().name}" + (f": {of}" if of else "")


def pretty_task(task: str) -> str:
    """Turn `bullet/half-cheetah` into `Half Cheetah`; a plain Gymnasium id stays as it is."""
    if task_family(task) == "gymnasium":
        return task
    return " ".join(_pretty_word(word) for word in task.partition("/")[2].split("-"))


def pretty_setting(setting: str) -> str:
    """`pretty_task` of a task with its setting: `minigrid/empty, sparse 0.9` into `Empty, sparse 0.9`."""
    task, comma, rest = setting.partition(", ")
    return pretty_task(task) + comma + rest


def plural(count: int, word: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _best_trial_note(search: Search) -> str:
    best = search.best
    if not best:
        return " All finished trials have the same score, so none is the best." if search.finished else ""
    values = ", ".join(f"{name} {value}" for name, value in best[0].values.items())
    found = f" Best: trial {best[0].number} with {best[0].score:,.2f} ({values})"
    return found + (f", and {plural(len(best) - 1, 'more trial')} with the same score." if len(best) > 1 else ".")


def _best_methods_note(methods: int, *, by: str) -> str:
    """A sentence if there are more methods than a legend can tell apart, else an empty string."""
    if methods <= MAX_METHODS:
        return ""
    return (
        f" In colour: {MAX_METHODS} of {methods} methods, those without a bonus and then the best by {by}; the numbers "
        "of all are in the CSV file."
    )


def _pretty_word(word: str) -> str:
    # 2d -> 2D and s3r1 -> S3R1, but a size such as 8x8 stays as it is.
    if re.fullmatch(r"\d+x\d+", word):
        return word
    return word.capitalize() if word.isalpha() else word.upper()
