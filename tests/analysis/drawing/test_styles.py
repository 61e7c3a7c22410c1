from itertools import combinations

from revd.analysis.drawing.styles import COLOURS, method_styles

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


def test_variants_take_the_colours_that_are_left_and_then_shades_of_their_own():
    styles = method_styles([f"PPO+RE3 (k={k})" for k in range(9)])
    assert all(one != other for one, other in combinations(styles.values(), 2))
    others = [colour for colour in COLOURS if colour != "#009E73"]
    assert [style.colour for style in styles.values()] == ["#009E73", *others, "#00573F", "#00573F", "#003023"]


def test_a_variant_does_not_take_the_colour_of_a_method_that_is_shown():
    styles = method_styles(["PPO", "PPO+REVD (weight=0.1)", "PPO+REVD (weight=auto)"])
    assert [style.colour for style in styles.values()] == [COLOURS[0], COLOURS[1], COLOURS[2]]
