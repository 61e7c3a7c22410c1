"""What parameters of rewards were before they existed, where today's default is something else."""

from types import MappingProxyType

#: States and runs that were saved without a parameter of this name used this value. Resumed runs keep it.
FORMER_DEFAULTS = MappingProxyType({"merge_duplicates": False})
#: The rewards that there were without these parameters.
FORMER_REWARDS = ("revd", "re3")
