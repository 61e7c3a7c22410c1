"""MiniGrid's egocentric view as one-hot codes."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX, STATE_TO_IDX
from minigrid.wrappers import ImgObsWrapper
from numpy.typing import NDArray

#: Number of codes in each channel: object, colour and state of a cell. Doors have three states; the agent, where it is
#: part of the image, has four directions.
CODES = (len(OBJECT_TO_IDX), len(COLOR_TO_IDX), max(len(STATE_TO_IDX), 4))


class OneHotImage(gymnasium.ObservationWrapper[NDArray[np.float32], Any, NDArray[np.uint8]]):
    """Encode the view (width, height, 3) as (width, height, 21) of zeros and ones.

    Mission and direction are dropped.

    The codes are categories, so distances between them as numbers would mean nothing. As uint8 they would be taken for
    pixels and divided by 255, which would make all distances tiny. Every framework leaves float32 values in [0, 1]
    unchanged.
    """

    def __init__(self, env: gymnasium.Env[dict[str, Any], Any]) -> None:
        super().__init__(ImgObsWrapper(env))
        width, height, channels = self.env.observation_space.shape or ()
        assert channels == len(CODES)
        self.observation_space = spaces.Box(0, 1, (width, height, sum(CODES)), np.float32)
        self._offsets = np.cumsum((0, *CODES[:-1]))

    def observation(self, observation: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Set a 1 for each of the three codes of a cell."""
        assert self.observation_space.shape is not None
        codes = np.zeros(self.observation_space.shape, np.float32)
        np.put_along_axis(codes, observation + self._offsets, 1, axis=2)
        return codes
