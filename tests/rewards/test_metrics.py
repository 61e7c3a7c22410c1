import copy
import math
from dataclasses import replace

import pytest
import torch

from revd import IntrinsicReward, Rollout, make_reward
from revd.rewards.metrics import Mean, read_means, total
from tests.support.rollouts import BOX, DISCRETE, Shape, make_rollout


def test_means_of_batches_add_up_to_one() -> None:
    first, second = torch.tensor([1.0, 2.0]), torch.tensor([6.0])
    added = Mean(total(first), 2) + Mean(total(second), torch.tensor(1))
    assert read_means({"mean": added}) == {"mean": 3.0}


def test_a_mean_of_nothing_is_left_out() -> None:
    means = {"none": Mean(torch.tensor(0.0), torch.tensor(0)), "one": Mean(2, 1), "absent": Mean(0.0, 0)}
    assert read_means(means) == {"one": 2.0}
    assert read_means({}) == {}


def test_numbers_of_any_type_keep_their_order() -> None:
    values = [torch.tensor([3], dtype=torch.int64), 0.5, torch.tensor(0.25), torch.tensor(True)]
    means = {str(i): Mean(value, 1) for i, value in enumerate(values)}
    assert read_means(means) == {"0": 3.0, "1": 0.5, "2": 0.25, "3": 1.0}


def test_totals_are_exact_where_float32_would_not_be() -> None:
    assert float(total(torch.tensor([2.0**24, 1.0, 1.0]))) == 2**24 + 2
    assert float(total(torch.tensor([True, False, True]))) == 2


class Noting(IntrinsicReward):
    """Records as a user's own reward might, and says what it is told to say."""

    says = 1.0

    def bonus(self, rollout: Rollout) -> torch.Tensor:
        mutable = torch.zeros(())
        self.record(calls_before=self.calls, zero=mutable)
        mutable += 5
        self.inside = self.metrics()
        if self.says == 0:
            raise RuntimeError("no bonus today")
        return torch.full(rollout.dones.shape, self.says)

    def update(self, rollout: Rollout) -> dict[str, float]:
        self.record(loss=torch.ones(1, requires_grad=True) * 2)
        return {}


def test_what_is_recorded_is_what_it_was_then() -> None:
    reward = Noting(BOX, DISCRETE, n_envs=2)
    reward.compute(make_rollout(0))
    assert reward.inside == {"calls_before": 0, "zero": 0}
    reward.update(make_rollout(0))
    copy.deepcopy(reward)
    assert reward.metrics() == {"calls_before": 0, "zero": 0, "bonus_mean": 1, "loss": 2}


def test_nothing_is_left_of_a_call_that_failed() -> None:
    reward = Noting(BOX, DISCRETE, n_envs=2)
    reward.says = 0.0
    with pytest.raises(RuntimeError, match="no bonus today"):
        reward.compute(make_rollout(0))
    reward.record(leftover=1.0)
    reward.says = 2.0
    reward.compute(make_rollout(0))
    assert "leftover" not in reward.metrics()
    reward.says = -math.inf
    with pytest.raises(ValueError, match="not a finite number at step 0 of environment 0"):
        reward.compute(make_rollout(0))


def test_a_metric_is_one_number() -> None:
    with pytest.raises(ValueError, match=r"distance must be one number to be recorded, got a tensor of shape \(2,\)"):
        Noting(BOX, DISCRETE, n_envs=2).record(distance=torch.zeros(2))


def test_metrics_are_those_of_all_batches_of_segments() -> None:
    """Episodes of very different lengths are paid in several batches."""
    reward = make_reward("revd", BOX, DISCRETE, n_envs=2, k=2, boundary="episode")
    rollout = make_rollout(0, Shape(n_steps=64, done_rate=0.0))
    states = rollout.observations.clone()
    states[:, 0] = states[0, 0]
    dones = torch.zeros(64, 2, dtype=torch.bool)
    dones[3::4, 1] = True
    reward.compute(replace(rollout, observations=states, dones=dones))
    assert reward.metrics()["duplicates"] == 0.5


def test_an_embedding_that_is_no_number_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    reward = make_reward("revd", BOX, DISCRETE, n_envs=2, k=2)
    embed = reward.encoder.forward

    def spoilt(observations: torch.Tensor) -> torch.Tensor:
        embeddings = embed(observations).clone()
        embeddings[5] = torch.nan
        return embeddings

    monkeypatch.setattr(reward.encoder, "forward", spoilt)
    with pytest.raises(ValueError, match="the embedding at step 2 of environment 1 is too large"):
        reward.compute(make_rollout(0))
