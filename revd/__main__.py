"""`python -m revd` is the command `revd`."""

from revd.cli import main

if __name__ == "__main__":
    main()
