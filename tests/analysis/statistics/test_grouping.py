import pytest

from revd.analysis.statistics.grouping import name_variants, other_settings, sort_runs, task_family
from tests.analysis.support import make_runs


@pytest.mark.parametrize(
    ("task", "family"),
    [
        ("atari/assault", "atari"),
        ("bullet/hopper", "bullet"),
        ("classic/cart-pole", "classic"),
        ("minigrid/door-key-5x5", "minigrid"),
        ("MountainCar-v0", "gymnasium"),
        ("ALE/Pong-v5", "gymnasium"),
        ("atari", "gymnasium"),
    ],
)
def test_a_task_belongs_to_a_family_by_its_name(task, family):
    assert task_family(task) == family


def test_runs_with_different_settings_are_never_pooled(tmp_path):
    runs = make_runs(
        tmp_path,
        {"method": "PPO+RE3", "seed": 1, "reward_params": {"k": 5}},
        {"method": "PPO+RE3", "seed": 2, "reward_params": {"k": 10}},
        {"method": "PPO+RE3", "seed": 3},
        {"method": "PPO", "seed": 1},
        {
            "method": "PPO",
            "seed": 2,
            "threads": 4,
            "steps": 7,
            "device": "cuda",
            "trainer": "fast",
            "emulator_threads": 3,
        },
        {"method": "PPO+RE3", "seed": 1, "task": "CartPole-v1", "weight": 3.0},
    )
    found = {(run.task, run.method, run.seed): run.label for run in name_variants(runs)}
    assert found["MountainCar-v0", "PPO+RE3", 1] == "PPO+RE3 (k=5)"
    assert found["MountainCar-v0", "PPO+RE3", 2] == "PPO+RE3 (k=10)"
    assert found["MountainCar-v0", "PPO+RE3", 3] == "PPO+RE3 (k=default)"
    assert found["CartPole-v1", "PPO+RE3", 1] == "PPO+RE3 (k=default)", "settings may differ between tasks"
    assert found["MountainCar-v0", "PPO", 1] == found["MountainCar-v0", "PPO", 2] == "PPO"


def test_the_weight_names_variants_if_it_tells_them_apart(tmp_path):
    fixed = {"method": "PPO+REVD", "weight": 0.1, "reward_params": {"init": "torch"}}
    runs = make_runs(tmp_path, fixed, {"method": "PPO+REVD", "weight": "auto", "seed": 2})
    named = name_variants(runs)
    assert [run.variant for run in named] == ["weight=0.1", "weight=auto"]
    assert other_settings(named) == {"PPO+REVD (weight=0.1)": "init=torch", "PPO+REVD (weight=auto)": "init=default"}
    runs += make_runs(tmp_path / "more", {"method": "PPO+REVD", "weight": "auto", "seed": 3, "strength": 0.3})
    runs += make_runs(tmp_path / "still", {"method": "PPO+REVD", "weight": "auto", "seed": 4, "strength": 0.5})
    named = name_variants(runs)
    assert len({run.variant for run in named if run.seed > 2}) == 2, "one weight with two strengths is not pooled"
    assert other_settings(named) == {}


def test_whether_the_bonus_yields_is_said_only_if_it_does_not(tmp_path):
    other = {"method": "PPO+REVD", "weight": "auto", "reward_params": {"init": "torch"}}
    runs = make_runs(
        tmp_path,
        {"method": "PPO+REVD", "weight": 0.1},
        {**other, "seed": 2, "yield_to_task": True},
        {**other, "seed": 3, "yield_to_task": False},
    )
    runs += make_runs(tmp_path / "older", {**other, "seed": 7})
    runs += make_runs(tmp_path / "newer", {"method": "PPO+REVD", "weight": 0.1, "seed": 4, "yield_to_task": True})
    named = {run.seed: run.variant for run in name_variants(runs)}
    acting = "weight=auto, yield_to_task=false"
    assert named == {1: "weight=0.1", 2: "weight=auto", 3: acting, 4: "weight=0.1", 7: acting}
    for seed, strength in ((5, 0.3), (6, 0.5)):
        settings = {**other, "seed": seed, "yield_to_task": False, "strength": strength}
        runs += make_runs(tmp_path / str(seed), settings)
    of_seed = {run.seed: run.variant for run in name_variants(runs)}
    assert of_seed[5] != of_seed[6], "one weight with two strengths is not pooled"


def test_pretraining_makes_a_variant_but_not_from_which_run(tmp_path):
    runs = make_runs(
        tmp_path,
        {"seed": 1, "init_from": "runs/a"},
        {"seed": 2, "init_from": "runs/b"},
        {"seed": 3, "init_from": None},
    )
    assert [run.label for run in name_variants(runs)] == [
        "PPO (init_from=true)", "PPO (init_from=true)", "PPO (init_from=false)"
    ]  # fmt: skip


def test_a_field_that_older_runs_lack_makes_no_variant(tmp_path):
    runs = make_runs(tmp_path, {"seed": 1}, {"seed": 2, "network": "paper"})
    assert [run.label for run in name_variants(runs)] == ["PPO", "PPO"]
    runs = make_runs(tmp_path / "more", {"seed": 1}, {"seed": 2, "network": "paper"}, {"seed": 3, "network": "sb3"})
    assert [run.label for run in name_variants(runs)] == ["PPO", "PPO (network=paper)", "PPO (network=sb3)"]


def test_the_order_of_tables(tmp_path):
    runs = make_runs(
        tmp_path,
        {"task": "bullet/ant", "method": "A2C"},
        {"task": "bullet/ant", "method": "TRPO"},
        {"task": "bullet/ant", "method": "PPO", "seed": 2},
        {"task": "bullet/ant", "method": "PPO", "seed": 1},
        {"task": "bullet/ant", "method": "PPO", "sparse": 0.9},
        {"task": "atari/assault", "method": "PPO+REVD"},
    )
    assert [run.directory.name for run in sort_runs(runs)] == ["5", "3", "2", "0", "1", "4"]
