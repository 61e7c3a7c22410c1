"""Named parameters of a reward or an algorithm, written on the command line as KEY=VALUE."""

import json
from collections.abc import Iterable
from typing import Any, Self


class Parameters(dict[str, Any]):
    """Named values of JSON's types."""

    @classmethod
    def parse(cls, words: Iterable[str]) -> Self:
        """`["k=5", "log=false"]` -> `{"k": 5, "log": False}`; a value that is not JSON is text."""
        parameters = cls()
        for word in words:
            key, separator, value = word.partition("=")
            if not separator or not key.isidentifier():
                raise ValueError(f"expected KEY=VALUE, as in k=5, got {word!r}")
            if key in parameters:
                raise ValueError(f"{key!r} is given twice: {key}={parameters[key]!r} and {word!r}")
            parameters[key] = _parse_value(value)
        return parameters

    def words(self) -> list[str]:
        """The inverse of `parse`."""
        return [f"{key}={_format_value(value)}" for key, value in self.items()]


def _parse_value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # not JSON, too many digits, too many brackets
        return text


def _format_value(value: Any) -> str:
    # Text is quoted only where it would otherwise be parsed as a number or a list.
    if isinstance(value, str) and _parse_value(value) == value:
        return value
    return json.dumps(value)
