"""The page of the examples lists each, and each says how it is run."""

import ast
import re

import pytest
from packaging.utils import canonicalize_name

from tests.examples.scripts import EXAMPLES, NAMES
from tests.support.installs import distributions, pins

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


def test_one_install_is_enough_for_all_of_them():
    (installed,) = re.findall(r"pip install -c constraints\.txt \"\.\[(.*)\]\"", README)
    found = distributions(*installed.split(","))
    assert {"gymnasium", "tyro"} <= found, "reading_the_logs.py and own_environment.py run the command"
    files = [*EXAMPLES.glob("*.py"), *EXAMPLES.glob("*.yml"), *EXAMPLES.glob("*.ipynb")]
    needed = {each for file in files for each in re.findall(r"\.\[([\w,]+)\]", file.read_text())}
    assert "cli,plots" in needed
    for extras in needed:
        assert distributions(*extras.split(",")) <= found, extras
    (more,) = re.findall(r"`pip install -c constraints\.txt ([\w -]+)`", README)
    assert more == "rl_zoo3 ipykernel"
    assert {canonicalize_name(name) for name in more.split()} <= pins().keys()
