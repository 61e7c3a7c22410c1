"""What settings were before today's defaults."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

#: Values that saved states and runs of a reward used for a parameter whose default has changed since. Where they do not
#: name the parameter, they used this value. Resumed runs keep it, also for the members of a mixture.
FORMER_DEFAULTS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "revd": {"merge_duplicates": False},
        "re3": {"merge_duplicates": False},
        "ride": {"update_fraction": 1.0},
    }
)
#: The weight of a bonus before it followed from the data by default.
FORMER_WEIGHT = 0.1
