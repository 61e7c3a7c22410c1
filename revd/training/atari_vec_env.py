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
from revd.fast.env_groups import Outcome, joined
from revd.training.atari_group import Games


class AtariVecEnv(VecEnv):
    """
    `n_envs` copies of one game, by its ROM's name (`space_invaders`), preprocessed as `make_atari` says.

    The agent is paid the sign of the score's change, zeroed with probability `sparse`, and a lost life ends its
    episode. The game goes on from there, and what is reported (`info["episode"]`, as from a Monitor) is the score of
    whole games and their length in the agent's steps; `info["task_reward"]` is the untouched change of a step.

    From two `threads` on there are two groups of games (see `GroupedVecEnv`), which changes nothing about any game.
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
        shares = [(threads + index) // len(self.groups) for index in range(len(self.groups))]
        self._games = [
            Games(game, part.stop - part.start, colour=render_mode is not None, threads=share, **options)
            for part, share in zip(self.groups, shares, strict=True)
        ]
        self._render_mode = render_mode
        native = self._games[0].native
        super().__init__(n_envs, native.single_observation_space, native.single_action_space)
        self._sparse = sparse or 0.0
        self._generator = sparse_generator(None)
        self._has_played = False

    def reset(self) -> NDArray[np.uint8]:
        """Start new games; `seed` before it makes them repeatable."""
        if not self._has_played and self._seeds[0] is None:
            self.seed()
        seeds = None
        if self._seeds[0] is not None:
            self._generator = sparse_generator(self._seeds[0])
            # C++ takes its seeds as 32-bit integers with a sign.
            seeds = np.array(self._seeds, np.int64) % 2**31
        self._has_played = True
        self._reset_seeds()
        self._reset_options()
        return np.concatenate(
            [
                games.reset(None if seeds is None else seeds[part])
                for games, part in zip(self._games, self.groups, strict=True)
            ]
        )

    def step_async(self, actions: NDArray[Any]) -> None:
        """Let all games be played for four frames."""
        self._check(actions, self.num_envs)
        for games, part in zip(self._games, self.groups, strict=True):
            games.send(actions[part].astype(np.int64))

    def step_wait(self) -> VecEnvStepReturn:
        """Wait for all games; finished ones have started anew."""
        groups = range(len(self.groups))
        return joined([self.receive(group) for group in groups], [self.outcome(group) for group in groups])

    def send(self, group: int, actions: NDArray[Any]) -> None:
        """Let the games of a group be played for four frames, without waiting for it."""
        part = self.groups[group]
        self._check(actions, part.stop - part.start)
        self._games[group].send(actions.astype(np.int64))

    def receive(self, group: int) -> NDArray[np.uint8]:
        """Wait for what the games of a group show then."""
        return self._games[group].receive()

    def outcome(self, group: int) -> Outcome:
        """What else has come of it."""
        scores, dones, infos = self._games[group].outcome()
        return self._shown(scores), dones, infos

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """The screens in colour, (210, 160, 3) each; None without `render_mode="rgb_array"`, or before a reset."""
        images = [games.images for games in self._games]
        if any(part is None for part in images):
            return [None] * self.num_envs
        return [screen for part in images if part is not None for screen in part[:, -1]]

    def close(self) -> None:
        """Close the games."""
        for games in self._games:
            games.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """An attribute of the native environment, which is the same for all games."""
        value = self._render_mode if attr_name == "render_mode" else getattr(self._games[0].native, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Not possible: the games live in C++."""
        raise NotImplementedError(f"{attr_name!r} cannot be set: the games are no Python objects")

    def env_method(self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **_: Any) -> list[Any]:
        """Not possible: the games live in C++."""
        raise NotImplementedError(f"{method_name!r} cannot be called: the games are no Python objects")

    def env_is_wrapped(
        self, wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        """Like environments inside a Monitor: whoever evaluates finds the scores of whole games in `info`."""
        return [issubclass(Monitor, wrapper_class) for _ in self._get_indices(indices)]

    def _check(self, actions: NDArray[Any], expected: int) -> None:
        assert isinstance(self.action_space, spaces.Discrete)
        known = range(int(self.action_space.n))
        if actions.shape != (expected,) or not all(action in known for action in actions.tolist()):
            # The native environment would wait for ever.
            raise ValueError(f"actions must be {expected} elements of {self.action_space}, got {actions}")

    def _shown(self, scores: NDArray[np.int32]) -> NDArray[np.float32]:
        rewards: NDArray[np.float32] = np.sign(scores).astype(np.float32)
        if self._sparse:
            rewards[self._generator.random(len(scores)) < self._sparse] = 0
        return rewards


def _halves(n_envs: int) -> list[slice]:
    half = n_envs // 2
    return [slice(0, half), slice(half, n_envs)]
