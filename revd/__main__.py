"""The command `revd`, also as `python -m revd`."""

import sys
from importlib.util import find_spec

#: The packages of the extra `cli`, which every command needs.
NEEDED = ("tyro", "rich", "stable_baselines3", "tensorboard")


def main() -> None:
    """Run the command line, or name the packages that it needs."""
    missing = [package for package in NEEDED if find_spec(package) is None]
    if missing:
        print(f"revd: the command line needs {', '.join(missing)}: pip install 'revd[cli]'", file=sys.stderr)
        sys.exit(2)
    from revd.cli import main as run

    run()


if __name__ == "__main__":
    main()
