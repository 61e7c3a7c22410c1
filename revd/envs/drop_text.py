"""Removing text from observations, because the networks cannot read it."""

import warnings
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class DropText(gymnasium.ObservationWrapper[dict[str, Any], Any, dict[str, Any]]):
    """Drops the text entries of Dict observations, with a warning that names them."""

    def __init__(self, env: gymnasium.Env[dict[str, Any], Any]) -> None:
        super().__init__(env)
        assert isinstance(env.observation_space, spaces.Dict)
        kept = {key: part for key, part in env.observation_space.spaces.items() if not _is_text(part)}
        dropped = sorted(set(env.observation_space.spaces) - set(kept))
        if not kept:
            raise ValueError(f"the observations of {env} hold only text ({', '.join(dropped)})")
        warnings.warn(f"the text {', '.join(dropped)} is dropped from the observations", stacklevel=2)
        self.observation_space = spaces.Dict(kept)

    def observation(self, observation: dict[str, Any]) -> dict[str, Any]:
        """The entries that are not text."""
        assert isinstance(self.observation_space, spaces.Dict)
        return {key: observation[key] for key in self.observation_space.spaces}


def has_text(space: spaces.Space[Any]) -> bool:
    """Whether a space is a Dict with text entries."""
    return isinstance(space, spaces.Dict) and any(_is_text(part) for part in space.spaces.values())


def _is_text(space: spaces.Space[Any]) -> bool:
    # MiniGrid's missions have a space of their own, whose samples are text.
    return isinstance(space, spaces.Text) or space.dtype == np.dtype(str)
