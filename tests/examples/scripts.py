"""The scripts of examples/ as modules."""

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))


@cache
def load(name: str) -> ModuleType:
    """Import a script once: importing it again would register its environment again."""
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
