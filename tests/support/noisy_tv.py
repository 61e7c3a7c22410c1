"""A walk over six places, with noise that no action changes at one of them, or everywhere. A seventh is not seen."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from revd import Rollout

KNOWN, PLACES, PIXELS = 6, 7, 40
#: The last of the known places is the one with the TV.
TV, UNSEEN = 5, 6
NOISE = 2.0
SPACE = spaces.Box(-np.inf, np.inf, (PLACES + PIXELS,), np.float32)
#: An action names the next known place. The first one leads to the unseen place, too.
ACTIONS = spaces.Discrete(KNOWN)
#: With a door, the unseen place has an action of its own, which nobody has tried while it is unseen.
ACTIONS_WITH_DOOR = spaces.Discrete(PLACES)


def walk(
    seed: int, n_steps: int = 64, n_envs: int = 4, places: int = KNOWN, *, everywhere: bool = False, door: bool = False
) -> Rollout:
    """Random steps over the first `places`; the screen shows new noise at each look, at the TV alone or everywhere."""
    rng = np.random.default_rng(seed)
    visited = rng.integers(places, size=(n_steps + 1, n_envs))
    screen = NOISE * rng.normal(size=(*visited.shape, PIXELS))
    if not everywhere:
        screen[visited != TV] = 0
    states = np.concatenate([np.eye(PLACES)[visited], screen], axis=-1).astype(np.float32)
    return Rollout(
        observations=states[:-1],
        actions=visited[1:] if door else np.where(visited[1:] == UNSEEN, 0, visited[1:]),
        next_observations=states[1:],
        dones=np.zeros((n_steps, n_envs), bool),
    )


def steps(rollout: Rollout, source: int | None, target: int | None) -> NDArray[np.bool_]:
    """The steps from one place to another, (n_steps, n_envs); None stands for the known places without the TV."""
    return _at(source, rollout.observations) & _at(target, rollout.next_observations)


def _at(place: int | None, states: object) -> NDArray[np.bool_]:
    shown = np.asarray(states)[..., :PLACES]
    return shown[..., :TV].sum(axis=-1) > 0 if place is None else shown[..., place] > 0
