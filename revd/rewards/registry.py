"""The rewards that have a name: ours, those that a program registers, and those of installed plug-ins."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar, overload

from revd.names import unknown_name
from revd.rewards.base import IntrinsicReward

#: The entry-point group in which an installed package names its rewards.
GROUP = "revd.rewards"
#: Words that mean something else where a reward's name is expected.
RESERVED = ("none",)
#: MODULE:CLASS.
_IMPORT_PATH = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*)")

RewardClass = TypeVar("RewardClass", bound=type[IntrinsicReward])


@dataclass(frozen=True, kw_only=True)
class ListedReward:
    """A name of the registry.

    Attributes:
        name: Its name.
        source: "built-in", "registered", or the distribution of its plug-in.
        cls: Its class; None if that cannot be used.
        problem: Why not.
    """

    name: str
    source: str
    cls: type[IntrinsicReward] | None
    problem: str = ""


class RewardRegistry:
    """Classes of rewards by name.

    A built-in name wins over a registered one of the same spelling, and that over a plug-in's. A plug-in is imported
    when its reward is asked for, so a broken one disturbs nobody else.

    Args:
        built_in: Our rewards. It is read at each use.
    """

    def __init__(self, built_in: Mapping[str, type[IntrinsicReward]]) -> None:
        self._built_in = built_in
        self._registered: dict[str, type[IntrinsicReward]] = {}

    @overload
    def register_reward(self, name: str) -> Callable[[RewardClass], RewardClass]: ...

    @overload
    def register_reward(self, name: str, cls: RewardClass) -> RewardClass: ...

    def register_reward(self, name: str, cls: Any = None) -> Any:
        """Give a reward of your own a name, in this process: `@register_reward("mine")`, or with the class.

        Args:
            name: For `make_reward`, the callback, RLlib and mixtures.
            cls: A subclass of `IntrinsicReward`. Without it, a decorator is returned.

        Raises:
            TypeError: It is not such a class.
            ValueError: The name is not an identifier or is taken. A class defined again, as in a notebook, replaces
                the earlier one.
        """
        _check_name(name)
        if cls is None:
            return lambda decorated: self.register_reward(name, decorated)
        problem = _problem(cls)
        if problem:
            raise TypeError(f"cls must be a subclass of IntrinsicReward to be registered as {name!r}: {problem}")
        self._check_free(name, cls)
        self._registered[name] = cls
        return cls

    def find(self, name: str) -> type[IntrinsicReward]:
        """The class of a name, or of MODULE:CLASS, which imports that module.

        Raises:
            ValueError: There is no such reward; the message lists the nearest names. Or it cannot be imported.
        """
        if name in self._built_in or name in self._registered:
            return self._built_in[name] if name in self._built_in else self._registered[name]
        if ":" in name:
            return _import(name)
        found = [entry for entry in _plugins() if entry.name == name]
        if not found:
            raise ValueError(_unknown(name, [*self._built_in, *self._registered, *(one.name for one in _plugins())]))
        if len(found) > 1:
            raise ValueError(
                f"several plug-ins have a reward {name!r}: {', '.join(map(_distribution, found))}; "
                "write MODULE:CLASS instead"
            )
        return _load(found[0])

    def listing(self) -> Iterator[ListedReward]:
        """Every name with its class, or with the problem of its plug-in."""
        for name, cls in self._built_in.items():
            yield ListedReward(name=name, source="built-in", cls=cls)
        for name, cls in self._registered.items():
            yield ListedReward(name=name, source="registered", cls=cls)
        for entry in _plugins():
            try:
                if entry.name in self._built_in or entry.name in self._registered:
                    raise ValueError(f"the plug-in of {_distribution(entry)} has a name that is taken: {entry.name!r}")
                yield ListedReward(name=entry.name, source=_distribution(entry), cls=_load(entry))
            except ValueError as error:
                yield ListedReward(name=entry.name, source=_distribution(entry), cls=None, problem=str(error))

    def _check_free(self, name: str, cls: type[IntrinsicReward]) -> None:
        if name in self._built_in:
            raise ValueError(f"name {name!r} is that of a built-in reward: choose another")
        earlier = self._registered.get(name, cls)
        if (earlier.__module__, earlier.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ValueError(
                f"name {name!r} is registered for {earlier.__module__}.{earlier.__qualname__} already: choose another"
            )


def when_to_use(cls: type[IntrinsicReward]) -> str:
    """One line about a reward: its `advice`, or the first line of its docstring."""
    for ancestor in cls.__mro__:
        if vars(ancestor).get("advice"):
            return str(vars(ancestor)["advice"])
        if ancestor.__doc__:
            return inspect.cleandoc(ancestor.__doc__).partition("\n")[0]
    return ""


def _check_name(name: object) -> None:
    # An identifier, so that parameters of a mixture's member can be given under it.
    if not (isinstance(name, str) and name.isidentifier()) or name in RESERVED:
        raise ValueError(f"name must be an identifier such as my_reward, and not 'none', got {name!r}")


def _plugins() -> list[EntryPoint]:
    return sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))


def _distribution(entry: EntryPoint) -> str:
    return "an unknown distribution" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


def _load(entry: EntryPoint) -> type[IntrinsicReward]:
    """The class of a plug-in. Importing its package may raise anything."""
    what = f"the reward {entry.name!r} of the plug-in {_distribution(entry)} ({entry.value})"
    try:
        cls = entry.load()
    except (Exception, SystemExit) as error:
        raise ValueError(f"{what} cannot be loaded: {_one_line(error)}") from error
    return _checked(cls, what)


def _import(path: str) -> type[IntrinsicReward]:
    """The class of MODULE:CLASS."""
    match = _IMPORT_PATH.fullmatch(path)
    if match is None:
        raise ValueError(f"reward {path!r}: a reward of a package is written MODULE:CLASS, as in mypkg.rewards:Mine")
    module, name = match.groups()
    what = f"reward {path!r}"
    try:
        imported = import_module(module)
    except (Exception, SystemExit) as error:
        message = f"{what}: the module {module!r} cannot be imported: {_one_line(error)}"
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            message += "; install it, or put its directory on PYTHONPATH"
        raise ValueError(message) from error
    if not hasattr(imported, name):
        rewards = [key for key, value in vars(imported).items() if not _problem(value)]
        raise ValueError(f"{what}: {unknown_name(f'class of the module {module!r}', name, rewards)}")
    return _checked(getattr(imported, name), what)


def _checked(cls: Any, what: str) -> type[IntrinsicReward]:
    problem = _problem(cls)
    if problem:
        raise ValueError(f"{what} must be a subclass of IntrinsicReward: {problem}")
    checked: type[IntrinsicReward] = cls
    return checked


def _problem(cls: object) -> str:
    """Why something is not the class of a reward; empty if it is one."""
    if not (isinstance(cls, type) and issubclass(cls, IntrinsicReward)):
        return f"it is {cls.__name__ if isinstance(cls, type) else repr(cls)}"
    missing = ", ".join(sorted(getattr(cls, "__abstractmethods__", ())))
    return f"{cls.__name__} does not implement {missing}" if missing else ""


def _unknown(name: str, valid: list[str]) -> str:
    message = unknown_name("reward", name, valid)
    end = "" if message.endswith("?") else "."
    return f"{message}{end} A reward of another package is written MODULE:CLASS."


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
