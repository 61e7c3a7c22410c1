from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from revd.rewards.actions import ActionModel


def guesses(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("space", "size"),
    [
        (spaces.Discrete(3, start=1), 3),
        (spaces.MultiDiscrete([2, 3]), 5),
        (spaces.MultiBinary(4), 4),
        (spaces.Box(-1, 1, (2, 2)), 4),
    ],
    ids=str,
)
def test_sizes(space: spaces.Space[Any], size: int) -> None:
    model = ActionModel(space)
    assert model.size == size
    assert model.features(torch.as_tensor(np.array([space.sample() for _ in range(3)]))).shape == (3, size)


def test_discrete_loss_is_the_cross_entropy() -> None:
    model = ActionModel(spaces.Discrete(3, start=1))
    guessed, actions = guesses(4, 3), torch.tensor([1, 3, 2, 1])
    expected = -guessed.log_softmax(dim=1)[range(4), actions - 1].mean()
    torch.testing.assert_close(model.loss(guessed, model.features(actions)), expected)


def test_multi_discrete_loss_is_the_sum_over_parts() -> None:
    model = ActionModel(spaces.MultiDiscrete([2, 3]))
    guessed, actions = guesses(4, 5), torch.tensor([[0, 2], [1, 0], [1, 1], [0, 0]])
    first = -guessed[:, :2].log_softmax(dim=1)[range(4), actions[:, 0]].mean()
    second = -guessed[:, 2:].log_softmax(dim=1)[range(4), actions[:, 1]].mean()
    torch.testing.assert_close(model.loss(guessed, model.features(actions)), first + second)


def test_binary_loss_is_the_binary_cross_entropy() -> None:
    model = ActionModel(spaces.MultiBinary(2))
    guessed, actions = guesses(3, 2), torch.tensor([[0, 1], [1, 1], [0, 0]], dtype=torch.int8)
    p = guessed.sigmoid()
    expected = -torch.where(actions.bool(), p.log(), (1 - p).log()).mean()
    torch.testing.assert_close(model.loss(guessed, model.features(actions)), expected)


def test_box_loss_is_the_mean_squared_error() -> None:
    model = ActionModel(spaces.Box(-1, 1, (2,)))
    guessed, actions = guesses(3, 2), guesses(3, 2) + 1
    torch.testing.assert_close(model.loss(guessed, model.features(actions)), torch.tensor(1.0))
