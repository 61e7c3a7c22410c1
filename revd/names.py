"""Names that users give: messages for misspelt ones, and the names in a mixture of rewards."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

#: Between the names of a mixture: `revd+rnd`.
PLUS = "+"


def unknown_name(kind: str, name: str, valid: Iterable[str], *, listed: int = 20) -> str:
    """Make an error message with the unknown name, the nearest valid ones, and all of them if they are few."""
    known = sorted(set(valid))
    spelt = {candidate.lower(): candidate for candidate in known}
    nearest = get_close_matches(name.lower(), spelt, n=3)
    message = f"unknown {kind} {name!r}"
    if nearest:
        message += f"; did you mean {' or '.join(repr(spelt[candidate]) for candidate in nearest)}?"
    if len(known) <= listed:
        message += f" (valid: {', '.join(known) or 'none'})"
    return message


def reward_names(reward: str | Sequence[str]) -> list[str]:
    """The names in `revd+rnd`, or in a list."""
    if isinstance(reward, str):
        return reward.split(PLUS)
    if not isinstance(reward, list | tuple) or not all(isinstance(name, str) for name in reward):
        raise ValueError(
            f"reward must be a name, a list of names or an IntrinsicReward, got {reward!r}; "
            "instances are mixed by MixedReward([...])"
        )
    return list(reward)


def named_after(members: Sequence[Any], names: Sequence[str]) -> dict[str, Any]:
    """The members by names that differ: the second `revd` is `revd_2`."""
    named: dict[str, Any] = {}
    for member, name in zip(members, names, strict=True):
        count, distinct = 1, name
        while distinct in named:
            count += 1
            distinct = f"{name}_{count}"
        named[distinct] = member
    return named


def mixture_members(words: Sequence[str]) -> dict[str, str]:
    """The words of a mixture by their members' names: MODULE:CLASS is called after its class."""
    return named_after(words, [word.rpartition(":")[2].lower() if ":" in word else word for word in words])
