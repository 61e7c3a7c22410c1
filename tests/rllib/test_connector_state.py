"""A connector's state can be restored elsewhere or in place, or is an error that changes nothing."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray.rllib", reason="Ray is not installed: pip install 'revd[ray]'")

from revd import REVD
from tests.support.rllib import BOX, DISCRETE, METHODS, connector, environments, paid, sampled


def types(value: Any) -> set[type]:
    """Of a nested value and everything in it."""
    inside = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
    return {type(value)}.union(*(types(entry) for entry in inside))


@pytest.mark.parametrize(("name", "params"), METHODS, ids=lambda value: str(value))
def test_a_restored_connector_continues_as_the_original(name: str, params: dict[str, Any]) -> None:
    envs, piece = environments(), connector(name, **params)
    for batch in range(2):
        piece(batch={}, episodes=sampled(envs, batch))
    state = piece.get_state()
    assert types(state) <= {dict, list, int, float, bool, str, np.ndarray}
    # The state holds what was drawn from the seed, but not what noise is going to draw.
    other = connector(name, seed=3 if "noise" in name else 99, **params)
    other.set_state(state)
    assert other.get_state() is state
    episodes = sampled(envs, 2)
    copies = [episode.slice(slice(None)) for episode in episodes]
    piece(batch={}, episodes=episodes)
    other(batch={}, episodes=copies)
    for mine, theirs in zip(episodes, copies, strict=True):
        np.testing.assert_array_equal(mine.get_rewards(), theirs.get_rewards())
    assert (other.rollouts, other.steps) == (piece.rollouts, piece.steps) == (3, 45)
    # Back to the state of before, in the middle of training.
    piece.set_state(state)
    assert piece.rollouts == 2


@pytest.mark.parametrize("reward", ["revd", REVD(BOX, DISCRETE, 2, k=3, seed=3)], ids=["name", "instance"])
def test_the_state_before_the_first_batch_can_be_restored(reward: Any) -> None:
    piece = connector(reward)
    start = piece.get_state()
    assert start == {}
    payments = []
    for _ in range(2):
        envs = environments()
        for batch in range(2):
            episodes = sampled(envs, batch)
            piece(batch={}, episodes=episodes)
            payments.append(paid(envs, episodes, 0))
        assert piece.rollouts == 2
        piece.set_state(start)
        assert (piece.reward, piece.rollouts, piece.steps, piece.get_state()) == (None, 0, 0, {})
    assert payments[:2] == payments[2:]


def test_an_empty_state_replaces_one_that_waits() -> None:
    envs, piece, other = environments(), connector(k=2), connector(k=2)
    piece(batch={}, episodes=sampled(envs, 0))
    other.set_state(piece.get_state())
    other.set_state({})
    other(batch={}, episodes=sampled(envs, 1))
    assert other.rollouts == 1


OTHERS: list[tuple[dict[str, Any], str]] = [
    ({"reward": "re3"}, "holds the state of REVD, this algorithm's reward is RE3"),
    ({"k": 1}, "REVD does not fit this reward's parameters: k was 2, here it is 1"),
    ({"normalize": "rms"}, "normalize was 'none', here it is 'rms'"),
    ({"boundary": "episode"}, "boundary was 'rollout', here it is 'episode'"),
    ({"reward": REVD(BOX, DISCRETE, 2), "k": None}, "k was 2, here it is 3"),
    (
        {"n_runners": 3},
        r"reward for 2 environments, this algorithm has 3: 3 env runner\(s\) with 1 each \(num_env_runners, "
        r"num_envs_per_env_runner\)",
    ),
]


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize(
    ("settings", "message"), OTHERS, ids=lambda value: "" if isinstance(value, str) else next(iter(value))
)
def test_the_state_of_another_configuration_is_an_error(settings: dict[str, Any], message: str, begun: bool) -> None:
    envs, piece = environments(), connector("revd", k=2)
    other = connector(**{name: value for name, value in {"k": 2, **settings}.items() if value is not None})
    piece(batch={}, episodes=sampled(envs, 0))
    if begun:
        other(batch={}, episodes=sampled(environments(), 0))
    before = other.get_state()
    with pytest.raises(ValueError, match=message):
        other.set_state(piece.get_state())
    np.testing.assert_equal(other.get_state(), before)


def state_for_other_observations() -> dict[str, Any]:
    piece = connector(k=2)
    piece(batch={}, episodes=sampled(environments(), 0))
    state: dict[str, Any] = piece.get_state()
    arrays = state["reward"]
    first = next(name for name in arrays if name.startswith("encoder") and arrays[name].ndim == 2)
    arrays[first] = arrays[first][:, :2]
    return state


def test_a_state_for_other_observations_is_an_error_that_changes_nothing() -> None:
    piece = connector(k=2, seed=4)
    piece(batch={}, episodes=sampled(environments(), 0))
    before = piece.get_state()
    with pytest.raises(ValueError, match="saved state of REVD does not fit this reward's parameters"):
        piece.set_state(state_for_other_observations())
    np.testing.assert_equal(piece.get_state(), before)


def test_a_state_that_waits_for_other_observations_is_an_error_in_the_first_batch() -> None:
    piece = connector(k=2)
    piece.set_state(state_for_other_observations())
    with pytest.raises(ValueError, match="saved state of REVD does not fit this reward's parameters"):
        piece(batch={}, episodes=sampled(environments(), 0))
    assert (piece.reward, piece.rollouts) == (None, 0)
