"""Properties of Gymnasium spaces that encoders and models need.

The functions import Gymnasium inside, so that `import revd` does not load it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from gymnasium import spaces

    Space: TypeAlias = spaces.Space[Any]

#: The smallest image side for the paper's three convolutions.
MIN_IMAGE_SIDE = 36
#: The most features of one element; a layer with weights for each of them must fit into memory.
LARGEST_FEATURES = 2**24


def check_space(space: Space, name: str) -> None:
    """Raise a ValueError that lists the supported spaces, unless `space` is one."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            check_space(part, f"{name}[{key!r}]")
        if not space.spaces:
            raise ValueError(f"{name} is an empty Dict space: there is nothing to encode")
    elif isinstance(space, spaces.Tuple):
        raise ValueError(f"{name} is a Tuple space, which is not supported; use a Dict space with a name for each part")
    elif not isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        raise ValueError(
            f"{name} is a {type(space).__name__} space; supported are Box, Discrete, MultiDiscrete, MultiBinary "
            "and Dict spaces of these"
        )
    elif not 1 <= feature_size(space) <= LARGEST_FEATURES:
        raise ValueError(
            f"{name} is {space}, whose elements become {feature_size(space)} numbers; from 1 to {LARGEST_FEATURES} "
            "can be encoded"
        )


def dict_parts(space: Space) -> dict[str, Space] | None:
    """The parts of a Dict space, None for every other space."""
    from gymnasium import spaces

    return dict(space.spaces) if isinstance(space, spaces.Dict) else None


def image_channel_axis(space: Space) -> int | None:
    """0 or 2 for uint8 images large enough for the CNN (channels first or last), None for everything else.

    The shorter of the first and the last axis holds the channels, the first one if they are equal.
    """
    if space.dtype != np.uint8 or space.shape is None or len(space.shape) != 3:
        return None
    first, middle, last = space.shape
    axis = 0 if first <= last else 2
    sides = (middle, last) if axis == 0 else (first, middle)
    return axis if min(sides) >= MIN_IMAGE_SIDE else None


def feature_size(space: Space) -> int:
    """Length of the vectors that `features` makes of elements of `space`."""
    sizes = discrete_sizes(space)
    if sizes is not None:
        return sum(sizes)
    assert space.shape is not None
    return int(np.prod(space.shape))


def discrete_sizes(space: Space) -> list[int] | None:
    """Sizes of the one-hot parts of a Discrete or MultiDiscrete space's features, None for other spaces."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return [int(space.n)]
    if isinstance(space, spaces.MultiDiscrete):
        return [int(size) for size in space.nvec.reshape(-1)]
    return None


def discrete_bounds(space: Space) -> tuple[Tensor, Tensor] | None:
    """Lowest and highest value of a Discrete, MultiDiscrete or MultiBinary space, None for other spaces."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return torch.tensor(int(space.start)), torch.tensor(int(space.start) + int(space.n) - 1)
    if isinstance(space, spaces.MultiDiscrete):
        low, sizes = torch.as_tensor(space.start), torch.as_tensor(space.nvec)
        return low, low + sizes - 1
    return (torch.tensor(0), torch.tensor(1)) if isinstance(space, spaces.MultiBinary) else None


def is_binary(space: Space) -> bool:
    """Whether the space is a MultiBinary one."""
    from gymnasium import spaces

    return isinstance(space, spaces.MultiBinary)


def is_countable(space: Space) -> bool:
    """Whether equal states of a space recur: discrete ones, and Boxes of integers but images for the CNN."""
    from gymnasium import spaces

    parts = dict_parts(space)
    if parts is not None:
        return all(map(is_countable, parts.values()))
    if isinstance(space, spaces.Box):
        return not np.issubdtype(space.dtype, np.floating) and image_channel_axis(space) is None
    return True


def features(space: Space, values: Tensor) -> Tensor:
    """Turn elements of a non-Dict space, (n, *shape), into float32 vectors, (n, feature_size).

    Discrete parts become one-hot vectors, uint8 values are divided by 255, everything else is flattened.
    """
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return _one_hot(values.reshape(-1).long() - int(space.start), int(space.n), str(space))
    if isinstance(space, spaces.MultiDiscrete):
        starts, sizes = space.start.reshape(-1), space.nvec.reshape(-1)
        flat = values.reshape(len(values), len(sizes)).long()
        parts = [
            _one_hot(flat[:, i] - int(start), int(size), f"part {i} of {space}")
            for i, (start, size) in enumerate(zip(starts, sizes, strict=True))
        ]
        return torch.cat(parts, dim=1)
    return scale_pixels(space, values.reshape(len(values), feature_size(space)))


def scale_pixels(space: Space, values: Tensor) -> Tensor:
    """Convert values of any type to float32, divided by 255 if the space is of uint8."""
    values = values.to(torch.float32)
    return values / 255 if space.dtype == np.uint8 else values


def _one_hot(indices: Tensor, size: int, where: str) -> Tensor:
    if indices.numel() and (int(indices.min()) < 0 or int(indices.max()) >= size):
        raise ValueError(f"a value lies outside {where}")
    return torch.nn.functional.one_hot(indices, size).to(torch.float32)
