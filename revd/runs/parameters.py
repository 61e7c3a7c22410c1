"""Named parameters of a reward or an algorithm, written on the command line as KEY=VALUE or GROUP.KEY=VALUE."""

import json
from collections.abc import Iterable
from typing import Any, Self


class Parameters(dict[str, Any]):
    """Named values of JSON's types."""

    @classmethod
    def parse(cls, words: Iterable[str]) -> Self:
        """`["k=5", "re3.log=false"]` -> `{"k": 5, "re3": {"log": False}}`; a value that is not JSON is text."""
        parameters = cls()
        for word in words:
            key, separator, value = word.partition("=")
            names = key.split(".")
            if not separator or len(names) > 2 or not all(name.isidentifier() for name in names):
                raise ValueError(f"expected KEY=VALUE, as in k=5, got {word!r}")
            group = parameters if len(names) == 1 else parameters.setdefault(names[0], {})
            if not isinstance(group, dict) or names[-1] in group:
                raise ValueError(f"{key!r} is given twice: {names[0]}={parameters[names[0]]!r} and {word!r}")
            group[names[-1]] = _parse_value(value)
        return parameters

    def flat(self) -> dict[str, Any]:
        """The values by the keys that `parse` reads: those of a group by GROUP.KEY."""
        return {
            name: entry
            for key, value in self.items()
            for name, entry in (_entries(key, value) if _is_group(value) else [(key, value)])
        }

    def with_value(self, key: str, value: Any) -> Self:
        """A copy with one other value; `key` may be GROUP.KEY."""
        group, dot, name = key.partition(".")
        changed = {**self.get(group, {}), name: value} if dot else value
        return type(self)({**self, group: changed})

    def words(self) -> list[str]:
        """The inverse of `parse`."""
        return [f"{key}={_format_value(value)}" for key, value in self.flat().items()]


def _is_group(value: Any) -> bool:
    return (
        isinstance(value, dict) and bool(value) and all(isinstance(name, str) and name.isidentifier() for name in value)
    )


def _entries(group: str, values: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(f"{group}.{name}", value) for name, value in values.items()]


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
