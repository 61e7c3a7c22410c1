import json
import math
import os
from dataclasses import replace

import optuna
import pytest

from revd.experiments.config import Parameters, TrainConfig
from revd.experiments.rundir import RunDirectory
from revd.experiments.tuning.config import TuneConfig
from revd.experiments.tuning.driver import FAILURES_IN_A_ROW, SearchFailedError, tune
from revd.experiments.tuning.journal import FIRST_PARTS, FIRST_TRIALS
from revd.experiments.tuning.parameters import make_space
from tests.support.fake_runs import FakeBackend

#: More than the ten that the sampler draws without looking at any.
MANY = 14
TRAINING = TrainConfig(task="CartPole-v1", steps=1000, n_envs=2)


@pytest.fixture(autouse=True)
def no_waiting_for_disks(monkeypatch):
    """No power is cut here, and to wait for thousands of small files takes most of the time."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


@pytest.fixture(scope="module")
def space():
    return make_space(TRAINING, ["weight", "k=1:15"])


def earns(config, part):
    """Best at a weight of 1, and the better the longer it goes on."""
    return part - 5 * abs(math.log10(config.weight)) + config.seed


def search(path, space, **settings):
    return TuneConfig(training=replace(TRAINING, output=path), space=space, **{"trials": 8, **settings})


def run(config, *, backend=None, parts=1, looks=math.inf):
    """Search with fake runs that go on by so many parts between two looks; interrupted after so many looks."""
    backend = backend or FakeBackend(earns)
    seen = []

    def watch(records):
        seen.append(records)
        if len(seen) > looks:
            raise KeyboardInterrupt
        backend.advance(parts)

    try:
        return tune(config, watch=watch, backend=backend, interval=0)
    except KeyboardInterrupt:
        return None


def values(records):
    return [(one.number, dict(one.values)) for one in records]


def test_trials_are_runs_and_the_best_is_found(tmp_path, space):
    records = run(search(tmp_path, space, trials=20))
    assert [one.number for one in records] == list(range(20))
    assert records[0].values == {"weight": 0.1, "k": 3}, "the values without a search come first"
    finished = [one for one in records if one.state == "finished"]
    assert all(one.score == pytest.approx(10 - 5 * abs(math.log10(one.values["weight"]))) for one in finished)
    assert max(finished, key=lambda one: one.score).score > 9
    for one in records:
        config = RunDirectory(tmp_path / f"trials/{one.number:04d}/seed0").read_config()
        assert (config.weight, config.reward_params["k"]) == (one.values["weight"], one.values["k"])
    assert len((tmp_path / "results.csv").read_text().splitlines()) == 21


def test_equal_searches_are_equal(tmp_path, space):
    first, second = (run(search(tmp_path / name, space, trials=MANY), parts=5) for name in "12")
    assert first == second
    other = replace(search(tmp_path / "3", space), training=replace(TRAINING, seed=1, output=tmp_path / "3"))
    assert values(run(other))[1:] != values(first)[1:]


@pytest.mark.parametrize("looks", [0, 1, 4, 11, 23])
def test_an_interrupted_search_goes_on_as_if_nothing_had_happened(tmp_path, space, looks):
    whole = run(search(tmp_path / "whole", space, trials=MANY), parts=5)
    config, backend = search(tmp_path / "cut", space, trials=MANY), FakeBackend(earns)
    assert run(config, backend=backend, looks=looks, parts=5) is None
    assert not backend.running
    assert run(config, parts=5) == whole


def test_a_journal_that_was_cut_anywhere_leads_to_the_same_trials(tmp_path, space):
    config = search(tmp_path, space, trials=MANY)
    whole = run(config, parts=10)
    journal = tmp_path / "study.journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    for kept in range(0, len(lines), 11):
        journal.write_bytes(b"".join(lines[:kept]) + lines[kept][: len(lines[kept]) // 2])
        (tmp_path / "study.journal.lock").touch()
        assert run(config, parts=10) == whole


def test_finished_trials_stay_and_more_go_on(tmp_path, space):
    first = run(search(tmp_path, space, trials=3))
    backend = FakeBackend(earns)
    assert run(search(tmp_path, space, trials=3), backend=backend) == first
    assert backend.started == []
    more = run(search(tmp_path, space, trials=5), backend=backend)
    assert more[:3] == first
    assert len(backend.started) == 2


def test_runs_at_a_time(tmp_path, space):
    most = []
    backend = FakeBackend(earns)

    def watch(records):
        most.append(backend.running)
        backend.advance(4)

    tune(search(tmp_path, space, jobs=3, seeds=2, prune=False), watch=watch, backend=backend, interval=0)
    assert max(most) == 3
    assert len(backend.started) == 16


def test_a_trial_is_averaged_over_seeds(tmp_path, space):
    training = replace(TRAINING, seed=4, output=tmp_path)
    config = replace(search(tmp_path, space, trials=1, seeds=3), training=training)
    (record,) = run(config)
    assert record.score == pytest.approx(10 - 5 + (4 + 5 + 6) / 3)
    assert record.steps == 3000
    assert sorted(path.name for path in (tmp_path / "trials/0000").iterdir()) == ["seed4", "seed5", "seed6"]


def test_the_mean_over_the_training_can_be_searched(tmp_path, space):
    (record,) = run(search(tmp_path, space, trials=1, metric="mean"))
    assert record.score == pytest.approx(5.5 - 5)


def test_bad_trials_are_pruned_after_the_warm_up(tmp_path, space):
    records = run(search(tmp_path, space, trials=20))
    pruned = [one for one in records if one.state == "pruned"]
    assert pruned
    assert all(one.number >= FIRST_TRIALS for one in pruned)
    assert all(FIRST_PARTS * 100 <= one.steps < 1000 for one in pruned)
    for one in pruned:
        status = RunDirectory(tmp_path / f"trials/{one.number:04d}/seed0").read_status()
        assert (status.state, status.steps) == ("interrupted", one.steps), "what it has done is kept"


@pytest.mark.parametrize("parts", [3, 10])
def test_pruning_does_not_depend_on_when_one_looks(tmp_path, space, parts):
    often, rarely = (run(search(tmp_path / str(count), space, trials=20), parts=count) for count in (1, parts))
    assert [replace(one, steps=0) for one in often] == [replace(one, steps=0) for one in rarely]


def test_with_several_seeds_a_bad_trial_is_pruned_during_its_first(tmp_path, space):
    backend = FakeBackend(earns)
    records = run(search(tmp_path, space, trials=12, seeds=3), backend=backend)
    pruned = {one.number for one in records if one.state == "pruned"}
    assert pruned
    assert len(backend.started) < 12 * 3


def test_without_a_pruner_all_come_to_their_end(tmp_path, space):
    records = run(search(tmp_path, space, trials=12, prune=False))
    assert {one.state for one in records} == {"finished"}


def test_a_failing_trial_leaves_the_others_alone(tmp_path, space):
    def breaks(config):
        return "environment 1 broke" if config.weight > 1 else None

    backend = FakeBackend(earns, breaks=breaks)
    records = run(search(tmp_path, space), backend=backend)
    failed = [one for one in records if one.state == "failed"]
    assert failed
    assert all(one.values["weight"] > 1 and one.error == "environment 1 broke" for one in failed)
    assert {one.state for one in records if one.values["weight"] <= 1} <= {"finished", "pruned"}
    starts = [config.directory.parent.name for config in backend.started]
    assert all(starts.count(f"{one.number:04d}") == 2 for one in failed), "each was tried again once"
    assert ",failed," in (tmp_path / "results.csv").read_text()


def test_one_failure_after_the_other_ends_the_search(tmp_path, space):
    backend = FakeBackend(earns, breaks=lambda config: "the disk is full")
    with pytest.raises(SearchFailedError, match=f"{FAILURES_IN_A_ROW} trials failed .* the disk is full; once the"):
        run(search(tmp_path, space, trials=100, retries=0), backend=backend)
    assert len(backend.started) == FAILURES_IN_A_ROW
    assert len(run(search(tmp_path, space, trials=7))) == 7


def test_runs_that_cannot_be_started_fail(tmp_path, space):
    class Full:
        def start(self, config):
            raise OSError("no room")

    with pytest.raises(SearchFailedError, match="cannot be started: no room"):
        tune(search(tmp_path, space), watch=lambda records: None, backend=Full(), interval=0)


def test_without_an_episode_there_is_no_score(tmp_path, space):
    (record,) = run(search(tmp_path, space, trials=1), backend=FakeBackend(lambda config, part: None))
    assert record.error == "no episode ended within 1,000 steps; it takes more --steps"


def test_a_run_that_was_interrupted_by_others_has_failed(tmp_path, space):
    backend = FakeBackend(earns)

    def watch(records):
        for attempt in backend.attempts:
            attempt.ask_to_stop()

    (record,) = tune(search(tmp_path, space, trials=1, retries=0), watch=watch, backend=backend, interval=0)
    assert (record.state, record.error) == ("failed", "it was interrupted")


def test_optunas_own_tools_can_read_the_journal(tmp_path, space):
    records = run(search(tmp_path, space))
    backend = optuna.storages.journal.JournalFileBackend(str(tmp_path / "study.journal"))
    study = optuna.load_study(study_name="revd", storage=optuna.storages.JournalStorage(backend))
    assert study.best_value == max(one.score for one in records if one.state == "finished")


def test_another_search_is_refused_with_what_differs(tmp_path, space):
    run(search(tmp_path, space, trials=1))
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


def test_how_a_search_runs_may_change(tmp_path, space):
    run(search(tmp_path, space, trials=1))
    config = search(tmp_path, space, trials=2, jobs=2, prune=False, retries=0)
    assert len(run(replace(config, training=replace(config.training, device="cpu", checkpoint_every=5)))) == 2


def test_places_where_no_search_can_be(tmp_path, space):
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError, match="is a file; it must be a directory"):
        run(search(tmp_path / "file", space))
    RunDirectory(tmp_path / "run").start(TRAINING, resolved={}, steps=0)
    with pytest.raises(FileExistsError, match="holds a run, and no search"):
        run(search(tmp_path / "run", space))
    for content in ("{", "[]", json.dumps({"training": {"task": "x"}})):
        (tmp_path / "study.json").write_text(content)
        with pytest.raises(ValueError, match=r"study\.json' is damaged or describes no search"):
            run(search(tmp_path, space))


def test_a_damaged_journal_is_refused(tmp_path, space):
    run(search(tmp_path, space, trials=1))
    journal = tmp_path / "study.journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:5], b"garbage\n", *lines[5:]]))
    with pytest.raises(ValueError, match=r"study\.journal' is damaged, or no journal of Optuna"):
        run(search(tmp_path, space, trials=1))


def test_one_driver_at_a_time(tmp_path, space):
    with RunDirectory(tmp_path).locked(), pytest.raises(FileExistsError, match="another process is training in"):
        run(search(tmp_path, space))


def test_links_do_not_lead_runs_elsewhere(tmp_path, space):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "search/trials").mkdir(parents=True)
    (tmp_path / "search/trials/0000").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="a symbolic link leads the run"):
        run(search(tmp_path / "search", space))
    assert not list((tmp_path / "elsewhere").iterdir())
    (tmp_path / "other").mkdir()
    (tmp_path / "other/study.journal").symlink_to(tmp_path / "victim")
    with pytest.raises(ValueError, match="is a symbolic link"):
        run(search(tmp_path / "other", space))
    assert not (tmp_path / "victim").exists()


def test_trials_of_a_lost_journal_are_not_taken_for_others(tmp_path, space):
    run(search(tmp_path, space, trials=2))
    (tmp_path / "study.journal").unlink()
    other = replace(RunDirectory(tmp_path / "trials/0001/seed0").read_config(), weight=0.5)
    (tmp_path / "trials/0001/seed0/config.json").write_text(other.to_json())
    with pytest.raises(FileExistsError, match="trials/0001/seed0' already holds a run with other settings"):
        run(search(tmp_path, space, trials=2))


def test_leftovers_are_cleared_away(tmp_path, space):
    (tmp_path / ".123.results.csv").touch()
    run(search(tmp_path, space, trials=1))
    assert not (tmp_path / ".123.results.csv").exists()
