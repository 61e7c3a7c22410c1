"""What settings were before today's defaults."""

from types import MappingProxyType

#: States and runs that were saved without a parameter of this name used this value. Resumed runs keep it.
FORMER_DEFAULTS = MappingProxyType({"merge_duplicates": False})
#: The weight of a bonus before it followed from the data by default.
FORMER_WEIGHT = 0.1
#: The rewards that there were without these parameters.
FORMER_REWARDS = ("revd", "re3")
