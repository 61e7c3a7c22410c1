from collections import Counter
from pathlib import Path

import pytest

from revd.envs.tasks import TASKS
from revd.suites.grids import SUITES, find_suite, method_names, suite_runs


@pytest.mark.parametrize("name", SUITES)
def test_every_suite_is_a_full_grid_of_distinct_runs(name):
    suite, runs = SUITES[name], suite_runs(name)
    assert len(runs) == len(suite.tasks) * len(suite.methods) * len(suite.seeds) * len(suite.variants)
    assert len({config.directory for config in runs}) == len(runs)
    assert all(config.task in TASKS for config in runs)


@pytest.mark.parametrize("suite", ["atari", "bullet"])
def test_the_papers_grids(suite):
    methods = Counter(config.method for config in suite_runs(f"paper-{suite}"))
    expected = {"PPO", "PPO+REVD", "PPO+RE3", "PPO+RIDE", "A2C", "A2C+REVD"}
    assert methods == dict.fromkeys(expected, 60), "six tasks, ten seeds"
    sparse = suite_runs(f"paper-{suite}-sparse")
    assert {config.sparse for config in sparse} == {0.9}
    assert {config.method for config in sparse} == {"PPO", "PPO+REVD", "PPO+RE3", "PPO+RIDE"}


def test_re3s_grid_uses_seeds_of_its_own():
    runs = suite_runs("re3-grid-bullet")
    assert {(config.decay, config.reward_params["k"]) for config in runs} == {
        (decay, k) for decay in (1e-3, 1e-4, 1e-5) for k in (5, 10)
    }
    assert not {config.seed for config in runs} & {config.seed for config in suite_runs("paper-bullet")}
    assert {config.reward_params["log"] for config in runs} == {False}


def test_runs_without_a_bonus_have_none_of_its_settings_and_their_command_can_be_repeated():
    plain, paid = suite_runs("smoke", tasks=["classic/cart-pole"], methods=["ppo", "ppo+revd"], seeds=[0])
    assert "--weight" not in plain.command()
    assert "--weight 1.0" in paid.command()


def test_selection():
    runs = suite_runs(
        "paper-bullet",
        tasks=["bullet/ant"],
        methods=["ppo", "ppo+revd"],
        seeds=[7],
        steps=123,
        output=Path("here"),
    )
    assert [str(config.directory) for config in runs] == [
        "here/bullet-ant/ppo-none-seed7",
        "here/bullet-ant/ppo-revd-seed7",
    ]
    assert {config.steps for config in runs} == {123}


def test_shards_are_a_partition():
    whole = suite_runs("smoke")
    shards = [suite_runs("smoke", shard=(index, 5)) for index in range(1, 6)]
    assert sorted(config.directory for shard in shards for config in shard) == sorted(
        config.directory for config in whole
    )
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


def test_an_early_stop_leaves_complete_comparisons():
    runs = suite_runs("paper-bullet")
    first = runs[: len(runs) // 10]
    assert {config.seed for config in first} == {0}
    assert {config.task for config in first} == set(SUITES["paper-bullet"].tasks)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"tasks": ["bullet/hoper"]}, "did you mean 'bullet/hopper'"),
        ({"methods": ["ppo+rvd"]}, r"did you mean 'ppo\+revd'"),
        ({"shard": (0, 2)}, "got 0/2"),
        ({"shard": (3, 2)}, "got 3/2"),
    ],
)
def test_wrong_selections(asked, message):
    with pytest.raises(ValueError, match=message):
        suite_runs("paper-bullet", **asked)


def test_unknown_suites_and_method_names():
    with pytest.raises(ValueError, match="did you mean 'smoke'"):
        find_suite("smok")
    assert list(method_names(SUITES["smoke"]))[:2] == ["ppo", "ppo+revd"]


def test_other_rewards_are_run_with_each_algorithm():
    runs = suite_runs("smoke", rewards=["mypkg.rewards:Mine", "revd+re3"], tasks=["classic/cart-pole"], seeds=[0])
    assert [(config.algo, config.reward, config.directory.name) for config in runs] == [
        ("ppo", "mypkg.rewards:Mine", "ppo-mypkg.rewards-Mine-seed0"),
        ("ppo", "revd+re3", "ppo-revd+re3-seed0"),
        ("a2c", "mypkg.rewards:Mine", "a2c-mypkg.rewards-Mine-seed0"),
        ("a2c", "revd+re3", "a2c-revd+re3-seed0"),
    ]
    assert [config.method for config in runs] == ["PPO+Mine", "PPO+REVD+RE3", "A2C+Mine", "A2C+REVD+RE3"]


def test_rewards_are_added_to_chosen_methods():
    chosen = {"tasks": ["bullet/hopper"], "seeds": [0], "methods": ["ppo", "ppo+revd"]}
    runs = suite_runs("paper-bullet-sparse", rewards=["re3", "revd"], **chosen)
    assert [config.method for config in runs] == ["PPO", "PPO+REVD", "PPO+RE3"]
