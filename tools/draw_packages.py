"""Draw the packages of revd and their imports, the picture in docs/architecture.md, from the code.

    python tools/draw_packages.py           # rewrite the picture
    python tools/draw_packages.py --check   # exit with 1 if the picture is outdated

An arrow means "imports". Arrows that follow from others are left out: if `runs` imports `training` and `training`
imports `sb3`, there is no arrow from `runs` to `sb3`. The single modules at the top of the package are one box, "core".
"""

import argparse
import ast
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # when run as a script

from tools.layered_graph import draw  # noqa: E402

PACKAGE = ROOT / "revd"
PICTURE = ROOT / "docs" / "images" / "packages.svg"
TITLE = "The packages of revd: an arrow means imports"
#: The box of the modules at the top of the package.
CORE = "core"
#: Modules that import others only on demand.
LEFT_OUT = ("__init__", "__main__")

#: The packages that each package imports.
Imports = dict[str, set[str]]


def main(arguments: Sequence[str] | None = None, *, package: Path = PACKAGE, file: Path = PICTURE) -> int:
    """Draw the picture, or compare it with the file; 1 if the file is outdated."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if the picture is outdated")
    options = parser.parse_args(arguments)
    drawn = draw(without_detours(package_imports(package)), TITLE)
    if not options.check:
        file.write_text(drawn)
    elif not file.exists() or file.read_text() != drawn:
        print(f"{file}: the picture of the packages is outdated; run python tools/draw_packages.py")
        return 1
    return 0


def package_imports(package: Path) -> Imports:
    """Find the imports between the packages in all files."""
    found: Imports = {}
    for path in sorted(package.rglob("*.py")):
        box = box_of(package, path.relative_to(package).with_suffix("").parts)
        if box is None:
            continue
        others = {box_of(package, tuple(name.split(".")[1:])) for name in imported_modules(path, package.name)}
        found.setdefault(box, set()).update(other for other in others if other not in (None, box))
    return found


def box_of(package: Path, parts: tuple[str, ...]) -> str | None:
    """The box of a module, given its path inside the package; None for modules that are left out."""
    if not parts or parts[0] in LEFT_OUT:
        return None
    return parts[0] if (package / parts[0]).is_dir() else CORE


def imported_modules(path: Path, package: str) -> set[str]:
    """Dotted names of the package's modules that a file imports, inside functions too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == package:
            names.update(f"{package}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    return {name for name in names if name.startswith(f"{package}.")}


def without_detours(imports: Imports) -> Imports:
    """Remove each import that follows from another one.

    There must be no cycles, as tests/test_imports.py checks.
    """
    reached = {name: reachable(name, imports) for name in imports}
    return {
        name: {other for other in others if not any(other in reached[third] for third in others - {other})}
        for name, others in imports.items()
    }


def reachable(name: str, imports: Imports) -> set[str]:
    """All packages that a package imports, directly or indirectly."""
    found: set[str] = set()
    waiting = list(imports[name])
    while waiting:
        other = waiting.pop()
        if other not in found:
            found.add(other)
            waiting.extend(imports[other])
    return found


if __name__ == "__main__":
    sys.exit(main())
