from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from revd import Rollout
from revd.rewards import NovelD
from tests.support.networks import mistake
from tests.support.rollouts import BOX, DISCRETE, make_rollout, make_rollouts, shapes

SIZE = 4
CHAIN = spaces.Discrete(8)


def make(n_envs: int = 2, **parameters: Any) -> NovelD:
    return NovelD(BOX, DISCRETE, n_envs, **{"embedding_size": SIZE, "warmup": 1} | parameters)


def novelty(reward: NovelD, state: torch.Tensor) -> float:
    return float(np.linalg.norm(mistake(reward.predictor, reward.encoder, state)))


@settings(derandomize=True, max_examples=20, deadline=None)
@given(
    data=st.data(),
    ragged=st.booleans(),
    alpha=st.sampled_from([0.0, 0.5, 1.0]),
    normalize_observations=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_equals_naive_loops(data: st.DataObject, ragged: bool, seed: int, **parameters: Any) -> None:
    shape = data.draw(shapes(min_steps=1, ragged=ragged))
    reward = make(shape.n_envs, **parameters)
    visited: list[set[tuple[float, ...]]] = [set() for _ in range(shape.n_envs)]
    for index, rollout in enumerate(make_rollouts(seed, 3, shape)):
        bonus = reward.compute(rollout)
        for t, env in np.ndindex(*rollout.dones.shape):
            if not rollout.valid[t, env]:
                assert bonus[t, env] == 0
                continue
            state, following = rollout.observations[t, env], rollout.successors[t, env]  # type: ignore[index]
            visited[env].add(tuple(state.tolist()))
            gain = novelty(reward, following) - parameters["alpha"] * novelty(reward, state)
            expected = 0.0 if tuple(following.tolist()) in visited[env] else max(gain, 0.0)
            assert float(bonus[t, env]) == pytest.approx(expected, rel=1e-3, abs=1e-4)
            visited[env].add(tuple(following.tolist()))
            if rollout.dones[t, env]:
                visited[env] = set()
        if index == 1:
            reward.end_episodes()
            visited = [set() for _ in range(shape.n_envs)]


def chain(states: list[int], done: bool = False) -> Rollout:
    """One environment that walks through numbered states."""
    walk = np.array(states)[:, None]
    dones = np.zeros((len(states) - 1, 1), bool)
    dones[-1] = done
    return Rollout(observations=walk[:-1], actions=dones * 0, next_observations=walk[1:], dones=dones)


def on_chain(**novelties: float) -> NovelD:
    """NovelD whose error of states 0 … 3 is 1 (explored), that of 4 is 3 and beyond 4."""
    reward = NovelD(CHAIN, DISCRETE, 1, embedding_size=1, warmup=1, **novelties)
    errors = torch.tensor([1.0, 1, 1, 1, 3, 4, 4, 4])
    reward.differences = lambda rollout, *fields: [  # type: ignore[method-assign]
        errors[{"observations": rollout.observations, "successors": rollout.successors}[field]][..., None]  # type: ignore[index]
        for field in fields
    ]
    return reward


def test_the_frontier_is_paid_once_in_an_episode() -> None:
    reward = on_chain()
    bonus = reward.compute(chain([2, 3, 4, 3, 4, 5, 5]))[:, 0]
    assert bonus.tolist() == [0.5, 2.5, 0, 0, 2.5, 0]
    # The episode goes on, and then the next one pays again.
    assert reward.compute(chain([5, 4, 5, 6], done=True))[:, 0].tolist() == [0, 0, 2]
    assert reward.compute(chain([3, 4, 3]))[:, 0].tolist() == [2.5, 0]
    reward.end_episodes()
    assert reward.compute(chain([3, 4, 3]))[:, 0].tolist() == [2.5, 0]


def test_returning_to_the_first_state_is_no_first_visit() -> None:
    reward = on_chain(alpha=0.0)
    assert reward.compute(chain([2, 1, 2, 1]))[:, 0].tolist() == [1, 0, 0]
    assert reward.metrics()["first_visits"] == pytest.approx(1 / 3)


def test_a_step_into_what_is_known_better_is_not_punished() -> None:
    assert on_chain(alpha=1.0).compute(chain([5, 4, 3]))[:, 0].tolist() == [0, 0]


def test_training_lowers_the_novelty_of_visited_states() -> None:
    reward = make(update_fraction=1.0, learning_rate=1e-3)
    rollout = make_rollout(0)
    reward.compute(rollout)
    before = reward.metrics()["novelty"]
    for _ in range(50):
        assert reward.update(rollout).keys() == {"predictor_loss"}
    reward.compute(rollout)
    assert reward.metrics()["novelty"] < 0.5 * before


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(0, 255, (4, 4, 3), np.uint8),
        spaces.Dict({"image": spaces.Box(0, 255, (36, 36, 1), np.uint8), "state": BOX}),
    ],
    ids=["small image", "dict"],
)
def test_images_and_dicts_are_recognised_and_trained_on(space: spaces.Space[Any]) -> None:
    reward = NovelD(space, DISCRETE, 1, embedding_size=SIZE, warmup=1)
    space.seed(0)
    states = [space.sample() for _ in range(5)]
    if isinstance(space, spaces.Dict):
        values: Any = {key: np.stack([state[key] for state in states])[:, None] for key in space}
        before, after = ({key: value[part] for key, value in values.items()} for part in (slice(4), slice(1, 5)))
    else:
        values = np.stack(states)[:, None]
        before, after = values[:4], values[1:]
    rollout = Rollout(observations=before, actions=np.zeros((4, 1)), next_observations=after, dones=np.zeros((4, 1)))
    reward.compute(rollout)
    assert reward.metrics()["first_visits"] == 1
    reward.compute(rollout)
    assert reward.metrics()["first_visits"] == 0
    assert reward.update(rollout).keys() == {"predictor_loss"}


@pytest.mark.parametrize("alpha", [-0.1, np.nan, np.inf])
def test_values_out_of_range(alpha: float) -> None:
    with pytest.raises(ValueError, match=r"^alpha must be a number from 0 to 1e\+15, got "):
        make(alpha=alpha)


def test_the_novelty_is_that_of_successors() -> None:
    reward, rollout = make(), make_rollout(0)
    reward.compute(rollout)
    of_states, of_successors = (
        np.mean([novelty(reward, states[t, env]) for t, env in np.ndindex(*rollout.dones.shape)])  # type: ignore[index]
        for states in (rollout.observations, rollout.successors)
    )
    assert abs(of_states - of_successors) > 0.01 * of_successors
    assert reward.metrics()["novelty"] == pytest.approx(of_successors, rel=1e-3)
