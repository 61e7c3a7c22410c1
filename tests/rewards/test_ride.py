import math
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from revd import RIDE, Rollout
from tests.support import naive
from tests.support.rollouts import BOX, DISCRETE, Shape, changed, embedded, make_rollout, make_rollouts, shapes

SIZE = 4
ACTION_SPACES = {
    "discrete": spaces.Discrete(4, start=2),
    "multi discrete": spaces.MultiDiscrete([2, 3]),
    "multi binary": spaces.MultiBinary(3),
    "box": spaces.Box(-1, 1, (2,), np.float32),
}


def make(n_envs: int = 2, action_space: spaces.Space[Any] = DISCRETE, **parameters: Any) -> RIDE:
    return RIDE(BOX, action_space, n_envs, **{"embedding_size": SIZE, "update_fraction": 1.0} | parameters)


def assert_equals_naive(reward: RIDE, rollouts: list[Rollout], *, end_after: int | None = None) -> list[np.ndarray]:
    config = reward.config
    segments = naive.NaiveSegments(reward.n_envs, SIZE, k=1, boundary="episode", memory_size=config.memory_size)
    names = ("k", "kernel_eps", "cluster_distance", "c", "s_max", "momentum")
    expected = naive.NaiveRIDE(segments, **{name: getattr(config, name) for name in names})
    bonuses = []
    for i, rollout in enumerate(rollouts):
        bonus = expected.compute(embedded(reward, rollout))
        np.testing.assert_allclose(reward.compute(rollout), bonus, rtol=1e-3, atol=1e-6)
        assert float(reward.mean_square) == pytest.approx(expected.mean_square, rel=1e-4)
        bonuses.append(bonus)
        if i == end_after:
            reward.end_episodes()
            segments.end_episodes()
    return bonuses


@settings(derandomize=True, max_examples=100, deadline=None)
@given(
    data=st.data(),
    k=st.sampled_from([1, 2, 10]),
    ragged=st.booleans(),
    memory_size=st.sampled_from([1, 5, 10_000]),
    kernel_eps=st.sampled_from([1e-4, 0.1]),
    cluster_distance=st.sampled_from([0.0, 0.008, 0.7]),
    c=st.sampled_from([0.0, 0.5]),
    s_max=st.sampled_from([1.7, 2.3, 8.0]),
    momentum=st.sampled_from([0.0, 0.5, 0.99]),
    seed=st.integers(0, 10_000),
)
def test_equals_naive_loops(data: st.DataObject, ragged: bool, seed: int, **parameters: Any) -> None:
    shape = data.draw(shapes(min_steps=1, ragged=ragged))
    reward = make(shape.n_envs, **parameters)
    end_after = data.draw(st.sampled_from([None, 0, 1]))
    assert_equals_naive(reward, make_rollouts(seed, 4, shape), end_after=end_after)


def test_a_hand_computed_example() -> None:
    """One environment on a line: 0 -> 1 -> 0 -> (end) 4, the embedding being the observation."""
    reward = make(1, embedding_size=3, k=2, kernel_eps=0.5, cluster_distance=0.25, c=0.25)
    reward.embed_transitions = lambda rollout: (rollout.observations, rollout.successors)  # type: ignore[method-assign]
    states, following = np.zeros((3, 1, 3), np.float32), np.zeros((3, 1, 3), np.float32)
    states[:, 0, 0] = [0, 1, 0]
    following[:, 0, 0] = [1, 0, 4]
    rollout = changed(
        make_rollout(0, Shape(3, 1)), observations=states, next_observations=following, dones=[[0], [0], [1]]
    )
    # Nearest earlier states: of 1, {0}; of 0, {0, 1}; of 4, {1, 0} (or the other 0).
    squares = [[1], [0, 1], [9, 16]]
    mean_square = np.mean([square for found in squares for square in found])
    counts = [1 + sum(0.5 / (max(square / mean_square - 0.25, 0) + 0.5) for square in found) for found in squares]
    impact = np.array([1, 1, 4])
    np.testing.assert_allclose(reward.compute(rollout)[:, 0], impact / (np.sqrt(counts) + 0.25), rtol=1e-5)
    assert reward.metrics()["impact"] == pytest.approx(impact.mean())
    assert reward.metrics()["count"] == pytest.approx(np.mean(counts))
    assert set(reward.metrics()) == {"impact", "count", "bonus_mean"}
    assert reward.memory.running_lengths.tolist() == [0]


def test_the_successor_at_an_end_is_the_terminal_observation() -> None:
    rollout = changed(make_rollout(0), dones=np.eye(8, 2, -3, dtype=bool))  # environment 0 ends at step 3
    moved = rollout.next_observations.clone()
    moved[3, 0] += 10
    # With such a kernel nothing is counted, so that the distances' moving average plays no part.
    before, after = (
        make(kernel_eps=1e-12, cluster_distance=0.0).compute(changed(rollout, next_observations=n))
        for n in (rollout.next_observations, moved)
    )
    different = ~torch.isclose(before, after)
    assert different.nonzero().tolist() == [[3, 0]]


def test_states_after_a_step_do_not_count_for_it() -> None:
    rollout = changed(make_rollout(0), dones=np.zeros((8, 2), bool))
    later = rollout.observations.clone()
    later[5:] = rollout.next_observations[4]  # s_5 again and again
    reward, other = make(momentum=0.99), make(momentum=0.99)
    for each in (reward, other):
        each.mean_square.fill_(1.0)
    reward.config.__dict__["momentum"] = other.config.__dict__["momentum"] = 1 - 1e-12  # keep the average still
    before, after = reward.compute(rollout), other.compute(changed(rollout, observations=later))
    torch.testing.assert_close(before[:5], after[:5])


def test_counts_are_carried_across_rollouts() -> None:
    """Standing still: N grows by one a step, over rollouts, until k limits it, and starts anew at an episode's end."""
    reward = make(1, k=12, kernel_eps=1e-3, s_max=100.0)
    state = torch.ones(5, 1, 3)
    still = Rollout(observations=state, actions=torch.zeros(5, 1), next_observations=state, dones=torch.zeros(5, 1))
    reward.mean_square.fill_(1.0)
    means = []
    for _ in range(4):
        reward.compute(still)
        means.append(reward.metrics()["count"])
    assert means == pytest.approx([4, 9, np.mean([12, 13, 13, 13, 13]), 13])
    reward.end_episodes()
    reward.compute(still)
    assert reward.metrics()["count"] == pytest.approx(4)


def test_crowded_states_above_s_max_are_paid_nothing() -> None:
    rollout = changed(make_rollout(0, Shape(12, 1, duplicate_rate=0.9)), dones=np.zeros((12, 1), bool))
    bonus = make(1, s_max=1.2).compute(rollout)
    assert (bonus == 0).any()
    assert (bonus > 0).any()


@pytest.mark.parametrize("name", ACTION_SPACES)
@pytest.mark.parametrize("inverse", [True, False])
def test_training_lowers_the_losses(name: str, inverse: bool) -> None:
    space = ACTION_SPACES[name]
    reward = make(2, space, inverse=inverse, learning_rate=1e-2, batch_size=16)
    rollout = make_rollout(0, Shape(n_steps=30), space)
    history = [reward.update(rollout) for _ in range(15)]
    assert set(history[0]) == ({"forward_loss", "inverse_loss"} if inverse else {"forward_loss"})
    assert all(math.isfinite(loss) for losses in history for loss in losses.values())
    if inverse:
        # The forward loss may rise while phi spreads; the inverse model must learn.
        assert history[-1]["inverse_loss"] < 0.8 * history[0]["inverse_loss"]
    else:
        assert history[-1]["forward_loss"] < 0.8 * history[0]["forward_loss"]


def test_the_inverse_model_learns_which_action_was_taken() -> None:
    rng = torch.Generator().manual_seed(0)
    actions = torch.randint(4, (64, 2), generator=rng)
    states = torch.randn(64, 2, 3, generator=rng)
    shifts = torch.tensor([[1.0, 0, 0], [-1, 0, 0], [0, 1, 0], [0, 0, 1]])
    rollout = Rollout(
        observations=states, actions=actions, next_observations=states + shifts[actions], dones=torch.zeros(64, 2)
    )
    reward = make(embedding_size=8, learning_rate=1e-2, batch_size=32)
    losses = [reward.update(rollout)["inverse_loss"] for _ in range(30)]
    assert losses[-1] < 0.1 < 1 < losses[0]


def parameters_of(module: torch.nn.Module) -> Tensor:
    return torch.cat([parameter.detach().flatten().clone() for parameter in module.parameters()])


@pytest.mark.parametrize("inverse", [True, False])
def test_phi_is_trained_with_the_inverse_model_only(inverse: bool) -> None:
    reward = make(inverse=inverse)
    before = parameters_of(reward.encoder), parameters_of(reward.forward_model)
    reward.update(make_rollout(0))
    assert torch.equal(parameters_of(reward.encoder), before[0]) is not inverse
    assert not torch.equal(parameters_of(reward.forward_model), before[1])
    assert any(parameter.requires_grad for parameter in reward.encoder.parameters()) is inverse


def test_the_losses_are_means_over_the_valid_transitions() -> None:
    reward = make(batch_size=100)
    lengths = [5, 8]
    rollout = changed(make_rollout(0), lengths=lengths)
    forward, inverse = [], []
    with torch.no_grad():
        for env, length in enumerate(lengths):
            for t in range(length):
                phi = reward.encoder(rollout.observations[t, env][None])
                phi_next = reward.encoder(rollout.next_observations[t, env][None])
                action = int(rollout.actions[t, env])
                one_hot = torch.eye(4)[action][None]
                predicted = reward.forward_model(torch.cat([phi, one_hot], dim=1))
                guess = reward.inverse_model(torch.cat([phi, phi_next], dim=1))
                forward.append(float((predicted - phi_next).norm()))
                inverse.append(float(-guess.log_softmax(dim=1)[0, action]))
    losses = reward.update(rollout)
    assert losses == pytest.approx({"forward_loss": np.mean(forward), "inverse_loss": np.mean(inverse)}, rel=1e-4)


def test_minibatches_cover_every_transition_once() -> None:
    reward = make(batch_size=5)
    sizes: list[int] = []
    reward.forward_model.register_forward_hook(lambda _module, inputs, _output: sizes.append(len(inputs[0])))
    reward.update(make_rollout(0))
    assert sizes == [5, 5, 5, 1]
    assert int(reward.updates) == 1


def test_minibatches_are_drawn_on_the_host_whatever_torchs_default_device_is() -> None:
    reward = make(batch_size=5)
    expected, found = (torch.Generator("cpu").manual_seed(0) for _ in range(2))
    order = torch.cat(list(reward._minibatches(16, expected)))
    with torch.device("meta"):
        again = torch.cat(list(reward._minibatches(16, found)))
    assert torch.equal(again, order)


def test_every_update_shuffles_anew() -> None:
    reward = make(batch_size=4, inverse=False)
    batches: list[Tensor] = []
    reward.forward_model.register_forward_hook(lambda _module, inputs, _output: batches.append(inputs[0].detach()))
    for _ in range(2):
        reward.update(make_rollout(0))
    first, second = torch.cat(batches[:4]), torch.cat(batches[4:])
    assert not torch.equal(first, second)
    torch.testing.assert_close(first.sort(dim=0).values, second.sort(dim=0).values)


def test_completed_episodes_are_forgotten() -> None:
    reward = make()
    reward.compute(changed(make_rollout(0), dones=np.ones((8, 2), bool)))
    assert reward.memory.previous.shape == reward.memory.running.shape == (2, 0, SIZE)


def test_nothing_is_trained_during_the_warm_up_or_without_a_valid_step() -> None:
    reward = make(normalize_observations=True, warmup=20)
    before = parameters_of(reward)
    reward.compute(make_rollout(0))
    assert reward.update(make_rollout(0)) == {}
    assert torch.equal(parameters_of(reward), before)
    reward.compute(make_rollout(1))
    assert reward.update(changed(make_rollout(0), lengths=[0, 0])) == {}
    assert torch.equal(parameters_of(reward), before)
    assert set(reward.update(make_rollout(1))) == {"forward_loss", "inverse_loss"}


def test_update_checks_the_rollout_first() -> None:
    reward = make()
    before = parameters_of(reward)
    actions = make_rollout(0).actions.clone()
    actions[7, 1] = 4
    with pytest.raises(ValueError, match=r"actions hold a value outside Discrete\(4\) at step 7 of environment 1"):
        reward.update(changed(make_rollout(0), actions=actions))
    with pytest.raises(ValueError, match="the rollout has 2 environments"):
        make(3).update(make_rollout(0))
    assert torch.equal(parameters_of(reward), before)


def test_training_in_the_loop_pays_by_the_trained_phi() -> None:
    trained, frozen = make(learning_rate=0.1), make(learning_rate=0.1)
    first, second = make_rollouts(0, 2)
    assert torch.equal(trained.compute(first), frozen.compute(first))
    trained.update(first)
    assert not torch.allclose(trained.compute(second), frozen.compute(second))


def test_images_and_dicts_train() -> None:
    space = spaces.Dict({"image": spaces.Box(0, 255, (36, 36, 1), np.uint8), "state": BOX})
    rng = np.random.default_rng(0)
    observations = {
        "image": rng.integers(0, 256, (4, 1, 36, 36, 1), np.uint8),
        "state": rng.normal(size=(4, 1, 3)).astype(np.float32),
    }
    reward = RIDE(space, DISCRETE, 1, embedding_size=SIZE)
    rollout = Rollout(
        observations=observations, actions=np.zeros((4, 1)), next_observations=observations, dones=np.zeros((4, 1))
    )
    buffers = {name: buffer.clone() for name, buffer in reward.encoder.named_buffers()}
    assert reward.compute(rollout).shape == (4, 1)
    assert set(reward.update(rollout)) == {"forward_loss", "inverse_loss"}
    assert all(torch.equal(buffer, buffers[name]) for name, buffer in reward.encoder.named_buffers())
