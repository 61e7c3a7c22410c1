"""A walk over six places, one of which shows noise that no action changes: the noisy TV."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from revd import Rollout

PLACES, PIXELS = 6, 10
#: The last place is the one with the TV.
TV = PLACES - 1
SPACE = spaces.Box(-np.inf, np.inf, (PLACES + PIXELS,), np.float32)
#: An action names the next place.
ACTIONS = spaces.Discrete(PLACES)


def walk(seed: int, n_steps: int = 64, n_envs: int = 4, places: int = PLACES) -> Rollout:
    """Random actions over the first `places`; the screen shows new noise at each look, and is dark elsewhere."""
    rng = np.random.default_rng(seed)
    visited = rng.integers(places, size=(n_steps + 1, n_envs))
    states = np.concatenate([np.eye(PLACES)[visited], rng.normal(size=(*visited.shape, PIXELS))], axis=-1)
    states[visited != TV, PLACES:] = 0
    states = states.astype(np.float32)
    return Rollout(
        observations=states[:-1],
        actions=visited[1:],
        next_observations=states[1:],
        dones=np.zeros((n_steps, n_envs), bool),
    )


def at_tv(rollout: Rollout) -> NDArray[np.bool_]:
    """The steps that lead to the TV, (n_steps, n_envs)."""
    return np.asarray(rollout.actions) == TV
