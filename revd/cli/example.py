"""`revd example`."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console
from rich.table import Table

from revd.runs.display import print_line

if TYPE_CHECKING:
    from revd.worked_example import Example

_OUTPUT = tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: runs/example)")


@dataclass(frozen=True, kw_only=True)
class ExampleCommand:
    """Show on three episodes in the plane what REVD pays for, and the effect of its factor L."""

    output: Annotated[Path, _OUTPUT] = Path("runs/example")
    """Directory of the figure, which is written as example.png and example.pdf."""
    radius: float = 0.3
    """Size of the region that the lingering agent stays in: the standard deviation of its states."""
    seed: int = 0
    """Seed of the episodes."""

    def run(self) -> None:
        """Print the table and draw the figure."""
        if find_spec("matplotlib") is None:
            raise ValueError("the example draws a figure and needs matplotlib: pip install 'revd[plots]'")
        from revd.analysis.drawing.worked_example import example_figure
        from revd.analysis.writing.image_files import save_example
        from revd.worked_example import make_example

        example = make_example(radius=self.radius, seed=self.seed)
        console = Console()
        console.print(example_table(example))
        print_line(console, verdict(example))
        for path in save_example(example_figure(example.reference, example.scored), self.output):
            print_line(console, f"Figure: {path}")


def example_table(example: "Example") -> Table:
    """The bonus, L and the divergence of both episodes."""
    from revd.worked_example import ALPHA, EPS, K

    table = Table(caption=f"k = {K}, eps = {EPS:g}, alpha = {ALPHA:g}", caption_justify="left", header_style="bold")
    table.add_column("episode", no_wrap=True)
    for name in ("mean bonus\nwith L", "mean bonus\nwithout L", "L", "Rényi divergence\nfrom the reference"):
        table.add_column(name, justify="right", no_wrap=True)
    for episode in example.scored:
        numbers = (episode.mean_bonus, episode.mean_unscaled, episode.spread, episode.divergence)
        table.add_row(episode.name, *(f"{number:.2f}" for number in numbers))
    return table


def verdict(example: "Example") -> str:
    """Which of the episodes is paid more, with L and without it."""
    scaled = {episode.mean_bonus: episode.name for episode in example.scored}
    unscaled = {episode.mean_unscaled: episode.name for episode in example.scored}
    return f"Paid more with L: {scaled[max(scaled)]}. Paid more without L: {unscaled[max(unscaled)]}."
