"""Shared by the commands: their interface, exit codes, whole numbers, and warnings."""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from decimal import Decimal
from typing import Any, Protocol, TypeVar

EXIT_FAILED = 1
EXIT_WRONG_USE = 2
EXIT_INTERRUPTED = 130
# At most two digits in the exponent: 1e999999999 would fill the memory.
_SCIENTIFIC = re.compile(r"[+-]?\d{1,20}(\.\d{0,20})?[eE][+-]?\d{1,2}")


class Command(Protocol):
    """A parsed command line."""

    def run(self) -> None:
        """Run the command."""


Config = TypeVar("Config")


def parent_config(command: Any, config_type: type[Config]) -> Config:
    """Make the config that a command extends. Its errors are then printed as ours rather than the parser's."""
    return config_type(**{entry.name: getattr(command, entry.name) for entry in fields(config_type)})  # type: ignore[arg-type]


def whole_number(text: str) -> int:
    """`"100000"`, `"100_000"` or `"1e5"` -> 100000."""
    if _SCIENTIFIC.fullmatch(text):
        number = Decimal(text)
        if number == number.to_integral_value():
            return int(number)
    try:
        return int(text)
    except ValueError as error:
        raise ValueError(f"expected a whole number, as in 100000 or 1e5, got {text!r}") from error


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Print our warnings as single lines, without their place in the code."""
    before = warnings.formatwarning

    def one_line(message: Warning | str, category: type[Warning], *place: Any, **line: Any) -> str:
        return f"revd: {message}\n" if issubclass(category, UserWarning) else before(message, category, *place, **line)

    warnings.formatwarning = one_line
    try:
        yield
    finally:
        warnings.formatwarning = before
