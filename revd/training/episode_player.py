"""Plays one episode of a trained policy and keeps its frames."""

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
class PlayedEpisode:
    """An episode of n steps.

    Attributes:
        frames: The n frames, (height, width, 3) each; frame t shows the state in which action t was taken.
        rewards: The task's own rewards, neither clipped nor scaled, (n,).
        rollout: The n transitions of the single environment, with the observations that the policy saw.
    """

    frames: tuple[NDArray[np.uint8], ...]
    rewards: NDArray[np.float64]
    rollout: Rollout


def play_episode(
    model: OnPolicyAlgorithm, env: VecEnv, *, seed: int = 0, max_steps: int = 1_000, deterministic: bool = True
) -> PlayedEpisode:
    """Play one episode of at most `max_steps`; of an Atari game the whole game with all lives.

    Observations are normalised with the model's statistics, which are not changed. Stochastic policies use the global
    random generators, which are seeded with `seed`.

    Args:
        model: A trained model.
        env: One environment of the model's task, from `make_vec_env` with the model's settings and
            `render_mode="rgb_array"`.
        seed: Seed of the policy and of the environment.
        max_steps: The most steps to play.
        deterministic: Take the most probable actions instead of sampling.
    """
    env = _wrapped_for_model(model, env)
    set_random_seed(seed)
    env.seed(seed)
    record = _EpisodeRecord(env.reset())
    state: Any = None
    starts = np.ones(1, dtype=bool)
    while len(record.frames) < max_steps and not record.is_over:
        frame = _frame(env) if record.frames else _first_frame(env)
        actions, state = model.predict(
            record.observations[-1],
            state=state,
            episode_start=starts,
            deterministic=deterministic,
            **predict_arguments(model, env),
        )
        next_observations, rewards, starts, infos = env.step(actions)
        record.add(frame, actions, next_observations, float(rewards[0]), bool(starts[0]), infos[0])
    return record.episode()


class _EpisodeRecord:
    """The steps played so far."""

    def __init__(self, first: Any) -> None:
        self.observations: list[Any] = [deepcopy(first)]
        self.frames: list[NDArray[np.uint8]] = []
        self.is_over = False
        self._actions: list[Array] = []
        self._successors: list[Any] = []
        self._rewards: list[float] = []
        self._dones: list[bool] = []

    def add(
        self,
        frame: NDArray[np.uint8],
        actions: Array,
        next_observations: Any,
        reward: float,
        done: bool,
        info: dict[str, Any],
    ) -> None:
        """Add a step; `next_observations` are those after the reset if it is done."""
        # A copy, because some vectorised environments reuse the memory of observations.
        next_observations = deepcopy(next_observations)
        self.frames.append(frame)
        self._actions.append(actions)
        self._rewards.append(info.get(TASK_REWARD, reward))
        self._dones.append(done)
        self._successors.append(_with_env_axis(info["terminal_observation"]) if done else next_observations)
        self.observations.append(next_observations)
        # `done` may be a lost life; the Monitor reports whole games.
        self.is_over = "episode" in info

    def episode(self) -> PlayedEpisode:
        """Return the recorded episode."""
        return PlayedEpisode(
            frames=tuple(self.frames),
            rewards=np.array(self._rewards),
            rollout=Rollout(
                observations=_stack(self.observations[:-1]),
                actions=np.stack(self._actions),
                next_observations=_stack(self._successors),
                dones=np.array(self._dones)[:, None],
            ),
        )


def _wrapped_for_model(model: OnPolicyAlgorithm, env: VecEnv) -> VecEnv:
    """Transpose images as the model does, and normalise observations with its frozen statistics."""
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
    # Some tasks import their drawing library here, which prints a greeting and warns about sound cards.
    with silenced():
        return _frame(env)


def _frame(env: VecEnv) -> NDArray[np.uint8]:
    try:
        (image,) = env.get_images()
    except gymnasium.error.DependencyNotInstalled as error:
        if "pygame" in str(error):
            # Gymnasium's own advice would install pygame, whose files conflict with MiniGrid's pygame-ce.
            raise ValueError("the task is drawn with pygame: pip install 'revd[video]'") from error
        raise ValueError(f"the task cannot be drawn: {error}") from error
    except (Exception, SystemExit) as error:
        text = str(error).strip().partition("\n")[0]
        raise ValueError(f"the task cannot be drawn: render() raised {type(error).__name__}: {text}") from error
    if not isinstance(image, np.ndarray) or image.ndim != 3:
        raise ValueError(f"the task cannot be drawn: render() returns {type(image).__name__}, not a picture")
    # A copy, because some tasks reuse the memory of frames.
    return np.array(image[..., :3], dtype=np.uint8)


def _with_env_axis(observation: Any) -> Any:
    if isinstance(observation, dict):
        return {key: np.asarray(part)[None] for key, part in observation.items()}
    return np.asarray(observation)[None]


def _stack(observations: list[Any]) -> ObservationArray:
    """Stack the observations of n steps, (1, …) each, to (n, 1, …)."""
    if isinstance(observations[0], dict):
        return {key: np.stack([entry[key] for entry in observations]) for key in observations[0]}
    return np.stack(observations)
