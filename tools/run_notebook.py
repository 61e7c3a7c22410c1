"""Execute a notebook and write it with its outputs.

    python tools/run_notebook.py examples/story.ipynb [--output OTHER.ipynb]

The notebook's metadata keep a digest of the code that was executed, so that a test sees outputs of other code.
"""

import argparse
import hashlib
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbclient import NotebookClient

#: The entry of the metadata that holds the digest.
EXECUTED = "executed_code"
#: Seconds for one cell.
TIMEOUT = 1800


def main(arguments: Sequence[str] | None = None) -> None:
    """Execute the notebook in its own folder. An error in a cell is raised, and nothing is written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebook", type=Path)
    parser.add_argument("--output", type=Path, help="another file for the result; default: the notebook itself")
    options = parser.parse_args(arguments)
    notebook = nbformat.read(options.notebook, as_version=4)
    # Times of execution would change the file each time.
    client = NotebookClient(notebook, timeout=TIMEOUT, kernel_name="python3", record_timing=False)
    client.execute(cwd=str(options.notebook.parent.resolve()))
    notebook.metadata[EXECUTED] = digest(notebook)
    nbformat.write(notebook, options.output or options.notebook)


def digest(notebook: nbformat.NotebookNode) -> str:
    """A digest of the code of all cells."""
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return hashlib.sha256("\n\n".join(code).encode()).hexdigest()


if __name__ == "__main__":
    main()
