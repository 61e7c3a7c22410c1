from collections import Counter
from pathlib import Path

import pytest

from revd.envs.tasks import TASKS
from revd.rewards.revd import REVDConfig
from revd.runs.config import TrainConfig
from revd.suites.catalog import SUITES, find_suite
from revd.suites.grids import method_names, suite_runs


@pytest.mark.parametrize("name", SUITES)
def test_every_suite_is_a_full_grid_of_distinct_runs(name):
    suite, runs = SUITES[name], suite_runs(name)
    assert len(runs) == len(suite.tasks) * len(suite.methods) * len(suite.seeds) * len(suite.variants)
    assert len({config.directory for config in runs}) == len(runs)
    assert {config.task for config in runs} | set(suite.more_tasks) <= set(TASKS)


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


def test_tasks_and_methods_that_run_only_if_they_are_named():
    assert "atari/montezuma-revenge" not in {config.task for config in suite_runs("exploration")}
    (game,) = suite_runs("exploration", tasks=["atari/montezuma-revenge"], methods=["ppo+rnd"], seeds=[1])
    assert (game.steps, game.n_envs, game.network) == (10_000_000, 10, "paper")
    assert "ppo+revd-auto" not in {config.directory.name for config in suite_runs("paper-bullet")}
    automatic, fixed = suite_runs(
        "paper-bullet", tasks=["bullet/ant"], methods=["ppo+revd-auto", "ppo+revd"], seeds=[1]
    )
    assert automatic.weight == "auto"
    assert fixed.weight == 0.1
    assert automatic.algo_params == fixed.algo_params


@pytest.mark.parametrize("suite", ["paper-bullet", "paper-bullet-sparse", "balance-bullet"])
def test_the_automatic_weight_has_revds_own_defaults(suite):
    """The paper's presets set parameters, of which none may stay."""
    runs = suite_runs(suite, tasks=["bullet/hopper"], methods=list(method_names(find_suite(suite))), seeds=[1])
    automatic = [config for config in runs if (config.reward, config.weight) == ("revd", "auto")]
    assert automatic
    for config in automatic:
        assert REVDConfig(**config.reward_params) == REVDConfig()
        assert config.decay == TrainConfig(task="bullet/hopper").decay
    # Beside PPO alone, one in which the bonus yields to these dense rewards tells nothing new.
    assert {config.yield_to_task for config in automatic} == ({True, False} if suite == "balance-bullet" else {False})


def test_one_setting_of_ppo_for_each_family():
    families = {}
    for config in suite_runs("exploration", seeds=[1]):
        own = {"task", "steps", "seed", "output", "reward", "weight", "reward_params"}
        values = tuple((name, str(value)) for name, value in config.to_dict().items() if name not in own)
        families.setdefault(config.task.partition("/")[0], set()).add(values)
    assert {family: len(found) for family, found in families.items()} == {"classic": 1, "minigrid": 1, "bullet": 1}


def test_bonuses_are_explored_with_their_own_defaults():
    """Only REVD with the paper's weight has parameters of its own; every other method differs in the weight alone."""
    runs = suite_runs("exploration", tasks=["minigrid/door-key-8x8"], seeds=[1])
    assert {config.directory.name: config.weight for config in runs if config.weight != "auto"} == {
        "ppo-revd-paper-weight-seed1": 0.1,
        "ppo-re3-own-weight-seed1": 0.05,
        "ppo-ride-own-weight-seed1": 0.1,
        "ppo-rnd-own-weight-seed1": 0.5,
    }
    assert [config.directory.name for config in runs if config.reward_params] == ["ppo-revd-paper-weight-seed1"]
    assert {config.reward for config in runs if config.weight == "auto"} == {
        "none", "revd", "re3", "ride", "rnd", "icm", "ngu", "e3b", "noveld", "disagreement", "rise"
    }  # fmt: skip
