"""The agent's position in grid worlds, as EnvPool reports it."""

from typing import Any

import gymnasium


class AgentPosition(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Write the position (x, y) of MiniGrid's agent into `info["agent_pos"]`."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the environment."""
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, info | self._position()

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step; the position is the one after it."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated, info | self._position()

    def _position(self) -> dict[str, tuple[int, int]]:
        x, y = self.get_wrapper_attr("agent_pos")
        return {"agent_pos": (int(x), int(y))}
