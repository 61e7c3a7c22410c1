import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from revd import Rollout
from revd.rewards import DRND
from tests.support.networks import dense, whitened
from tests.support.rollouts import BOX, DISCRETE, Shape, changed, make_rollout, make_rollouts, shapes

SIZE = 4


def make(n_envs: int = 2, **parameters: Any) -> DRND:
    return DRND(BOX, DISCRETE, n_envs, **{"embedding_size": SIZE, "warmup": 1} | parameters)


def naive_bonus(f: list[float], targets: list[list[float]], alpha: float) -> float:
    """One state's bonus from the predictor's numbers and those of each target."""
    error, rarity = 0.0, 0.0
    for i, predicted in enumerate(f):
        outputs = [target[i] for target in targets]
        mu = sum(outputs) / len(outputs)
        variance = sum(output**2 for output in outputs) / len(outputs) - mu**2
        fraction = (predicted**2 - mu**2) / variance if variance > 0 else 0.0
        error += (predicted - mu) ** 2 / len(f)
        rarity += math.sqrt(min(max(fraction, 0), 1)) / len(f)
    return alpha * error + (1 - alpha) * rarity


@settings(derandomize=True, max_examples=20, deadline=None)
@given(
    data=st.data(),
    ragged=st.booleans(),
    alpha=st.sampled_from([0.0, 0.5, 0.95, 1.0]),
    n_targets=st.sampled_from([2, 5]),
    normalize_observations=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_equals_naive_loops(data: st.DataObject, ragged: bool, alpha: float, seed: int, **parameters: Any) -> None:
    shape = data.draw(shapes(min_steps=1, ragged=ragged))
    reward = make(shape.n_envs, alpha=alpha, **parameters)
    for rollout in make_rollouts(seed, 2, shape):
        bonus = reward.compute(rollout)
        for t, env in np.ndindex(*rollout.dones.shape):
            expected = 0.0
            if rollout.valid[t, env]:
                state = whitened(rollout.successors[t, env], reward.encoder)  # type: ignore[index]
                networks = (reward.encoder, *reward.other_targets)
                targets = [dense(network.network, state).tolist() for network in networks]
                expected = naive_bonus(dense(reward.predictor.network, state).tolist(), targets, alpha)  # type: ignore[arg-type]
            assert float(bonus[t, env]) == pytest.approx(expected, rel=1e-2, abs=1e-3)


def test_the_successor_is_paid() -> None:
    rollout = make_rollout(0)
    moved = rollout.next_observations.clone()  # type: ignore[union-attr]
    moved[3, 1] += 1
    reward = make(normalize_observations=False)
    before, after = (reward.compute(changed(rollout, next_observations=n)) for n in (rollout.successors, moved))
    assert ((before - after).abs() > 1e-5).nonzero().tolist() == [[3, 1]]


class Fixed(torch.nn.Module):
    """A network with the same output for every observation."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def forward(self, observations: torch.Tensor, *, normalized_by: Any = None) -> torch.Tensor:
        return torch.full((len(observations), SIZE), self.value)


def fixed(*values: float) -> Callable[[list[Any], torch.Tensor], list[torch.Tensor]]:
    """Embeddings by three targets and a predictor that do not depend on the observations."""
    return lambda networks, states: [torch.full((len(states), SIZE), value) for value in values[: len(networks)]]


def test_a_hand_computed_example() -> None:
    """Targets 0, 2 and 4: mu = 2, B = 20/3. A prediction of 2.5 is off by 0.25, and (6.25 - 4) / (20/3 - 4)."""
    reward = make(1, n_targets=3, alpha=0.25, normalize_observations=False)
    reward.encoder.embed_by_each = fixed(0, 2, 4, 2.5)  # type: ignore[method-assign, assignment]
    bonus = reward.compute(make_rollout(0, Shape(8, 1)))
    expected = 0.25 * 0.25 + 0.75 * math.sqrt(2.25 / (20 / 3 - 4))
    np.testing.assert_allclose(bonus, expected, rtol=1e-5)
    assert reward.metrics()["error"] == pytest.approx(0.25)
    reward.encoder.embed_by_each = fixed(0, 2, 4, 9)  # type: ignore[method-assign, assignment]
    reward.compute(make_rollout(0, Shape(8, 1)))
    assert reward.metrics()["rarity"] == 1, "clipped"


def test_each_transition_is_trained_on_one_network_drawn_at_random() -> None:
    reward = make(n_targets=4, update_fraction=1.0, batch_size=1_000, normalize_observations=False)
    seen: dict[int, list[torch.Tensor]] = {index: [] for index in range(4)}
    for index, network in enumerate([reward.encoder, *reward.other_targets]):
        network.register_forward_pre_hook(lambda _, arguments, index=index: seen[index].append(arguments[0].clone()))
    rollout = make_rollout(0, Shape(n_steps=50))
    draws = []
    for _ in range(2):
        for states in seen.values():
            states.clear()
        reward.update(rollout)
        draws.append([torch.cat(states) for states in seen.values()])
    for states in draws:
        assert sum(map(len, states)) == 100
        assert min(map(len, states)) > 10
        everything = torch.cat(states).sort(dim=0).values
        torch.testing.assert_close(everything, rollout.successors.flatten(0, 1).sort(dim=0).values)  # type: ignore[union-attr]
    assert not torch.equal(draws[0][0], draws[1][0])


def test_the_loss_is_that_of_the_drawn_networks() -> None:
    reward = make(n_targets=2, update_fraction=1.0, normalize_observations=False)
    reward.encoder, reward.other_targets = Fixed(1), torch.nn.ModuleList([Fixed(3)])  # type: ignore[assignment]
    reward.encoder.ready = True  # type: ignore[assignment]
    reward.predict = lambda states: torch.ones(len(states), SIZE, requires_grad=True)  # type: ignore[method-assign]
    loss = reward.update(make_rollout(0, Shape(n_steps=200)))["predictor_loss"]
    assert loss == pytest.approx(4 / 2, rel=0.2), "half of the transitions have the target 1, the others 3"


def test_the_bonus_falls_where_the_agent_has_been_and_stays_high_elsewhere() -> None:
    reward = make(1, update_fraction=1.0, learning_rate=1e-3)
    rng = torch.Generator().manual_seed(0)
    here, elsewhere = (torch.randn(32, 1, 3, generator=rng) + side for side in (3.0, -3.0))
    near, far = (
        Rollout(observations=s, actions=torch.zeros(32, 1), next_observations=s, dones=torch.zeros(32, 1))
        for s in (here, elsewhere)
    )
    reward.compute(far)
    before = [float(reward.compute(rollout).mean()) for rollout in (near, far)]
    for _ in range(60):
        reward.update(near)
    after = [float(reward.compute(rollout).mean()) for rollout in (near, far)]
    assert after[0] < 0.5 * before[0]
    assert after[1] > 0.4 * before[1]


def test_targets_differ_and_stay_frozen() -> None:
    reward = make(update_fraction=1.0)
    rollout = make_rollout(0)
    reward.compute(rollout)
    networks = [reward.encoder, *reward.other_targets]
    outputs = [network(rollout.observations.flatten(0, 1), normalized_by=reward.encoder) for network in networks]  # type: ignore[union-attr]
    assert all(not torch.allclose(outputs[i], outputs[j]) for i in range(5) for j in range(i))
    reward.update(rollout)
    for network, output in zip(networks, outputs, strict=True):
        assert torch.equal(network(rollout.observations.flatten(0, 1), normalized_by=reward.encoder), output)  # type: ignore[union-attr]


def test_images_and_dicts_are_paid_and_trained_on() -> None:
    space = spaces.Dict({"image": spaces.Box(0, 255, (36, 36, 1), np.uint8), "state": BOX})
    rng = np.random.default_rng(0)
    observations = {
        "image": rng.integers(0, 256, (4, 1, 36, 36, 1), np.uint8),
        "state": rng.normal(size=(4, 1, 3)).astype(np.float32),
    }
    reward = DRND(space, DISCRETE, 1, embedding_size=SIZE, warmup=1)
    rollout = Rollout(
        observations=observations, actions=np.zeros((4, 1)), next_observations=observations, dones=np.zeros((4, 1))
    )
    assert (reward.compute(rollout) > 0).all()
    assert set(reward.update(rollout)) == {"predictor_loss"}


@pytest.mark.parametrize(("name", "value"), [("alpha", -0.1), ("alpha", 1.1), ("n_targets", 1), ("n_targets", 2.0)])
def test_values_out_of_range(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be "):
        make(**{name: value})


def test_what_it_is_trained_on_is_what_its_error_is_measured_against() -> None:
    """Two states far from the origin: every target is asked about whitened states, in training too."""
    states = np.repeat([[[50.0, -50.0, 50.0]], [[51.0, -49.0, 52.0]]], 20, axis=0).astype(np.float32)
    rollout = Rollout(
        observations=states, actions=np.zeros((40, 1)), next_observations=states, dones=np.zeros((40, 1), bool)
    )
    reward = make(1, n_targets=2, learning_rate=3e-3, update_fraction=1.0, batch_size=20)
    errors = []
    for _ in range(200):
        reward.compute(rollout)
        errors.append(reward.metrics()["error"])
        reward.update(rollout)
    assert np.mean(errors[-20:]) < 0.1 * errors[0]
