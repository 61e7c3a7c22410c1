import pytest

from revd.analysis.reading.runs import load_runs
from revd.analysis.statistics.figure_plans import PAPER_COMPARISONS, plan_figures
from revd.analysis.statistics.grouping import name_variants
from tests.analysis.support import make_runs

PAPER = ("PPO", "PPO+REVD", "PPO+RE3", "PPO+RIDE", "A2C", "A2C+REVD")


def methods(folder, names, **settings):
    return make_runs(folder, *({"method": name, **settings} for name in names))


def test_the_paper_compares_these():
    algorithms, rewards, sparse = PAPER_COMPARISONS
    assert algorithms.methods == ("PPO", "PPO+REVD", "A2C", "A2C+REVD")
    assert rewards.methods == sparse.methods == ("PPO", "PPO+REVD", "PPO+RE3", "PPO+RIDE")
    assert [comparison.sparse for comparison in PAPER_COMPARISONS] == [False, False, True]


def test_a_complete_suite_gives_the_paper_figures(tmp_path):
    make_runs(tmp_path / "dense", *({"method": name, "task": "bullet/ant"} for name in PAPER))
    make_runs(tmp_path / "sparse", *({"method": name, "task": "bullet/ant", "sparse": 0.9} for name in PAPER[:4]))
    algorithms, rewards, sparse = plan_figures(load_runs(tmp_path))
    assert [found.name for found in (algorithms, rewards, sparse)] == [
        "bullet-algorithms", "bullet-rewards", "bullet-sparse-0.9"
    ]  # fmt: skip
    assert algorithms.methods == ["PPO", "PPO+REVD", "A2C", "A2C+REVD"]
    assert algorithms.title == "PyBullet: PPO and A2C with and without REVD"
    assert algorithms.pairs == (("PPO+REVD", "PPO"), ("A2C+REVD", "A2C"))
    assert rewards.methods == sparse.methods == ["PPO", "PPO+REVD", "PPO+RE3", "PPO+RIDE"]
    assert all(run.sparse is None for run in rewards.runs)
    assert all(run.sparse == 0.9 for run in sparse.runs)
    assert "rewards zeroed with probability 0.9" in sparse.title


def test_suites_and_settings_have_figures_of_their_own(tmp_path):
    runs = make_runs(
        tmp_path,
        {"task": "CartPole-v1"},
        {"task": "bullet/ant", "sparse": 0.9},
        {"task": "bullet/hopper", "sparse": 0.5},
        {"task": "atari/assault"},
        {"task": "atari/riverraid"},
    )
    found = plan_figures(runs)
    assert [plan.name for plan in found] == [
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
    found = plan_figures(methods(tmp_path, present))
    assert [plan.name for plan in found] == [f"gymnasium-{name}" for name in names]
    assert found[0].title == f"Gymnasium: {title}"


def test_methods_outside_the_paper_are_shown_with_all_others(tmp_path):
    paper, everything = plan_figures(methods(tmp_path / "a", ["TRPO", "PPO", "A2C", "A2C+REVD", "PPO+REVD"]))
    assert (paper.name, everything.name) == ("gymnasium-algorithms", "gymnasium-all")


def test_an_incomplete_figure_of_the_paper_does_not_repeat_a_part_of_all_methods(tmp_path):
    (everything,) = plan_figures(methods(tmp_path, ["TRPO+REVD", "PPO", "TRPO", "PPO+REVD"]))
    assert everything.name == "gymnasium-all"
    assert everything.methods == ["PPO", "PPO+REVD", "TRPO", "TRPO+REVD"]
    assert everything.pairs == (("PPO+REVD", "PPO"), ("TRPO+REVD", "TRPO"))


def test_sparse_methods_outside_the_paper(tmp_path):
    (found,) = plan_figures(methods(tmp_path, ["A2C+REVD"], sparse=0.9))
    assert found.name == "gymnasium-sparse-all-0.9"


def test_comparisons_are_between_all_variants(tmp_path):
    runs = make_runs(
        tmp_path, {"method": "PPO+REVD", "weight": 0.1}, {"method": "PPO+REVD", "weight": 1}, {"method": "PPO"}
    )
    (found,) = plan_figures(name_variants(runs))
    assert found.pairs == (("PPO+REVD (weight=0.1)", "PPO"), ("PPO+REVD (weight=1)", "PPO"))
