"""The state of an intrinsic-reward callback as one safetensors file: tensors and JSON, no pickles."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from revd.rewards.saved_state import check_saved_parameters, load_saved_state
from revd.storage.tensor_file import read_tensors, write_tensors

if TYPE_CHECKING:
    import os

    from torch import Tensor

    from revd.rewards import IntrinsicReward

FORMAT = "revd-callback-1"


@dataclass(frozen=True, kw_only=True, eq=False)
class Checkpoint:
    """What is needed to go on: the method and its parameters, the counts that set the weight, the reward's state.

    `n_envs` is None in files that were written before it was saved.
    """

    method: str
    parameters: dict[str, Any]
    rollouts: int
    steps: int
    state: dict[str, Tensor]
    n_envs: int | None = None

    @property
    def values(self) -> dict[str, Any]:
        """Everything but the tensors."""
        names = [entry.name for entry in fields(self) if entry.name != "state"]
        return {name: getattr(self, name) for name in names}

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the file in one step: a reader sees the old one or the new one."""
        write_tensors(path, self.state, {"format": FORMAT, **self.values})

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """Read a file that `write` made."""
        try:
            state, values = read_tensors(path)
        except ValueError as error:
            raise ValueError(f"{path} is not a file that IntrinsicRewardCallback.save wrote: {error}") from error
        if values.pop("format", None) != FORMAT:
            raise ValueError(f"{path} is not a file that IntrinsicRewardCallback.save wrote")
        return cls(**values, state=state)

    def load_into(self, reward: IntrinsicReward) -> None:
        """Put the state into a reward of the same method and sizes."""
        method = type(reward).__name__
        if method != self.method:
            raise ValueError(f"the file holds the state of {self.method}, this callback's reward is {method}")
        if self.n_envs not in (None, reward.n_envs):
            raise ValueError(
                f"the saved state of {method} does not fit this reward's parameters: n_envs was {self.n_envs}, here it "
                f"is {reward.n_envs}; use {self.n_envs} environments, for each of which there is a memory"
            )
        check_saved_parameters(method, reward.config, self.parameters)
        load_saved_state(reward, self.state)
