"""`Rollout` takes arrays or says in its own words what is wrong with them."""

import math
from typing import Any

import torch
from hypothesis import strategies as st

from revd import Rollout
from tests.fuzz.rollouts import FIELDS, SIMPLE, SPACES, honest, spoilt
from tests.fuzz.support import documented, fuzz


def well_formed(rollout: Rollout) -> None:
    """What every rollout that was made has."""
    assert rollout.dones.dtype == torch.bool
    assert rollout.valid.shape == (rollout.n_steps, rollout.n_envs)
    assert rollout.n_steps > 0
    assert rollout.n_envs > 0
    steps = rollout.steps(rollout.actions)
    assert len(steps) == int(rollout.valid.sum())


@fuzz(data=st.data())
def test_anything_as_a_rollout(data: Any) -> None:
    observation, action, n_envs = data.draw(SPACES), data.draw(SIMPLE), data.draw(st.integers(1, 3))
    fields = data.draw(honest(observation, action, n_envs).flatmap(spoilt))
    with documented(FIELDS):
        rollout = Rollout(**fields)
        well_formed(rollout)
        with documented((*FIELDS, "n_envs")):
            rollout.check_against(observation, action, data.draw(st.integers(1, 3)))


@fuzz(data=st.data())
def test_what_an_environment_gives_is_a_rollout(data: Any) -> None:
    observation, action, n_envs = data.draw(SPACES), data.draw(SIMPLE), data.draw(st.integers(1, 3))
    rollout = Rollout(**data.draw(honest(observation, action, n_envs)))
    well_formed(rollout)
    rollout.check_against(observation, action, n_envs)
    assert math.prod(rollout.dones.shape) >= int(rollout.valid.sum())
