"""A group of Atari games that step together, with their scores and infos."""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revd.envs.atari import make_atari
from revd.envs.sparse import TASK_REWARD

#: Score changes, dones of the agent's episodes, infos.
AtariResults = tuple[NDArray[np.int32], NDArray[np.bool_], list[dict[str, Any]]]


class AtariGroup:
    """Copies of one game in a native vector, which steps in the background.

    `info["episode"]`, as from a Monitor, has the score of a whole game and its length in the agent's steps;
    `info["task_reward"]` is the change of the score in a step.

    Args:
        game: Name of the ROM.
        n_envs: Number of copies.
        colour: Play every game a second time in colour, for `images`: the native vector gives grey frames only.
        options: Further arguments of `make_atari`.

    Attributes:
        native: The native vector.
        images: The screens in colour; None without `colour` and before the first reset.
    """

    def __init__(self, game: str, n_envs: int, *, colour: bool, **options: Any) -> None:
        self.native = make_atari(game, n_envs, **options)
        self._colour_games = make_atari(game, n_envs, **options, colour=True) if colour else None
        self.images: NDArray[np.uint8] | None = None
        self._start_frames = np.zeros(n_envs, np.int64)
        self._scores = np.zeros(n_envs)
        self._lengths = np.zeros(n_envs, np.int64)
        self._created = time.monotonic()
        self._stepping = False
        self._pending_results: tuple[Any, ...] = ()

    def reset(self, seeds: NDArray[np.int64] | None) -> NDArray[np.uint8]:
        """Start new games; a step that was not received is discarded."""
        if self._stepping:
            self.receive()
        self._pending_results = ()
        observations: NDArray[np.uint8]
        observations, info = self.native.reset(seed=seeds)
        if self._colour_games is not None:
            self.images = self._colour_games.reset(seed=seeds)[0]
        self._start_frames = _start_frames(info)
        self._scores[:] = 0
        self._lengths[:] = 0
        return observations

    def send(self, actions: NDArray[np.int64]) -> None:
        """Start a step of four frames in every game; `receive` must follow."""
        if self._stepping:
            raise RuntimeError("send() was called twice without receive() in between")
        self.native.send(actions)
        self._stepping = True
        if self._colour_games is not None:
            self.images = self._colour_games.step(actions)[0]

    def receive(self) -> NDArray[np.uint8]:
        """Wait for the step and return the observations; finished games have restarted."""
        try:
            self._pending_results = self.native.recv()
        finally:
            # An interrupt arrives after the step is done: waiting for it again would never return.
            self._stepping = False
        observations: NDArray[np.uint8] = self._pending_results[0]
        return observations

    def step_results(self) -> AtariResults:
        """Return the results of the step; call it once after each `receive`, because it adds up the scores."""
        if not self._pending_results:
            raise RuntimeError("step_results() must be called once after each send() and receive()")
        observations, scores, terminated, truncated, info = self._pending_results
        self._pending_results = ()
        start_frames = _start_frames(info)
        game_over = start_frames != self._start_frames
        self._start_frames = start_frames
        self._scores += scores
        self._lengths += 1
        dones = terminated | truncated
        infos: list[dict[str, Any]] = [
            {TASK_REWARD: float(score), "TimeLimit.truncated": timed_out}
            for score, timed_out in zip(scores.tolist(), truncated.tolist(), strict=True)
        ]
        for index in np.flatnonzero(dones).tolist():
            # `final_obs` is set only at the end of a game; after a lost life it holds an older observation.
            terminal = info["final_obs"] if game_over[index] else observations
            infos[index]["terminal_observation"] = terminal[index].copy()
            if game_over[index]:
                infos[index]["episode"] = self._finish(index)
        return scores, dones, infos

    def close(self) -> None:
        """Close the games."""
        self.native.close()
        if self._colour_games is not None:
            self._colour_games.close()

    def _finish(self, index: int) -> dict[str, float]:
        """Return a Monitor's report of the finished game and reset its score."""
        seconds = round(time.monotonic() - self._created, 6)
        report = {"r": float(self._scores[index]), "l": int(self._lengths[index]), "t": seconds}
        self._scores[index] = 0
        self._lengths[index] = 0
        return report


def _start_frames(info: dict[str, NDArray[np.int32]]) -> NDArray[np.int64]:
    """Return the frame at which each current game began, which changes only when a new game starts."""
    return info["frame_number"].astype(np.int64) - info["episode_frame_number"]
