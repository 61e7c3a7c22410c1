"""Whether a dense reward still teaches, against a loop over single steps and NumPy's weighted line through returns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from revd.weighting.task_progress import TaskProgress

N_STEPS, N_ENVS = 6, 2


class NaiveProgress:
    """Keeps every episode, and looks at all of them again after each rollout."""

    def __init__(self) -> None:
        self.shares: list[float] = []
        self.episodes: list[tuple[float, float]] = []
        self.first: list[tuple[float, float]] = []
        self.running = [0.0] * N_ENVS
        self.steps = self.rollouts = 0

    def observe(self, rewards: np.ndarray, dones: np.ndarray, valid: np.ndarray) -> bool:
        self.rollouts += 1
        changes = [
            rewards[t, env] != rewards[t - 1, env]
            for t in range(1, len(rewards))
            for env in range(N_ENVS)
            if valid[t, env]
        ]
        self.shares += [float(np.mean(changes))] if changes else []
        before = len(self.episodes)
        for t in range(len(rewards)):
            self.steps += int(valid[t].sum())
            for env in range(N_ENVS):
                if valid[t, env]:
                    self.running[env] += rewards[t, env]
                    if dones[t, env]:
                        self.episodes.append((self.steps, self.running[env]))
                        self.running[env] = 0.0
        self.first = self.first or self.episodes[before:]
        return self.is_dense() and self.rises() in (True, None)

    def is_dense(self) -> bool:
        recency = 0.9 ** np.arange(len(self.shares))[::-1]
        return len(self.shares) > 0 and float(np.average(self.shares, weights=recency)) > 0.5

    def rises(self) -> bool | None:
        """None: too few episodes to tell."""
        if self.rollouts < 20 or len({steps for steps, _ in self.episodes}) < 2:
            return None
        steps, returns = np.array(self.episodes).T
        weights = (steps / self.steps) ** 5
        n = weights.sum() ** 2 / (weights**2).sum()
        if n < 20:
            return None
        if np.ptp(returns) <= 1e-9 * np.abs(returns).max():
            return False
        # polyfit squares its weights.
        slope, _ = np.polyfit(steps, returns, 1, w=np.sqrt(weights))
        first_step, first_return = np.mean(self.first, axis=0)
        pace = (np.average(returns, weights=weights) - first_return) / (np.average(steps, weights=weights) - first_step)
        return bool(slope > max(pace, 0) / 4)


def rollouts(
    seed: int, trend: float, *, ragged: bool = False, number: int = 50
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Random rewards whose mean grows by `trend` with each rollout, with episodes that end at random."""
    rng = np.random.default_rng(seed)
    found = []
    for index in range(number):
        lengths = rng.integers(0, N_STEPS + 1, size=N_ENVS) if ragged else np.full(N_ENVS, N_STEPS)
        valid = np.arange(N_STEPS)[:, None] < lengths
        rewards = (trend * index + rng.normal(size=valid.shape)).astype(np.float32)
        found.append((rewards, rng.random(valid.shape) < 0.3, valid))
    return found


@given(seed=st.integers(0, 10_000), trend=st.sampled_from([-0.5, 0.0, 0.1, 0.5]), ragged=st.booleans())
def test_against_a_loop_that_keeps_every_episode(seed: int, trend: float, ragged: bool) -> None:
    progress, naive = TaskProgress(N_ENVS), NaiveProgress()
    for rollout in rollouts(seed, trend, ragged=ragged):
        assert progress.observe(*rollout) == naive.observe(*rollout)


def test_it_teaches_until_there_are_enough_episodes_to_tell() -> None:
    progress = TaskProgress(N_ENVS)
    rewards = np.arange(N_STEPS * N_ENVS, dtype=np.float32).reshape(N_STEPS, N_ENVS)
    no_end, valid = np.zeros((N_STEPS, N_ENVS), bool), np.ones((N_STEPS, N_ENVS), bool)
    assert not progress.teaches, "nothing is known of the reward"
    assert progress.observe(rewards, no_end, valid)
    ends = no_end.copy()
    ends[-1] = True
    assert progress.observe(rewards, ends, valid), "both episodes ended at the same step"


def test_it_notices_that_returns_have_stopped_rising_and_that_they_rise_again() -> None:
    progress, rng = TaskProgress(N_ENVS), np.random.default_rng(0)
    ends = np.zeros((N_STEPS, N_ENVS), bool)
    ends[[2, 5]] = True  # Episodes of three steps.
    levels = {
        "rise": np.linspace(0, 40, 40),
        "stop": np.full(160, 40.0),
        "rise again": np.linspace(40, 240, 160),
        "fall": np.linspace(240, 0, 160),
    }
    found = {}
    for name, each in levels.items():
        rewards = [level + 10 * rng.normal(size=ends.shape) for level in each]
        found[name] = np.mean(
            [progress.observe(reward, ends, np.ones_like(ends)) for reward in rewards][len(each) // 2 :]
        )
    assert found["rise"] == found["rise again"] == 1
    assert found["stop"] < 0.2
    assert found["fall"] == 0


@pytest.mark.parametrize(
    ("rewards_of", "dense"),
    [
        (lambda rng, shape: np.full(shape, -1.0), False),
        (lambda rng, shape: np.zeros(shape), False),
        (lambda rng, shape: (rng.random(shape) < 0.1).astype(float), False),
        (lambda rng, shape: rng.normal(size=shape) * (rng.random(shape) < 0.1), False),
        (lambda rng, shape: -0.1 * rng.normal(size=shape) ** 2, True),
    ],
    ids=["every step costs 1", "silent", "one step in ten pays 1", "nine rewards of ten are hidden", "actions cost"],
)
def test_only_a_reward_that_differs_on_most_steps_is_dense(rewards_of: Callable[..., np.ndarray], dense: bool) -> None:
    rng, progress = np.random.default_rng(0), TaskProgress(4)
    none, valid = np.zeros((50, 4), bool), np.ones((50, 4), bool)
    for _ in range(3):
        taught = progress.observe(rewards_of(rng, none.shape), none, valid)
    assert taught == dense


def test_padded_steps_do_not_make_a_reward_rare() -> None:
    rng, progress = np.random.default_rng(0), TaskProgress(N_ENVS)
    valid = np.arange(N_STEPS)[:, None] < [2, 2]
    assert progress.observe(np.where(valid, rng.normal(size=valid.shape), 0), np.zeros_like(valid), valid)


@pytest.mark.parametrize(("scale", "offset"), [(1000.0, 0.0), (1e-3, 0.0), (1.0, 1e6)])
def test_neither_the_scale_nor_the_offset_of_returns_matters(scale: float, offset: float) -> None:
    ends = np.zeros((N_STEPS, N_ENVS), bool)
    ends[[2, 5]] = True
    answers = []
    for factor, shift in ((1.0, 0.0), (scale, offset)):
        progress = TaskProgress(N_ENVS)
        answers.append(
            [
                progress.observe(factor * rewards.astype(np.float64) + shift, ends, valid)
                for rewards, _, valid in rollouts(11, 0.02)
            ]
        )
    assert answers[0] == answers[1]
    assert len(set(answers[0])) == 2, "both answers occur"


ENDS = np.array([[0, 0], [0, 0], [1, 0], [0, 0], [0, 0], [1, 1]], bool)
WHOLE = np.ones_like(ENDS)


def summed(progress: TaskProgress) -> tuple[float, float]:
    """The last returns, by how the sums change if everything before is forgotten: their number and their sum."""
    weights = progress.sums
    return round(float(weights[0]), 6), round(float(weights[4] + weights[0] * progress.first_return.nan_to_num()), 6)


def test_an_episode_of_which_a_part_is_missing_is_left_out() -> None:
    rewards = np.arange(12.0).reshape(6, 2)
    cut, whole = TaskProgress(N_ENVS), TaskProgress(N_ENVS)
    for progress in (cut, whole):
        progress.observe(rewards, np.zeros_like(ENDS), WHOLE)
    cut.end_episodes()
    cut.observe(rewards, ENDS, WHOLE)
    whole.observe(rewards, ENDS, WHOLE)
    # Environment 0 ends at steps 18 and 24 of 24, with 0 + 2 + 4 and 6 + 8 + 10; environment 1 at 24.
    assert summed(cut) == (1.0, 24.0)
    assert summed(whole) == (round((18 / 24) ** 5 + 2, 6), round((18 / 24) ** 5 * 36 + 24 + 72, 6))
    for progress in (cut, whole):
        assert progress.running_returns.tolist() == [0, 0]


def test_a_reset_between_two_episodes_leaves_nothing_out() -> None:
    progress, other = TaskProgress(N_ENVS), TaskProgress(N_ENVS)
    rewards = np.arange(12.0).reshape(6, 2)
    for _ in range(2):
        progress.observe(rewards, ENDS, WHOLE)
        progress.end_episodes()
        other.observe(rewards, ENDS, WHOLE)
    assert summed(progress) == summed(other)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_reward_that_is_not_finite_spoils_nothing_later(bad: float) -> None:
    rewards = np.arange(12.0).reshape(6, 2)
    progress = TaskProgress(N_ENVS)
    spoilt = rewards.copy()
    spoilt[0, 0] = bad
    progress.observe(spoilt, ENDS, WHOLE)
    progress.observe(rewards, ENDS, WHOLE)
    # Of environment 1 both episodes count, the first at step 12 of 24; of environment 0 the last one.
    assert summed(progress) == (0.5**5 + 2, 0.5**5 * 36 + 36 + 24)


def test_without_ends_of_episodes_it_does_not_wait_for_ever() -> None:
    rng, progress = np.random.default_rng(0), TaskProgress(N_ENVS)
    taught = [progress.observe(rng.normal(size=ENDS.shape), np.zeros_like(ENDS), WHOLE) for _ in range(210)]
    assert taught == [True] * 199 + [False] * 11


def test_returns_that_became_constant_do_not_rise() -> None:
    """Rewards differ from step to step, and every episode pays the same; the first one paid less."""
    progress = TaskProgress(N_ENVS)
    same = np.tile([[0.1], [0.2], [0.3]], (2, N_ENVS))
    progress.observe(same - 0.1, ENDS, WHOLE)
    taught = [progress.observe(same, ENDS, WHOLE) for _ in range(3_000)]
    assert not any(taught[1_000:])


def test_a_stop_is_noticed_after_about_half_as_long_again() -> None:
    progress, found = TaskProgress(N_ENVS), []
    for level in [*np.linspace(0, 10, 100), *np.full(100, 10.0)]:
        rewards = level + np.tile([[0.1], [0.2], [0.3]], (2, N_ENVS))
        found.append(progress.observe(rewards, ENDS, WHOLE))
    assert all(found[:100])
    assert 100 < found.index(False) < 160
    assert not any(found[160:])


@pytest.mark.parametrize(("part", "teaches"), [(0.2, False), (0.32, True)])
def test_a_quarter_of_the_average_pace_is_enough(part: float, teaches: bool) -> None:
    """After a rise by 10 in 100 rollouts, 200 at a slope that is this part of the average over all 300."""
    progress = TaskProgress(N_ENVS)
    slope = 10 * part / (300 - 200 * part)
    for level in [*np.linspace(0, 10, 100), *(10 + slope * np.arange(200))]:
        found = progress.observe(level + np.tile([[0.1], [0.2], [0.3]], (2, N_ENVS)), ENDS, WHOLE)
    assert found == teaches


def test_the_state_is_in_buffers() -> None:
    whole, later = TaskProgress(N_ENVS), TaskProgress(N_ENVS)
    before, after = rollouts(5, 0.02)[:30], rollouts(5, 0.02)[30:]
    for rollout in before:
        whole.observe(*rollout)
    later.load_state_dict(whole.state_dict())
    assert [whole.observe(*rollout) for rollout in after] == [later.observe(*rollout) for rollout in after]
    for name, value in whole.state_dict().items():
        assert (value == later.state_dict()[name]).all(), name
