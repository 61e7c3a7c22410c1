import math
from collections import Counter
from dataclasses import replace

import pytest

from revd.episodes import PARTS
from revd.runs.directory import RunDirectory
from revd.tuning.pruning import MIN_FINISHED_TRIALS, MIN_PARTS, is_below_median
from tests.support.fake_runs import FakeLauncher
from tests.support.fake_searches import earns, run, search

FINISHED = [{part: float(score) for part in range(1, 3 * PARTS)} for score in range(MIN_FINISHED_TRIALS)]


def test_a_score_below_the_median():
    assert is_below_median(4, 1.9, FINISHED)
    assert not is_below_median(4, 2.0, FINISHED)


@pytest.mark.parametrize("run_before", [0, PARTS, 2 * PARTS])
def test_the_beginning_of_each_run_is_not_judged(run_before):
    judged = [part for part in range(1, PARTS) if is_below_median(run_before + part, -1.0, FINISHED)]
    assert judged == list(range(MIN_PARTS, PARTS))


def test_few_finished_trials_prune_nothing():
    assert not is_below_median(4, -1.0, FINISHED[1:])
    assert not is_below_median(4, -1.0, [*FINISHED[1:], {4: math.nan}])
    assert not is_below_median(4, -1.0, [*FINISHED[1:], {5: 0.0}])


def test_a_good_first_seed_does_not_shield_those_after_it(tmp_path):
    def disappoints(config, part):
        late = int(config.directory.parent.name) >= MIN_FINISHED_TRIALS
        return part - 1000 * config.seed if late else part

    records = run(search(tmp_path, trials=MIN_FINISHED_TRIALS + 1, seeds=2), launcher=FakeLauncher(disappoints))
    assert [one.state for one in records] == ["finished"] * MIN_FINISHED_TRIALS + ["pruned"]
    assert records[-1].steps == 1000 + MIN_PARTS * 100


def test_bad_trials_are_pruned_after_the_warm_up(tmp_path):
    records = run(search(tmp_path, trials=20))
    pruned = [one for one in records if one.state == "pruned"]
    assert pruned
    assert all(one.number >= MIN_FINISHED_TRIALS for one in pruned)
    assert all(MIN_PARTS * 100 <= one.steps < 1000 for one in pruned)
    for one in pruned:
        status = RunDirectory(tmp_path / f"trials/{one.number:04d}/seed0").read_status()
        assert (status.state, status.steps) == ("interrupted", one.steps), "its steps are kept"
        assert status.error == "stopped by the search: other trials did better"


@pytest.mark.parametrize("parts", [3, 10])
def test_pruning_does_not_depend_on_the_interval(tmp_path, parts):
    often, rarely = (run(search(tmp_path / str(count), trials=20), parts=count) for count in (1, parts))
    assert [replace(one, steps=0) for one in often] == [replace(one, steps=0) for one in rarely]


def test_with_several_seeds_a_bad_trial_is_pruned_during_its_first(tmp_path):
    launcher = FakeLauncher(earns)
    records = run(search(tmp_path, trials=12, seeds=3), launcher=launcher)
    pruned = {f"{one.number:04d}" for one in records if one.state == "pruned"}
    assert 0 < len(pruned) < 12
    started = Counter(config.directory.parent.name for config in launcher.started)
    assert started == {f"{one:04d}": 1 if f"{one:04d}" in pruned else 3 for one in range(12)}


def test_the_first_trial_is_never_pruned(tmp_path):
    def breaks(config):
        return "the disk is full" if config.directory.parent.name == "0000" else None

    config = search(tmp_path, trials=MIN_FINISHED_TRIALS + 1)
    worst_first = FakeLauncher(
        lambda config, part: part - 100 * (config.directory.parent.name == "0000"), breaks=breaks
    )
    assert [one.state for one in run(config, launcher=worst_first)] == ["failed"] + ["finished"] * MIN_FINISHED_TRIALS
    worst_first.breaks = lambda config: None
    assert {one.state for one in run(config, launcher=worst_first)} == {"finished"}


def test_without_a_pruner_all_trials_finish(tmp_path):
    records = run(search(tmp_path, trials=12, prune=False))
    assert {one.state for one in records} == {"finished"}
