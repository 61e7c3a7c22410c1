"""SB3's algorithms beside ours, with the same weights and the same rollout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import DummyVecEnv

T = TypeVar("T")
FRAMES = spaces.Box(0, 255, (2, 36, 36), np.uint8)
VECTOR = spaces.Box(-1, 1, (5,), np.float32)
DISCRETE = spaces.Discrete(3)
CONTINUOUS = spaces.Box(-1, 1, (2,), np.float32)


class NoiseEnv(gym.Env[Any, Any]):
    """Random observations and rewards; episodes of seven steps, ended in turn by termination and by time limit."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        reward = float(self.np_random.normal())
        return self.observation_space.sample(), reward, self._steps % 14 == 0, self._steps % 14 == 7, {}


def noise(observation_space: spaces.Space[Any] = VECTOR, action_space: spaces.Space[Any] = DISCRETE) -> DummyVecEnv:
    return DummyVecEnv([lambda: NoiseEnv(observation_space, action_space)] * 3)


def policy_for(space: spaces.Space[Any]) -> str:
    if isinstance(space, spaces.Dict):
        return "MultiInputPolicy"
    return "CnnPolicy" if space is FRAMES else "MlpPolicy"


def build(algorithm: Callable[..., T], env: DummyVecEnv, **arguments: Any) -> T:
    """A model that has a logger, though it has not learnt."""
    arguments = {"policy": policy_for(env.observation_space), "n_steps": 16, "seed": 3, "device": "cpu", **arguments}
    model: Any = algorithm(env=env, **arguments)
    model.set_logger(Logger(folder=None, output_formats=[]))
    return model  # type: ignore[no-any-return]


def collect(model: Any) -> None:
    """Fill the model's buffer."""
    _, callback = model._setup_learn(1_000, None)
    model.collect_rollouts(model.env, callback, model.rollout_buffer, model.n_steps)


def copy_rollout(source: Any, target: Any) -> None:
    """Put into the target's buffer, of either kind, what is in the source's, which is SB3's."""
    theirs, ours = source.rollout_buffer, target.rollout_buffer
    ours.reset()
    for step in range(theirs.buffer_size):
        ours.add(
            theirs.observations[step],
            theirs.actions[step],
            theirs.rewards[step],
            theirs.episode_starts[step],
            torch.as_tensor(theirs.values[step]),
            torch.as_tensor(theirs.log_probs[step]),
        )
    for name in ("advantages", "returns"):
        setattr(ours, name, getattr(theirs, name).copy())


def update(model: Any, order: int = 0) -> None:
    """`train()` with a known order of minibatches, on the CPU the same for SB3 and for us."""
    np.random.seed(order)  # noqa: NPY002
    model.train()


def parameters(model: Any) -> torch.Tensor:
    """All that is trained, one after the other."""
    return torch.cat([parameter.detach().double().flatten() for parameter in model.policy.parameters()])


def distance(model: Any, other: Any, start: torch.Tensor) -> float:
    """How far two models' parameters are apart, relative to how far the second has come."""
    return float((parameters(model) - parameters(other)).norm() / (parameters(other) - start).norm())


def array(values: Any) -> np.ndarray[Any, Any]:
    """A copy of a field of a buffer of either kind."""
    return torch.as_tensor(values).cpu().numpy().copy()


class Replays:
    """Records work as a CUDA stream would, so that the bookkeeping around captures can be seen on a CPU."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def warm_up(self, work: Callable[[], T]) -> T:
        self.log.append("warm-up")
        return work()

    def capture(self, work: Callable[[], T]) -> tuple[Callable[[], None], T]:
        self.log.append("capture")
        result: Any = []

        def replay() -> None:
            self.log.append("replay")
            found: Any = work()
            result[:] = [] if found is None else found

        return replay, result


def capturing(model: Any) -> Replays:
    """Let a model on the CPU do everything that it would do on a GPU, but for the capture itself."""
    model._recorder = Replays()
    model._bind_policy()
    return model._recorder  # type: ignore[no-any-return]
