"""SB3's MLP policy without autograd: the same training as SB3's, to the last bit."""

from __future__ import annotations

import copy
import io
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import A2C, PPO

from revd.fast.mlp_update import MlpUpdate
from revd.sb3 import FastA2C, FastPPO
from tests.fast.support import CONTINUOUS, DISCRETE, FRAMES, VECTOR, build, collect, noise, parameters, update

pytestmark = pytest.mark.filterwarnings("ignore:You have specified a mini-batch size")

BYTES = spaces.Box(0, 255, (2, 3), np.uint8)
PPO_CASES: dict[str, dict[str, Any]] = {
    "all minibatches full": {"batch_size": 16},
    "a last minibatch of eight": {"batch_size": 20},
    "a last minibatch of one": {"batch_size": 47},
    "one step": {"batch_size": 48, "n_epochs": 1},
    "entropy": {"ent_coef": 0.02},
    "advantages as they are": {"normalize_advantage": False},
    "values clipped": {"clip_range_vf": 0.01},
    "schedules": {"learning_rate": lambda left: 1e-3 * left, "clip_range": lambda left: 0.01 + 0.1 * left},
    "gradients clipped": {"max_grad_norm": 0.01, "vf_coef": 3.0},
    "weight decay": {"policy_kwargs": {"optimizer_kwargs": {"weight_decay": 0.1}}},
    "AdamW": {"policy_kwargs": {"optimizer_class": torch.optim.AdamW}},
    "linear": {"policy_kwargs": {"net_arch": []}},
    "odd layers": {"policy_kwargs": {"net_arch": {"pi": [7], "vf": [33, 5, 1]}}},
    "two extractors": {"policy_kwargs": {"share_features_extractor": False}},
}
A2C_CASES: dict[str, dict[str, Any]] = {
    "RMSprop": {"ent_coef": 0.02},
    "Adam": {"use_rms_prop": False},
    "advantages standardised": {"normalize_advantage": True},
}


def trained(kind: Any, space: Any, action_space: Any, **arguments: Any) -> Any:
    """A model after four rollouts."""
    if issubclass(kind, PPO):
        arguments = {"batch_size": 20, "n_epochs": 3, **arguments}
    if "policy_kwargs" in arguments:
        # A2C writes its optimiser into it.
        arguments["policy_kwargs"] = dict(arguments["policy_kwargs"])
    return build(kind, noise(space, action_space), policy="MlpPolicy", **arguments).learn(4 * 48)


def check_equal(ours: Any, theirs: Any) -> None:
    """Compare parameters, gradients, the optimiser's state and the logs of two models."""
    assert isinstance(ours._update, MlpUpdate)
    assert torch.equal(parameters(ours), parameters(theirs))
    for our, their in zip(ours.policy.parameters(), theirs.policy.parameters(), strict=True):
        assert torch.equal(our.grad, their.grad)
    our_state, their_state = ours.policy.optimizer.state_dict(), theirs.policy.optimizer.state_dict()
    assert str(our_state["param_groups"]) == str(their_state["param_groups"])
    for index, moments in their_state["state"].items():
        assert our_state["state"][index].keys() == moments.keys()
        for name, value in moments.items():
            assert torch.equal(our_state["state"][index][name], value), (index, name)
    ours.logger.name_to_value.pop("time/fps", None)
    for name, value in theirs.logger.name_to_value.items():
        if name.startswith("train/"):
            assert ours.logger.name_to_value[name] == pytest.approx(value, rel=1e-4, abs=1e-6), name


@pytest.mark.parametrize("case", PPO_CASES)
@pytest.mark.parametrize("action_space", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])
def test_ppo_equals_sb3s(case: str, action_space: Any) -> None:
    ours, theirs = (trained(kind, VECTOR, action_space, **PPO_CASES[case]) for kind in (FastPPO, PPO))
    check_equal(ours, theirs)


@pytest.mark.parametrize("case", A2C_CASES)
@pytest.mark.parametrize("action_space", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])
def test_a2c_equals_sb3s(case: str, action_space: Any) -> None:
    ours, theirs = (trained(kind, VECTOR, action_space, **A2C_CASES[case]) for kind in (FastA2C, A2C))
    check_equal(ours, theirs)


@pytest.mark.parametrize(
    "space", [BYTES, FRAMES, spaces.Box(-1, 1, (2, 3), np.float64)], ids=["bytes", "images", "f64"]
)
def test_other_observations(space: Any) -> None:
    ours, theirs = (trained(kind, space, DISCRETE) for kind in (FastPPO, PPO))
    check_equal(ours, theirs)


@pytest.mark.parametrize("writer", [PPO, FastPPO])
def test_a_training_goes_on_from_a_file_as_sb3s_does(writer: Any) -> None:
    file = io.BytesIO()
    trained(writer, VECTOR, CONTINUOUS).save(file)
    models = []
    for kind in (FastPPO, PPO):
        file.seek(0)
        model = kind.load(file, env=noise(VECTOR, CONTINUOUS), device="cpu")
        model.set_random_seed(5)
        models.append(model.learn(2 * 48))
    check_equal(*models)


def test_parameters_that_are_set_between_updates_are_used() -> None:
    given = trained(PPO, VECTOR, DISCRETE, learning_rate=1e-2).get_parameters()
    models = [trained(kind, VECTOR, DISCRETE) for kind in (FastPPO, PPO)]
    for model in models:
        model.set_random_seed(5)
        # Adam steps the given moments themselves, in SB3 too.
        model.set_parameters(copy.deepcopy(given))
        model.learn(48)
    check_equal(*models)


def test_a_learning_rate_of_each_update_is_used() -> None:
    models = []
    for kind in (FastPPO, PPO):
        model = trained(kind, VECTOR, DISCRETE)
        model.lr_schedule = lambda left: 0.5
        models.append(model.learn(48))
    check_equal(*models)


def test_equal_statistics_however_many_epochs_are_summarised_at_once() -> None:
    model = trained(FastPPO, VECTOR, DISCRETE, n_epochs=5)
    statistics = model._update.statistics()
    assert statistics.shape == (15, 6)
    assert len(model._update._statistics) == 5


def test_a_policy_that_is_not_finite_ends_the_update() -> None:
    model = build(FastPPO, noise(), batch_size=20, n_epochs=2)
    collect(model)
    model._buffer.stored.returns[3, 1] = torch.nan
    with pytest.raises(ValueError, match="log-probabilities that are not a number"):
        update(model)
    # As in SB3, whose next minibatch fails, the ruined parameters are the policy's.
    assert not torch.isfinite(parameters(model)).all()


def test_a_policy_that_is_not_finite_raises_sb3s_error_when_it_acts() -> None:
    for action_space in (DISCRETE, CONTINUOUS):
        errors = []
        for kind in (PPO, FastPPO):
            model = build(kind, noise(VECTOR, action_space))
            with torch.no_grad():
                model.policy.action_net.bias[1] = torch.nan
            with pytest.raises(ValueError, match="Expected parameter") as error:
                model.learn(48)
            errors.append(str(error.value))
        assert errors[0] == errors[1]
