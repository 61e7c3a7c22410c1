"""`revd rewards`."""

import inspect
import re
import warnings
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from revd.runs.display import print_line
from revd.runs.parameters import Parameters

if TYPE_CHECKING:
    from revd.rewards import RewardConfig

_CAPTION = """revd rewards NAME: its equation and its parameters.
--reward also takes MODULE:CLASS, and NAME+NAME for a mixture."""
#: A line of a docstring's section `Attributes`, and the lines that continue it.
_ATTRIBUTE = re.compile(r"^    (\w+): (.+(?:\n {8,}.+)*)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class RewardsCommand:
    """List the exploration rewards and when to use them, or show the equation and the parameters of one."""

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")] = ""
    """A reward, or MODULE:CLASS. Without a name, all rewards are listed."""

    def run(self) -> None:
        """Print the list, or the description of one reward."""
        console = Console()
        if not self.name:
            console.print(rewards_table())
            return
        from revd.rewards import REGISTRY

        cls = REGISTRY.find(self.name)
        print_line(console, inspect.cleandoc(cls.__doc__ or cls.__name__))
        console.print(parameters_table(cls.config_type))


def rewards_table() -> Table:
    """Every installed reward with a line on when to use it; a plug-in that is broken is a warning."""
    from revd.rewards import REGISTRY
    from revd.rewards.registry import when_to_use

    table = Table(header_style="bold", caption=Text(_CAPTION), caption_justify="left")
    table.add_column("reward", no_wrap=True)
    table.add_column("when to use it")
    table.add_column("from", no_wrap=True)
    for listed in REGISTRY.listing():
        if listed.cls is None:
            warnings.warn(listed.problem, stacklevel=2)
        else:
            table.add_row(listed.name, Text(when_to_use(listed.cls)), listed.source)
    return table


def parameters_table(config_type: "type[RewardConfig]") -> Table:
    """The parameters of a reward with their defaults and meanings."""
    meanings = dict(_meanings(config_type))
    table = Table(header_style="bold")
    for name in ("parameter", "default", "meaning"):
        table.add_column(name, no_wrap=name != "meaning")
    for entry in fields(config_type):
        default = entry.default_factory() if entry.default_factory is not MISSING else entry.default
        word = "" if default is MISSING else Parameters({entry.name: default}).words()[0].partition("=")[2]
        table.add_row(entry.name, Text(word), Text(meanings.get(entry.name, "")))
    return table


def _meanings(config_type: "type[RewardConfig]") -> Iterator[tuple[str, str]]:
    """What each parameter means, from the docstrings of the config and those that it extends."""
    for cls in reversed(config_type.__mro__):
        if cls.__doc__ and "Attributes:" in cls.__doc__:
            section = inspect.cleandoc(cls.__doc__).partition("Attributes:")[2]
            yield from ((name, " ".join(text.split())) for name, text in _ATTRIBUTE.findall(section))
