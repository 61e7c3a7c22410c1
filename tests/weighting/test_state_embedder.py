"""The states that the bonus's critic sees: all of the rollout, and those after its last step."""

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from revd import Rollout, make_reward
from revd.rewards import IntrinsicReward
from revd.weighting.state_embedder import EMBEDDING_SIZE, StateEmbedder
from tests.support.environments import show

ACTIONS = spaces.Discrete(3)
N_STEPS, N_ENVS = 9, 2
SPACES: dict[str, spaces.Space[Any]] = {
    "vector": spaces.Box(-9, 9, (3,)),
    "image": spaces.Box(0, 255, (1, 36, 36), np.uint8),
    "discrete": spaces.Discrete(50),
    "dict": spaces.Dict({"a": spaces.Box(-9, 9, (2,)), "b": spaces.Discrete(50)}),
}


def stacked(space: Any, numbers: Any) -> Any:
    """The observations that stand for an array of numbers."""
    if isinstance(space, spaces.Dict):
        return {key: stacked(part, numbers) for key, part in space.spaces.items()}
    shown = [show(space, int(number)) for number in np.ravel(numbers)]
    return torch.as_tensor(np.stack(shown)).reshape(*np.shape(numbers), *space.shape)


NUMBERS = np.arange((N_STEPS + 1) * N_ENVS).reshape(N_STEPS + 1, N_ENVS)


def rollout_of(space: Any, lengths: Any = None) -> Rollout:
    return Rollout(
        observations=stacked(space, NUMBERS[:-1]),
        actions=np.zeros((N_STEPS, N_ENVS), dtype=np.int64),
        next_observations=stacked(space, NUMBERS[1:]),
        dones=np.zeros((N_STEPS, N_ENVS), dtype=bool),
        lengths=lengths,
    )


def one_by_one(encoder: Any, space: Any, numbers: Any) -> torch.Tensor:
    rows = [encoder(stacked(space, [number]))[0] for number in np.ravel(numbers)]
    return torch.stack(rows).detach().reshape(*np.shape(numbers), -1)


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize("method", ["revd", "re3", "ride", "noise"])
def test_every_state_is_embedded(method: str, kind: str) -> None:
    space = SPACES[kind]
    reward = make_reward(method, space, ACTIONS, n_envs=N_ENVS)
    embedder, rollout = StateEmbedder(reward), rollout_of(space)
    reward.compute(rollout)
    found = embedder.embed(reward, rollout, stacked(space, NUMBERS[-1]))
    encoder = embedder.own if embedder.own is not None else reward.encoder
    torch.testing.assert_close(found, one_by_one(encoder, space, NUMBERS), rtol=1e-4, atol=1e-5)
    assert found.shape == (N_STEPS + 1, N_ENVS, embedder.embedding_size(reward))
    assert not found.requires_grad


def test_the_rewards_own_embeddings_are_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    space = SPACES["vector"]
    reward = make_reward("revd", space, ACTIONS, n_envs=N_ENVS)
    embedder, rollout = StateEmbedder(reward), rollout_of(space)
    reward.compute(rollout)
    seen = []
    forward = reward.encoder.forward
    monkeypatch.setattr(reward.encoder, "forward", lambda rows: seen.append(len(rows)) or forward(rows))
    embedder.embed(reward, rollout, stacked(space, NUMBERS[-1]))
    assert seen == [N_ENVS], "only the states after the last step"


def test_a_reward_without_an_encoder_gets_a_frozen_one() -> None:
    space = SPACES["vector"]
    reward = make_reward("noise", space, ACTIONS, n_envs=N_ENVS, seed=3)
    embedder = StateEmbedder(reward)
    assert embedder.embedding_size(reward) == EMBEDDING_SIZE
    assert all(not parameter.requires_grad for parameter in embedder.parameters())
    assert len(StateEmbedder(make_reward("revd", space, ACTIONS, n_envs=N_ENVS)).state_dict()) == 0
    again, other = (StateEmbedder(make_reward("noise", space, ACTIONS, n_envs=N_ENVS, seed=s)) for s in (3, 4))
    states = rollout_of(space), stacked(space, NUMBERS[-1])
    assert torch.equal(again.embed(reward, *states), embedder.embed(reward, *states))
    assert not torch.equal(other.embed(reward, *states), embedder.embed(reward, *states))


def test_the_state_after_a_columns_last_step_follows_that_step() -> None:
    space = SPACES["vector"]
    reward = make_reward("re3", space, ACTIONS, n_envs=N_ENVS)
    rollout = rollout_of(space, lengths=[N_STEPS, 5])
    reward.compute(rollout)
    found = StateEmbedder(reward).embed(reward, rollout, stacked(space, NUMBERS[-1]))
    expected = one_by_one(reward.encoder, space, NUMBERS)
    expected[5, 1] = expected[-1, 1]
    expected[6:, 1] = 0
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_there_are_no_embeddings_before_the_statistics_are_frozen() -> None:
    space = SPACES["vector"]
    reward = make_reward("re3", space, ACTIONS, n_envs=N_ENVS, normalize_observations=True, warmup=N_STEPS * N_ENVS + 1)
    embedder, rollout, last = StateEmbedder(reward), rollout_of(space), stacked(space, NUMBERS[-1])
    reward.compute(rollout)
    assert embedder.embed(reward, rollout, last) is None
    reward.compute(rollout)
    reward.compute(rollout)
    assert embedder.embed(reward, rollout, last) is not None


def test_a_last_observation_that_is_too_large_is_an_error() -> None:
    """The reward has not seen it, so it is checked here."""
    space = spaces.Box(-np.inf, np.inf, (3,))
    reward = make_reward("revd", space, ACTIONS, n_envs=N_ENVS)
    embedder, rollout = StateEmbedder(reward), rollout_of(space)
    reward.compute(rollout)
    with pytest.raises(ValueError, match=f"embedding at step {N_STEPS} of environment 0 is too large"):
        embedder.embed(reward, rollout, torch.full((N_ENVS, 3), 1e30))


def test_something_else_called_encoder_is_left_to_the_reward() -> None:
    class Mine(IntrinsicReward):
        uses_successors = False

        def __init__(self, *arguments: Any, **parameters: Any) -> None:
            super().__init__(*arguments, **parameters)
            self.encoder = torch.nn.Linear(3, 4)

        def bonus(self, rollout: Rollout) -> torch.Tensor:
            return self.encoder(rollout.observations.float()).square().sum(dim=-1)  # type: ignore[union-attr]

    reward = Mine(SPACES["vector"], ACTIONS, N_ENVS)
    embedder, rollout = StateEmbedder(reward), rollout_of(SPACES["vector"])
    reward.compute(rollout)
    found = embedder.embed(reward, rollout, stacked(SPACES["vector"], NUMBERS[-1]))
    assert found is not None
    assert found.shape == (N_STEPS + 1, N_ENVS, EMBEDDING_SIZE) == (*found.shape[:2], embedder.embedding_size(reward))
