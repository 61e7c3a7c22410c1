"""One look for each method, the same in every figure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Literal

LineStyle = Literal["solid"] | tuple[float, Sequence[float]]

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
_DASHED = (0, (4, 1.5))
_VARIANTS: tuple[LineStyle, ...] = ("solid", (0, (1, 1)), (0, (5, 1, 1, 1)), (0, (7, 2)))
# Share of its light that a colour loses whenever the dashes of its variants begin anew.
_DARKER = 0.45


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
        dashes = _DASHED if label == method and method.startswith("A2C") else _VARIANTS[earlier % len(_VARIANTS)]
        styles[label] = Style(colour=_darker(colours[method], earlier // len(_VARIANTS)), dashes=dashes)
    return styles


def distinct_styles(labels: Sequence[str]) -> dict[str, Style]:
    """Styles of a few lines that are all of one method, or of many: a colour for each, then dashes too."""
    return {
        label: Style(colour=COLOURS[index % len(COLOURS)], dashes=_VARIANTS[index // len(COLOURS) % len(_VARIANTS)])
        for index, label in enumerate(labels)
    }


def _darker(colour: str, times: int) -> str:
    channels = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return "#" + "".join(f"{round(channel * (1 - _DARKER) ** times):02X}" for channel in channels)
