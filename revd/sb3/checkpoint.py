"""The saved state of an intrinsic-reward callback: one safetensors file without pickles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from revd.rewards.saved_state import check_saved_parameters, load_saved_state
from revd.storage.atomic import make_directory
from revd.storage.tensor_file import read_tensors, write_tensors

if TYPE_CHECKING:
    import os

    from torch import Tensor

    from revd.rewards import IntrinsicReward

FORMAT = "revd-callback-1"


#: Before the names of the automatic weight's tensors in a file, which holds the reward's too.
WEIGHTING = "weighting/"


@dataclass(frozen=True, kw_only=True, eq=False)
class Checkpoint:
    """Everything needed to resume the bonus.

    Attributes:
        method: The class name of the reward.
        parameters: Its parameters.
        rollouts: Rollouts so far, for the decay of the weight.
        steps: Environment steps so far, for the decay of the weight.
        state: The reward's `state_dict`.
        weighting: The tensors of an automatic weight; empty for a fixed one.
        n_envs: Number of environments; None in old files, which do not have it.
        warnings: What the warnings about the balance have seen; None in old files.
    """

    method: str
    parameters: dict[str, Any]
    rollouts: int
    steps: int
    state: dict[str, Tensor]
    weighting: dict[str, Tensor] = field(default_factory=dict)
    n_envs: int | None = None
    warnings: dict[str, list[int]] | None = None

    @property
    def values(self) -> dict[str, Any]:
        """Everything but the tensors."""
        names = [entry.name for entry in fields(self) if entry.name not in ("state", "weighting")]
        return {name: getattr(self, name) for name in names}

    @property
    def tensors(self) -> dict[str, Tensor]:
        """All tensors: the reward's, and the automatic weight's."""
        return {**self.state, **{WEIGHTING + name: tensor for name, tensor in self.weighting.items()}}

    @classmethod
    def of(cls, values: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Checkpoint:
        """The inverse of `values` and `tensors`."""
        state = {name: tensor for name, tensor in tensors.items() if not name.startswith(WEIGHTING)}
        weighting = {name.removeprefix(WEIGHTING): tensors[name] for name in tensors if name not in state}
        return cls(**values, state=state, weighting=weighting)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the file atomically, in a folder that is made if missing: a reader sees the old file or the new one."""
        make_directory(Path(path).parent)
        write_tensors(path, self.tensors, {"format": FORMAT, **self.values})

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """Read a file that `write` wrote."""
        try:
            tensors, values = read_tensors(path)
        except ValueError as error:
            raise ValueError(f"{path} is not a file that IntrinsicRewardCallback.save wrote: {error}") from error
        if values.pop("format", None) != FORMAT:
            raise ValueError(f"{path} is not a file that IntrinsicRewardCallback.save wrote")
        return cls.of(values, tensors)

    def load_into(self, reward: IntrinsicReward) -> None:
        """Load the state into a reward of the same method with the same parameters."""
        method = type(reward).__name__
        if method != self.method:
            raise ValueError(f"the file holds the state of {self.method}, this callback's reward is {method}")
        if self.n_envs not in (None, reward.n_envs):
            raise ValueError(
                f"the saved state of {method} does not fit this reward's parameters: n_envs was {self.n_envs}, here it "
                f"is {reward.n_envs}; use {self.n_envs} environments, because each has its own memory"
            )
        check_saved_parameters(method, reward.config, self.parameters)
        load_saved_state(reward, self.state)
