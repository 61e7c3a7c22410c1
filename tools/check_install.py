"""Check that pip finds a set of versions for the package on the public index, with the pins of constraints.txt.

    python tools/check_install.py                       # the extra dev, which holds all others, with each Python found
    python tools/check_install.py --extras "" plots all dev

A local wheel or a mirror can hide a conflict that everybody else meets, so pip's own settings are left out. Nothing is
installed or downloaded but metadata. Without a network nothing is checked, and the script says so.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: The versions that pyproject.toml declares.
PYTHONS = ("python3.11", "python3.12", "python3.13")
#: What would send pip to another place than the public index.
ELSEWHERE = ("PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT", "PIP_REQUIRE_VIRTUALENV")


def main() -> int:
    """Try every Python that is here with every set of extras; 1 if one of them has no solution."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extras", nargs="*", default=["dev"], help='such as plots; "" is the bare package')
    parser.add_argument(
        "--pythons", nargs="*", default=PYTHONS, help="interpreters; those that do not run are left out"
    )
    options = parser.parse_args()
    pythons = [python for python in options.pythons if runs(python)]
    if not pythons:
        print(f"none of {', '.join(options.pythons)} runs here: give one with --pythons")
        return 1
    return max(check(python, options.extras) for python in pythons)


def runs(python: str) -> bool:
    """Whether an interpreter of that name is here; pyenv's shims may exist and not run."""
    try:
        return subprocess.run([python, "--version"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def check(python: str, extras: list[str]) -> int:
    """Resolve each set of extras in a fresh virtual environment of one interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        if resolve(folder, "safetensors", "--no-deps").returncode != 0:
            print(f"{python}: not checked, the package index cannot be reached")
            return 0
        failed = 0
        for extra in extras:
            target = f".[{extra}]" if extra else "."
            result = resolve(folder, target, "-c", "constraints.txt")
            print(f"{python}: {target} {'has no solution' if result.returncode else 'resolves'}", flush=True)
            if result.returncode:
                print(result.stderr)
                failed = 1
        return failed


def resolve(folder: str, target: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Let pip resolve a target with the public index alone."""
    settings = {name: value for name, value in os.environ.items() if name not in ELSEWHERE}
    settings["PIP_CONFIG_FILE"] = os.devnull
    command = [f"{folder}/bin/python", "-m", "pip", "install", "--dry-run", "--quiet", *options, target]
    return subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    sys.exit(main())
