"""The parts of a generated page that people write, which a redrawn page keeps.

A part lies between two lines of the page. Everything outside of them is generated.
"""

import re
from collections.abc import Mapping

_END = "<!-- end -->"
_PART = re.compile(r"<!-- written by hand: (\w+) -->\n(.*?)" + re.escape(_END), re.DOTALL)


def hand_written_parts(page: str) -> dict[str, str]:
    """The parts of a page by name."""
    return {name: text.strip("\n") for name, text in _PART.findall(page)}


def hand_written(name: str, parts: Mapping[str, str], *, default: str = "") -> list[str]:
    """The lines of one part between its marks: as it was, or the default."""
    text = parts.get(name, default)
    return [f"<!-- written by hand: {name} -->", *([text] if text else []), _END, ""]
