"""What an install with some extras brings, from pyproject.toml, and Python as it is after it."""

import json
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]

# Finders that do not find hidden modules or, for `importlib.metadata`, hidden distributions.
_HIDING = """
import json, re, sys

class Hiding:
    hidden, distributions = map(frozenset, json.loads(sys.argv.pop(1)))

    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in self.hidden else self.finder.find_spec(name, path, target)

    def find_distributions(self, *context):
        found = self.finder.find_distributions(*context) if hasattr(self.finder, "find_distributions") else ()
        return [one for one in found if re.sub("[-_.]+", "-", one.name).lower() not in self.distributions]

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = [Hiding(finder) for finder in sys.meta_path]
"""


def run_with_extras(program: str, *extras: str) -> subprocess.CompletedProcess[str]:
    """Run a program where nothing can be imported that `pip install ".[extras]"` does not bring."""
    owners = {canonicalize_name(owner) for found in packages_distributions().values() for owner in found}
    hidden = (importable() - brought_by(*extras), owners - distributions(*extras) - {"revd"})
    command = [sys.executable, "-c", _HIDING + program, json.dumps([sorted(names) for names in hidden])]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def importable() -> set[str]:
    """Names that can be imported and belong to an installed distribution, but ours."""
    return {name for name, owners in packages_distributions().items() if "revd" not in owners}


def brought_by(*extras: str) -> set[str]:
    """Names that can be imported after an install with some extras."""
    installed = distributions(*extras)
    return {
        name
        for name, owners in packages_distributions().items()
        if installed & {canonicalize_name(owner) for owner in owners}
    }


@cache
def distributions(*extras: str) -> frozenset[str]:
    """The distributions of an install with some extras: what pyproject.toml asks for, and all that they need."""
    found: set[tuple[str, str]] = set()
    waiting = [("revd", extra) for extra in ("", *extras)]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in found:
            continue
        found.add((name, extra))
        for requirement in _requirements(name, extra):
            waiting += [(canonicalize_name(requirement.name), wanted) for wanted in ("", *requirement.extras)]
    return frozenset(name for name, _ in found if name != "revd")


def _requirements(name: str, extra: str) -> list[Requirement]:
    ours = EXTRAS[extra] if extra in EXTRAS else PROJECT["dependencies"]  # as they are now, not as they were installed
    requirements = [Requirement(line) for line in (ours if name == "revd" else requires(name) or [])]
    return [each for each in requirements if each.marker is None or each.marker.evaluate({"extra": extra})]


def pins() -> dict[str, str]:
    """The versions of constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = [re.fullmatch(r"([\w.-]+)==(\S+)", line) for line in lines if not line.startswith("#")]
    return {canonicalize_name(match[1]): match[2] for match in pinned if match is not None}
