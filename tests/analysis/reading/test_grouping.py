import pytest

from revd.analysis.reading.grouping import GROUPINGS, distinguish, in_order, select, suite_of
from revd.analysis.reading.runs import find_runs
from tests.analysis.support import write_run

PAPER = ("PPO", "PPO+REVD", "PPO+RE3", "PPO+RIDE", "A2C", "A2C+REVD")


def make(folder, *runs):
    for index, run in enumerate(runs):
        write_run(folder / str(index), **run)
    return find_runs(folder)


def methods(folder, names, **settings):
    return make(folder, *({"method": name, **settings} for name in names))


def test_the_paper_compares_these():
    algorithms, rewards, sparse = GROUPINGS
    assert algorithms.methods == ("PPO", "PPO+REVD", "A2C", "A2C+REVD")
    assert rewards.methods == sparse.methods == ("PPO", "PPO+REVD", "PPO+RE3", "PPO+RIDE")
    assert [grouping.sparse for grouping in GROUPINGS] == [False, False, True]


@pytest.mark.parametrize(
    ("task", "suite"),
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
def test_a_task_belongs_to_a_suite_by_its_name(task, suite):
    assert suite_of(task) == suite


def test_a_complete_suite_gives_the_paper_figures(tmp_path):
    make(tmp_path / "dense", *({"method": name, "task": "bullet/ant"} for name in PAPER))
    make(tmp_path / "sparse", *({"method": name, "task": "bullet/ant", "sparse": 0.9} for name in PAPER[:4]))
    algorithms, rewards, sparse = select(find_runs(tmp_path))
    assert [found.name for found in (algorithms, rewards, sparse)] == [
        "bullet-algorithms", "bullet-rewards", "bullet-sparse-0.9"
    ]  # fmt: skip
    assert algorithms.methods == ["PPO", "PPO+REVD", "A2C", "A2C+REVD"]
    assert algorithms.title == "PyBullet: PPO and A2C with and without REVD"
    assert algorithms.comparisons == (("PPO+REVD", "PPO"), ("A2C+REVD", "A2C"))
    assert rewards.methods == sparse.methods == ["PPO", "PPO+REVD", "PPO+RE3", "PPO+RIDE"]
    assert all(run.sparse is None for run in rewards.runs)
    assert all(run.sparse == 0.9 for run in sparse.runs)
    assert "rewards zeroed with probability 0.9" in sparse.title


def test_suites_and_settings_have_figures_of_their_own(tmp_path):
    runs = make(
        tmp_path,
        {"task": "CartPole-v1"},
        {"task": "bullet/ant", "sparse": 0.9},
        {"task": "bullet/hopper", "sparse": 0.5},
        {"task": "atari/assault"},
        {"task": "atari/riverraid"},
    )
    found = select(runs)
    assert [selection.name for selection in found] == [
        "atari-algorithms", "bullet-sparse-0.5", "bullet-sparse-0.9", "gymnasium-algorithms"
    ]  # fmt: skip
    assert found[0].tasks == ["atari/assault", "atari/riverraid"]


@pytest.mark.parametrize(
    ("present", "names", "title"),
    [
        (["PPO", "PPO+REVD"], ["algorithms"], "PPO, PPO+REVD"),
        (["PPO", "PPO+REVD", "PPO+RE3"], ["rewards"], "PPO, PPO+REVD, PPO+RE3"),
        (["PPO", "PPO+REVD", "A2C"], ["algorithms"], "PPO, PPO+REVD, A2C"),
    ],
)
def test_no_figure_is_a_part_of_another(tmp_path, present, names, title):
    found = select(methods(tmp_path, present))
    assert [selection.name for selection in found] == [f"gymnasium-{name}" for name in names]
    assert found[0].title == f"Gymnasium: {title}"


def test_methods_outside_the_paper_are_shown_with_all_others(tmp_path):
    paper, everything = select(methods(tmp_path, ["TRPO+REVD", "PPO", "TRPO", "PPO+REVD"]))
    assert (paper.name, everything.name) == ("gymnasium-algorithms", "gymnasium-all")
    assert everything.methods == ["PPO", "PPO+REVD", "TRPO", "TRPO+REVD"]
    assert everything.comparisons == (("PPO+REVD", "PPO"), ("TRPO+REVD", "TRPO"))


def test_sparse_methods_outside_the_paper(tmp_path):
    (found,) = select(methods(tmp_path, ["A2C+REVD"], sparse=0.9))
    assert found.name == "gymnasium-sparse-all-0.9"


def test_runs_with_different_settings_are_never_pooled(tmp_path):
    runs = make(
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
    found = {(run.task, run.method, run.seed): run.label for run in distinguish(runs)}
    assert found["MountainCar-v0", "PPO+RE3", 1] == "PPO+RE3 (k=5)"
    assert found["MountainCar-v0", "PPO+RE3", 2] == "PPO+RE3 (k=10)"
    assert found["MountainCar-v0", "PPO+RE3", 3] == "PPO+RE3 (k=default)"
    assert found["CartPole-v1", "PPO+RE3", 1] == "PPO+RE3 (k=default)", "settings may differ between tasks"
    assert found["MountainCar-v0", "PPO", 1] == found["MountainCar-v0", "PPO", 2] == "PPO"


def test_comparisons_are_between_all_variants(tmp_path):
    runs = make(tmp_path, {"method": "PPO+REVD", "weight": 0.1}, {"method": "PPO+REVD", "weight": 1}, {"method": "PPO"})
    (found,) = select(distinguish(runs))
    assert found.comparisons == (("PPO+REVD (weight=0.1)", "PPO"), ("PPO+REVD (weight=1)", "PPO"))


def test_pretraining_makes_a_variant_but_not_from_which_run(tmp_path):
    runs = make(
        tmp_path,
        {"seed": 1, "init_from": "runs/a"},
        {"seed": 2, "init_from": "runs/b"},
        {"seed": 3, "init_from": None},
    )
    assert [run.label for run in distinguish(runs)] == [
        "PPO (init_from=true)", "PPO (init_from=true)", "PPO (init_from=false)"
    ]  # fmt: skip


def test_a_field_that_older_runs_lack_makes_no_variant(tmp_path):
    runs = make(tmp_path, {"seed": 1}, {"seed": 2, "network": "paper"})
    assert [run.label for run in distinguish(runs)] == ["PPO", "PPO"]
    runs = make(tmp_path / "more", {"seed": 1}, {"seed": 2, "network": "paper"}, {"seed": 3, "network": "sb3"})
    assert [run.label for run in distinguish(runs)] == ["PPO", "PPO (network=paper)", "PPO (network=sb3)"]


def test_the_order_of_tables(tmp_path):
    runs = make(
        tmp_path,
        {"task": "bullet/ant", "method": "A2C"},
        {"task": "bullet/ant", "method": "TRPO"},
        {"task": "bullet/ant", "method": "PPO", "seed": 2},
        {"task": "bullet/ant", "method": "PPO", "seed": 1},
        {"task": "bullet/ant", "method": "PPO", "sparse": 0.9},
        {"task": "atari/assault", "method": "PPO+REVD"},
    )
    assert [run.directory.name for run in in_order(runs)] == ["5", "3", "2", "0", "1", "4"]
