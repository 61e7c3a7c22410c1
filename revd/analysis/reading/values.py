"""Checks of single values in untrusted files; a ValueError names the value and what would be valid."""

_INTEGER_LIMIT = 2**63
_FLOAT_LIMIT = 1e300


def require_text(name: str, value: object) -> str:
    """Text without line breaks and control characters."""
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError(f"{name} must be text on one line, got {value!r}")
    return value


def require_natural(name: str, value: object) -> int:
    """An integer of at least 0 that fits into 64 bits."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _INTEGER_LIMIT:
        raise ValueError(f"{name} must be an integer of at least 0 and below 2^63, got {value!r}")
    return value


def require_probability(name: str, value: object) -> float | None:
    """A number from 0 to 1, or None."""
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise ValueError(f"{name} must be a number from 0 to 1, or null, got {value!r}")
    return value


def require_finite(name: str, value: object) -> float:
    """A finite number."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not -_FLOAT_LIMIT < value < _FLOAT_LIMIT:
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    return float(value)
