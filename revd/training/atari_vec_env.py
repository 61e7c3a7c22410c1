"""Atari games for Stable-Baselines3: an adapter around ale-py's native vector environment."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn

from revd.envs.atari import MAX_FRAMES, NO_OPS
from revd.envs.sparse import check_probability
from revd.fast.env_groups import StepResults, concatenate_groups
from revd.training.atari_group import AtariGroup
from revd.training.native_vec_env import NativeVecEnv


class AtariVecEnv(NativeVecEnv):
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
        native = self._native
        super().__init__(n_envs, native.single_observation_space, native.single_action_space, sparse=sparse)

    def reset(self) -> NDArray[np.uint8]:
        """Start new games; call `seed` first to make them repeatable."""
        given = self._seeds_of_reset()
        # The native vector takes signed 32-bit seeds.
        seeds = None if given is None else np.array(given, np.int64) % 2**31
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
        return self._with_sparsity(np.sign(scores).astype(np.float32)), dones, infos

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

    @property
    def _native(self) -> Any:
        return self._groups[0].native

    def _check_actions(self, actions: NDArray[Any], expected: int) -> None:
        assert isinstance(self.action_space, spaces.Discrete)
        known = range(int(self.action_space.n))
        if actions.shape != (expected,) or not all(action in known for action in actions.tolist()):
            # The native vector would never return.
            raise ValueError(f"actions must be {expected} elements of {self.action_space}, got {actions}")


def _halves(n_envs: int) -> list[slice]:
    half = n_envs // 2
    return [slice(0, half), slice(half, n_envs)]
