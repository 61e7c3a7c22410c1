"""Commands that repeat runs. They come from `run.json`, which a stranger may have written, and readers paste them."""

import shlex


def repeat_command(text: object) -> str | None:
    """
    A `revd train` command, quoted anew, that writes to its default place; None for anything else.

    At the old place it would find the run finished. A command that trusts files is left out: it could execute them.
    """
    if not isinstance(text, str):
        return None
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    if words[:2] != ["revd", "train"] or any(_is_unsafe(word) for word in words):
        return None
    if "--output" in words:
        at = words.index("--output")
        del words[at : at + 2]
    return shlex.join(words)


def _is_unsafe(word: str) -> bool:
    return not word.isprintable() or word.startswith("--trust")
