from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from revd import Rollout
from revd.rewards import NGU
from tests.support import naive
from tests.support.networks import mistake
from tests.support.rollouts import BOX, DISCRETE, Shape, changed, embedded, make_rollout, make_rollouts, shapes

SIZE = 4


def make(n_envs: int = 2, **parameters: Any) -> NGU:
    return NGU(BOX, DISCRETE, n_envs, **{"embedding_size": SIZE} | parameters)


def errors_of(reward: NGU, rollout: Rollout) -> np.ndarray:
    """RND's errors with the statistics that already include the rollout; 0 in padded steps."""
    errors = np.zeros((rollout.n_steps, rollout.n_envs))
    for step in zip(*np.nonzero(rollout.valid.numpy()), strict=True):
        errors[step] = np.mean(mistake(reward.predictor, reward.target, rollout.observations[step]) ** 2)  # type: ignore[index]
    return errors


@settings(derandomize=True, max_examples=20, deadline=None)
@given(
    data=st.data(),
    k=st.sampled_from([1, 2, 10]),
    ragged=st.booleans(),
    memory_size=st.sampled_from([1, 5, 10_000]),
    kernel_eps=st.sampled_from([1e-3, 0.1]),
    cluster_distance=st.sampled_from([0.0, 0.7]),
    c=st.sampled_from([1e-3, 0.5]),
    s_max=st.sampled_from([1.2, 8.0]),
    momentum=st.sampled_from([0.0, 0.99]),
    largest_modulator=st.sampled_from([1.0, 1.5, 5.0]),
    seed=st.integers(0, 10_000),
)
def test_equals_naive_loops(data: st.DataObject, ragged: bool, seed: int, memory_size: int, **parameters: Any) -> None:
    shape = data.draw(shapes(min_steps=1, ragged=ragged))
    reward = make(shape.n_envs, memory_size=memory_size, **parameters)
    segments = naive.NaiveSegments(shape.n_envs, SIZE, k=1, boundary="episode", memory_size=memory_size)
    expected = naive.NaiveNGU(segments, **parameters)
    for index, rollout in enumerate(make_rollouts(seed, 3, shape)):
        bonus = reward.compute(rollout)
        if rollout.n_valid == 0:
            continue
        errors = errors_of(reward, rollout)
        if np.std([*expected.errors, *errors[rollout.valid.numpy()]]) < 1e-5:
            return  # nothing to compare: the error of a single state, or of equal ones
        np.testing.assert_allclose(bonus, expected.compute(embedded(reward, rollout), errors), rtol=5e-3, atol=1e-5)
        if index == 0:
            reward.end_episodes()
            segments.end_episodes()


def repeated(n_steps: int = 6, done: bool = False) -> Rollout:
    """A walk over states 0, 1, 2 and over them again; the episode ends at the last step if `done`."""
    states = torch.eye(3).repeat(n_steps // 3, 1)[:, None]
    dones = np.zeros((n_steps, 1), bool)
    dones[-1] = done
    return Rollout(
        observations=states, actions=np.zeros((n_steps, 1)), next_observations=states.roll(-1, 0), dones=dones
    )


def test_a_second_visit_is_paid_less_and_the_next_episode_pays_again() -> None:
    reward = make(1, c=0.1, largest_modulator=1.0)
    first = reward.compute(repeated(done=True))[:, 0]
    assert first[0] == 0  # nothing to compare the first state with
    assert (first[3:] < 0.5 * first[1]).all()
    again = reward.compute(repeated())[:, 0]
    assert (again[1:3] > 2 * first[3:].max()).all()
    # The episode goes on in the next rollout: everything has been visited twice by then.
    assert (reward.compute(repeated())[:, 0] < again[1:3].min() / 2).all()


def test_states_that_the_predictor_knows_are_paid_up_to_five_times_less() -> None:
    """alpha = 1 + (err - mean) / std: without subtracting the mean, known states would be paid for their error."""
    reward, plain = make(1, update_fraction=1.0), make(1, largest_modulator=1.0)
    errors = torch.tensor([1.0, 1.0, 1.0, 1.0, 1.0, 9.0, 1.0, 4.0])
    reward._errors = lambda observations: errors  # type: ignore[method-assign]
    rollout = make_rollout(0, Shape(8, 1, done_rate=0.0))
    modulator = (reward.compute(rollout) / plain.compute(rollout))[1:, 0]
    expected = (1 + (errors - errors.mean()) / errors.std(correction=0)).clamp(1, 5)[1:]
    torch.testing.assert_close(modulator, expected)
    assert modulator[0] == 1


def test_the_error_falls_where_the_agent_has_been_and_stays_high_elsewhere() -> None:
    reward = make(1, update_fraction=1.0, learning_rate=1e-3, batch_size=32)
    rng = torch.Generator().manual_seed(0)
    here, elsewhere = (torch.randn(32, 1, 3, generator=rng) + side for side in (3.0, -3.0))
    near, far = (
        Rollout(observations=s, actions=torch.zeros(32, 1), next_observations=s, dones=torch.zeros(32, 1))
        for s in (here, elsewhere)
    )
    reward.compute(near)
    reward.compute(far)
    before = [errors_of(reward, rollout).mean() for rollout in (near, far)]
    for _ in range(60):
        reward.update(near)
    after = [errors_of(reward, rollout).mean() for rollout in (near, far)]
    assert after[0] < 0.2 * before[0]
    assert after[1] > 0.4 * before[1]


def test_update_trains_phi_and_the_predictor_but_not_the_target() -> None:
    reward = make(update_fraction=1.0)
    modules = {"encoder": reward.encoder, "predictor": reward.predictor, "target": reward.target}
    reward.compute(make_rollout(0))
    before = {name: [p.detach().clone() for p in module.parameters()] for name, module in modules.items()}
    assert reward.update(make_rollout(0)).keys() == {"inverse_loss", "predictor_loss"}
    changed_modules = {
        name
        for name, module in modules.items()
        if not all(torch.equal(a, b) for a, b in zip(before[name], module.parameters(), strict=True))
    }
    assert changed_modules == {"encoder", "predictor"}


def test_images_and_dicts_are_paid_and_trained_on() -> None:
    space = spaces.Dict({"image": spaces.Box(0, 255, (36, 36, 1), np.uint8), "state": BOX})
    rng = np.random.default_rng(0)
    observations = {
        "image": rng.integers(0, 256, (4, 1, 36, 36, 1), np.uint8),
        "state": rng.normal(size=(4, 1, 3)).astype(np.float32),
    }
    reward = NGU(space, DISCRETE, 1, embedding_size=SIZE)
    rollout = Rollout(
        observations=observations, actions=np.zeros((4, 1)), next_observations=observations, dones=np.zeros((4, 1))
    )
    assert (reward.compute(rollout)[1:] > 0).all()
    assert set(reward.update(rollout)) == {"inverse_loss", "predictor_loss"}


def test_a_failed_compute_adds_nothing_to_the_statistics() -> None:
    reward = make()
    observations = make_rollout(0).observations.clone()  # type: ignore[union-attr]
    observations[3, 1] = 1e25
    with pytest.raises(ValueError, match="embedding at step 3 of environment 1 is too large"):
        reward.compute(changed(make_rollout(0), observations=observations))
    assert int(reward.error_moments.count) == int(reward.target.normalizer.moments.count) == 0  # type: ignore[union-attr]


@pytest.mark.parametrize(("name", "value"), [("c", 0), ("largest_modulator", 0.5), ("largest_modulator", np.nan)])
def test_values_out_of_range(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be "):
        make(**{name: value})


def test_the_metrics_are_the_means_of_both_factors() -> None:
    reward = make()
    bonus = torch.zeros(())
    for rollout in make_rollouts(0, 3, Shape(8, 2)):
        bonus = reward.compute(rollout)
    metrics = reward.metrics()
    # The modulator is at least 1 everywhere; the first factor is 0 at the start of an episode.
    assert 1 <= metrics["modulator"] <= 5
    assert metrics["episodic"] <= float(bonus.mean()) <= 5 * metrics["episodic"]
