"""Imports point one way, and `import revd` is light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import revd

ROOT = Path(revd.__file__).parent
PATHS = sorted(ROOT.rglob("*.py"))

#: What each part of the package may import of the others; every part may import itself.
FOUNDATION = {
    "arrays",
    "former_defaults",
    "functional",
    "names",
    "moments",
    "spaces",
    "observations",
    "states",
    "rollout",
    "networks",
    "normalizers",
    "encoders",
}
REWARDS = FOUNDATION | {"storage", "rewards", "weighting"}
ALLOWED: dict[str, set[str]] = {
    "arrays": set(),
    "coverage": {"arrays", "names", "storage"},
    "functional": set(),
    "names": set(),
    "storage": set(),
    "episodes": {"arrays", "storage"},
    "moments": set(),
    "spaces": set(),
    "observations": set(),
    "states": {"functional", "observations"},
    "rollout": {"observations", "spaces", "states"},
    "networks": set(),
    "normalizers": {"moments"},
    "encoders": {"spaces", "rollout", "networks", "normalizers"},
    "worked_example": {"arrays", "functional"},
    "envs": {"coverage", "names"},
    "former_defaults": {"names"},
    "rewards": FOUNDATION,
    "weighting": FOUNDATION | {"rewards"},
    "testing": FOUNDATION | {"rewards"},
    "fast": FOUNDATION,
    "sb3": REWARDS | {"coverage", "fast"},
    "rllib": REWARDS,
    "training": REWARDS | {"coverage", "envs", "fast", "sb3"},
    "runs": REWARDS | {"coverage", "envs", "sb3", "training"},
    "suites": {"names", "storage", "episodes", "envs", "training", "runs"},
    "tuning": {"names", "storage", "episodes", "training", "runs", "suites"},
    "analysis": {"arrays", "former_defaults", "names", "storage", "episodes", "coverage"},
    "cli": REWARDS | {"worked_example", "envs", "training", "runs", "suites", "tuning", "analysis"},
    "__main__": {"cli"},
    "__init__": {"functional", "rewards", "rollout"},
}
#: Who may import a package of others, anywhere in a file.
RESERVED: dict[str, set[str]] = {
    "stable_baselines3": {"sb3", "fast", "training"},
    "sb3_contrib": {"training"},
    "ray": {"rllib", "suites"},
    "optuna": {"tuning"},
    "matplotlib": {"analysis"},
    "pandas": {"analysis"},
    "rliable": {"analysis"},
    "PIL": {"analysis"},
    "jinja2": {"analysis"},
    "markupsafe": {"analysis"},
    "imageio_ffmpeg": {"analysis"},
    "ale_py": {"envs"},
    "pybullet": {"envs"},
    "pybullet_data": {"envs"},
    "pybullet_envs_gymnasium": {"envs"},
    "minigrid": {"envs"},
    "tyro": {"cli"},
}
#: What neither `import revd` nor a public name of it may load.
HEAVY = (
    "stable_baselines3",
    "sb3_contrib",
    "ray",
    "optuna",
    "gymnasium",
    "ale_py",
    "pybullet",
    "minigrid",
    "matplotlib",
    "pandas",
    "tensorboard",
    "tyro",
    "rich",
    "triton",
)


def part_of(path: Path) -> str:
    relative = path.relative_to(ROOT)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imported(path: Path) -> set[str]:
    """Dotted names of every module that a file imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            # `from revd import x` may mean the module x.
            names.update(f"revd.{a.name}" for a in node.names) if node.module == "revd" else names.add(node.module)
    return names


def of_ours(path: Path) -> set[str]:
    parts = {name.split(".")[1] for name in imported(path) if name.startswith("revd.")}
    return parts - {part_of(path)}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path: Path) -> None:
    assert part_of(path) in ALLOWED, "a new part of the package: say here what it may import"
    wrong = of_ours(path) - ALLOWED[part_of(path)]
    assert not wrong, f"{part_of(path)} must not import {sorted(wrong)}"
    for package, owners in RESERVED.items():
        if any(name.split(".")[0] == package for name in imported(path)):
            assert part_of(path) in owners, f"only {sorted(owners)} may import {package}"


def test_functional_imports_torch_and_little_else_of_others() -> None:
    others = {"smallest": {"numpy"}, "equal_rows": {"numpy"}, "triton_search": {"triton"}, "triton_kernels": {"triton"}}
    for path in (ROOT / "functional").rglob("*.py"):
        packages = {name.split(".")[0] for name in imported(path)}
        assert packages <= set(sys.stdlib_module_names) | {"torch", "revd"} | others.get(path.stem, set())


def folder_of(name: str) -> str:
    """The folder of a module or package, such as "revd/suites/launchers"."""
    path = ROOT.parent / name.replace(".", "/")
    return str((path if path.is_dir() else path.parent).relative_to(ROOT.parent))


def test_no_two_folders_import_each_other() -> None:
    """Sub-packages included. `revd/__init__.py` and `__main__.py` import on demand what a user asks for."""
    arrows = {
        (str(path.parent.relative_to(ROOT.parent)), folder_of(name))
        for path in PATHS
        if path.parent != ROOT or path.stem not in ("__init__", "__main__")
        for name in imported(path)
        if name.startswith("revd.")
    }
    mutual = {tuple(sorted(arrow)) for arrow in arrows if arrow[0] != arrow[1] and arrow[::-1] in arrows}
    assert mutual == set()


def test_the_allowed_directions_have_no_cycle() -> None:
    done: set[str] = set()
    while len(done) < len(ALLOWED):
        ready = {part for part, others in ALLOWED.items() if part not in done and others - {part} <= done}
        assert ready, f"a cycle among {sorted(set(ALLOWED) - done)}"
        done |= ready


def loaded(program: str, names: tuple[str, ...]) -> list[str]:
    """Which of the modules a Python program has loaded at its end."""
    program += f"; import sys; print(*[name for name in {names!r} if name in sys.modules])"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()


def test_importing_the_package_is_light() -> None:
    assert loaded("import revd", ("torch", *HEAVY)) == []


def test_every_public_name_is_light() -> None:
    assert loaded("from revd import *", ("torch", *HEAVY)) == ["torch"]
