"""The base class of rewards that train models."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from revd import Rollout
from revd.rewards import RIDE
from revd.rewards.saved_state import check_saved_parameters
from revd.rewards.trained import Minibatch, TrainedReward
from tests.support.rollouts import BOX, DISCRETE, Shape, changed, make_rollout, make_rollouts


class Recorder(TrainedReward):
    """Notes what it is trained on."""

    def build(self, generator: torch.Generator) -> None:
        self.model = nn.Linear(3, 1, bias=False)
        nn.init.normal_(self.model.weight, generator=generator)
        self.seen: list[Minibatch] = []
        self.drawn: list[float] = []

    def bonus(self, rollout: Rollout) -> Tensor:
        return torch.ones(rollout.n_steps, rollout.n_envs)

    def losses(self, batch: Minibatch) -> dict[str, Tensor]:
        self.seen.append(batch)
        self.drawn.append(float(torch.rand((), generator=batch.generator)))
        outputs = self.model(batch.observations)
        return {"square": outputs.square().mean(), "size": outputs.abs().mean()}


def make(**parameters: Any) -> Recorder:
    return Recorder(BOX, DISCRETE, 2, **{"embedding_size": 4, "batch_size": 5} | parameters)


def rows(reward: Recorder) -> list[int]:
    return torch.cat([batch.rows for batch in reward.seen]).tolist()


@pytest.mark.parametrize("fraction", [1.0, 0.5, 0.3, 1e-9])
def test_a_fraction_of_the_transitions_is_trained_on_once(fraction: float) -> None:
    reward = make(update_fraction=fraction)
    reward.update(make_rollout(0))
    expected = max(1, math.ceil(fraction * 16))
    assert len(rows(reward)) == len(set(rows(reward))) == expected
    assert max(map(len, reward.seen)) <= 5


def test_a_minibatch_holds_whole_transitions() -> None:
    reward = make()
    rollout = changed(make_rollout(0), lengths=[5, 8])
    reward.update(rollout)
    steps = [(t, env) for t in range(8) for env in range(2) if t < [5, 8][env]]
    assert sorted(rows(reward)) == list(range(13))
    for batch in reward.seen:
        for i, row in enumerate(batch.rows):
            where = steps[row]
            assert torch.equal(batch.observations[i], rollout.observations[where])  # type: ignore[index]
            assert torch.equal(batch.successors[i], rollout.next_observations[where])  # type: ignore[index]
            assert torch.equal(batch.actions[i], torch.eye(4)[int(rollout.actions[where])])


def test_order_and_draws_depend_on_seed_and_number_of_updates() -> None:
    reward, equal, other = make(), make(), make(seed=7)
    for each in (reward, equal, other):
        for rollout in make_rollouts(0, 2):
            each.update(rollout)
    assert (rows(reward), reward.drawn) == (rows(equal), equal.drawn)
    assert rows(reward) != rows(other)
    assert rows(reward)[:16] != rows(reward)[16:]
    assert len(set(reward.drawn)) == len(reward.drawn)


def test_the_losses_are_means_over_what_was_trained() -> None:
    reward = make(learning_rate=1e-15)
    losses = reward.update(make_rollout(0))
    outputs = reward.model(make_rollout(0).observations).detach()
    assert losses == pytest.approx({"square": float(outputs.square().mean()), "size": float(outputs.abs().mean())})


def test_the_step_is_adams_on_the_sum_of_the_losses() -> None:
    reward = make(batch_size=100, learning_rate=0.01)
    weight = nn.Parameter(reward.model.weight.detach().clone())
    adam = torch.optim.Adam([weight], lr=0.01)
    for rollout in make_rollouts(0, 3):
        outputs = rollout.observations.flatten(0, 1) @ weight.T  # type: ignore[union-attr]
        adam.zero_grad()
        (outputs.square().mean() + outputs.abs().mean()).backward()
        adam.step()
        reward.update(rollout)
    torch.testing.assert_close(reward.model.weight, weight)


def test_a_resumed_training_continues_exactly() -> None:
    reward, resumed = make(update_fraction=0.5), make(update_fraction=0.5)
    first, second = make_rollouts(0, 2)
    reward.update(first)
    resumed.load_state_dict(copy.deepcopy(reward.state_dict()))
    assert reward.update(second) == resumed.update(second)
    assert torch.equal(reward.model.weight, resumed.model.weight)
    assert rows(reward)[8:] == rows(resumed)


def test_parameters_without_a_gradient_are_not_trained() -> None:
    reward = make()
    before = [parameter.clone() for parameter in reward.encoder.parameters()]
    assert reward.adam.size == 1
    reward.update(make_rollout(0))
    assert all(torch.equal(*pair) for pair in zip(before, reward.encoder.parameters(), strict=True))


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_stops_before_the_step(loss: float) -> None:
    reward = make()
    weight = reward.model.weight.detach().clone()
    reward.losses = lambda batch: {"bad": reward.model(batch.observations).sum() * loss}  # type: ignore[method-assign]
    with pytest.raises(ValueError, match=r"bad of Recorder is (nan|inf|-inf): its models diverge; lower learning_rate"):
        reward.update(make_rollout(0))
    assert torch.equal(reward.model.weight, weight)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("update_fraction", 0.0), ("update_fraction", 1.1), ("batch_size", 0), ("learning_rate", 0.0)],
)
def test_parameters_out_of_range(parameter: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"^{parameter} must be .+, got {value}"):
        make(**{parameter: value})


def test_adams_state_keeps_its_numbers_in_older_checkpoints_of_ride() -> None:
    """Forward model, inverse model and encoder, in this order: files of earlier versions number them so."""
    reward = RIDE(BOX, DISCRETE, 2, embedding_size=4)
    models = [reward.forward_model, reward.inverse_model, reward.encoder]
    shapes = [parameter.shape for model in models for parameter in model.parameters()]  # type: ignore[union-attr]
    assert [getattr(reward.adam, f"exp_avg_{i}").shape for i in range(reward.adam.size)] == shapes
    assert {name.split(".")[0] for name in reward.state_dict()} == {
        *("calls", "bonus_moments", "encoder", "forward_model", "inverse_model", "adam", "memory", "mean_square"),
        "updates",
    }


def test_a_checkpoint_from_before_a_parameter_was_there_fits_what_was_used() -> None:
    saved = {"embedding_size": 128, "learning_rate": 3e-4}
    check_saved_parameters("RIDE", RIDE(BOX, DISCRETE, 2, update_fraction=1.0).config, saved)
    with pytest.raises(ValueError, match=r"update_fraction was 1\.0, here it is 0\.25"):
        check_saved_parameters("RIDE", RIDE(BOX, DISCRETE, 2).config, saved)


def test_ride_trains_step_by_step_as_written_here() -> None:
    reward, twin = (RIDE(BOX, DISCRETE, 2, embedding_size=4, batch_size=7, update_fraction=1.0) for _ in range(2))
    parameters = [
        parameter
        for model in (twin.forward_model, twin.inverse_model, twin.encoder)
        for parameter in model.parameters()
    ]
    adam = torch.optim.Adam(parameters, lr=3e-4)
    for number, rollout in enumerate(make_rollouts(0, 2, Shape())):
        reward.update(rollout)
        order = torch.randperm(16, generator=torch.Generator().manual_seed(number))
        actions = nn.functional.one_hot(rollout.actions.flatten().long(), 4).float()
        for index in order.split(7):
            phi, phi_next = (
                twin.encoder(states.flatten(0, 1)[index])  # type: ignore[union-attr]
                for states in (rollout.observations, rollout.next_observations)
            )
            errors = twin.forward_model(torch.cat([phi, actions[index]], dim=-1)) - phi_next
            guess = twin.inverse_model(torch.cat([phi, phi_next], dim=-1))
            losses = [errors.norm(dim=-1).mean(), nn.functional.cross_entropy(guess, actions[index])]
            adam.zero_grad()
            torch.stack(losses).sum().backward()
            adam.step()
    for name, value in twin.named_parameters():
        torch.testing.assert_close(reward.get_parameter(name), value, rtol=0, atol=1e-6)
