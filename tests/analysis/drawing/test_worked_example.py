from dataclasses import dataclass

import numpy as np
import pytest
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from revd.analysis.drawing.worked_example import (
    draw_bars,
    draw_episode,
    draw_inset,
    draw_reference,
    example_figure,
)

NORM = Normalize(0, 2)
CORNERS = np.array([[0.0, 0.0], [10.0, 0.0], [10.0, 10.0], [0.0, 10.0]])


@dataclass(frozen=True, kw_only=True)
class Drawn:
    name: str = "spreading"
    states: np.ndarray
    spread: float = 0.5
    divergence: float = 1.25

    @property
    def bonus(self):
        return np.linspace(0, 2, len(self.states))

    @property
    def mean_bonus(self):
        return float(self.bonus.mean())

    @property
    def mean_unscaled(self):
        return self.mean_bonus / self.spread


def crowd(radius):
    """Most states within a circle, after two on the way there."""
    return np.concatenate([CORNERS[:2], 5 + np.random.default_rng(0).normal(scale=radius, size=(20, 2))])


@pytest.fixture
def axes():
    axes = Figure().add_subplot()
    axes.set(xlim=(-1, 11), ylim=(-1, 11))
    return axes


def test_states_are_coloured_by_their_bonus(axes):
    points = draw_episode(axes, Drawn(states=CORNERS), norm=NORM)
    np.testing.assert_array_equal(points.get_array(), np.linspace(0, 2, 4))
    np.testing.assert_array_equal(points.get_offsets(), CORNERS)
    np.testing.assert_array_equal(axes.lines[0].get_xydata(), CORNERS)
    assert points.norm is NORM


def test_the_reference_has_its_start_marked_unless_it_is_faint(axes):
    assert draw_reference(axes, CORNERS, faint=True) is axes
    assert len(axes.collections) == 1
    draw_reference(axes, CORNERS, faint=False)
    np.testing.assert_array_equal(axes.collections[-1].get_offsets(), CORNERS[:1])


def test_a_crowd_is_magnified(axes):
    inset = draw_inset(axes, Drawn(states=crowd(0.1)), norm=NORM)
    assert inset is not None
    assert 4 < inset.get_xlim()[0] < inset.get_xlim()[1] < 6
    assert 4 < inset.get_ylim()[0] < inset.get_ylim()[1] < 6


@pytest.mark.parametrize("states", [CORNERS, crowd(2.0), crowd(0.0)], ids=["apart", "wide", "one point"])
def test_what_is_not_a_crowd_is_not_magnified(axes, states):
    assert draw_inset(axes, Drawn(states=states), norm=NORM) is None


def test_bars_carry_their_numbers_and_the_largest_is_bold(axes):
    assert draw_bars(axes, [0.884, 0.6], title="L") is axes
    assert [(text.get_text(), text.get_fontweight()) for text in axes.texts] == [("0.88", "bold"), ("0.60", "normal")]
    assert [bar.get_width() for bar in axes.patches] == [0.884, 0.6]
    assert axes.get_title(loc="left") == "L"


@pytest.mark.parametrize(("values", "left", "right"), [([-1.0, 2.0], -1.4, 2.8), ([-1.0, -2.0], -2.8, 1.0)])
def test_negative_numbers_have_room(axes, values, left, right):
    assert draw_bars(axes, values, title="divergence").get_xlim() == pytest.approx((left, right))


def test_the_figure_has_every_number():
    episodes = [Drawn(states=CORNERS), Drawn(name="lingering", states=crowd(0.1), spread=0.25, divergence=-0.5)]
    figure = example_figure(CORNERS, episodes)
    plane, numbers = figure.subfigs
    panels = [axes for axes in plane.axes if axes.get_title(loc="left")]
    assert [axes.get_title(loc="left") for axes in panels] == ["(a) reference", "(b) spreading", "(c) lingering"]
    assert len({(axes.get_xlim(), axes.get_ylim()) for axes in panels}) == 1
    assert any(isinstance(axes._colorbar.mappable, ScalarMappable) for axes in plane.axes if hasattr(axes, "_colorbar"))
    drawn = {axes.get_title(loc="left"): [text.get_text() for text in axes.texts] for axes in numbers.axes}
    assert drawn == {
        "mean bonus, with L": ["1.00", "1.00"],
        "mean bonus, without L": ["2.00", "4.00"],
        "L": ["0.50", "0.25"],
        "Rényi divergence from (a)": ["1.25", "-0.50"],
    }
