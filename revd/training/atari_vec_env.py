"""Atari games for Stable-Baselines3: an adapter around ale-py's native vector environment."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvStepReturn

from revd.envs.atari import MAX_FRAMES, NO_OPS
from revd.envs.sparse import check_probability, sparse_generator
from revd.fast.env_groups import StepResults, concatenate_groups
from revd.training.atari_group import AtariGroup


class AtariVecEnv(VecEnv):
    """Copies of one Atari game, preprocessed by `make_atari`.

    The reward is the sign of the score's change. A lost life ends the agent's episode, while the game continues.
    `info["episode"]`, as from a Monitor, reports whole games: their score and their length in the agent's steps.
    `info["task_reward"]` is the unclipped change of the score in a step.

    Args:
        game: Name of the ROM, such as `space_invaders`.
        n_envs: Number of copies.
        sparse: Probability with which a step's reward is set to zero; None for never.
        threads: Threads that step the games. With two or more there are two groups of games (see `GroupedVecEnv`);
            each game behaves the same in a group.
        render_mode: None or "rgb_array".
        max_frames: See `make_atari`.
        no_ops: See `make_atari`.
        fire_reset: See `make_atari`.
    """

    def __init__(
        self,
        game: str,
        n_envs: int,
        *,
        sparse: float | None = None,
        threads: int = 1,
        render_mode: str | None = None,
        max_frames: int = MAX_FRAMES,
        no_ops: int = NO_OPS,
        fire_reset: bool = True,
    ) -> None:
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode must be None or 'rgb_array', got {render_mode!r}")
        if sparse is not None:
            check_probability(sparse)
        options: dict[str, Any] = {"max_frames": max_frames, "no_ops": no_ops, "fire_reset": fire_reset}
        self.groups = _halves(n_envs) if threads > 1 and n_envs > 1 else [slice(0, n_envs)]
        threads_per_group = [(threads + index) // len(self.groups) for index in range(len(self.groups))]
        self._groups = [
            AtariGroup(game, part.stop - part.start, colour=render_mode is not None, threads=group_threads, **options)
            for part, group_threads in zip(self.groups, threads_per_group, strict=True)
        ]
        self._render_mode = render_mode
        native = self._groups[0].native
        super().__init__(n_envs, native.single_observation_space, native.single_action_space)
        self._sparse = sparse or 0.0
        self._generator = sparse_generator(None)
        self._was_reset = False

    def reset(self) -> NDArray[np.uint8]:
        """Start new games; call `seed` first to make them repeatable."""
        if not self._was_reset and self._seeds[0] is None:
            self.seed()
        seeds = None
        if self._seeds[0] is not None:
            self._generator = sparse_generator(self._seeds[0])
            # The native vector takes signed 32-bit seeds.
            seeds = np.array(self._seeds, np.int64) % 2**31
        self._was_reset = True
        self._reset_seeds()
        self._reset_options()
        return np.concatenate(
            [
                group.reset(None if seeds is None else seeds[part])
                for group, part in zip(self._groups, self.groups, strict=True)
            ]
        )

    def step_async(self, actions: NDArray[Any]) -> None:
        """Start a step of four frames in all games."""
        self._check_actions(actions, self.num_envs)
        for group, part in zip(self._groups, self.groups, strict=True):
            group.send(actions[part].astype(np.int64))

    def step_wait(self) -> VecEnvStepReturn:
        """Wait for all games; finished ones have restarted."""
        groups = range(len(self.groups))
        observations = [self.receive(group) for group in groups]
        return concatenate_groups(observations, [self.step_results(group) for group in groups])

    def send(self, group: int, actions: NDArray[Any]) -> None:
        """Start a step of a group without waiting for it."""
        part = self.groups[group]
        self._check_actions(actions, part.stop - part.start)
        self._groups[group].send(actions.astype(np.int64))

    def receive(self, group: int) -> NDArray[np.uint8]:
        """Wait for a group's step and return its observations."""
        return self._groups[group].receive()

    def step_results(self, group: int) -> StepResults:
        """Return rewards, dones and infos of the step received last."""
        scores, dones, infos = self._groups[group].step_results()
        return self._rewards(scores), dones, infos

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """Return the screens in colour, (210, 160, 3).

        They are None without `render_mode="rgb_array"` and before the first reset.
        """
        images = [group.images for group in self._groups]
        if any(frames is None for frames in images):
            return [None] * self.num_envs
        return [screen for frames in images if frames is not None for screen in frames[:, -1]]

    def close(self) -> None:
        """Close the games."""
        for group in self._groups:
            group.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return an attribute of the native vector, which all games share."""
        value = self._render_mode if attr_name == "render_mode" else getattr(self._groups[0].native, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Raise NotImplementedError: the games are C++ objects."""
        raise NotImplementedError(f"{attr_name!r} cannot be set: the games are C++ objects")

    def env_method(self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **_: Any) -> list[Any]:
        """Raise NotImplementedError: the games are C++ objects."""
        raise NotImplementedError(f"{method_name!r} cannot be called: the games are C++ objects")

    def env_is_wrapped(
        self, wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        """Report a Monitor, because `info` has the scores of whole games, as SB3's evaluation expects."""
        return [issubclass(Monitor, wrapper_class) for _ in self._get_indices(indices)]

    def _check_actions(self, actions: NDArray[Any], expected: int) -> None:
        assert isinstance(self.action_space, spaces.Discrete)
        known = range(int(self.action_space.n))
        if actions.shape != (expected,) or not all(action in known for action in actions.tolist()):
            # The native vector would never return.
            raise ValueError(f"actions must be {expected} elements of {self.action_space}, got {actions}")

    def _rewards(self, scores: NDArray[np.int32]) -> NDArray[np.float32]:
        rewards: NDArray[np.float32] = np.sign(scores).astype(np.float32)
        if self._sparse:
            rewards[self._generator.random(len(scores)) < self._sparse] = 0
        return rewards


def _halves(n_envs: int) -> list[slice]:
    half = n_envs // 2
    return [slice(0, half), slice(half, n_envs)]
