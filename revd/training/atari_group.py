"""Some Atari games that are stepped together, and what is reported of them."""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revd.envs.atari import make_atari
from revd.envs.sparse import TASK_REWARD

#: Changes of the scores, ends of the agent's episodes, infos.
Played = tuple[NDArray[np.int32], NDArray[np.bool_], list[dict[str, Any]]]


class Games:
    """
    Copies of one game in a native vector of their own, which plays while Python does something else.

    `info["episode"]`, as from a Monitor, is the score of a whole game and its length in the agent's steps;
    `info["task_reward"]` is the change of a step.

    Args:
        game: Name of the ROM.
        n_envs: How many.
        colour: Play the same games a second time for the eyes: the native vector shows no colours.
        options: Those of `make_atari`.
    """

    def __init__(self, game: str, n_envs: int, *, colour: bool, **options: Any) -> None:
        self.native = make_atari(game, n_envs, **options)
        self._screen = make_atari(game, n_envs, **options, colour=True) if colour else None
        self.images: NDArray[np.uint8] | None = None
        self._starts = np.zeros(n_envs, np.int64)
        self._scores = np.zeros(n_envs)
        self._lengths = np.zeros(n_envs, np.int64)
        self._began = time.monotonic()
        self._playing = False
        self._received: tuple[Any, ...] = ()

    def reset(self, seeds: NDArray[np.int64] | None) -> NDArray[np.uint8]:
        """Start new games; what was sent before is forgotten."""
        if self._playing:
            self.receive()
        self._received = ()
        observations: NDArray[np.uint8]
        observations, info = self.native.reset(seed=seeds)
        if self._screen is not None:
            self.images = self._screen.reset(seed=seeds)[0]
        self._starts = _starts(info)
        self._scores[:] = 0
        self._lengths[:] = 0
        return observations

    def send(self, actions: NDArray[np.int64]) -> None:
        """Let every game be played for four frames; `receive` must follow."""
        if self._playing:
            raise RuntimeError("the games were sent actions twice; receive() comes between")
        self.native.send(actions)
        self._playing = True
        if self._screen is not None:
            self.images = self._screen.step(actions)[0]

    def receive(self) -> NDArray[np.uint8]:
        """Wait for what the games show then; finished ones have started anew."""
        try:
            self._received = self.native.recv()
        finally:
            # An interrupt comes when the games have answered: to wait for them again would be for ever.
            self._playing = False
        observations: NDArray[np.uint8] = self._received[0]
        return observations

    def outcome(self) -> Played:
        """What else has come of it; to be asked once after each `receive`, for scores are added up here."""
        if not self._received:
            raise RuntimeError("there is no outcome yet, or it was asked for twice; send() and receive() come before")
        observations, scores, terminated, truncated, info = self._received
        self._received = ()
        starts = _starts(info)
        game_over = starts != self._starts
        self._starts = starts
        self._scores += scores
        self._lengths += 1
        dones = terminated | truncated
        infos: list[dict[str, Any]] = [
            {TASK_REWARD: float(score), "TimeLimit.truncated": late}
            for score, late in zip(scores.tolist(), truncated.tolist(), strict=True)
        ]
        for index in np.flatnonzero(dones).tolist():
            # Only the end of a game has a final observation; at the loss of a life the buffer holds something older.
            last = info["final_obs"] if game_over[index] else observations
            infos[index]["terminal_observation"] = last[index].copy()
            if game_over[index]:
                infos[index]["episode"] = self._finish(index)
        return scores, dones, infos

    def close(self) -> None:
        """Close the games."""
        self.native.close()
        if self._screen is not None:
            self._screen.close()

    def _finish(self, index: int) -> dict[str, float]:
        seconds = round(time.monotonic() - self._began, 6)
        report = {"r": float(self._scores[index]), "l": int(self._lengths[index]), "t": seconds}
        self._scores[index] = 0
        self._lengths[index] = 0
        return report


def _starts(info: dict[str, NDArray[np.int32]]) -> NDArray[np.int64]:
    """The frame at which each current game began, which changes exactly when a new one starts."""
    return info["frame_number"].astype(np.int64) - info["episode_frame_number"]
