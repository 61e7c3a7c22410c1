"""What the commands share: the contract of one, exit codes, printing."""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from decimal import Decimal
from typing import Any, Protocol, TypeVar

from rich.console import Console

EXIT_FAILED = 1
EXIT_WRONG_USE = 2
EXIT_INTERRUPTED = 130
# No more digits in the exponent: 1e999999999 would fill the memory.
_SCIENTIFIC = re.compile(r"[+-]?\d{1,20}(\.\d{0,20})?[eE][+-]?\d{1,2}")


class Command(Protocol):
    """A parsed command line."""

    def run(self) -> None:
        """Do what was asked for."""


Config = TypeVar("Config")


def parent_config(command: Any, config_type: type[Config]) -> Config:
    """The config that a command extends, checked: errors are printed in our own words, not the parser's."""
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
    """Print warnings as our own lines, without the place in the code that they come from."""
    before = warnings.formatwarning

    def one_line(message: Warning | str, category: type[Warning], *place: Any, **line: Any) -> str:
        return f"revd: {message}\n" if issubclass(category, UserWarning) else before(message, category, *place, **line)

    warnings.formatwarning = one_line
    try:
        yield
    finally:
        warnings.formatwarning = before


def print_line(console: Console, line: str) -> None:
    """Print a line with paths for copying: no wrapping, no colours inside."""
    console.print(line, soft_wrap=True, highlight=False, markup=False)
