"""`revd rewards`."""

from dataclasses import dataclass, fields

from rich.console import Console
from rich.table import Table

from revd.runs.parameters import Parameters


@dataclass(frozen=True, kw_only=True)
class RewardsCommand:
    """List the exploration rewards with their parameters and defaults."""

    def run(self) -> None:
        """Print the table."""
        Console().print(rewards_table())


def rewards_table() -> Table:
    """Every reward, its parameters and their defaults."""
    from revd.rewards import REWARDS

    table = Table(header_style="bold", show_lines=True)
    table.add_column("reward", no_wrap=True)
    table.add_column("what it pays for")
    table.add_column("parameters and defaults", no_wrap=True)
    for name, reward in REWARDS.items():
        pays_for = (reward.__doc__ or "").strip().split("\n\n")[0]
        defaults = {entry.name: entry.default for entry in fields(reward.config_type)}
        table.add_row(name, " ".join(pays_for.split()), "\n".join(Parameters(defaults).words()))
    return table
