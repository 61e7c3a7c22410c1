import io

import pytest
from rich.console import Console

from revd.runs import display
from revd.runs.directory import Status
from revd.runs.display import duration, number, percent, showing_progress, speed_line
from revd.training.progress import Progress


def make_console(*, terminal, width=80):
    return Console(file=io.StringIO(), force_terminal=terminal, width=width, color_system=None)


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets."""
    now = [1000.0]
    monkeypatch.setattr(display.time, "monotonic", lambda: now[0])
    return now


def test_speed_and_where_the_time_went():
    seconds = {"environment": 50.0, "acting": 19.6, "bonus": 0.0, "update": 30.0, "other": 0.4}
    status = Status(state="finished", steps_per_second=3493.2, seconds=seconds)
    assert speed_line(status) == "3,493 steps/s: environment 50%, acting 20%, update 30%"


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (number(None), "-"),
        (number(-1234.56), "-1,234.6"),
        (percent(None), "-"),
        (percent(0.1234), "12.3%"),
        (duration(59.6), "01:00"),
        (duration(3 * 3600 + 61), "3:01:01"),
    ],
)
def test_numbers(shown, expected):
    assert shown == expected


def progress_at(steps):
    return Progress(steps=steps, total_steps=200, steps_per_second=10.0, episode_return=-7.0, bonus_share=0.5)


def test_a_terminal_gets_a_bar_with_return_and_share():
    console = make_console(terminal=True)
    with showing_progress(console, 200) as report:
        report(progress_at(100))
        report(progress_at(210))
    text = console.file.getvalue()
    assert "200/200" in text
    assert "return -7.0  bonus 50.0%" in text
    assert "210" not in text, "the last rollout goes beyond the steps asked for; the bar does not"


def test_a_log_gets_the_first_line_the_last_and_some_between(clock):
    console = make_console(terminal=False, width=20)
    with showing_progress(console, 200) as report:
        report(progress_at(10))
        report(progress_at(20))
        clock[0] += display.SECONDS_BETWEEN_LINES
        report(progress_at(30))
        report(progress_at(210))
    lines = console.file.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == ["10", "30", "210"]
    assert lines[0] == "10 of 200 steps  return -7.0  bonus 50.0%  10 steps/s"
