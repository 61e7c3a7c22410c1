"""Every state goes through the encoder once, in the rollout in which it was visited."""

from typing import Any

import pytest
import torch
from torch import Tensor

import revd
from tests.support.rollouts import BOX, DISCRETE, Shape, make_rollouts

SHAPES = [Shape(n_steps=12, n_envs=3), Shape(n_steps=12, n_envs=3, ragged=True)]


def encoded(reward: Any, rollout: revd.Rollout) -> list[int]:
    """How many observations each call of the encoder was given while the rollout was paid."""
    sizes: list[int] = []

    def note(_module: Any, arguments: tuple[Tensor, ...]) -> None:
        sizes.append(len(arguments[0]))

    hook = reward.encoder.register_forward_pre_hook(note)
    reward.compute(rollout)
    hook.remove()
    return sizes


@pytest.mark.parametrize("shape", SHAPES, ids=["even", "ragged"])
@pytest.mark.parametrize("boundary", ["rollout", "episode"])
@pytest.mark.parametrize("name", ["revd", "re3"])
def test_neighbor_rewards_keep_the_embeddings_of_earlier_segments(name: str, boundary: str, shape: Shape) -> None:
    reward = revd.make_reward(name, BOX, DISCRETE, n_envs=3, k=2, embedding_size=4, boundary=boundary)
    for rollout in make_rollouts(0, 4, shape):
        assert encoded(reward, rollout) == [int(rollout.valid.sum())]


@pytest.mark.parametrize("shape", SHAPES, ids=["even", "ragged"])
def test_ride_encodes_states_and_successors_of_this_rollout_only(shape: Shape) -> None:
    reward = revd.make_reward("ride", BOX, DISCRETE, n_envs=3, embedding_size=4)
    for rollout in make_rollouts(0, 4, shape):
        states = [rollout.steps(part) for part in (rollout.observations, rollout.successors)]
        assert sum(encoded(reward, rollout)) == len(torch.cat(states).unique(dim=0))  # type: ignore[arg-type]
