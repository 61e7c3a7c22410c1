"""The state of an intrinsic-reward callback as one safetensors file: tensors and JSON, no pickles."""

from __future__ import annotations

import json
import os
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

if TYPE_CHECKING:
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

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the file in one step: a reader sees the old one or the new one."""
        path = Path(path)
        counts = {"format": FORMAT, "method": self.method, "rollouts": self.rollouts, "steps": self.steps}
        temporary = path.with_name(f".{path.name}.tmp")
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.state.items()}
        try:
            save_file(tensors, temporary, metadata={"revd": json.dumps(counts)})
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """Read a file that `write` made."""
        try:
            with safe_open(os.fspath(path), framework="pt") as file:
                counts = json.loads((file.metadata() or {}).get("revd", "{}"))
                state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, json.JSONDecodeError) as error:
            raise ValueError(f"{path} is not a file that IntrinsicRewardCallback.save wrote: {error}") from error
        if not isinstance(counts, dict) or counts.get("format") != FORMAT:
            raise ValueError(f"{path} is not a file that IntrinsicRewardCallback.save wrote")
        return cls(method=counts["method"], rollouts=counts["rollouts"], steps=counts["steps"], state=state)

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
