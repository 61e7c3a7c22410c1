"""MiniGrid's egocentric view as one-hot codes."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX, STATE_TO_IDX
from minigrid.wrappers import ImgObsWrapper
from numpy.typing import NDArray

#: Codes of each channel: what is in the cell, its colour, its state. Four states: doors use three, the agent, where
#: it is part of the image, has four directions there.
CODES = (len(OBJECT_TO_IDX), len(COLOR_TO_IDX), max(len(STATE_TO_IDX), 4))


class OneHotImage(gymnasium.ObservationWrapper[NDArray[np.float32], Any, NDArray[np.uint8]]):
    """
    Cells (width, height, 3) of codes become (width, height, 21) of zeros and ones; mission and direction are left out.

    As numbers the codes would be ordered (a key nearer to a ball than to a wall), and as uint8 they would be taken
    for pixels and divided by 255, which shrinks all distances to nothing. float32 values in [0, 1] are taken as
    they are, by every framework.
    """

    def __init__(self, env: gymnasium.Env[dict[str, Any], Any]) -> None:
        super().__init__(ImgObsWrapper(env))
        width, height, channels = self.env.observation_space.shape or ()
        assert channels == len(CODES)
        self.observation_space = spaces.Box(0, 1, (width, height, sum(CODES)), np.float32)
        self._offsets = np.cumsum((0, *CODES[:-1]))

    def observation(self, observation: NDArray[np.uint8]) -> NDArray[np.float32]:
        """One 1 for each of a cell's three codes."""
        assert self.observation_space.shape is not None
        codes = np.zeros(self.observation_space.shape, np.float32)
        np.put_along_axis(codes, observation + self._offsets, 1, axis=2)
        return codes
