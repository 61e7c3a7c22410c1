from dataclasses import replace

import pytest

from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory, Status
from revd.tuning.records import TrialRecord, all_scores_equal, best_trials, rank, sort_trials, write_results
from revd.tuning.scores import passed_parts, run_scores, trial_scores


def test_passed_parts():
    assert [passed_parts(reached, 1000) for reached in (0, 99, 100, 999, 1000, 1280)] == [0, 0, 1, 9, 10, 10]


def run_directory(path, rows, *, steps, total=100):
    directory = RunDirectory(path)
    directory.start(TrainConfig(task="CartPole-v1", steps=total), resolved={}, steps=0)
    directory.write_status(Status(state="running", steps=steps, total_steps=total))
    directory.episodes.write_text("steps,return,length,env\n" + rows)
    return directory


def test_a_run_is_scored_up_to_where_it_is(tmp_path):
    directory = run_directory(tmp_path, "5,1.0,5,0\n15,3.0,5,0\n31,9.0,5,0\n", steps=32)
    assert run_scores(directory, 100, "final") == [1.0, 3.0, 3.0]
    assert run_scores(directory, 100, "mean") == [1.0, 2.0, pytest.approx(7 / 3)]


def test_the_mean_begins_with_the_first_episode(tmp_path):
    directory = run_directory(tmp_path, "15,3.0,5,0\n25,5.0,5,0\n", steps=30)
    assert run_scores(directory, 100, "mean") == [None, 3.0, 4.0]


def test_rows_that_are_incomplete_or_no_numbers_do_not_count(tmp_path):
    directory = run_directory(tmp_path, "5,1.0,5,0\n6,nan,5,0\n7,x,5,0\n8\n9,700", steps=10)
    assert run_scores(directory, 100, "final") == [1.0]


def test_a_run_that_has_not_begun_has_no_scores(tmp_path):
    assert run_scores(RunDirectory(tmp_path / "none"), 100, "final") == []


def test_a_session_that_returns_to_a_checkpoint_makes_no_false_score(tmp_path, monkeypatch):
    directory = run_directory(tmp_path, "5,1.0,5,0\n", steps=50)
    statuses = [replace(directory.read_status(), steps=steps) for steps in (50, 10)]
    monkeypatch.setattr(directory, "read_status", lambda: statuses.pop(0))
    assert run_scores(directory, 100, "final") == [1.0]


def test_a_trial_is_judged_seed_by_seed_in_a_fixed_order():
    first, second = [float(part) for part in range(1, 11)], [2.0, 4.0, 6.0]
    scores = trial_scores([first, second])
    assert scores == {**{part: float(part) for part in range(1, 11)}, 11: 1.5, 12: 3.0, 13: 4.5}
    assert trial_scores([second, first]) == {1: 2.0, 2: 4.0, 3: 6.0}, "the second run waits for the first"


def test_parts_without_an_episode_have_no_score():
    assert trial_scores([[None, 2.0]]) == {2: 2.0}
    assert trial_scores([[1.0] * 10, [None, 3.0]]) == {**dict.fromkeys(range(1, 11), 1.0), 12: 2.0}


def record(number, state, score=None, error=None):
    return TrialRecord(
        number=number, state=state, values={"weight": number / 10, "k": number}, score=score, steps=7, error=error
    )


RECORDS = [
    record(0, "finished", -5.0),
    record(1, "pruned", 9.0),
    record(2, "failed", None, "ValueError: no, not this"),
    record(3, "finished", 2.0),
    record(4, "running"),
    record(5, "finished", 0.0),
]


def test_only_finished_trials_are_ranked():
    assert [one.number for one in sort_trials(RECORDS)] == [3, 5, 0, 4, 1, 2]
    assert [rank(one, RECORDS) for one in RECORDS] == [3, None, None, 1, None, 2]
    assert best_trials(RECORDS) == [RECORDS[3]]
    assert best_trials(RECORDS[1:3]) == best_trials([]) == []


def test_equal_scores_have_equal_ranks():
    tied = [record(0, "finished", 2.0), record(1, "finished", 1.0), record(2, "finished", 2.0)]
    assert [rank(one, tied) for one in tied] == [1, 3, 1]
    assert best_trials(tied) == [tied[0], tied[2]]
    assert not all_scores_equal(tied)


def test_with_equal_scores_no_trial_is_the_best():
    tied = [record(0, "finished", 2.0), record(1, "pruned", 1.0), record(2, "finished", 2.0)]
    assert all_scores_equal(tied)
    assert best_trials(tied) == []
    assert not all_scores_equal(tied[:2]), "one alone is the best"
    assert best_trials(tied[:2]) == [tied[0]]


def test_the_results_are_a_table(tmp_path):
    write_results(tmp_path / "results.csv", RECORDS, ["weight", "k"])
    lines = (tmp_path / "results.csv").read_text().splitlines()
    assert lines[:2] == ["rank,trial,state,score,steps,weight,k,error", "1,3,finished,2.0,7,0.3,3,"]
    assert lines[5:] == [",1,pruned,9.0,7,0.1,1,", ',2,failed,,7,0.2,2,"ValueError: no, not this"']
