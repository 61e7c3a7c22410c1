"""The error message for unknown names, shared by all lookups by name."""

from collections.abc import Iterable
from difflib import get_close_matches


def unknown_name(kind: str, name: str, valid: Iterable[str], *, listed: int = 20) -> str:
    """Make an error message with the unknown name, the nearest valid ones, and all of them if they are few."""
    known = sorted(set(valid))
    spelt = {candidate.lower(): candidate for candidate in known}
    nearest = get_close_matches(name.lower(), spelt, n=3)
    message = f"unknown {kind} {name!r}"
    if nearest:
        message += f"; did you mean {' or '.join(repr(spelt[candidate]) for candidate in nearest)}?"
    if len(known) <= listed:
        message += f" (valid: {', '.join(known) or 'none'})"
    return message
