"""The notebook runs, and the outputs that are in the repository are those of its code."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tests.examples.scripts import EXAMPLES
from tools.run_notebook import EXECUTED, digest

STORY = EXAMPLES / "story.ipynb"
ROOT = EXAMPLES.parent


def code_cells(path: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def kinds(cell: nbformat.NotebookNode) -> list[str]:
    """What a cell has printed and drawn, in order; an error stays an error."""
    return [
        output.output_type if "data" not in output else "image" if "image/png" in output.data else "text"
        for output in cell.outputs
    ]


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """The notebook, executed with short trainings."""
    path = tmp_path_factory.mktemp("story") / "story.ipynb"
    command = [sys.executable, "tools/run_notebook.py", str(STORY), "--output", str(path)]
    environment = {**os.environ, "STORY_STEPS": "2048", "PYTHONPATH": str(ROOT)}
    subprocess.run(command, check=True, cwd=ROOT, env=environment, capture_output=True)
    return path


def test_it_runs_to_the_same_kinds_of_output(executed):
    assert [(cell.source, kinds(cell)) for cell in code_cells(executed)] == [
        (cell.source, kinds(cell)) for cell in code_cells(STORY)
    ]


def test_its_pictures_and_numbers_are_there():
    found = [kind for cell in code_cells(STORY) for kind in kinds(cell)]
    assert found == ["image", "stream", "image", "image", "image"]


def test_its_outputs_are_those_of_its_code():
    assert nbformat.read(STORY, as_version=4).metadata[EXECUTED] == digest(nbformat.read(STORY, as_version=4)), (
        "the code has changed: make notebook"
    )
    assert [cell.execution_count for cell in code_cells(STORY)] == list(range(1, len(code_cells(STORY)) + 1))


def test_it_is_small():
    assert STORY.stat().st_size < 300_000
