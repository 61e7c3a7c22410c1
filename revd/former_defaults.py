"""What settings were before today's defaults."""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from revd.names import mixture_members, reward_names

#: Values that saved states and runs of a reward used for a parameter whose default has changed since. Where they do not
#: name the parameter, they used this value. Resumed runs keep it, also for the members of a
#: mixture; pickles of RLlib's mixtures do not.
FORMER_DEFAULTS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "revd": {"merge_duplicates": False},
        "re3": {"merge_duplicates": False},
        "ride": {"update_fraction": 1.0},
    }
)
#: Parameters that saved mixtures may not name because they are newer, and what their rewards did then. New rewards do
#: the same by default.
ADDED_PARAMETERS: Mapping[str, Mapping[str, Any]] = MappingProxyType({"disagreement": {"features": "random"}})
#: The weight of a bonus before it followed from the data by default.
FORMER_WEIGHT = 0.1


def former_parameters(reward: str | Sequence[str]) -> dict[str, Any]:
    """What a reward or a mixture used before defaults changed; a member's parameter is `ride.NAME`."""
    words = reward_names(reward)
    if len(words) == 1:
        return dict(FORMER_DEFAULTS.get(words[0], {}))
    return {
        f"{name}.{parameter}": value
        for name, word in mixture_members(words).items()
        for parameter, value in FORMER_DEFAULTS.get(word, {}).items()
    }


def former_member_defaults(name: str) -> Mapping[str, Any]:
    """What a mixture's member did where its state is older than a parameter; its name may be `ride_2`, the second."""
    reward = re.sub(r"_\d+$", "", name)
    return {**ADDED_PARAMETERS.get(reward, {}), **FORMER_DEFAULTS.get(reward, {})}


def with_former_yielding(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings of a run; in one from before a bonus could yield to the task, it did not.

    A resumed run keeps that, and says so in its `resolved` values.
    """
    resolved = settings.get("resolved")
    kept = isinstance(resolved, Mapping) and resolved.get("yield_to_task") is False
    automatic = settings.get("weight") == "auto" and settings.get("reward") != "none"
    return {**settings, "yield_to_task": False} if automatic and (kept or "yield_to_task" not in settings) else settings
