"""The state of an intrinsic-reward callback as one safetensors file: tensors and JSON, no pickles."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from revd.tensorfile import read_tensors, write_tensors

if TYPE_CHECKING:
    import os

    from torch import Tensor

    from revd.rewards import IntrinsicReward

FORMAT = "revd-callback-1"


@dataclass(frozen=True, kw_only=True, eq=False)
class Checkpoint:
    """What is needed to go on: the method's name, the counts that set the weight, the reward's state."""

    method: str
    rollouts: int
    steps: int
    state: dict[str, Tensor]

    @property
    def counts(self) -> dict[str, str | int]:
        """Everything but the tensors."""
        return {"method": self.method, "rollouts": self.rollouts, "steps": self.steps}

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the file in one step: a reader sees the old one or the new one."""
        write_tensors(path, self.state, {"format": FORMAT, **self.counts})

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """Read a file that `write` made."""
        try:
            state, counts = read_tensors(path)
        except ValueError as error:
            raise ValueError(f"{path} is not a file that IntrinsicRewardCallback.save wrote: {error}") from error
        if counts.pop("format", None) != FORMAT:
            raise ValueError(f"{path} is not a file that IntrinsicRewardCallback.save wrote")
        return cls(**counts, state=state)

    def load_into(self, reward: IntrinsicReward) -> None:
        """Put the state into a reward of the same method and sizes."""
        method = type(reward).__name__
        if method != self.method:
            raise ValueError(f"the file holds the state of {self.method}, this callback's reward is {method}")
        try:
            # load_state_dict copies what fits before it raises about what does not: a copy is tried first.
            deepcopy(reward).load_state_dict(self.state)
        except RuntimeError as error:
            raise ValueError(f"the saved state of {method} does not fit this reward's parameters: {error}") from error
        reward.load_state_dict(self.state)
