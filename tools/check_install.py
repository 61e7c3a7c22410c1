"""Check that pip can resolve the package on the public index, with constraints.txt.

    python tools/check_install.py                              # all extras at once, with each declared Python
    python tools/check_install.py --extras "" plots all dev    # each set on its own; "" is the bare package

A local wheel or a mirror can hide a conflict from its user alone, so pip's own settings are ignored. Nothing is
installed, and only the metadata of wheels is read. If the index does not answer, nothing is checked: the script prints
that and succeeds.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parents[1]
#: `dev` includes all extras for users. Every version is pinned, so if all extras resolve, so does each of them.
EXTRAS = ("dev,bench,release",)
#: One version for every Python. `fast-deps` reads metadata inside wheels if the index does not serve it.
PIP = "pip==26.3"
DRY_RUN = ("--dry-run", "--use-feature=fast-deps")
#: The settings of pip that are kept: they configure the connection, not which packages are found.
CONNECTION_SETTINGS = ("PIP_CERT", "PIP_CLIENT_CERT", "PIP_PROXY", "PIP_DEFAULT_TIMEOUT", "PIP_CACHE_DIR")

Outcome = Literal["resolves", "failed", "not checked"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Try every declared Python with every set of extras; 1 if one of them does not resolve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extras", nargs="*", default=EXTRAS, help='such as plots; "" is the bare package')
    parser.add_argument(
        "--pythons", nargs="*", default=declared(), help="versions, such as 3.11; default: the declared"
    )
    parser.add_argument("--stamp", type=Path, help="a file to touch if something was checked and everything resolves")
    options = parser.parse_args(arguments)
    found = {version: find(version) for version in options.pythons}
    for version in options.pythons:
        if found[version] is None:
            print(f"Python {version}: not checked, no interpreter here")
    pythons = [python for python in found.values() if python is not None]
    with ThreadPoolExecutor() as pool:
        outcomes = [outcome for each in pool.map(partial(check, extras=options.extras), pythons) for outcome in each]
    if options.stamp is not None and outcomes and set(outcomes) == {"resolves"}:
        options.stamp.touch()
    return int("failed" in outcomes)


def declared() -> list[str]:
    """The versions of Python that pyproject.toml declares."""
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    return [found[1] for entry in classifiers if (found := re.fullmatch(r"Programming Language .* (3\.\d+)", entry))]


def find(version: str) -> Path | None:
    """Find an interpreter of this version that can make virtual environments, on the path or in pyenv."""
    candidates = [Path(folder, f"python{version}") for folder in os.get_exec_path()]
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        candidates.insert(0, Path(sys.executable))
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    candidates += sorted(pyenv.glob(f"versions/{version}.*/bin/python"))
    return next((python for python in candidates if runs(python)), None)


def runs(python: Path) -> bool:
    """Whether an interpreter runs and can make virtual environments.

    Shims of pyenv may exist without running.
    """
    try:
        return (
            subprocess.run([python, "-c", "import ensurepip, venv"], capture_output=True, check=False).returncode == 0
        )
    except OSError:
        return False


def check(python: Path, extras: Sequence[str]) -> list[Outcome]:
    """Resolve each set of extras in a fresh virtual environment of one interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        if not index_answers(folder):
            print(f"{python}: not checked, the package index does not answer", flush=True)
            return ["not checked"]
        return [resolve(python, folder, f".[{extra}]" if extra else ".") for extra in extras]


def resolve(python: Path, folder: str, target: str) -> Outcome:
    """Let pip find versions for a target, and print the outcome."""
    result = pip(folder, *DRY_RUN, "-c", "constraints.txt", target)
    if result.returncode == 0:
        print(f"{python}: {target} resolves", flush=True)
        return "resolves"
    if not index_answers(folder):
        print(f"{python}: {target} not checked, the package index stopped answering", flush=True)
        return "not checked"
    print(f"{python}: {target} does not resolve\n{last_lines(result.stdout)}", flush=True)
    return "failed"


def index_answers(folder: str) -> bool:
    """Whether the index answers, tested by downloading pip."""
    limits = ("--retries", "1", "--timeout", "15")
    return pip(folder, "--upgrade", "--force-reinstall", "--no-cache-dir", *limits, PIP).returncode == 0


def pip(folder: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `pip install` in a virtual environment, with the public index only."""
    command = [f"{folder}/bin/python", "-m", "pip", "install", *arguments]
    settings = public_index_only(os.environ)
    return subprocess.run(
        command, cwd=ROOT, env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def last_lines(text: str, count: int = 20) -> str:
    """The end of pip's output, which has the reason."""
    return "\n".join(text.splitlines()[-count:])


def public_index_only(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without pip's settings, except for those of the connection."""
    kept = {name: value for name, value in environment.items() if not name.startswith("PIP_")}
    return (
        kept
        | {name: environment[name] for name in CONNECTION_SETTINGS if name in environment}
        | {
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }
    )


if __name__ == "__main__":
    sys.exit(main())
