"""Results of one method on one task as cells of tables."""

import math

from revd.analysis.statistics.aggregate import Estimate
from revd.analysis.statistics.task_results import TaskResult
from revd.analysis.writing.formats import MISSING, numbers


def final_cells(result: TaskResult) -> list[str]:
    """The mean final return and its interval."""
    if result.final is None:
        return [MISSING, MISSING]
    final = result.final
    if math.isnan(final.low):
        return [*numbers(final.value), MISSING]
    value, low, high = numbers(final.value, final.low, final.high)
    return [value, f"{low} to {high}"]


def reaching_cells(result: TaskResult, steps: int) -> list[str]:
    """How many runs reached the threshold, and the median of their steps."""
    found = result.reaching
    if found is None:
        return [MISSING, MISSING]
    median = f"{found.median:,.0f}" if math.isfinite(found.median) else f"more than {steps:,}"
    return [f"{found.count} of {result.seeds}", median]


def improvement_cell(result: TaskResult, base: str | None) -> str:
    """The probability of improvement; over another method than `base`, which the table names, with its name."""
    if result.improvement is None:
        return MISSING
    text = _probability(result.improvement)
    return text if result.base == base else f"{text} (than {result.base})"


def _probability(found: Estimate) -> str:
    return f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f})"
