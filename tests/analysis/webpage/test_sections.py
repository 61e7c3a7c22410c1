from dataclasses import replace

import pytest

from revd.analysis.reading.runs import load_runs
from revd.analysis.statistics.figure_data import analyse_runs
from revd.analysis.webpage.sections import comparisons, page_title, results, run_rows, time_rows
from revd.analysis.writing.return_tables import task_tables
from tests.analysis.support import make_runs, write_json, write_run
from tests.analysis.webpage.support import write_runs


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return analyse_runs(load_runs(write_runs(tmp_path_factory.mktemp("runs"))))


def test_results_are_the_cells_of_the_markdown_page(data):
    for found, table in zip(results(data), task_tables(data.runs), strict=True):
        assert found.task == table.task
        assert found.columns == table.table.columns
        assert tuple(row.cells for row in found.rows) == table.table.rows


def test_bars_of_a_task_have_one_scale_that_holds_them(data):
    cart_pole = results(data)[0]
    plain, better = (row.bar for row in cart_pole.rows)
    assert 0 < plain.low < plain.value < plain.high < better.low < better.high < 100


def test_a_single_seed_is_a_mark_and_a_method_without_results_nothing(tmp_path):
    make_runs(tmp_path, {"returns": [5.0] * 20}, {"method": "PPO+REVD", "state": "failed"})
    (found,) = results(analyse_runs(load_runs(tmp_path)))
    plain, failed = (row.bar for row in found.rows)
    assert plain.low == plain.value == plain.high == pytest.approx(50)
    assert failed is None


def test_a_comparison_has_the_numbers_of_its_figure(data):
    (found,) = comparisons(data)
    (figure,) = data.figures
    assert found.title == figure.plan.title
    for row in found.means:
        mean = figure.aggregate.iqm[row.method]
        assert row.value == f"{mean.value:.2f}"
        assert row.interval == f"({mean.low:.2f} to {mean.high:.2f})"
        assert (row.bar.low, row.bar.value, row.bar.high) == pytest.approx(
            (100 * mean.low, 100 * mean.value, 100 * mean.high)
        )
    assert [(row.method, row.other) for row in found.improvements] == [("PPO+REVD", "PPO")]


def test_a_figure_without_a_comparison_has_none(data):
    (figure,) = data.figures
    assert comparisons(replace(data, figures=(replace(figure, aggregate=None),))) == []


def test_profiles_are_found_by_the_number_of_their_figure(data):
    (figure,) = data.figures
    both = replace(data, figures=(replace(figure, aggregate=None), figure))
    assert [found.group for found in comparisons(both)] == ["profile-1"]


def test_where_the_time_went(data):
    rows = time_rows(data)
    assert [(row.task, row.method) for row in rows[:2]] == [("CartPole-v1", "PPO"), ("CartPole-v1", "PPO+REVD")]
    assert rows[0].use.share("acting") == pytest.approx(0.3)


def test_a_run_has_its_result_and_its_command(data):
    row = run_rows(data.runs)[-1]
    assert (row.task, row.method, row.seed, row.state, row.steps) == (
        "MountainCar-v0",
        "PPO+REVD",
        2,
        "finished",
        "1,000",
    )
    assert row.final == "-103.5"
    assert row.hours == "0.03"
    assert row.command == "revd train --task MountainCar-v0 --reward revd --seed 2"


def test_unfinished_and_damaged_runs_say_so(tmp_path):
    write_run(tmp_path / "a", returns=[1.0] * 20, state="running", status={"steps": 210})
    broken = write_run(tmp_path / "b", seed=2, returns=[1.0] * 20)
    with (broken / "episodes.csv").open("a") as file:
        file.write("oops\n")
    write_json(broken / "run.json", {"repeat": "rm -rf ~"})
    running, damaged = run_rows(load_runs(tmp_path))
    assert (running.state, running.steps, running.final, running.hours) == ("running", "210 of 1,000", "—", "—")
    assert (damaged.state, damaged.final, damaged.command) == ("damaged", "—", None)


@pytest.mark.parametrize("value", [0.0, 5e15, -1e300])
def test_one_value_stands_in_the_middle_however_large_it_is(tmp_path, value):
    make_runs(tmp_path, {"returns": [value] * 20})
    (found,) = results(analyse_runs(load_runs(tmp_path)))
    assert found.rows[0].bar.value == pytest.approx(50)


@pytest.mark.parametrize(
    ("count", "title"),
    [(1, "PPO on T0"), (2, "PPO on T0 and T1"), (3, "PPO on T0, T1 and T2"), (4, "PPO on 4 tasks")],
)
def test_the_title_names_what_is_compared(tmp_path, count, title):
    for number in range(count):
        write_run(tmp_path / str(number), task=f"T{number}", returns=[1.0] * 9)
    assert page_title(analyse_runs(load_runs(tmp_path))) == title
