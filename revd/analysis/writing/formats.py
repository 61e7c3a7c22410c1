"""Numbers as text, the same in Markdown and HTML."""

import math

MISSING = "—"


def numbers(*values: float) -> list[str]:
    """Format related returns with equal decimals; the larger they are, the fewer decimals."""
    largest = max(map(abs, values))
    decimals = 0 if largest >= 1000 else 1 if largest >= 10 else 2
    return [f"{value:,.{decimals}f}" for value in values]


def percent(value: float) -> str:
    """Format a fraction in per cent; a dash if it is not finite."""
    return f"{value:.1%}" if math.isfinite(value) else MISSING
