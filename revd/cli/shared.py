"""What the commands share: the contract of one, exit codes, printing."""

from dataclasses import fields
from typing import Any, Protocol, TypeVar

from rich.console import Console

EXIT_FAILED = 1
EXIT_WRONG_USE = 2
EXIT_INTERRUPTED = 130


class Command(Protocol):
    """A parsed command line."""

    def run(self) -> None:
        """Do what was asked for."""


Config = TypeVar("Config")


def parent_config(command: Any, config_type: type[Config]) -> Config:
    """The config that a command extends, checked: errors are printed in our own words, not the parser's."""
    return config_type(**{entry.name: getattr(command, entry.name) for entry in fields(config_type)})  # type: ignore[arg-type]


def print_line(console: Console, line: str) -> None:
    """Print a line with paths for copying: no wrapping, no colours inside."""
    console.print(line, soft_wrap=True, highlight=False, markup=False)
