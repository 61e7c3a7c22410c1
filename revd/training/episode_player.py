"""One episode of a trained policy, seen through the eyes of a spectator."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import sync_envs_normalization, unwrap_vec_normalize

from revd.envs.silence import silenced
from revd.envs.sparse import TASK_REWARD
from revd.rollout import Rollout
from revd.training.algorithms import predict_arguments

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
    from stable_baselines3.common.vec_env import VecEnv

    from revd.arrays import Array
    from revd.sb3.recorder import ObservationArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Play:
    """What was played.

    Attributes:
        frames: The n pictures, (height, width, 3) each: the one at t shows the state in which action t was taken.
        rewards: (n,), the task's own, neither clipped nor scaled.
        rollout: The n transitions of the one environment, as the policy saw them.
    """

    frames: tuple[NDArray[np.uint8], ...]
    rewards: NDArray[np.float64]
    rollout: Rollout


def play(
    model: OnPolicyAlgorithm, env: VecEnv, *, seed: int = 0, max_steps: int = 1_000, deterministic: bool = True
) -> Play:
    """
    Play one episode, at most `max_steps` of it; of an Atari game, which has several lives, the whole game.

    Observations are normalised as the model's own are, with its statistics, which stay as they are. A stochastic
    policy draws from the global generators, which `seed` sets.

    Args:
        model: A trained model.
        env: One environment of the model's task, as `make_vec_env` gives it with the model's own settings and
            `render_mode="rgb_array"`.
        seed: Of the policy's draws and of the environment.
        max_steps: After so many steps it ends.
        deterministic: Take the most probable action rather than a draw.
    """
    env = _like_the_models(model, env)
    set_random_seed(seed)
    env.seed(seed)
    record = _Record(env.reset())
    state: Any = None
    starts = np.ones(1, dtype=bool)
    while len(record.frames) < max_steps and not record.over:
        frame = _frame(env) if record.frames else _first_frame(env)
        actions, state = model.predict(
            record.observations[-1],
            state=state,
            episode_start=starts,
            deterministic=deterministic,
            **predict_arguments(model, env),
        )
        following, rewards, starts, infos = env.step(actions)
        record.add(frame, actions, following, float(rewards[0]), bool(starts[0]), infos[0])
    return record.play()


class _Record:
    """What has been played so far."""

    def __init__(self, first: Any) -> None:
        self.observations: list[Any] = [deepcopy(first)]
        self.frames: list[NDArray[np.uint8]] = []
        self.over = False
        self._actions: list[Array] = []
        self._successors: list[Any] = []
        self._rewards: list[float] = []
        self._dones: list[bool] = []

    def add(
        self, frame: NDArray[np.uint8], actions: Array, following: Any, reward: float, done: bool, info: dict[str, Any]
    ) -> None:
        """Add a step; the environment has been reset already if it is done."""
        # Some vectorised environments write the next observation into the same memory.
        following = deepcopy(following)
        self.frames.append(frame)
        self._actions.append(actions)
        self._rewards.append(info.get(TASK_REWARD, reward))
        self._dones.append(done)
        self._successors.append(_with_env_axis(info["terminal_observation"]) if done else following)
        self.observations.append(following)
        # Lost lives are the ends of the agent's episodes; the monitor reports whole games.
        self.over = "episode" in info

    def play(self) -> Play:
        """All of it."""
        return Play(
            frames=tuple(self.frames),
            rewards=np.array(self._rewards),
            rollout=Rollout(
                observations=_stack(self.observations[:-1]),
                actions=np.stack(self._actions),
                next_observations=_stack(self._successors),
                dones=np.array(self._dones)[:, None],
            ),
        )


def _like_the_models(model: OnPolicyAlgorithm, env: VecEnv) -> VecEnv:
    """Transpose images as the model does, and normalise observations with its statistics, frozen."""
    env = model._wrap_env(env)
    training_env = model.get_env()
    assert training_env is not None
    normalization = unwrap_vec_normalize(env)
    if normalization is not None:
        normalization.training = False
        normalization.norm_reward = False
        sync_envs_normalization(training_env, env)
    return env


def _first_frame(env: VecEnv) -> NDArray[np.uint8]:
    # Only now some tasks load what they draw with, which greets, and complains about missing sound cards.
    with silenced():
        return _frame(env)


def _frame(env: VecEnv) -> NDArray[np.uint8]:
    try:
        (image,) = env.get_images()
    except gymnasium.error.DependencyNotInstalled as error:
        if "pygame" in str(error):
            # Not what Gymnasium advises: its pygame and MiniGrid's pygame-ce overwrite each other.
            raise ValueError("the task is drawn with pygame: pip install 'revd[video]'") from error
        raise ValueError(f"the task cannot be drawn: {error}") from error
    except (Exception, SystemExit) as error:
        text = str(error).strip().partition("\n")[0]
        raise ValueError(f"the task cannot be drawn: render() raised {type(error).__name__}: {text}") from error
    if not isinstance(image, np.ndarray) or image.ndim != 3:
        raise ValueError(f"the task cannot be drawn: render() gives {type(image).__name__}, not a picture")
    # A copy, since some tasks draw into the same memory again.
    return np.array(image[..., :3], dtype=np.uint8)


def _with_env_axis(observation: Any) -> Any:
    if isinstance(observation, dict):
        return {key: np.asarray(part)[None] for key, part in observation.items()}
    return np.asarray(observation)[None]


def _stack(observations: list[Any]) -> ObservationArray:
    """Observations (1, …) of each step to (n, 1, …)."""
    if isinstance(observations[0], dict):
        return {key: np.stack([entry[key] for entry in observations]) for key in observations[0]}
    return np.stack(observations)
