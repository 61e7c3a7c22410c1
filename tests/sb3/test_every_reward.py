"""Every reward alone and in a mixture: it pays the step that earned it, and resumes bit by bit."""

from __future__ import annotations

from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from revd.rewards import REWARDS
from revd.sb3 import IntrinsicRewardCallback
from tests.support.every_reward import ALONE, EVERY, MIXED, NaivePayer, logged, wandering_envs
from tests.support.sb3 import Onlooker, Witness, flat_parameters, generalized_advantages, make_model
from tests.weighting.naive import NaiveWeight

N_STEPS, N_ENVS, SEED = 8, 2, 3
ROLLOUT = N_STEPS * N_ENVS
#: A mixture is a reward like any other to an algorithm: two suffice.
CASES = [*product(ALONE, ["PPO", "A2C", "RecurrentPPO", "FastPPO"]), *product(MIXED, ["PPO", "FastPPO"])]


def new_model(algo: str, **arguments: Any) -> Any:
    return make_model(algo, wandering_envs(N_ENVS), **{"n_steps": N_STEPS, "seed": SEED, **arguments})


def rollout_of(model: Any, index: int) -> Any:
    return logged(model.env, index * N_STEPS, (index + 1) * N_STEPS)


def test_all_rewards_are_here() -> None:
    assert set(ALONE) == set(REWARDS)
    assert {name for names, _ in MIXED.values() for name in names} == set(REWARDS)


@pytest.mark.parametrize(("case", "algo"), CASES)
def test_with_a_fixed_weight_each_step_is_paid_what_it_earned(case: str, algo: str) -> None:
    name, parameters = EVERY[case]
    model, witness, payer = new_model(algo), Witness(), NaivePayer(name, parameters, seed=SEED)
    model.learn(3 * ROLLOUT, callback=[witness, IntrinsicRewardCallback(name, weight=0.5, decay=0.1, **parameters)])
    for index, seen in enumerate(witness.seen):
        bonus, _ = payer.pay(rollout_of(model, index))
        expected = np.array(seen.raw) + np.array(seen.bootstrap) + 0.5 * 0.9 ** (index + 1) * bonus
        np.testing.assert_allclose(seen.rewards, expected, rtol=1e-4, atol=1e-4)
    assert np.ptp(bonus, axis=0).min() > 1e-3, "steps are paid differently"
    assert np.array([seen.bootstrap for seen in witness.seen]).any()


@pytest.mark.parametrize(("case", "algo"), CASES)
def test_with_an_automatic_weight_each_step_is_credited_with_what_it_earned(case: str, algo: str) -> None:
    """The model does not learn, so that V(s_T) of one rollout is the first value of the next."""
    name, parameters = EVERY[case]
    model = new_model(algo, learning_rate=0.0, gamma=0.9, gae_lambda=0.8)
    callback = IntrinsicRewardCallback(name, strength=0.3, decay=0.1, **parameters)
    onlooker, payer, naive = Onlooker(callback), NaivePayer(name, parameters, seed=SEED), NaiveWeight()
    model.learn(4 * ROLLOUT, callback=[onlooker, callback])
    for index, (seen, following) in enumerate(pairwise(onlooker.seen)):
        rewards = np.array(seen.raw) + np.array(seen.bootstrap)
        task = generalized_advantages(rewards, seen.values, following.values[0], np.array(seen.dones), 0.9, 0.8)
        bonus, paid = payer.pay(rollout_of(model, index))
        strength = np.full((N_STEPS, 1), 0.3 * 0.9 ** (index + 1))
        expected = naive.weigh(bonus, onlooker.values[index], task, strength=strength, paid=paid)
        np.testing.assert_allclose(seen.advantages, expected, rtol=1e-3, atol=1e-3)
    assert np.abs(onlooker.values[-1]).max() > 1e-4, "the critic has learnt"
    assert np.std(expected - task) > 0.02 * np.std(task)


def learn(model: Any, callback: Any, rollouts: int, *, reset: bool = False) -> Any:
    return model.learn(rollouts * ROLLOUT, callback=callback, reset_num_timesteps=reset)


@pytest.mark.parametrize(("case", "weight"), [*product(ALONE, [1.0, "auto"]), *product(MIXED, ["auto"])])
def test_resumed_from_a_file_it_is_the_uninterrupted_training(case: str, weight: Any, tmp_path: Path) -> None:
    """The callback that loads the file has another past, which must be forgotten."""
    name, parameters = EVERY[case]
    whole_callback, saved, loaded = (
        IntrinsicRewardCallback(name, weight=weight, normalize="rms", **parameters) for _ in range(3)
    )
    whole = learn(new_model("PPO"), whole_callback, 4, reset=True)
    learn(new_model("PPO", gamma=0.5, learning_rate=0.1), loaded, 1, reset=True)
    parts = learn(new_model("PPO"), saved, 2, reset=True)
    saved.save(tmp_path / "callback")
    loaded.load(tmp_path / "callback")
    learn(parts, loaded, 2)
    assert torch.equal(flat_parameters(whole), flat_parameters(parts))
    one, other = whole_callback.checkpoint(), loaded.checkpoint()
    assert (one.values, set(one.tensors)) == (other.values, set(other.tensors))
    for key, tensor in one.tensors.items():
        torch.testing.assert_close(other.tensors[key], tensor, rtol=0, atol=0, equal_nan=True, msg=key)
