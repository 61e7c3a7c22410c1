"""Commands that repeat runs.

They come from `run.json`, which is untrusted, and readers paste them into a shell.
"""

import shlex
from collections.abc import Sequence


def repeat_command(text: object) -> str | None:
    """Quote a `revd train` command anew and drop its `--output`; None for any other text.

    At its old output the command would find a finished run. A command with `--trust` is rejected, because it could
    execute code from untrusted files.
    """
    if not isinstance(text, str):
        return None
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    if words[:2] != ["revd", "train"] or any(_is_unsafe(word) for word in words):
        return None
    return shlex.join(_without_output(words))


def _without_output(words: Sequence[str]) -> list[str]:
    kept = []
    waiting = iter(words)
    for word in waiting:
        if word == "--output":
            next(waiting, None)
        elif not word.startswith("--output="):
            kept.append(word)
    return kept


def _is_unsafe(word: str) -> bool:
    return not word.isprintable() or word.startswith("--trust")
