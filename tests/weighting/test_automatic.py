"""The automatic weight against its definition, without any framework."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from revd import make_reward
from revd.weighting.automatic import AutomaticWeight, WeightedAdvantages
from tests.support.rollouts import BOX, DISCRETE
from tests.weighting.naive import GAE_LAMBDA, GAMMA, NaiveWeight, recent_moments

N_STEPS, N_ENVS, SIZE = 7, 3, 64
LENGTHS = [7, 4, 0]


def new_weight(seed: int = 0) -> AutomaticWeight:
    return AutomaticWeight(make_reward("noise", BOX, DISCRETE, n_envs=N_ENVS, seed=seed))


class Numbers:
    """The bonus, embeddings and task's advantages of a rollout."""

    def __init__(self, seed: int, *, bonus: float = 1.0, embeddings: float = 1.0, task: float = 1.0) -> None:
        rng = np.random.default_rng(seed)
        states = rng.normal(size=(N_STEPS + 1, N_ENVS, SIZE)) + 3
        self.bonus = torch.tensor(bonus * (rng.random((N_STEPS, N_ENVS)) + states[:-1, :, 0]), dtype=torch.float32)
        self.embeddings = torch.tensor(embeddings * states, dtype=torch.float32)
        self.task = torch.tensor(task * (0.3 + rng.normal(size=(N_STEPS, N_ENVS))), dtype=torch.float32)


def weigh(
    automatic: AutomaticWeight,
    numbers: Numbers,
    *,
    strength: Any = 0.1,
    extrinsic_weight: float = 1.0,
    valid: Tensor | None = None,
    embeddings: bool = True,
    paid: Tensor | None = None,
) -> WeightedAdvantages:
    return automatic.weigh(
        numbers.bonus,
        numbers.embeddings if embeddings else None,
        numbers.task,
        strength=torch.as_tensor(strength, dtype=torch.float64).expand(N_STEPS, 1),
        extrinsic_weight=extrinsic_weight,
        valid=torch.ones(N_STEPS, N_ENVS, dtype=torch.bool) if valid is None else valid,
        paid=paid,
    )


def pushed(result: WeightedAdvantages, numbers: Numbers) -> Tensor:
    """w A(bonus) over sigma(A(task))."""
    return (result.advantages - numbers.task) / result.numbers["task_deviation"]


def predicted(automatic: AutomaticWeight, embeddings: Tensor, valid: Tensor) -> np.ndarray:
    """V before the critic learns from this rollout, by a copy of it."""
    critic = deepcopy(automatic.critic)
    critic.observe(embeddings[:-1][valid])
    with torch.no_grad():
        return critic(critic.scaled(embeddings)).double().numpy()


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("extrinsic_weight", [1.0, 0.5, 0.0])
def test_the_advantages_of_several_rollouts(extrinsic_weight: float, ragged: bool) -> None:
    automatic, naive = new_weight(), NaiveWeight()
    lengths = LENGTHS if ragged else [N_STEPS] * N_ENVS
    valid = torch.arange(N_STEPS)[:, None] < torch.tensor(lengths)
    strength = 0.1 * 0.9 ** np.arange(N_STEPS)[:, None]
    for seed in range(6):
        numbers = Numbers(seed)
        if ragged:
            # What a padded step holds must not matter; the state after a column's last step follows that step.
            for field in (numbers.bonus, numbers.task):
                field[~valid] = 1e3
        values = predicted(automatic, numbers.embeddings, valid)
        assert (np.abs(values).max() > 1e-3) == (seed > 0)
        found = weigh(automatic, numbers, strength=strength, extrinsic_weight=extrinsic_weight, valid=valid)
        expected = naive.weigh(
            numbers.bonus.double().numpy(),
            values,
            numbers.task.double().numpy(),
            strength=strength,
            extrinsic_weight=extrinsic_weight,
            lengths=lengths,
        )
        chosen = valid.numpy()
        np.testing.assert_allclose(found.advantages.numpy()[chosen], expected[chosen], rtol=1e-3, atol=1e-4)
        assert found.advantages.dtype == torch.float32


def test_the_numbers_for_the_log() -> None:
    automatic, naive = new_weight(), NaiveWeight()
    everywhere = torch.ones(N_STEPS, N_ENVS, dtype=torch.bool)
    for seed in range(3):
        numbers = Numbers(seed)
        task = numbers.task.double().numpy()
        values = predicted(automatic, numbers.embeddings, everywhere)
        strength = np.linspace(0.3, 0.2, N_STEPS)[:, None]
        found = weigh(automatic, numbers, strength=strength, extrinsic_weight=0.5).numbers
        expected = naive.weigh(numbers.bonus.double().numpy(), values, task, strength=strength, extrinsic_weight=0.5)
    own = expected - 0.5 * task
    targets = naive.own[-1] + values[:-1].ravel()
    deviations = recent_moments(naive.task)[1], recent_moments(naive.own)[1]
    assert found == pytest.approx(
        {
            "strength": 0.2,
            "weight": 0.2 * deviations[0] / deviations[1],
            "task_deviation": deviations[0],
            "bonus_deviation": deviations[1],
            "critic_explained_variance": 1 - np.var(naive.own[-1]) / np.var(targets),
            "bonus_share": np.abs(own).sum() / (np.abs(own).sum() + np.abs(0.5 * task).sum()),
        },
        rel=1e-3,
    )


def test_the_sum_runs_over_all_steps_to_the_last() -> None:
    """A bonus at one step raises those before it by gamma lambda for each step in between, and none after it."""
    numbers = Numbers(0)
    numbers.bonus.zero_()
    numbers.bonus[4, 1] = 1.0
    own = pushed(weigh(new_weight(), numbers), numbers)
    paid = (numbers.bonus - numbers.bonus.mean()) / numbers.bonus.std(correction=0)
    scale = own[-1, 0] / paid[-1, 0]
    for step in range(N_STEPS - 1):
        torch.testing.assert_close(own[step], scale * paid[step] + GAMMA * GAE_LAMBDA * own[step + 1])


@pytest.mark.parametrize(
    "scales", [{"bonus": 1000.0}, {"bonus": 1e-6}, {"embeddings": 10.0}, {"task": 1000.0}], ids=str
)
def test_no_scale_matters(scales: dict[str, float]) -> None:
    plain, scaled = new_weight(), new_weight()
    for seed in range(5):
        one, other = Numbers(seed), Numbers(seed, **scales)
        expected, found = pushed(weigh(plain, one), one), pushed(weigh(scaled, other), other)
        torch.testing.assert_close(found, expected, rtol=2e-3, atol=2e-4)
        assert expected.abs().max() > 0.05


def test_an_offset_of_the_bonus_does_not_matter() -> None:
    """It is paid everywhere."""
    plain, raised = new_weight(), new_weight()
    for seed in range(5):
        one, other = Numbers(seed), Numbers(seed)
        other.bonus += 10
        torch.testing.assert_close(
            pushed(weigh(raised, other), other), pushed(weigh(plain, one), one), rtol=2e-3, atol=2e-4
        )


@pytest.mark.parametrize("constant", [0.1, 1.0, -1e5])
def test_a_constant_bonus_changes_nothing(constant: float) -> None:
    automatic = new_weight()
    for seed in range(4):
        numbers = Numbers(seed)
        numbers.bonus.fill_(constant)
        found = weigh(automatic, numbers)
        assert torch.equal(found.advantages, numbers.task)
        assert (found.numbers["weight"], found.numbers["bonus_share"]) == (0, 0)


def test_a_rollout_without_embeddings_pays_nothing() -> None:
    automatic, other = new_weight(), new_weight()
    weigh(automatic, Numbers(0))
    weigh(other, Numbers(0))
    silent = Numbers(1)
    found = weigh(automatic, silent, embeddings=False, paid=torch.zeros(N_STEPS, N_ENVS, dtype=torch.bool))
    assert torch.equal(found.advantages, silent.task)
    assert "critic_explained_variance" not in found.numbers
    other.task_advantages.update(silent.task)
    assert_same(automatic, other)


def test_steps_that_cannot_be_paid_are_neither_better_nor_worse_than_usual() -> None:
    automatic, naive = new_weight(), NaiveWeight()
    everywhere = torch.ones(N_STEPS, N_ENVS, dtype=torch.bool)
    for seed in range(4):
        numbers = Numbers(seed)
        # First nobody is paid, then all but one environment, then steps here and there.
        paid = [~everywhere, everywhere & (torch.arange(N_ENVS) > 0)][seed] if seed < 2 else numbers.bonus > 3
        numbers.bonus[~paid] = 0
        values = predicted(automatic, numbers.embeddings, everywhere) if seed > 0 else None
        found = weigh(automatic, numbers, paid=paid)
        expected = naive.weigh(
            numbers.bonus.double().numpy(),
            values,
            numbers.task.double().numpy(),
            strength=np.full((N_STEPS, 1), 0.1),
            paid=paid.numpy(),
        )
        np.testing.assert_allclose(found.advantages.numpy(), expected, rtol=1e-3, atol=1e-4)


def test_steps_that_do_not_count_are_not_paid() -> None:
    one, other = new_weight(), new_weight()
    valid = torch.arange(N_STEPS)[:, None] < torch.tensor(LENGTHS)
    for seed in range(3):
        numbers = Numbers(seed)
        paid = numbers.bonus > 3
        numbers.bonus[~valid] = 1e3
        found = weigh(one, numbers, valid=valid, paid=paid | ~valid)
        expected = weigh(other, numbers, valid=valid, paid=paid & valid)
        assert torch.equal(found.advantages[valid], expected.advantages[valid])
    assert_same(one, other)


@pytest.mark.parametrize("ragged", [False, True])
def test_the_critic_learns_what_came_after_each_state(ragged: bool) -> None:
    automatic, numbers = new_weight(), Numbers(0)
    valid = torch.arange(N_STEPS)[:, None] < torch.tensor(LENGTHS) if ragged else None
    chosen = torch.ones(N_STEPS, N_ENVS, dtype=torch.bool) if valid is None else valid
    critic = deepcopy(automatic.critic)
    result = weigh(automatic, numbers, strength=1.0, valid=valid)
    scale = result.numbers["task_deviation"] / result.numbers["bonus_deviation"]
    # Nothing is predicted yet, so the targets are the advantages.
    targets = (result.advantages - numbers.task)[chosen] / scale
    critic.observe(numbers.embeddings[:-1][chosen])
    critic.fit(critic.scaled(numbers.embeddings)[:-1][chosen], targets)
    learnt = automatic.critic(automatic.critic.scaled(numbers.embeddings))
    assert learnt.abs().max() > 1e-3
    torch.testing.assert_close(critic(critic.scaled(numbers.embeddings)), learnt, rtol=1e-3, atol=1e-5)


def test_the_critic_learns_the_bonus_still_to_come() -> None:
    """A + V, by loops: that is what V is to predict, not the part that it has missed so far."""
    automatic, naive = new_weight(), NaiveWeight()
    everywhere = torch.ones(N_STEPS, N_ENVS, dtype=torch.bool)
    for seed in range(4):
        numbers = Numbers(seed)
        copied = deepcopy(automatic.critic)
        values = predicted(automatic, numbers.embeddings, everywhere)
        bonus, task = numbers.bonus.double().numpy(), numbers.task.double().numpy()
        naive.weigh(bonus, values, task, strength=np.full((N_STEPS, 1), 0.1))
        targets = torch.tensor(naive.own[-1] + values[:-1].ravel(), dtype=torch.float32)
        weigh(automatic, numbers)
        copied.observe(numbers.embeddings[:-1].flatten(0, 1))
        copied.fit(copied.scaled(numbers.embeddings)[:-1].flatten(0, 1), targets)
        for mine, expected in zip(automatic.critic.layers.parameters(), copied.layers.parameters(), strict=True):
            torch.testing.assert_close(mine, expected, rtol=1e-3, atol=1e-5)
    assert np.abs(values).max() > 0.01


def test_the_critics_weights_follow_from_the_rewards_seed() -> None:
    weights = [new_weight(seed).critic.layers[0].weight for seed in (1, 1, 2)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_a_large_bonus_that_hardly_varies_is_standardised_without_rounding() -> None:
    """In float32 the mean alone would be wrong by a part of its deviation, and the sum gathers that."""
    automatic, naive = new_weight(), NaiveWeight()
    numbers = Numbers(0)
    numbers.bonus.mul_(0.1).add_(1e4)
    found = weigh(automatic, numbers)
    bonus, task = numbers.bonus.double().numpy(), numbers.task.double().numpy()
    expected = naive.weigh(bonus, np.zeros((N_STEPS + 1, N_ENVS)), task, strength=np.full((N_STEPS, 1), 0.1))
    np.testing.assert_allclose(found.advantages.numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("partly_paid", [False, True])
def test_by_default_all_steps_count(partly_paid: bool) -> None:
    default, told = new_weight(), new_weight()
    for seed in range(4):
        numbers = Numbers(seed)
        paid = numbers.bonus > 3 if partly_paid else None
        strength = torch.full((N_STEPS, 1), 0.1, dtype=torch.float64)
        expected = weigh(told, numbers, strength=strength, paid=paid)
        found = default.weigh(
            numbers.bonus, numbers.embeddings, numbers.task, strength=strength, extrinsic_weight=1.0, paid=paid
        )
        assert torch.equal(found.advantages, expected.advantages)
        assert found.numbers == expected.numbers
    assert_same(default, told)


def test_autocast_changes_nothing() -> None:
    plain, under_autocast = new_weight(), new_weight()
    for seed in range(3):
        expected = weigh(plain, Numbers(seed))
        with torch.autocast("cpu", torch.bfloat16):
            found = weigh(under_autocast, Numbers(seed))
        assert torch.equal(found.advantages, expected.advantages)
    assert_same(plain, under_autocast)


def test_a_bonus_that_is_truly_zero_counts() -> None:
    """A rollout in which nothing new was found is worse than usual."""
    automatic = new_weight()
    weigh(automatic, Numbers(0))
    nothing = Numbers(1)
    nothing.bonus.zero_()
    found = weigh(automatic, nothing)
    assert (found.advantages - nothing.task).mean() < 0


def test_the_strength_is_the_share_of_the_tasks_deviation() -> None:
    """In the first rollout both deviations are its own."""
    numbers = Numbers(0)
    for strength in (0.0, 0.1, 0.7):
        own = weigh(new_weight(), numbers, strength=strength).advantages - numbers.task
        assert float(own.std(correction=0) / numbers.task.std(correction=0)) == pytest.approx(strength, rel=1e-4)
    alone = weigh(new_weight(), numbers, strength=0.1, extrinsic_weight=0.0).advantages
    assert float(alone.std(correction=0)) == pytest.approx(1, rel=1e-4)


def test_a_task_without_any_advantage_leaves_nothing_to_follow() -> None:
    numbers = Numbers(0)
    numbers.task.zero_()
    assert not weigh(new_weight(), numbers).advantages.any()


def test_numbers_that_are_undefined_are_left_out() -> None:
    """The variance of a single target is 0."""
    automatic = new_weight()
    weigh(automatic, Numbers(0))
    one = torch.zeros(N_STEPS, N_ENVS, dtype=torch.bool)
    one[0, 0] = True
    numbers = weigh(automatic, Numbers(1), valid=one).numbers
    assert "critic_explained_variance" not in numbers
    assert all(np.isfinite(value) for value in numbers.values())


def assert_same(one: AutomaticWeight, other: AutomaticWeight) -> None:
    mine, theirs = one.state_dict(), other.state_dict()
    assert mine.keys() == theirs.keys()
    for name in mine:
        torch.testing.assert_close(mine[name], theirs[name], rtol=0, atol=0, equal_nan=True, msg=name)


def test_a_loaded_weight_goes_on_bit_by_bit() -> None:
    whole, saved, loaded = new_weight(), new_weight(), new_weight()
    weigh(loaded, Numbers(9))
    for seed in range(6):
        if seed == 3:
            loaded.load_state_dict(saved.state_dict())
        first = weigh(whole, Numbers(seed))
        second = weigh(saved if seed < 3 else loaded, Numbers(seed))
        assert torch.equal(first.advantages, second.advantages)
        assert first.numbers == second.numbers
    assert_same(whole, loaded)
