"""RLlib's episodes as columns of a `Rollout`, one for each environment of each env runner.

A batch of RLlib is a list of episodes and parts of episodes, and remote learners get it sorted by length. So an
episode's id says, from its creation on, which environment it comes from and which of two came first. `cut` at a batch's
end and `slice` for several learners keep the id, while `slice` drops `custom_data`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer

from revd.rollout import Rollout, as_observations, is_finite, map_observations

if TYPE_CHECKING:
    from revd.arrays import Array
    from revd.rollout import Observations

#: Episodes and parts of them by environment, each list in order of time.
EpisodeColumns: TypeAlias = "list[list[SingleAgentEpisode]]"


@dataclass(frozen=True)
class Origin:
    """The environment that an episode comes from, and its number.

    Attributes:
        runner: RLlib's index of the env runner: 0 for the local one, 1 … for remote ones.
        env: The environment within the env runner.
        serial: The episode's number among those that the env runner created.
    """

    runner: int
    env: int
    serial: int

    def signed(self, name: str) -> str:
        """Add the origin to an episode's id."""
        return f"{name}:{self.runner}:{self.env}:{self.serial}"

    def column(self, n_runners: int, envs_per_runner: int) -> int:
        """The number of the environment among all."""
        # The local env runner has index 0 and is the only one; remote ones count from 1.
        runner = max(self.runner - 1, 0)
        if runner >= n_runners or self.env >= envs_per_runner:
            raise ValueError(
                f"an episode comes from environment {self.env} of env runner {self.runner}, the reward was made for "
                f"{n_runners} env runner(s) with {envs_per_runner} environment(s) each"
            )
        return runner * envs_per_runner + self.env

    @classmethod
    def of(cls, episode: SingleAgentEpisode) -> Origin:
        """Read the origin from an episode's id."""
        if not isinstance(episode, SingleAgentEpisode):
            raise TypeError(f"intrinsic rewards need single-agent episodes, got a {type(episode).__name__}")
        try:
            _, runner, env, serial = str(episode.id_).rsplit(":", 3)
            return cls(int(runner), int(env), int(serial))
        except ValueError:
            raise ValueError(
                f"the episode {episode.id_!r} does not say which environment it comes from: a callback of "
                "with_intrinsic_reward writes that, so call it after config.callbacks(on_episode_created=...)"
            ) from None


def to_columns(episodes: Sequence[SingleAgentEpisode], *, n_runners: int, envs_per_runner: int) -> EpisodeColumns:
    """Sort a batch by environment and time: a list for each of n_runners * envs_per_runner environments."""
    columns: EpisodeColumns = [[] for _ in range(n_runners * envs_per_runner)]
    origins = [(Origin.of(episode), episode) for episode in episodes]
    for origin, episode in sorted(origins, key=lambda pair: (pair[0].serial, pair[1].t_started)):
        if len(episode) > 0:
            columns[origin.column(n_runners, envs_per_runner)].append(_with_arrays(episode))
    return columns


def continues(later: SingleAgentEpisode, episode: SingleAgentEpisode) -> bool:
    """Whether the later part of an episode begins where the other one stops."""
    return bool(later.id_ == episode.id_ and later.t_started == episode.t)


def part_name(episode: SingleAgentEpisode) -> tuple[str, int]:
    """The id and start of a part of an episode, without what `AddOneTsToEpisodesAndTruncate` appends to the id."""
    name, _, serial = str(episode.id_).rpartition(":")
    return f"{name}:{serial.partition('_')[0]}", episode.t_started


def places(columns: EpisodeColumns) -> dict[tuple[str, int], tuple[int, int, int]]:
    """Column, first row and length of every part of an episode, by `part_name`."""
    found = {}
    for index, column in enumerate(columns):
        start = 0
        for episode in column:
            found[part_name(episode)] = index, start, len(episode)
            start += len(episode)
    return found


def check_last_observations(columns: EpisodeColumns) -> None:
    """Raise a ValueError if the observation with which a part of an episode ends is not finite.

    Advantages are computed from its value. The reward checks the observations before it.
    """
    for episode in (episode for column in columns for episode in column):
        if not is_finite(episode.get_observations(-1)):
            origin = Origin.of(episode)
            raise ValueError(
                f"the observation after step {episode.t - 1} of an episode of environment {origin.env} of env runner "
                f"{origin.runner} holds a NaN or infinite value"
            )


def to_rollout(columns: EpisodeColumns, *, successors: bool = True) -> Rollout:
    """Make one ragged rollout of all columns, in which an episode that was cut is not done."""
    lengths = np.array([sum(map(len, column)) for column in columns])
    next_observations = None
    if successors:
        next_observations = _joined(columns, lambda episode: episode.get_observations(slice(1, len(episode) + 1)))
    return Rollout(
        observations=_joined(columns, lambda episode: episode.get_observations(slice(0, len(episode)))),
        actions=_joined(columns, lambda episode: episode.get_actions(slice(0, len(episode)))),
        next_observations=next_observations,
        dones=_padded([_dones(column) for column in columns]),
        lengths=lengths,
    )


def current_observations(columns: EpisodeColumns) -> Observations:
    """The observations with which the environments continue, (n_envs, *obs_shape).

    That of an environment without steps in this batch is another's.
    """
    following = [_following(column[-1]) if column else None for column in columns]
    some = next(observation for observation in following if observation is not None)
    rows = _padded([[some if observation is None else observation] for observation in following])
    return map_observations(lambda tensor: tensor[0], as_observations("observations", rows))


def _following(episode: SingleAgentEpisode) -> Any:
    """The observation after a part of an episode, (1, *obs_shape).

    After the end of an episode comes a reset, which this batch does not hold. The episode's own first observation
    stands for it, unless an earlier batch held that.
    """
    step = 0 if episode.is_done and episode.t_started == 0 else len(episode)
    return episode.get_observations(slice(step, step + 1))


def read_rewards(columns: EpisodeColumns) -> Array:
    """The rewards in the shape of the rollout, (n_steps, n_envs), 0 in padding."""
    rewards: Array = _joined(columns, lambda episode: episode.get_rewards(slice(0, len(episode))))
    return rewards


def replace_rewards(columns: EpisodeColumns, rewards: Array) -> list[SingleAgentEpisode]:
    """Copy the episodes with other rewards, (n_steps, n_envs).

    A local env runner keeps the original episodes to report the task's returns.
    """
    changed = []
    for index, column in enumerate(columns):
        start = 0
        for episode in column:
            stop = start + len(episode)
            changed.append(_copy_with_rewards(episode, rewards[start:stop, index]))
            start = stop
    return changed


def _dones(column: list[SingleAgentEpisode]) -> list[Array]:
    """(length,) for each part of a column: True where an episode ends, or where its next steps are missing."""
    dones = [np.zeros(len(episode), dtype=bool) for episode in column]
    for part, episode in zip(dones, column, strict=True):
        part[-1] = episode.is_done
    for part, (episode, later) in zip(dones[:-1], pairwise(column), strict=True):
        part[-1] |= not continues(later, episode)
    return dones


def _joined(columns: EpisodeColumns, read: Callable[[SingleAgentEpisode], Any]) -> Any:
    return _padded([[read(episode) for episode in column] for column in columns])


def _padded(columns: Sequence[Sequence[Any]]) -> Any:
    """Join parts of columns, (length, …) or dicts of them, to one array (n_steps, n_envs, …), padded by zeros."""
    parts = [part for column in columns for part in column]
    first = parts[0]
    if isinstance(first, Mapping):
        return {key: _padded([[part[key] for part in column] for column in columns]) for key in first}
    n_steps = max(sum(map(len, column)) for column in columns)
    padded = np.zeros((n_steps, len(columns), *first.shape[1:]), dtype=np.result_type(*parts))
    for index, column in enumerate(columns):
        start = 0
        for part in column:
            padded[start : start + len(part), index] = part
            start += len(part)
    return padded


def _copy_with_rewards(episode: SingleAgentEpisode, rewards: Array) -> SingleAgentEpisode:
    changed = _copy(episode)
    old = changed.rewards
    data = np.concatenate([old.data[: old.lookback], rewards], dtype=np.float32)
    changed.rewards = InfiniteLookbackBuffer(data, old.lookback, old.space)
    return changed


def _with_arrays(episode: SingleAgentEpisode) -> SingleAgentEpisode:
    return episode if episode.is_numpy else _copy(episode).to_numpy()


def _copy(episode: SingleAgentEpisode) -> SingleAgentEpisode:
    # `slice` fails for columns of dicts, such as the states of an LSTM, whose lookback is longer than their number of
    # keys. Spaces never change and are slow to copy, so they are shared.
    shared = {id(space): space for space in (episode.observation_space, episode.action_space)}
    return copy.deepcopy(episode, shared)
