from itertools import combinations

import pytest

from revd.analysis.drawing.styles import COLOURS, DARK_BACKGROUND, colour_on_dark, method_styles

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


def luminance(colour):
    """As WCAG 2.2 defines it."""
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("colour", [*COLOURS, "#000000", "#882255", "#332288", "#003023"])
def test_colours_stand_out_from_a_dark_page(colour):
    lighter = colour_on_dark(colour)
    assert luminance(lighter) >= luminance(colour)
    contrast = (luminance(lighter) + 0.05) / (luminance(DARK_BACKGROUND) + 0.05)
    assert 3 <= contrast < max(3.3, 1.01 * (luminance(colour) + 0.05) / (luminance(DARK_BACKGROUND) + 0.05))


def test_a_bright_colour_stays_as_it_is_on_a_dark_page():
    assert colour_on_dark("#E69F00") == "#E69F00"
