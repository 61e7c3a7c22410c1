"""How tyro parses values of our types, and flags that a preset may set."""

from typing import Any

import tyro

from revd.cli.shared import whole_number
from revd.envs.tasks import SPARSITY
from revd.runs.parameters import Parameters


class _Default:
    """Marks a value as the default of a flag. It has the type of the flag, so that tyro shows it in the help."""


class _DefaultInt(_Default, int):
    pass


class _DefaultFloat(_Default, float):
    pass


class _DefaultStr(_Default, str):
    pass


_MARKED = {int: _DefaultInt, float: _DefaultFloat, str: _DefaultStr}


def mark_default(value: Any) -> Any:
    """An equal value that `is_given` tells from one that was given on the command line."""
    return _MARKED[type(value)](value)


def is_given(value: object) -> bool:
    """Whether a flag's value is not a marked default."""
    return not isinstance(value, _Default)


def _parse_sparse(words: list[str]) -> float:
    if len(words) > 1:
        raise ValueError(f"expected at most one probability, got {' '.join(words)}")
    return float(words[0]) if words else SPARSITY


#: A probability, or nothing for the default one.
SPARSE = tyro.constructors.PrimitiveConstructorSpec[Any](
    nargs=(0, 1),
    metavar="P",
    instance_from_str=_parse_sparse,
    is_instance=lambda value: value is None or isinstance(value, float),
    str_from_instance=lambda value: [] if value is None else [str(value)],
)

_PARAMETERS = tyro.constructors.PrimitiveConstructorSpec[Any](
    nargs="*",
    metavar="[KEY=VALUE ...]",
    instance_from_str=Parameters.parse,
    is_instance=lambda value: isinstance(value, Parameters),
    str_from_instance=lambda parameters: parameters.words() or ["none"],
)

_WHOLE_NUMBER = tyro.constructors.PrimitiveConstructorSpec[Any](
    nargs=1,
    metavar="INT",
    instance_from_str=lambda words: whole_number(words[0]),
    is_instance=lambda value: type(value) is int,
    str_from_instance=lambda number: [str(number)],
)


def parsing_rules() -> tyro.constructors.ConstructorRegistry:
    """Rules for KEY=VALUE words, and for whole numbers such as 1e5."""
    registry = tyro.constructors.ConstructorRegistry()

    @registry.primitive_rule
    def parameters_rule(info: tyro.constructors.PrimitiveTypeInfo) -> Any:
        return _PARAMETERS if info.type is Parameters else None

    @registry.primitive_rule
    def whole_numbers_rule(info: tyro.constructors.PrimitiveTypeInfo) -> Any:
        return _WHOLE_NUMBER if info.type is int else None

    return registry
