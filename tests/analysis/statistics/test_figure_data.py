import numpy as np
import pytest

from revd.analysis.reading.runs import load_runs
from revd.analysis.statistics.figure_data import analyse_runs
from tests.analysis.support import write_run


def notes_of(folder):
    (result,) = analyse_runs(load_runs(folder)).figures
    return result.notes


def test_curves_are_by_task_and_method_on_one_grid(tmp_path):
    write_run(tmp_path / "a", method="PPO", steps=1000, returns=[1] * 100)
    write_run(tmp_path / "b", method="PPO", seed=2, steps=1000, returns=[3] * 100)
    write_run(tmp_path / "c", method="PPO+REVD", steps=2000, returns=[5] * 200)
    (result,) = analyse_runs(load_runs(tmp_path)).figures
    plain, paid = result.curves["MountainCar-v0"].values()
    np.testing.assert_array_equal(plain.steps, np.arange(10, 1001, 10))
    np.testing.assert_array_equal(paid.steps, np.arange(10, 2001, 10))
    np.testing.assert_array_equal(plain.mean, 2)
    np.testing.assert_allclose(plain.deviation, np.sqrt(2))
    assert (plain.seeds, paid.seeds) == (2, 1)
    assert [score.final for score in result.scores] == [1, 3, 5]
    assert "MountainCar-v0: final returns are of runs of different lengths, 1,000 and 2,000 steps" in result.notes


def test_bands_are_cut_off_at_the_range_of_returns(tmp_path):
    for seed, value in ((1, 0), (2, 0), (3, 30)):
        write_run(tmp_path / str(seed), seed=seed, returns=[value] * 100)
    write_run(tmp_path / "c", method="PPO+REVD", returns=[-2] * 100)
    (result,) = analyse_runs(load_runs(tmp_path)).figures
    curve = result.curves["MountainCar-v0"]["PPO"]
    assert curve.mean[-1] - curve.deviation[-1] < -2, "so that there is something to cut off"
    np.testing.assert_array_equal(curve.low, -2)
    np.testing.assert_allclose(curve.high, 10 + np.sqrt(300))


def test_a_final_return_of_an_earlier_tenth_is_noted(tmp_path):
    write_run(tmp_path / "a", returns=[1] * 85)
    write_run(tmp_path / "b", method="PPO+REVD", steps=5, returns=[1])
    notes = notes_of(tmp_path)
    assert (
        "PPO on MountainCar-v0, seed 1, had no episode end in the last tenth of its steps: its final return is of "
        "tenth 9 of 10"
    ) in notes
    assert "PPO+REVD on MountainCar-v0, seed 1, has no final return: no episode ended within its 5 steps" in notes


def test_unfinished_runs_cut_their_method_and_are_noted(tmp_path):
    write_run(tmp_path / "a", returns=[1] * 100)
    write_run(tmp_path / "b", seed=2, returns=[2] * 40, state="running")
    (result,) = analyse_runs(load_runs(tmp_path)).figures
    curve = result.curves["MountainCar-v0"]["PPO"]
    assert (curve.steps[-1], curve.seeds) == (400, 2)
    assert [score.seed for score in result.scores] == [1], "a run under way has no final return"
    assert result.notes[:2] == (
        "PPO on MountainCar-v0, seed 2, is unfinished (running), at 400 of 1,000 steps",
        "PPO on MountainCar-v0: cut at 400 steps, which all its runs reached (the longest: 1,000)",
    )


def test_a_repeated_seed_is_noted(tmp_path):
    for name in ("a", "b"):
        write_run(tmp_path / name, returns=[1] * 100)
    write_run(tmp_path / "c", seed=2, returns=[2] * 100)
    repeated = [note for note in notes_of(tmp_path) if "too small" in note]
    assert repeated == [
        "PPO on MountainCar-v0, seed 1, appears 2 times, each counted as a run of its own: deviations and intervals "
        "are too small"
    ]


def test_failed_and_empty_runs_are_left_out_and_noted(tmp_path):
    write_run(tmp_path / "a", returns=[1] * 100)
    write_run(tmp_path / "b", seed=2, returns=[2] * 2, state="failed")
    write_run(tmp_path / "c", seed=3, state="waiting")
    (result,) = analyse_runs(load_runs(tmp_path)).figures
    assert result.curves["MountainCar-v0"]["PPO"].seeds == 1
    assert result.curves["MountainCar-v0"]["PPO"].steps[-1] == 1000
    assert "PPO on MountainCar-v0, seed 2, failed at 20 of 1,000 steps and is left out" in result.notes
    assert "PPO on MountainCar-v0, seed 3, has no finished episode and is left out" in result.notes


def test_a_method_whose_runs_hardly_began_has_no_curve(tmp_path):
    write_run(tmp_path / "a", returns=[1] * 100)
    write_run(tmp_path / "b", method="PPO+REVD", returns=[1], spacing=2, state="running")
    assert "PPO+REVD on MountainCar-v0 has no curve" in " ".join(notes_of(tmp_path))


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([("PPO", 1)], ["PPO is left out: intervals need at least 2 seeds", "no interquartile mean, profile or"]),
        (
            [("PPO", 1), ("PPO", 2)],
            ["there is only one task, MountainCar-v0", "no probability of improvement can be drawn"],
        ),
        ([("PPO", 1), ("PPO", 2), ("PPO+REVD", 1)], ["PPO+REVD is left out: intervals need at least 2 seeds"]),
    ],
)
def test_missing_comparisons_are_noted(tmp_path, runs, expected):
    for index, (method, seed) in enumerate(runs):
        write_run(tmp_path / str(index), method=method, seed=seed, returns=[seed] * 100)
    notes = " ".join(notes_of(tmp_path))
    assert all(text in notes for text in expected)


def test_nothing_to_draw_gives_no_result(tmp_path):
    write_run(tmp_path / "a", returns=[1] * 9, state="failed")
    found = analyse_runs(load_runs(tmp_path))
    assert found.figures == ()
    assert found.methods == ["PPO"]


def test_two_tasks_with_seeds_are_compared(tmp_path):
    for method, value in (("PPO", 0), ("PPO+REVD", 1)):
        for task in ("bullet/ant", "bullet/hopper"):
            for seed in (1, 2):
                write_run(
                    tmp_path / f"{method}{task}{seed}",
                    method=method,
                    task=task,
                    seed=seed,
                    steps=90,
                    returns=[value] * 9,
                )
    (result,) = analyse_runs(load_runs(tmp_path)).figures
    assert result.aggregate.improvements["PPO+REVD", "PPO"].value == 1
    assert (result.aggregate.iqm["PPO"].value, result.aggregate.iqm["PPO+REVD"].value) == (0, 1)
    assert result.notes == ()


def write_grid(folder, tasks, **settings):
    for method, value in (("PPO", 0), ("PPO+REVD", 1)):
        for task in tasks:
            for seed in (1, 2):
                path = folder / f"{method}{task}{seed}{'-'.join(map(str, settings.values()))}"
                write_run(path, method=method, task=task, seed=seed, steps=90, returns=[value] * 9, **settings)


def test_the_tasks_of_all_families_are_compared_first(tmp_path):
    write_grid(tmp_path, ("bullet/ant", "bullet/hopper", "minigrid/door-key-8x8"))
    overall, *others = analyse_runs(load_runs(tmp_path)).figures
    assert overall.plan.name == "overall"
    assert overall.aggregate.tasks == ("bullet/ant", "bullet/hopper", "minigrid/door-key-8x8")
    assert overall.aggregate.improvements["PPO+REVD", "PPO"].value == 1
    assert overall.curves == {}
    assert overall.notes == ()
    assert [result.plan.name for result in others] == ["bullet-algorithms", "minigrid-algorithms"]


def test_families_are_not_compared_if_a_task_would_count_twice(tmp_path):
    write_grid(tmp_path, ("bullet/ant", "minigrid/door-key-8x8"))
    write_grid(tmp_path, ("bullet/ant",), sparse=0.9)
    assert "overall" not in [result.plan.name for result in analyse_runs(load_runs(tmp_path)).figures]


def test_families_are_not_compared_without_seeds(tmp_path):
    for task in ("bullet/ant", "minigrid/door-key-8x8"):
        write_run(tmp_path / task, task=task, returns=[1] * 100)
    assert "overall" not in [result.plan.name for result in analyse_runs(load_runs(tmp_path)).figures]


def test_the_best_methods_include_the_one_without_a_bonus(tmp_path):
    for value, method in enumerate(("PPO", "PPO+RND", "PPO+ICM", "PPO+NGU")):
        for seed in (1, 2):
            write_run(tmp_path / f"{method}{seed}", method=method, seed=seed, returns=[value] * 100)
    (result,) = analyse_runs(load_runs(tmp_path)).figures
    assert result.best_methods(2) == ["PPO", "PPO+NGU"]
    assert result.best_methods(3) == ["PPO", "PPO+ICM", "PPO+NGU"]
