import json
import math
from dataclasses import replace

import optuna
import pytest

from revd.runs.directory import RunDirectory
from revd.runs.parameters import Parameters
from revd.tuning.config import TuneConfig
from revd.tuning.driver import tune
from revd.tuning.parameters import make_space
from revd.tuning.scores import run_scores
from revd.tuning.trial import RunningTrial
from tests.support.fake_runs import FakeLauncher
from tests.support.fake_searches import TRAINING, earns, run, search

#: More than the ten trials that the sampler draws at random.
MANY = 14


def values(records):
    return [(one.number, dict(one.values)) for one in records]


def test_trials_are_runs_and_the_best_is_found(tmp_path):
    records = run(search(tmp_path, trials=20))
    assert [one.number for one in records] == list(range(20))
    assert records[0].values == {"weight": 0.1, "k": 3}, "the default values come first"
    finished = [one for one in records if one.state == "finished"]
    assert all(one.score == pytest.approx(10 - 5 * abs(math.log10(one.values["weight"]))) for one in finished)
    assert max(finished, key=lambda one: one.score).score > 9
    for one in records:
        config = RunDirectory(tmp_path / f"trials/{one.number:04d}/seed0").read_config()
        assert (config.weight, config.reward_params["k"]) == (one.values["weight"], one.values["k"])
    assert len((tmp_path / "results.csv").read_text().splitlines()) == 21


def test_equal_searches_are_equal(tmp_path):
    first, second = (run(search(tmp_path / name, trials=MANY), parts=5) for name in "12")
    assert first == second
    other = replace(search(tmp_path / "3"), training=replace(TRAINING, seed=1, output=tmp_path / "3"))
    assert values(run(other))[1:] != values(first)[1:]


@pytest.mark.parametrize("looks", [0, 1, 4, 11, 23])
def test_a_resumed_search_equals_an_uninterrupted_one(tmp_path, looks):
    whole = run(search(tmp_path / "whole", trials=MANY), parts=5)
    config, launcher = search(tmp_path / "cut", trials=MANY), FakeLauncher(earns)
    assert run(config, launcher=launcher, looks=looks, parts=5) is None
    assert not launcher.running
    assert run(config, parts=5) == whole


def test_a_journal_that_was_cut_anywhere_leads_to_the_same_trials(tmp_path):
    config = search(tmp_path)
    whole = run(config, parts=10)
    assert "pruned" in {one.state for one in whole}
    journal = tmp_path / "study.journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    for kept in range(len(lines)):
        journal.write_bytes(b"".join(lines[:kept]) + lines[kept][: kept % len(lines[kept])])
        (tmp_path / "study.journal.lock").touch()
        assert run(config, parts=10) == whole


def parts_in_journal(path):
    backend = optuna.storages.journal.JournalFileBackend(str(path / "study.journal"))
    study = optuna.load_study(study_name="revd", storage=optuna.storages.JournalStorage(backend))
    return [trial.intermediate_values for trial in study.get_trials()]


def parts_in_runs(path, number):
    scores = run_scores(RunDirectory(path / f"trials/{number:04d}/seed0"), TRAINING.steps, "final")
    return dict(enumerate(scores, 1))


def test_parts_that_were_repeated_replace_those_in_the_journal(tmp_path):
    config = search(tmp_path, trials=1)
    assert run(config, launcher=FakeLauncher(earns, checkpoints=4), looks=7) is None
    before = parts_in_runs(tmp_path, 0)
    assert parts_in_journal(tmp_path) == [before]
    assert len(before) == 7
    (record,) = run(config, launcher=FakeLauncher(earns, checkpoints=4, luck=50))
    now = parts_in_runs(tmp_path, 0)
    assert now[4] == before[4]
    assert now[5] == before[5] + 50
    assert record.score == now.pop(10)
    assert parts_in_journal(tmp_path) == [now]


def test_a_run_that_is_reset_between_two_looks_has_its_final_scores(tmp_path, monkeypatch):
    config, launcher = search(tmp_path, trials=1), FakeLauncher(earns, at_once=True)
    monkeypatch.setattr(RunningTrial, "_new_scores", lambda trial, statuses: {1: -1.0, 2: -2.0})
    run(config, launcher=launcher)
    now = parts_in_runs(tmp_path, 0)
    del now[10]
    assert parts_in_journal(tmp_path) == [now]


def test_a_trial_that_is_pruned_after_a_reset_has_its_newest_score(tmp_path):
    config = search(tmp_path, trials=6)
    run(replace(config, trials=5), parts=10)
    assert run(config, launcher=FakeLauncher(lambda config, part: 100.0, checkpoints=4), looks=7) is None
    assert len(parts_in_journal(tmp_path)[5]) == 7
    record = run(config, launcher=FakeLauncher(lambda config, part: 100.0, checkpoints=4, luck=-200))[5]
    assert (record.state, record.score, record.steps) == ("pruned", -100.0, 500)


@pytest.mark.parametrize("words", [["k=1:4", "boundary=rollout,episode"], ["weight=0.1:0.1003"]])
def test_no_trial_is_made_twice(tmp_path, words):
    records = run(search(tmp_path, make_space(TRAINING, words), trials=8), parts=10)
    assert len({str(one.values) for one in records}) == 8


def test_finished_trials_stay_and_more_can_be_added(tmp_path):
    first = run(search(tmp_path, trials=3))
    launcher = FakeLauncher(earns)
    assert run(search(tmp_path, trials=3), launcher=launcher) == first
    assert launcher.started == []
    more = run(search(tmp_path, trials=5), launcher=launcher)
    assert more[:3] == first
    assert len(launcher.started) == 2


def test_runs_at_a_time(tmp_path):
    most = []
    launcher = FakeLauncher(earns)

    def watch(records):
        most.append(launcher.running)
        launcher.advance(4)

    tune(search(tmp_path, jobs=3, seeds=2, prune=False), watch=watch, launcher=launcher, interval=0)
    assert max(most) == 3
    assert len(launcher.started) == 16


def test_a_trial_is_averaged_over_seeds(tmp_path):
    training = replace(TRAINING, seed=4, output=tmp_path)
    config = replace(search(tmp_path, trials=1, seeds=3), training=training)
    (record,) = run(config)
    assert record.score == pytest.approx(10 - 5 + (4 + 5 + 6) / 3)
    assert record.steps == 3000
    assert sorted(path.name for path in (tmp_path / "trials/0000").iterdir()) == ["seed4", "seed5", "seed6"]


def test_the_mean_over_the_training_can_be_searched(tmp_path):
    (record,) = run(search(tmp_path, trials=1, metric="mean"))
    assert record.score == pytest.approx(5.5 - 5)


def test_optunas_own_tools_can_read_the_journal(tmp_path):
    records = run(search(tmp_path))
    backend = optuna.storages.journal.JournalFileBackend(str(tmp_path / "study.journal"))
    study = optuna.load_study(study_name="revd", storage=optuna.storages.JournalStorage(backend))
    assert study.best_value == max(one.score for one in records if one.state == "finished")


def test_another_search_is_refused_with_what_differs(tmp_path):
    run(search(tmp_path, trials=1))
    other = TuneConfig(
        training=replace(TRAINING, output=tmp_path, steps=2000, algo_params=Parameters(gamma=0.9)),
        space=make_space(TRAINING, ["weight=0.1:1", "alpha"]),
        metric="mean",
        seeds=2,
    )
    with pytest.raises(FileExistsError, match="already holds another search") as error:
        run(other)
    for difference in (
        "algo_params is {} there and {'gamma': 0.9} here",
        "steps is 1000 there and 2000 here",
        "seeds is 1 there and 2 here",
        "metric is 'final' there and 'mean' here",
        "search has weight=0.001:10.0:log there and weight=0.1:1.0 here",
        "search has k=1:15 there and no k here",
        "search has no alpha there and alpha=0.1:0.9 here",
    ):
        assert difference in str(error.value)


def test_options_of_the_execution_may_change(tmp_path):
    run(search(tmp_path, trials=1))
    config = search(tmp_path, trials=2, jobs=2, prune=False, retries=0)
    assert len(run(replace(config, training=replace(config.training, device="cpu", checkpoint_every=5)))) == 2


def test_directories_that_cannot_hold_a_search(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError, match="is a file; it must be a directory"):
        run(search(tmp_path / "file"))
    RunDirectory(tmp_path / "run").start(TRAINING, resolved={}, steps=0)
    with pytest.raises(FileExistsError, match="holds a run, not a search"):
        run(search(tmp_path / "run"))
    for content in ("{", "[]", json.dumps({"training": {"task": "x"}})):
        (tmp_path / "study.json").write_text(content)
        with pytest.raises(ValueError, match=r"study\.json' is damaged or does not describe a search"):
            run(search(tmp_path))


def test_a_journal_without_its_description_is_refused(tmp_path):
    run(search(tmp_path, trials=1))
    (tmp_path / "study.json").unlink()
    with pytest.raises(
        FileExistsError, match=r"study\.journal' holds trials, but study\.json beside it, .* is missing"
    ):
        run(search(tmp_path, trials=1))


def test_a_damaged_journal_is_refused(tmp_path):
    run(search(tmp_path, trials=1))
    journal = tmp_path / "study.journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:5], b"garbage\n", *lines[5:]]))
    with pytest.raises(ValueError, match=r"study\.journal' is damaged, or no journal of Optuna"):
        run(search(tmp_path, trials=1))


def test_one_driver_at_a_time(tmp_path):
    with RunDirectory(tmp_path).locked(), pytest.raises(FileExistsError, match="another process is training in"):
        run(search(tmp_path))


def test_links_do_not_lead_runs_elsewhere(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "search/trials").mkdir(parents=True)
    (tmp_path / "search/trials/0000").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="a symbolic link leads the run"):
        run(search(tmp_path / "search"))
    assert not list((tmp_path / "elsewhere").iterdir())
    (tmp_path / "other").mkdir()
    (tmp_path / "other/study.journal").symlink_to(tmp_path / "victim")
    with pytest.raises(ValueError, match="is a symbolic link"):
        run(search(tmp_path / "other"))
    assert not (tmp_path / "victim").exists()


def test_trials_of_a_lost_journal_are_not_reused(tmp_path):
    run(search(tmp_path, trials=2))
    (tmp_path / "study.journal").unlink()
    other = replace(RunDirectory(tmp_path / "trials/0001/seed0").read_config(), weight=0.5)
    (tmp_path / "trials/0001/seed0/config.json").write_text(other.to_json())
    with pytest.raises(FileExistsError, match="trials/0001/seed0' already holds a run with other settings"):
        run(search(tmp_path, trials=2))


def test_unfinished_files_are_removed(tmp_path):
    (tmp_path / ".123.results.csv").touch()
    run(search(tmp_path, trials=1))
    assert not (tmp_path / ".123.results.csv").exists()
