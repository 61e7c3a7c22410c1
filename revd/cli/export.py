"""`revd export`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from revd.runs.display import print_line

_RUN = tyro.conf.arg(metavar="RUN")


@dataclass(frozen=True, kw_only=True)
class ExportCommand:
    """Write a finished run as a folder for the Hugging Face hub, with a model card. Nothing is uploaded."""

    directory: tyro.conf.Positional[Annotated[Path, _RUN]]
    """Directory of the run."""
    output: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """Directory of the export: new, empty, or an earlier export, which is replaced."""

    def run(self) -> None:
        """Write the folder, list its files, and print the command that uploads them."""
        from revd.analysis.writing.hub_folder import write_hub_folder

        console = Console()
        files = write_hub_folder(self.directory, self.output)
        print_line(console, f"In {self.output}:")
        for name in files:
            print_line(console, f"  {name}")
        print_line(console, f"To upload it: hf upload USER/REPOSITORY {self.output}")
