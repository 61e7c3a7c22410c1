"""Colours and dashes of methods, the same in every figure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Literal

LineStyle = Literal["solid"] | tuple[float, Sequence[float]]

# Okabe and Ito's colours, which can be told apart with every common kind of colour blindness.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")

_PAPER = {
    "PPO": COLOURS[0],
    "PPO+REVD": COLOURS[1],
    "PPO+RE3": COLOURS[2],
    "PPO+RIDE": COLOURS[3],
    "A2C": COLOURS[5],
    "A2C+REVD": COLOURS[4],
}
_OTHERS = ("#7F7F7F", "#000000", "#882255", "#44AA99", "#332288", "#999933")
_DASHED = (0, (4, 1.5))
_VARIANTS: tuple[LineStyle, ...] = ("solid", (0, (1, 1)), (0, (5, 1, 1, 1)), (0, (7, 2)))
# Fraction of its brightness that a colour loses each time the dashes repeat.
_DARKENING = 0.45
# The background of dark pages, and the contrast that WCAG 2.2 (1.4.11) asks of graphics.
DARK_BACKGROUND = "#16191D"
_CONTRAST = 3.0


@dataclass(frozen=True, kw_only=True)
class Style:
    """Colour and dashes of a method's line; dashes tell algorithms and variants apart without colour."""

    colour: str
    dashes: LineStyle


def method_styles(methods: Iterable[str]) -> dict[str, Style]:
    """Styles of methods by label; pass all methods of a report at once, so that its figures agree."""
    labels = sorted(set(methods))
    known = [label.partition(" (")[0] for label in labels]
    others = sorted({method for method in known if method not in _PAPER})
    colours = _PAPER | dict(zip(others, cycle(_OTHERS), strict=False))
    # A variant gets a colour that no method has, as long as there is one; then darker shades of its method's.
    free = [colour for colour in COLOURS if colour not in {colours[method] for method in known}]
    styles = {}
    for index, (label, method) in enumerate(zip(labels, known, strict=True)):
        earlier = known[:index].count(method)
        dashes = _DASHED if label == method and method.startswith("A2C") else _VARIANTS[earlier % len(_VARIANTS)]
        own = _darken(colours[method], earlier // len(_VARIANTS))
        styles[label] = Style(colour=free.pop(0) if earlier and free else own, dashes=dashes)
    return styles


def distinct_styles(labels: Sequence[str]) -> dict[str, Style]:
    """Styles of a few lines in colours as different as possible, independent of their methods."""
    return {
        label: Style(colour=COLOURS[index % len(COLOURS)], dashes=_VARIANTS[index // len(COLOURS) % len(_VARIANTS)])
        for index, label in enumerate(labels)
    }


def colour_on_dark(colour: str) -> str:
    """The colour, mixed with as little white as makes it stand out from `DARK_BACKGROUND`."""
    needed = _CONTRAST * (_luminance(DARK_BACKGROUND) + 0.05) - 0.05
    shades = (_hex(channel + (255 - channel) * white / 50 for channel in _channels(colour)) for white in range(51))
    return next(shade for shade in shades if _luminance(shade) >= needed)


def _darken(colour: str, times: int) -> str:
    return _hex(channel * (1 - _DARKENING) ** times for channel in _channels(colour))


def _luminance(colour: str) -> float:
    """Relative luminance of an sRGB colour, from 0 to 1, as WCAG defines it."""
    parts = [channel / 255 for channel in _channels(colour)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _channels(colour: str) -> list[int]:
    return [int(colour[start : start + 2], 16) for start in (1, 3, 5)]


def _hex(channels: Iterable[float]) -> str:
    return "#" + "".join(f"{round(channel):02X}" for channel in channels)
