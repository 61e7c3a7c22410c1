from itertools import combinations

from revd.analysis.drawing.styles import method_styles

PAPER = ("PPO", "PPO+REVD", "PPO+RE3", "PPO+RIDE", "A2C", "A2C+REVD")


def test_the_paper_methods_always_look_the_same():
    all_styles = method_styles(PAPER)
    assert len({style.colour for style in all_styles.values()}) == 6
    assert method_styles(["PPO", "TRPO", "PPO+REVD"]).items() >= {
        name: all_styles[name] for name in ("PPO", "PPO+REVD")
    }.items()  # fmt: skip


def test_dashes_tell_the_algorithms_apart_without_colour():
    styles = method_styles(PAPER)
    assert styles["PPO"].dashes == "solid" != styles["A2C"].dashes == styles["A2C+REVD"].dashes


def test_other_methods_do_not_take_the_paper_colours():
    styles = method_styles([*PAPER, *(f"TRPO+{name}" for name in "ABC")])
    assert len({style.colour for style in styles.values()}) == 9


def test_variants_keep_the_colour_and_differ():
    styles = method_styles([f"PPO+RE3 (k={k})" for k in range(6)])
    assert all(one != other for one, other in combinations(styles.values(), 2))
    assert [style.colour for style in styles.values()] == ["#009E73"] * 4 + ["#00573F"] * 2
