import numpy as np
import pytest

from revd.analysis.reading.runs import load_run, load_runs
from revd.analysis.statistics.scores import RunScore, final_score, score_limits, score_matrices, score_runs
from tests.analysis.support import write_run


def score(task, method, normalized, seed=0):
    return RunScore(task=task, method=method, seed=seed, steps=100, final=0.0, normalized=normalized)


def test_scores_lie_between_the_worst_and_the_best_run_of_a_task(tmp_path):
    write_run(tmp_path / "a", method="PPO", seed=1, returns=[0, 20], spacing=500)
    write_run(tmp_path / "b", method="PPO", seed=2, returns=[100, 60, 100], spacing=450)
    write_run(tmp_path / "c", method="PPO+REVD", returns=[40, 40])
    write_run(tmp_path / "d", method="PPO", task="CartPole-v1", returns=[7])
    write_run(tmp_path / "e", method="PPO", sparse=0.5, returns=[1000])
    write_run(tmp_path / "f", method="PPO", seed=3, returns=[-999], state="running")
    write_run(tmp_path / "g", method="PPO", seed=4, returns=[])
    damaged = write_run(tmp_path / "h", method="PPO", seed=5, returns=[-999])
    (damaged / "episodes.csv").write_text("steps,return,length,env\n10,-999,10,0\n20")
    runs = load_runs(tmp_path)
    limits = score_limits(runs)
    assert limits == {
        ("MountainCar-v0", None): (20, 60), ("CartPole-v1", None): (7, 7), ("MountainCar-v0", 0.5): (1000, 1000)
    }  # fmt: skip
    found = {run.directory.name: value for run in runs for value in score_runs([run], limits)}
    assert {name: (value.final, value.normalized) for name, value in found.items()} == {
        "a": (20, 0), "b": (60, 1), "c": (40, 0.5), "d": (7, 0.5), "e": (1000, 0.5)
    }  # fmt: skip
    assert found["b"] == RunScore(task="MountainCar-v0", method="PPO", seed=2, steps=1000, final=60, normalized=1)


def test_episodes_after_the_requested_steps_do_not_count(tmp_path):
    run = load_run(write_run(tmp_path / "a", steps=200, returns=[1, 3, *[0] * 16, 5, 7, 100]))
    assert final_score(run) == 6
    assert np.isnan(final_score(load_run(write_run(tmp_path / "b", steps=5, returns=[1]))))
    assert np.isnan(final_score(load_run(write_run(tmp_path / "c", returns=[1], state="running"))))


def test_matrices_are_runs_by_tasks():
    scores = [score(task, "PPO", value) for task, value in (("a", 0.1), ("b", 0.3), ("a", 0.2), ("b", 0.4))]
    found = score_matrices(scores, ["PPO"])
    assert found.tasks == ("a", "b")
    np.testing.assert_array_equal(found.scores["PPO"], [[0.1, 0.3], [0.2, 0.4]])
    assert found.notes == ()


def test_omissions_are_noted():
    scores = [score("a", method, 0.5, seed) for method in ("PPO", "A2C") for seed in range(3)]
    scores += [score("b", "PPO", 0.5, seed) for seed in range(2)]
    scores += [score("b", "A2C", 0.5)]
    scores += [score("c", "PPO", 0.5)]
    found = score_matrices(scores, ["PPO", "A2C", "TRPO"])
    assert found.tasks == ("a", "b")
    assert {method: matrix.shape for method, matrix in found.scores.items()} == {"PPO": (2, 2)}
    assert found.notes == (
        "TRPO has no finished run",
        "c is left out: not every method has a finished run on it",
        "PPO: 1 of its runs left out, for an equal number on every task",
        "A2C is left out: intervals need at least 2 seeds on every task",
    )


@pytest.mark.parametrize("scores", [[], [score("a", "PPO", 0.5), score("b", "A2C", 0.5)]])
def test_without_a_common_task_there_are_no_matrices(scores):
    assert not score_matrices(scores, ["PPO", "A2C"]).scores
