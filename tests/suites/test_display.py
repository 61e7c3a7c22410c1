import io

import pytest
from rich.console import Console

from revd.runs.config import TrainConfig
from revd.runs.directory import Status
from revd.suites import display
from revd.suites.display import run_line, runs_table, showing_runs
from revd.suites.scheduler import RunProgress

RUNNING = Status(
    state="running",
    steps=50,
    total_steps=200,
    episode_return=-123.45,
    bonus_share=0.125,
    steps_per_second=10.0,
)


def make_run(status, *, task="CartPole-v1", seed=1):
    return RunProgress(config=TrainConfig(task=task, seed=seed), status=status)


def make_console(*, terminal, width=80):
    return Console(file=io.StringIO(), force_terminal=terminal, width=width, color_system=None)


def text_of(renderable, *, width=80):
    console = make_console(terminal=False, width=width)
    console.print(renderable)
    return console.file.getvalue()


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets."""
    now = [1000.0]
    monkeypatch.setattr(display.time, "monotonic", lambda: now[0])
    return now


def test_the_table_shows_every_number_in_eighty_columns():
    text = text_of(runs_table([make_run(RUNNING)], elapsed=65))
    for word in ("PPO+REVD", "CartPole-v1", "25%", "-123.5", "12.5%", "10", "running"):
        assert word in text or (word == "-123.5" and "-123.4" in text)
    assert "…" not in text
    assert "0 of 1 runs ended · 01:05 elapsed · about 00:15 left" in " ".join(text.split())


def test_tasks_get_a_column_where_they_differ():
    runs = [make_run(RUNNING), make_run(RUNNING, task="Acrobot-v1")]
    text = text_of(runs_table(runs, elapsed=0), width=120)
    assert "task" in text
    assert "Acrobot-v1" in text


def test_failures_say_why():
    failed = make_run(Status(state="failed", total_steps=200, error="ValueError: no"))
    assert "failed: ValueError: no" in text_of(runs_table([failed], elapsed=0), width=120)
    assert "failed: ValueError: no" in run_line(failed)


def test_the_time_left_counts_waiting_runs():
    runs = [make_run(RUNNING), make_run(Status(state="waiting", total_steps=200))]
    assert "about 00:35 left" in text_of(runs_table(runs, elapsed=0))
    finished = make_run(Status(state="finished", steps=210, total_steps=200, steps_per_second=3.0))
    assert "left" not in text_of(runs_table([finished], elapsed=0))


def test_lines_are_plain_and_whole():
    assert run_line(make_run(Status(state="waiting", total_steps=5))) == "CartPole-v1  PPO+REVD  seed 1  waiting  0%"
    line = run_line(make_run(RUNNING))
    assert line.startswith("CartPole-v1  PPO+REVD  seed 1  running  25%  return -123.")
    assert line.endswith("bonus 12.5%  10 steps/s")


def test_a_log_gets_a_line_for_every_change_and_one_now_and_then(clock):
    console = make_console(terminal=False, width=20)
    finished = Status(state="finished", steps=200, total_steps=200)
    with showing_runs(console) as watch:
        watch([make_run(Status(state="waiting", total_steps=200))])
        for _ in range(5):
            watch([make_run(RUNNING)])
        clock[0] += display.SECONDS_BETWEEN_LINES
        for _ in range(5):
            watch([make_run(RUNNING)])
        watch([make_run(finished)])
        watch([make_run(finished)])
    lines = console.file.getvalue().splitlines()
    assert [line.split("  ")[3] for line in lines] == ["running", "running", "finished"]


def test_a_terminal_gets_a_live_table():
    console = make_console(terminal=True)
    with showing_runs(console) as watch:
        watch([make_run(RUNNING)])
        watch([make_run(Status(state="finished", steps=200, total_steps=200))])
    text = console.file.getvalue()
    assert "running" in text
    assert "1 of 1 runs ended" in text
    assert "\x1b[" in text, "the table is redrawn in place"
