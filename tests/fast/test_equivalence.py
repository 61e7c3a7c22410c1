"""Same weights, same rollout, same minibatches: the same update as SB3's."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import A2C, PPO
from torch import Tensor

from revd.fast.actor_critic import FastActorCritic
from revd.fast.losses import PPOObjective
from revd.sb3 import FastA2C, FastPPO
from revd.training.policies import PaperCnnPolicy
from tests.fast.support import (
    CONTINUOUS,
    DISCRETE,
    FRAMES,
    VECTOR,
    build,
    capturing,
    collect,
    copy_rollout,
    distance,
    noise,
    parameters,
    update,
)

pytestmark = pytest.mark.filterwarnings("ignore:You have specified a mini-batch size")
#: For models on the CPU, whose tensors only Triton's interpreter takes.
on_cpu = pytest.mark.skipif(torch.cuda.is_available(), reason="on a GPU the kernels themselves are tested")

NETWORKS: dict[str, dict[str, Any]] = {
    "mlp": {"policy": "MlpPolicy"},
    "mlp, shared": {"policy": "MlpPolicy", "policy_kwargs": {"net_arch": []}},
    "cnn, shared": {"policy": "CnnPolicy"},
    "cnn, separate": {"policy": "CnnPolicy", "policy_kwargs": {"share_features_extractor": False}},
    "cnn, batch norm": {"policy": PaperCnnPolicy, "policy_kwargs": {"batch_norm": "train"}},
}
UPDATES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "PPO": (PPO, FastPPO, {}),
    "PPO, values clipped": (PPO, FastPPO, {"clip_range_vf": 0.02, "normalize_advantage": False}),
    "A2C, RMSprop": (A2C, FastA2C, {"use_rms_prop": True}),
    "A2C, Adam": (A2C, FastA2C, {"use_rms_prop": False, "normalize_advantage": True}),
}


def triple(update_name: str, network: str, action_space: Any, **options: Any) -> tuple[Any, Any, Any, Tensor]:
    """SB3's model, ours, SB3's in channels_last: with the same weights and the same rollout; and those weights."""
    theirs, ours, changed = UPDATES[update_name]
    arguments = {**NETWORKS[network], **changed, **options, "ent_coef": 0.01}
    if "policy_kwargs" in arguments:
        # A2C writes its optimiser into it.
        arguments["policy_kwargs"] = dict(arguments["policy_kwargs"])
    space = VECTOR if network.startswith("mlp") else FRAMES
    reference, fast, rearranged = (
        build(kind, noise(space, action_space), **arguments) for kind in (theirs, ours, theirs)
    )
    rearranged.policy.to(memory_format=torch.channels_last)
    start = parameters(reference)
    assert torch.equal(parameters(fast), start)
    collect(reference)
    for model in (fast, rearranged):
        copy_rollout(reference, model)
    return reference, fast, rearranged, start


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("name", UPDATES)
@pytest.mark.parametrize("action_space", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])
def test_one_gradient_step_is_sb3s(name: str, network: str, action_space: Any) -> None:
    one = {"batch_size": 48, "n_epochs": 1} if name.startswith("PPO") else {}
    reference, fast, rearranged, start = triple(name, network, action_space, **one)
    for model in (reference, fast, rearranged):
        update(model)
    assert (parameters(fast) - parameters(reference)).norm() <= 1e-5 * parameters(reference).norm()
    # BatchNorm takes the gradient from the biases before it: Adam then follows the sign of rounding errors.
    # In another layout, rounding can also move a unit across a ReLU's zero. So SB3's model has the layout of ours.
    assert distance(fast, rearranged, start) < (5e-5 if "batch norm" in network else 1e-5)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("name", UPDATES)
@pytest.mark.parametrize("action_space", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])
def test_a_whole_update_is_as_near_to_sb3s_as_sb3_in_channels_last(name: str, network: str, action_space: Any) -> None:
    # 48 steps: the last minibatch of each epoch is shorter.
    several = {"batch_size": 20, "n_epochs": 4} if name.startswith("PPO") else {}
    reference, fast, rearranged, start = triple(name, network, action_space, **several)
    for model in (reference, fast, rearranged):
        update(model)
    assert distance(fast, reference, start) <= 2 * distance(rearranged, reference, start)
    for ours, theirs in zip(fast.policy.buffers(), rearranged.policy.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-7)
    theirs, ours = (model.logger.name_to_value for model in (reference, fast))
    assert ours.keys() == theirs.keys()
    for key, value in theirs.items():
        assert ours[key] == pytest.approx(value, rel=1e-4, abs=1e-6), key


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("target_kl", [None, 1.0], ids=["one graph", "two graphs"])
def test_replayed_steps_are_sb3s_too(network: str, target_kl: float | None) -> None:
    """All but the capture of a GPU's path: warm-ups, static inputs, Adam's capturable and fused form."""
    several = {"batch_size": 20, "n_epochs": 4, "target_kl": target_kl}
    _, fast, rearranged, start = triple("PPO", network, DISCRETE, **several)
    recorder = capturing(fast)
    for order in range(2):
        for model in (rearranged, fast):
            update(model, order)
    # 12 minibatches an update: full ones and the shorter last ones are captured each, and once; halves likewise.
    assert recorder.log.count("capture") == (2 if target_kl is None else 3)
    assert distance(fast, rearranged, start) < 5e-6
    if target_kl is not None:
        # One graph writes the gradients that the other reads.
        kept = [gradient.data_ptr() for gradient in fast._update._kept_gradients.values()]
        assert [parameter.grad.data_ptr() for parameter in fast.policy.parameters()] == kept


@on_cpu
@pytest.mark.parametrize("target_kl", [None, 1.0], ids=["one graph", "two graphs"])
@pytest.mark.parametrize("clip_range_vf", [None, 0.1], ids=["values free", "values clipped"])
@pytest.mark.parametrize("network", ["mlp", "cnn, shared", "cnn, separate"])
def test_steps_with_our_kernels_are_sb3s_too(
    monkeypatch: pytest.MonkeyPatch,
    target_kl: float | None,
    clip_range_vf: float | None,
    network: str,
) -> None:
    """The kernels for PPO with discrete actions and Adam, in Triton's interpreter."""
    pytest.importorskip("triton", reason="Triton is not made for this system")
    from revd.fast import clipped_adam, discrete_ppo

    monkeypatch.setattr("revd.fast.update.triton_works", lambda device: True)
    # Triton's interpreter takes a program after the other: fewer of them, with more to do.
    monkeypatch.setattr(clipped_adam, "BLOCK", 2**16)
    calls = {}
    for module, name in ((clipped_adam, "step"), (discrete_ppo, "loss_gradients")):
        calls[module] = Mock(wraps=getattr(module, name))
        monkeypatch.setattr(module, name, calls[module])
    several = {"batch_size": 20, "n_epochs": 2, "target_kl": target_kl, "clip_range_vf": clip_range_vf}
    schedules = {"clip_range": lambda left: 0.02 * left, "learning_rate": lambda left: 1e-3 * left}
    reference, fast, rearranged, start = triple("PPO", network, DISCRETE, **several, **schedules)
    capturing(fast)
    fast._update._actor_critic = actor_critic = FastActorCritic(fast.policy)
    actor_critic._discrete = True
    for order in range(2):
        for model in (reference, rearranged, fast):
            model._current_progress_remaining = 1 - order / 2
            update(model, order)
        assert 0.02 < fast.logger.name_to_value["train/clip_fraction"] < 0.98
    assert calls[clipped_adam].call_count == 11, "Adam's first step creates its state"
    assert calls[discrete_ppo].call_count == 12
    assert distance(fast, rearranged, start) < max(5e-6, 2 * distance(reference, rearranged, start))
    theirs, ours = (model.logger.name_to_value for model in (rearranged, fast))
    for key, value in theirs.items():
        assert ours[key] == pytest.approx(value, rel=1e-4, abs=1e-6), key


@on_cpu
@pytest.mark.parametrize("frozen", ["policy", "value"])
def test_our_kernels_leave_frozen_parameters_unchanged(monkeypatch: pytest.MonkeyPatch, frozen: str) -> None:
    pytest.importorskip("triton", reason="Triton is not made for this system")
    monkeypatch.setattr("revd.fast.update.triton_works", lambda device: True)
    network = next(name for name in NETWORKS if "mlp" in name)
    _, fast, rearranged, start = triple("PPO", network, DISCRETE, batch_size=20, n_epochs=1)
    capturing(fast)
    fast._update._actor_critic = actor_critic = FastActorCritic(fast.policy)
    actor_critic._discrete = True
    head = {"policy": "action_net", "value": "value_net"}[frozen]
    for model in (fast, rearranged):
        for name, parameter in model.policy.named_parameters():
            parameter.requires_grad_(not name.startswith((head, f"mlp_extractor.{frozen}_net")))
        update(model)
    assert not torch.equal(parameters(fast), start)
    assert distance(fast, rearranged, start) < 5e-6


PLACES = spaces.Dict({"place": VECTOR, "level": spaces.Discrete(5)})


@pytest.mark.parametrize(("theirs", "ours"), [(PPO, FastPPO), (A2C, FastA2C)])
@pytest.mark.parametrize("space", [VECTOR, FRAMES, PLACES], ids=["mlp", "cnn", "dict"])
@pytest.mark.parametrize("action_space", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])
def test_equal_seeds_learn_the_same_to_the_last_bit(theirs: Any, ours: Any, space: Any, action_space: Any) -> None:
    """Actions, values, bootstraps, advantages, minibatches, schedules over several rollouts."""
    arguments: dict[str, Any] = {"learning_rate": lambda left: 1e-3 * left}
    if theirs is PPO:
        arguments |= {"batch_size": 24, "n_epochs": 2, "clip_range": lambda left: 0.1 + 0.1 * left}
    learnt = []
    for kind in (theirs, ours):
        model = build(kind, noise(space, action_space), **arguments)
        model.policy.to(memory_format=torch.channels_last)
        learnt.append(parameters(model.learn(4 * 48)))
    assert torch.equal(*learnt)


def test_target_kl_ends_the_update_where_sb3s_ends() -> None:
    options = {"batch_size": 16, "n_epochs": 6, "learning_rate": 0.02, "target_kl": 0.01, "verbose": 1}
    reference, fast, _, start = triple("PPO", "mlp", DISCRETE, **options)
    for model in (reference, fast):
        update(model)
    assert reference._n_updates == fast._n_updates < 6
    assert distance(fast, reference, start) == 0
    for key, value in reference.logger.name_to_value.items():
        assert fast.logger.name_to_value[key] == pytest.approx(value, rel=1e-5), key


@pytest.mark.parametrize(("share", "ends_early"), [(1 / 1.25, False), (1 / 1.6, True)], ids=["below", "above"])
def test_the_update_stops_at_one_and_a_half_times_target_kl(share: float, ends_early: bool) -> None:
    options = {"batch_size": 16, "n_epochs": 6, "learning_rate": 0.02}
    _, free, _, _ = triple("PPO", "mlp", DISCRETE, **options)
    update(free)
    divergences = free._update.statistics()[:, PPOObjective.statistics.index("approx_kl")]
    assert len(divergences) == 6 * 3
    target_kl = share * float(divergences.max())
    reference, fast, _, start = triple("PPO", "mlp", DISCRETE, **options, target_kl=target_kl)
    for model in (reference, fast):
        update(model)
    over = (divergences > 1.5 * target_kl).nonzero()[0]
    assert bool(len(over)) == ends_early
    assert len(fast._update.statistics()) == (over[0] + 1 if ends_early else len(divergences))
    assert distance(fast, reference, start) == 0


@pytest.mark.parametrize("kinds", [(PPO, FastPPO), (A2C, FastA2C)])
def test_actions_in_float64_train_as_with_sb3(kinds: tuple[Any, Any]) -> None:
    actions = spaces.Box(-1, 1, (2,), np.float64)
    theirs, ours = (parameters(build(kind, noise(VECTOR, actions)).learn(96)) for kind in kinds)
    assert torch.equal(theirs, ours)
