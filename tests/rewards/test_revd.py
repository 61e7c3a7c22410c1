from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from revd import REVD, Rollout
from tests.support import naive
from tests.support.rollouts import BOX, DISCRETE, Shape, changed, embedded, make_rollout, make_rollouts, shapes

SIZE = 4


def make(n_envs: int, **parameters: Any) -> REVD:
    return REVD(BOX, DISCRETE, n_envs, **{"embedding_size": SIZE, "k": 3} | parameters)


def make_plain(**parameters: Any) -> REVD:
    """For one environment, whose observations are their own embeddings."""
    reward = make(1, embedding_size=3, **parameters)
    reward.embed = lambda rollout, observations: observations  # type: ignore[method-assign]
    return reward


def make_naive(reward: REVD) -> naive.NaiveREVD:
    config = reward.config
    segments = naive.NaiveSegments(
        reward.n_envs, SIZE, k=config.k, boundary=config.boundary, memory_size=config.memory_size
    )
    return naive.NaiveREVD(
        segments,
        k=config.k,
        alpha=config.alpha,
        eps=config.eps,
        scale_by_spread=config.scale_by_spread,
        merge=config.merge_duplicates,
    )


def assert_equals_naive(reward: REVD, rollouts: list[Rollout], *, end_after: int | None = None) -> list[np.ndarray]:
    expected = make_naive(reward)
    bonuses = []
    for i, rollout in enumerate(rollouts):
        bonus = expected.compute(embedded(reward, rollout))
        np.testing.assert_allclose(reward.compute(rollout), bonus, rtol=1e-4, atol=1e-6)
        bonuses.append(bonus)
        if i == end_after:
            reward.end_episodes()
            expected.segments.end_episodes()
    return bonuses


@settings(derandomize=True, max_examples=100, deadline=None)
@given(
    data=st.data(),
    k=st.integers(1, 4),
    boundary=st.sampled_from(["rollout", "episode"]),
    ragged=st.booleans(),
    scale_by_spread=st.booleans(),
    merge_duplicates=st.booleans(),
    alpha=st.sampled_from([0.1, 0.5, 0.8]),
    eps=st.sampled_from([1e-4, 0.1]),
    spare=st.sampled_from([1, 4, 10_000]),
    seed=st.integers(0, 10_000),
)
def test_equals_naive_loops(
    data: st.DataObject, k: int, ragged: bool, spare: int, seed: int, **parameters: Any
) -> None:
    shape = data.draw(shapes(min_steps=k + 1, ragged=ragged))
    reward = make(shape.n_envs, k=k, memory_size=k + spare, **parameters)
    end_after = data.draw(st.sampled_from([0, 1, 2, None]))
    assert_equals_naive(reward, make_rollouts(seed, 5, shape), end_after=end_after)


@pytest.mark.parametrize("boundary", ["rollout", "episode"])
@pytest.mark.parametrize(("k", "n_envs"), [(1, 1), (3, 1), (1, 3), (5, 2)])
def test_three_rollouts_the_first_being_zero(boundary: str, k: int, n_envs: int) -> None:
    shape = Shape(n_steps=12, n_envs=n_envs, done_rate=0.15)
    first, second, third = assert_equals_naive(make(n_envs, k=k, boundary=boundary), make_rollouts(1, 3, shape))
    assert third.any()
    if boundary == "rollout":
        assert not first.any()
        assert second.all()
        assert third.all()


def test_a_hand_computed_example() -> None:
    """E = {0, 1, 3}, E~ = {10, 12, 16} on a line, k = 2, the embedding being the observation."""
    reward = make_plain(k=2, eps=0.5, alpha=0.75)
    states = np.zeros((3, 1, 3), np.float32)
    for values in ([10, 12, 16], [0, 1, 3]):
        states[:, 0, 0] = values
        bonus = reward.compute(changed(make_rollout(0, Shape(3, 1)), observations=states, next_observations=states))
    spread = np.tanh((1 + 1 + 2) / 3)
    expected = [spread * (nu / (mu + 0.5)) ** 0.25 for nu, mu in [(12, 3), (11, 2), (9, 3)]]
    np.testing.assert_allclose(bonus[:, 0], expected, rtol=1e-5)


def test_rollouts_of_unequal_length() -> None:
    rollouts = [make_rollout(n, Shape(n_steps=n)) for n in (9, 4, 13, 5)]
    for boundary in ("rollout", "episode"):
        assert_equals_naive(make(2, boundary=boundary), rollouts)


def test_duplicates_of_the_previous_rollout_pay_nothing() -> None:
    reward = make(2, k=1)
    rollout = make_rollout(0)
    reward.compute(rollout)
    assert not reward.compute(rollout).any()


def test_environments_do_not_see_each_other() -> None:
    rollouts = make_rollouts(0, 3, Shape(n_envs=3))
    for boundary in ("rollout", "episode"):
        together, alone = make(3, boundary=boundary), make(1, boundary=boundary)
        for rollout in rollouts:
            column = Rollout(
                observations=rollout.observations[:, 1:2],
                actions=rollout.actions[:, 1:2],
                next_observations=rollout.next_observations[:, 1:2],
                dones=rollout.dones[:, 1:2],
            )
            torch.testing.assert_close(together.compute(rollout)[:, 1:2], alone.compute(column), rtol=1e-4, atol=1e-5)


def lasting(n_rollouts: int, *, n_steps: int = 4, done_at: int | None = None) -> list[Rollout]:
    """Rollouts of one environment whose only episode end, if any, is at step `done_at` counted over all of them."""
    dones = np.zeros((n_rollouts, n_steps, 1), bool)
    if done_at is not None:
        dones.reshape(-1)[done_at] = True
    rollouts = make_rollouts(3, n_rollouts, Shape(n_steps, 1))
    return [changed(rollout, dones=done) for rollout, done in zip(rollouts, dones, strict=True)]


def test_an_episode_is_compared_with_the_last_completed_one() -> None:
    first, second, third = assert_equals_naive(make(1, boundary="episode"), lasting(3, done_at=5))
    assert not first.any()
    assert not second[:2].any()
    # Two states make no k = 3 neighbours, but with the four of the next rollout they do.
    assert not second[2:].any()
    assert third.all()


def test_states_of_earlier_rollouts_are_neighbours_but_not_paid_again() -> None:
    rollouts = lasting(4, n_steps=5, done_at=4)
    reward = make(1, boundary="episode")
    bonuses = assert_equals_naive(reward, rollouts)
    # Alone, the last rollout's states would have other neighbours.
    alone = make(1, boundary="episode")
    alone.compute(rollouts[0])
    assert not np.allclose(alone.compute(rollouts[3]), bonuses[3])


def test_episodes_shorter_than_k_are_not_compared_with() -> None:
    rollouts = lasting(3, n_steps=6)
    rollouts[1] = changed(rollouts[1], dones=np.array([[0], [1], [0], [1], [0], [0]], bool))
    rollouts[0] = changed(rollouts[0], dones=np.array([[0], [0], [0], [0], [0], [1]], bool))
    reward = make(1, boundary="episode")
    assert_equals_naive(reward, rollouts)
    assert reward.memory.previous_lengths.tolist() == [6]


def test_the_memory_of_an_episode_is_capped() -> None:
    reward = make(1, boundary="episode", memory_size=5)
    assert assert_equals_naive(reward, lasting(5), end_after=0)[-1].all()
    assert reward.memory.running_lengths.tolist() == [5]
    assert reward.memory.running.shape == (1, 5, SIZE)
    reward.end_episodes()
    assert reward.memory.previous_lengths.tolist() == [5]
    ended = make(1, boundary="episode", memory_size=5)
    ended.compute(changed(lasting(1, n_steps=9)[0], dones=np.eye(9, 1, -8, dtype=bool)))
    assert ended.memory.previous_lengths.tolist() == [5]


def test_ending_episodes_from_outside_completes_them() -> None:
    bonuses = assert_equals_naive(make(1, boundary="episode"), lasting(3), end_after=1)
    assert not bonuses[1].any()
    assert bonuses[2].all()
    never_ended = make(1, boundary="episode")
    assert not any(never_ended.compute(rollout).any() for rollout in lasting(3))


def test_rollout_segments_ignore_episode_ends() -> None:
    rollouts = make_rollouts(0, 3)
    without = [changed(rollout, dones=torch.zeros_like(rollout.dones)) for rollout in rollouts]
    one, other = make(2), make(2)
    for rollout, same in zip(rollouts, without, strict=True):
        assert torch.equal(one.compute(rollout), other.compute(same))
        one.end_episodes()


def test_a_spreading_trajectory_scores_higher_than_a_lingering_one() -> None:
    """The paper's worked example: k = 3, eps = 1e-4, alpha = 0.5."""
    rng = np.random.default_rng(0)
    reference = rng.normal(size=(30, 3)) * 0.3
    spreading = np.linspace([-1.0, -1, 0], [1, 1, 1], 30) + rng.normal(size=(30, 3)) * 0.1
    lingering = np.array([0.2, 0.2, 0.0]) + rng.normal(size=(30, 3)) * 0.05
    scores = []
    for trajectory in (spreading, lingering):
        reward = make_plain(k=3, eps=1e-4, alpha=0.5)
        for part in (reference, trajectory):
            states = part[:, None].astype(np.float32)
            rollout = changed(make_rollout(0, Shape(30, 1)), observations=states, next_observations=states)
            bonus = reward.compute(rollout)
        scores.append(float(bonus.mean()))
    assert scores[0] > scores[1]


@pytest.mark.parametrize("duplicate_rate", [0.0, 0.4])
def test_metrics_of_rollout_segments(duplicate_rate: float) -> None:
    reward = make(2, k=2, alpha=0.3, merge_duplicates=False)
    first, second = make_rollouts(5, 2, Shape(n_steps=15, duplicate_rate=duplicate_rate))
    before, now = embedded(reward, first).phi, embedded(reward, second).phi
    reward.compute(first)
    metrics = reward.metrics()
    assert set(metrics) == {"spread", "duplicates", "unpaid", "bonus_mean"}
    assert (metrics["unpaid"], metrics["bonus_mean"]) == (1, 0)
    bonus = reward.compute(second)
    metrics = reward.metrics()
    nearest = [[naive.mu(1, t, now[:, env]) for t in range(15)] for env in range(2)]
    ratios = [
        (naive.nu(2, now[t, env], before[:, env]) / (naive.mu(2, t, now[:, env]) + 1e-4)) ** 0.7
        for t in range(15)
        for env in range(2)
    ]
    expected = {
        "spread": np.mean([np.tanh(np.mean(column)) for column in nearest]),
        "discrepancy": np.mean(ratios),
        "duplicates": np.mean(np.array(nearest) == 0),
        "unpaid": 0,
        "bonus_mean": float(bonus.mean()),
    }
    divergence = metrics.pop("divergence")
    assert metrics == pytest.approx(expected, rel=1e-4)
    if duplicate_rate == 0:
        estimates = [naive.renyi_divergence(now[:, env], before[:, env], k=2, alpha=0.3) for env in range(2)]
        assert divergence == pytest.approx(np.mean(estimates), rel=1e-3)
    else:
        assert metrics["duplicates"] > 0
        assert np.isfinite(divergence)


def test_metrics_of_merged_states() -> None:
    """The spread and the divergence are those of the distinct states, all else is a mean over the steps."""
    reward = make(2, k=2, alpha=0.3)
    first, second = make_rollouts(5, 2, Shape(n_steps=15, duplicate_rate=0.4))
    before, now = embedded(reward, first).phi, embedded(reward, second).phi
    reward.compute(first)
    bonus = reward.compute(second)
    metrics = reward.metrics()
    columns = [(naive.distinct(now[:, env]), naive.distinct(before[:, env])) for env in range(2)]
    ratios = [
        (naive.nu(2, now[t, env], columns[env][1]) / (naive.mu(2, t, now[:, env], merge=True) + 1e-4)) ** 0.7
        for t in range(15)
        for env in range(2)
    ]
    nearest = [[naive.mu(1, t, current) for t in range(len(current))] for current, _ in columns]
    estimates = [naive.renyi_divergence(*column, k=2, alpha=0.3) for column in columns]
    copies = [naive.copies(now[t, env], now[:, env]) for t in range(15) for env in range(2)]
    assert 0 < metrics["duplicates"] == pytest.approx(np.mean(np.array(copies) > 1))
    assert metrics["spread"] == pytest.approx(np.mean([np.tanh(np.mean(column)) for column in nearest]), rel=1e-4)
    assert metrics["discrepancy"] == pytest.approx(np.mean(ratios), rel=1e-4)
    assert metrics["divergence"] == pytest.approx(np.mean(estimates), rel=1e-3)
    assert (metrics["unpaid"], metrics["bonus_mean"]) == (0, pytest.approx(float(bonus.mean())))


def test_metrics_of_merged_states_leave_padding_out() -> None:
    reward = make(2, k=2)
    first, second = make_rollouts(5, 2, Shape(n_steps=15, duplicate_rate=0.4))
    reward.compute(first)
    reward.compute(changed(second, lengths=[15, 6]))
    metrics = reward.metrics()
    assert metrics["unpaid"] == 0
    alone = [make(1, k=2) for _ in range(2)]
    for env, (one, length) in enumerate(zip(alone, (15, 6), strict=True)):
        for rollout, count in ((first, 15), (second, length)):
            states = rollout.observations[:count, env : env + 1]  # type: ignore[index]
            one.compute(changed(make_rollout(0, Shape(count, 1)), observations=states, next_observations=states))
    expected = sum(one.metrics()["discrepancy"] * n for one, n in zip(alone, (15, 6), strict=True)) / 21
    assert metrics["discrepancy"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("boundary", ["rollout", "episode"])
def test_where_nothing_repeats_merging_changes_no_bit(boundary: str) -> None:
    merged, paper = (make(3, boundary=boundary, merge_duplicates=merge) for merge in (True, False))
    for rollout in make_rollouts(4, 4, Shape(n_envs=3, n_steps=20, done_rate=0.1)):
        assert torch.equal(merged.compute(rollout), paper.compute(rollout))
        assert merged.metrics() == paper.metrics()


def test_a_hand_computed_example_of_merged_states() -> None:
    """E = {0, 0, 1, 3, 0}, E~ = {10, 10, 12}: the copies at 0 share the pay of one state, and E~ has two."""
    reward = make_plain(k=2, eps=0.5, alpha=0.75)
    for values in ([10, 10, 12, 10, 10], [0, -0.0, 1, 3, 0]):
        states = np.zeros((5, 1, 3), np.float32)
        states[:, 0, 0] = values
        bonus = reward.compute(changed(make_rollout(0, Shape(5, 1)), observations=states, next_observations=states))
    spread = np.tanh((1 + 1 + 2) / 3)
    at_0, at_1, at_3 = (spread * (nu / (mu + 0.5)) ** 0.25 for nu, mu in [(12, 3), (11, 2), (9, 3)])
    np.testing.assert_allclose(bonus[:, 0], [at_0 / 3**0.5, at_0 / 3**0.5, at_1, at_3, at_0 / 3**0.5], rtol=1e-5)


@pytest.mark.parametrize("duplicate_rate", [0.3, 1.0])
def test_merged_episodes_resume_in_the_middle(duplicate_rate: float) -> None:
    """Copies of states of earlier rollouts are found after loading, and mu_1 of the carried states is known."""
    rollouts = make_rollouts(2, 6, Shape(n_steps=6, n_envs=2, done_rate=0.05, duplicate_rate=duplicate_rate))
    rollouts = [rollouts[0], *rollouts[:3], rollouts[1], *rollouts[3:]]
    reward = make(2, boundary="episode", memory_size=9)
    expected = [torch.as_tensor(bonus) for bonus in assert_equals_naive(reward, rollouts)]
    for stop in range(1, len(rollouts)):
        before, after = (make(2, boundary="episode", memory_size=9) for _ in range(2))
        for rollout in rollouts[:stop]:
            before.compute(rollout)
        after.load_state_dict(before.state_dict())
        for rollout, bonus in zip(rollouts[stop:], expected[stop:], strict=True):
            torch.testing.assert_close(after.compute(rollout).double(), bonus, rtol=1e-4, atol=1e-6)


def test_metrics_of_episodes_count_what_could_not_be_paid() -> None:
    reward = make(1, k=3, boundary="episode")
    dones = np.zeros((10, 1), bool)
    dones[[4, 6]] = True
    rollout = changed(make_rollout(0, Shape(10, 1)), dones=dones)
    reward.compute(rollout)
    # The first episode (5 steps) has none before it; the second (2) and the third (3) have too few states.
    assert reward.metrics()["unpaid"] == 1
    reward.compute(rollout)
    # The third continues for 5 steps and is paid for those; the next two are too short.
    assert reward.metrics()["unpaid"] == 0.5
    assert all(np.isfinite(value) for value in reward.metrics().values())


def test_metrics_hold_no_numbers_of_an_earlier_call() -> None:
    reward = make(1, boundary="episode")
    for rollout in lasting(2, n_steps=6, done_at=5):
        reward.compute(rollout)
    assert "divergence" in reward.metrics()
    short = changed(lasting(1, n_steps=1)[0], dones=np.ones((1, 1), bool))
    reward.end_episodes()
    reward.compute(short)
    assert set(reward.metrics()) == {"unpaid", "bonus_mean"}
