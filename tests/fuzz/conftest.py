"""How many examples: a few in `make test`, always the same; many in `make fuzz`, always others, counted at the end."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.fuzz.support import EXAMPLES, PROFILE

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile(PROFILE, max_examples=1_200, deadline=None, suppress_health_check=_SLOW, print_blob=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[Any]:
    """With the report of each test goes the number of its examples, from another process too."""
    EXAMPLES.clear()
    try:
        return (yield)
    finally:
        item.user_properties.append(("examples", sum(EXAMPLES.values())))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    counts: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            number = dict(getattr(report, "user_properties", [])).get("examples", 0)
            if number and report.when == "call":
                counts[report.nodeid.rpartition("/")[2]] += number
    if counts:
        terminalreporter.section("fuzzing")
        for test, number in counts.items():
            terminalreporter.line(f"{number:8,}  {test}")
        terminalreporter.line(f"{counts.total():8,}  examples in all")
