"""The terminal observations of a vectorised environment, before VecNormalize replaces them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from stable_baselines3.common.vec_env import VecEnvWrapper

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecNormalize
    from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn


class TerminalObservations(VecEnvWrapper):
    """Keeps the terminal observations of the last step, and changes nothing.

    VecNormalize overwrites those in the infos. Its inverse is not exact, and what it has clipped is lost.

    Attributes:
        terminal_observations: Those of the last step, by environment.
    """

    terminal_observations: dict[int, Any]

    @classmethod
    def below(cls, normalization: VecNormalize) -> TerminalObservations:
        """Put one between a VecNormalize and its environments; one that is already there stays."""
        venv = normalization.venv
        if not isinstance(venv, cls):
            venv = normalization.venv = cls(venv)
        return venv

    @staticmethod
    def remove(normalization: VecNormalize) -> None:
        """Undo `below`."""
        if isinstance(normalization.venv, TerminalObservations):
            normalization.venv = normalization.venv.venv

    def reset(self) -> VecEnvObs:
        """Reset all environments."""
        self.terminal_observations = {}
        return self.venv.reset()

    def step_wait(self) -> VecEnvStepReturn:
        """Wait for the step of all environments."""
        received = self.venv.step_wait()
        _, _, dones, infos = received
        self.terminal_observations = {
            env: infos[env]["terminal_observation"]
            for env in np.flatnonzero(dones).tolist()
            if "terminal_observation" in infos[env]
        }
        return received
