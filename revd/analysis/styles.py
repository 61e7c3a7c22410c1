"""One look for each method, the same in every figure."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import cycle

# Okabe and Ito's colours, told apart with every common kind of colour blindness.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")

_PAPER = {
    "PPO": COLOURS[0],
    "PPO+REVD": COLOURS[1],
    "PPO+RE3": COLOURS[2],
    "PPO+RIDE": COLOURS[3],
    "A2C": COLOURS[5],
    "A2C+REVD": COLOURS[4],
}
_OTHERS = ("#000000", "#7F7F7F", "#882255", "#44AA99", "#332288", "#999933")
_SOLID, _DASHED = "solid", (0, (4, 1.5))
_VARIANTS = ((0, (1, 1)), (0, (5, 1, 1, 1)), (0, (7, 2)))

LineStyle = str | tuple[int, tuple[float, ...]]


@dataclass(frozen=True, kw_only=True)
class Style:
    """Colour and dashes of a method's line. The dashes tell algorithms and variants apart without any colour."""

    colour: str
    dashes: LineStyle


def method_styles(methods: Iterable[str]) -> dict[str, Style]:
    """Styles of methods by label; give all of a report's methods at once, so that equal ones look equal throughout."""
    labels = sorted(set(methods))
    known = [label.partition(" (")[0] for label in labels]
    strangers = sorted({method for method in known if method not in _PAPER})
    colours = _PAPER | dict(zip(strangers, cycle(_OTHERS), strict=False))
    styles = {}
    for index, (label, method) in enumerate(zip(labels, known, strict=True)):
        earlier = known[:index].count(method)
        dashes: LineStyle = _DASHED if method.startswith("A2C") else _SOLID
        if earlier:
            dashes = _VARIANTS[(earlier - 1) % len(_VARIANTS)]
        styles[label] = Style(colour=colours[method], dashes=dashes)
    return styles
