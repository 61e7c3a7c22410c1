"""The page of the examples lists each, and each says how it is run."""

import ast
import re

import pytest

from tests.examples.scripts import EXAMPLES, NAMES

README = (EXAMPLES / "README.md").read_text()


def test_the_page_lists_every_example():
    listed = re.findall(r"^\| \[`([\w.]+)`\]\(([\w.]+)\)", README, re.MULTILINE)
    assert all(name == target for name, target in listed)
    found = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".yml", ".ipynb")}
    assert {name for name, _ in listed} == found


@pytest.mark.parametrize("name", NAMES)
def test_a_script_says_what_it_shows_and_how_to_run_it(name):
    tree = ast.parse((EXAMPLES / f"{name}.py").read_text())
    page = ast.get_docstring(tree) or ""
    assert f"    python examples/{name}.py" in page
    assert re.search(r"^    pip install (\.|\"\.\[[\w,]+\]\")$", page, re.MULTILINE)
    assert re.search(r"It takes about .* seconds? on one core", " ".join(page.split())), "how long it takes"
    assert "ook at" in page, "what to look at"


@pytest.mark.parametrize("name", NAMES)
def test_a_script_runs_main(name):
    *_, last = ast.parse((EXAMPLES / f"{name}.py").read_text()).body
    expected = "main(sys.argv[1])" if name == "reading_the_logs" else "main()"
    assert ast.unparse(last) == f"if __name__ == '__main__':\n    {expected}"
