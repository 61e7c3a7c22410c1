"""The terminal observations of a vectorised environment, before VecNormalize replaces them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecEnv, VecNormalize
    from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn


class TerminalObservations:
    """Keeps the terminal observations of the last step of an environment, and changes nothing.

    VecNormalize overwrites those in the infos. Its inverse is not exact, and what it has clipped is lost. A wrapper
    below it would do the same, but SB3's evaluations compare the wrappers of two environments one by one.

    Attributes:
        latest: Those of the last step, by environment.
    """

    def __init__(self, venv: VecEnv) -> None:
        self._step_wait = venv.step_wait
        self.latest: dict[int, Any] = {}

    @classmethod
    def below(cls, normalization: VecNormalize) -> TerminalObservations:
        """Watch the environments below a VecNormalize; one that already does stays."""
        watcher = _watcher(normalization)
        if watcher is None:
            watcher = cls(normalization.venv)
            normalization.venv.step_wait = watcher.step_wait  # type: ignore[method-assign]
        return watcher

    @staticmethod
    def remove(normalization: VecNormalize) -> None:
        """Undo `below`."""
        if _watcher(normalization) is not None:
            del normalization.venv.step_wait

    def step_wait(self) -> VecEnvStepReturn:
        """Wait for the step of all environments."""
        received = self._step_wait()
        _, _, dones, infos = received
        self.latest = {
            env: infos[env]["terminal_observation"]
            for env in np.flatnonzero(dones).tolist()
            if "terminal_observation" in infos[env]
        }
        return received


def _watcher(normalization: VecNormalize) -> TerminalObservations | None:
    found = getattr(vars(normalization.venv).get("step_wait"), "__self__", None)
    return found if isinstance(found, TerminalObservations) else None
