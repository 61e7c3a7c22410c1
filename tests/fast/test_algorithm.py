"""Files, fallbacks, precision and parameters of a model."""

from __future__ import annotations

import inspect
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from safetensors.torch import save
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.buffers import RolloutBuffer

from revd.fast.buffer import DeviceRolloutBuffer
from revd.sb3 import FastA2C, FastPPO
from revd.training.snapshot import PreRolloutState, restore_snapshot, take_snapshot
from tests.fast.support import CONTINUOUS, FRAMES, VECTOR, build, capturing, noise, parameters

PAIRS = [(PPO, FastPPO), (FastPPO, PPO), (A2C, FastA2C), (FastA2C, A2C), (FastPPO, FastPPO)]


def small(kind: Any) -> dict[str, Any]:
    return {"batch_size": 24, "n_epochs": 2} if issubclass(kind, PPO) else {}


@pytest.mark.parametrize(("writer", "reader"), PAIRS)
@pytest.mark.parametrize("space", [VECTOR, FRAMES], ids=["mlp", "cnn"])
@pytest.mark.parametrize("replayed", [False, True])
def test_a_file_of_one_loads_in_the_other(writer: Any, reader: Any, space: Any, replayed: bool, tmp_path: Path) -> None:
    model = build(writer, noise(space), learning_rate=lambda left: 1e-3 * left, **small(writer))
    if replayed and writer is FastPPO:
        capturing(model)
    model.learn(2 * 48)
    model.save(tmp_path / "model")
    loaded = reader.load(tmp_path / "model", env=noise(space), device="cpu")
    assert type(loaded) is reader
    assert torch.equal(parameters(loaded), parameters(model))
    group = loaded.policy.optimizer.param_groups[0]
    assert type(group["lr"]) is float
    assert group["capturable"] is False
    assert not group.get("fused")
    observation = np.stack([space.sample() for _ in range(3)])
    np.testing.assert_array_equal(
        loaded.predict(observation, deterministic=True)[0], model.predict(observation, deterministic=True)[0]
    )
    loaded.learn(2 * 48)
    assert not torch.equal(parameters(loaded), parameters(model))


def test_saved_files_equal_sb3s() -> None:
    states = []
    for kind in (PPO, FastPPO):
        model = build(kind, noise(FRAMES), **small(kind)).learn(48)
        data = io.BytesIO()
        model.save(data)
        states.append(model.get_parameters())
        assert model.rollout_buffer_class is RolloutBuffer
    theirs, ours = states
    for name, tensor in theirs["policy"].items():
        assert ours["policy"][name].stride() == tensor.stride()
    for index, state in theirs["policy.optimizer"]["state"].items():
        for name, tensor in state.items():
            assert ours["policy.optimizer"]["state"][index][name].stride() == tensor.stride()
    assert str(ours["policy.optimizer"]["param_groups"]) == str(theirs["policy.optimizer"]["param_groups"])


def test_set_parameters_restores_the_whole_network() -> None:
    model = build(FastPPO, noise(FRAMES), **small(FastPPO)).learn(48)
    before, given = parameters(model).clone(), model.get_parameters()
    model.learn(48)
    assert not torch.equal(parameters(model), before)
    model.set_parameters(given)
    assert torch.equal(parameters(model), before)


def test_moments_from_a_file_of_sb3_take_our_layout() -> None:
    theirs = build(PPO, noise(FRAMES), **small(PPO)).learn(48)
    ours = build(FastPPO, noise(FRAMES), **small(PPO))
    ours.set_parameters(theirs.get_parameters())
    ours.learn(48)
    for parameter, state in ours.policy.optimizer.state.items():
        assert state["exp_avg"].stride() == parameter.stride()


@pytest.mark.parametrize("replayed", [False, True])
def test_either_algorithm_resumes_a_checkpoint(replayed: bool) -> None:
    model = build(FastPPO, noise(FRAMES), **small(PPO))
    if replayed:
        capturing(model)
    model.learn(2 * 48)
    tensors, values = take_snapshot(model, None, None, PreRolloutState.of_model(model, {}), sessions=0)
    save({name: tensor.clone() for name, tensor in tensors.items()})
    for kind in (PPO, FastPPO):
        other = build(kind, noise(FRAMES), seed=9, **small(PPO))
        restore_snapshot((tensors, values), other, None, None)
        assert torch.equal(parameters(other), parameters(model))
        assert other.policy.optimizer.param_groups[0]["capturable"] is False
        other.learn(48)


def test_loaded_parameters_are_captured_again() -> None:
    model = build(FastPPO, noise(), batch_size=12, n_epochs=2)
    recorder = capturing(model)
    model.learn(48)
    captures = recorder.log.count("capture")
    model.set_parameters(build(FastPPO, noise(), seed=8, batch_size=12, n_epochs=2).learn(48).get_parameters())
    model.learn(48)
    # The parameters keep their addresses, so acting needs no new capture; the optimiser's moments do not.
    assert recorder.log.count("capture") == captures + 1
    model.ent_coef, model.learning_rate = 0.1, 1e-4
    model.learn(48)
    assert recorder.log.count("capture") == captures + 1
    model.max_grad_norm = 0.1
    model.learn(48)
    assert recorder.log.count("capture") == captures + 2


@pytest.mark.parametrize(("kind", "theirs"), [(FastPPO, PPO), (FastA2C, A2C)])
def test_the_signature_adds_two_parameters_to_sb3s(kind: Any, theirs: Any) -> None:
    ours = inspect.signature(kind).parameters
    assert list(ours) == [*inspect.signature(theirs).parameters, "tf32", "overlap"]
    assert ours["learning_rate"].default == inspect.signature(theirs).parameters["learning_rate"].default


class OwnBuffer(RolloutBuffer):
    """A user's."""


@pytest.mark.parametrize("kind", [FastPPO, FastA2C])
def test_with_a_buffer_of_the_users_it_is_sb3s_algorithm(kind: Any, capsys: pytest.CaptureFixture[str]) -> None:
    model = build(kind, noise(), rollout_buffer_class=OwnBuffer, verbose=1, **small(kind))
    before = parameters(model)
    model.learn(48)
    assert type(model.rollout_buffer) is OwnBuffer
    assert not torch.equal(parameters(model), before)
    assert capsys.readouterr().out.count("is SB3's own with a rollout_buffer_class") == 1


def test_a_cpu_is_mentioned_with_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    build(FastPPO, noise(), verbose=1, **small(PPO)).learn(2 * 48)
    assert capsys.readouterr().out.count("FastPPO runs without CUDA graphs: the policy is on the cpu") == 1
    build(FastPPO, noise(), **small(PPO))
    assert "CUDA graphs" not in capsys.readouterr().out


DICT = spaces.Dict({"camera": FRAMES, "place": VECTOR})
OBSTACLES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "gSDE resamples its noise": (VECTOR, CONTINUOUS, {"use_sde": True, "sde_sample_freq": 4}),
    "observations are dictionaries": (DICT, CONTINUOUS, {}),
    "SGD cannot be captured": (VECTOR, CONTINUOUS, {"policy_kwargs": {"optimizer_class": torch.optim.SGD}}),
}


@pytest.mark.parametrize("reason", OBSTACLES)
def test_models_that_cannot_be_captured_give_the_reason_and_learn(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    observed, acted, options = OBSTACLES[reason]
    model = build(FastPPO, noise(observed, acted), **small(PPO), **options)
    assert isinstance(model.rollout_buffer, DeviceRolloutBuffer)
    before = parameters(model)
    model.learn(48)
    assert not torch.equal(parameters(model), before)
    monkeypatch.setattr(model, "device", torch.device("cuda"))
    obstacle = model._capture_obstacle()
    assert obstacle is not None
    assert reason in obstacle
    with pytest.warns(UserWarning, match=reason):
        model._notify(obstacle)


def test_plain_policies_can_be_captured_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(FastA2C, noise())
    monkeypatch.setattr(model, "device", torch.device("cuda"))
    assert model._capture_obstacle() is None


@pytest.mark.parametrize("tf32", [None, True, False])
def test_tf32_is_set_only_while_training(tf32: bool | None) -> None:
    def settings() -> tuple[bool, bool]:
        return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32

    seen = []
    before = settings()
    model = build(FastPPO, noise(FRAMES), tf32=tf32, **small(PPO))
    model._update._graphed_step._function = lambda rows: seen.append(settings())  # type: ignore[assignment]
    model._update.statistics = lambda: np.zeros((1, 6))  # type: ignore[method-assign]
    model.learn(48, callback=lambda *_: seen.append(settings()) or True)
    assert len(seen) == 16 + 4
    assert set(seen) == {before if tf32 is None else (tf32, tf32)}
    assert settings() == before


def test_captured_updates_raise_for_statistics_that_are_not_finite() -> None:
    model = build(FastPPO, noise(), batch_size=48, n_epochs=1)
    capturing(model)
    with torch.no_grad():
        model.policy.value_net.bias.fill_(torch.nan)
    with pytest.raises(ValueError, match=r"not finite.*'value_loss': .*nan"):
        model.learn(48)


class WithOwnTrain(FastPPO):
    """A user's subclass with a loop like SB3's."""

    def train(self) -> None:
        PPO.train(self)


def test_a_train_like_sb3s_reads_the_buffer_on_the_device() -> None:
    learnt = []
    for kind in (FastPPO, WithOwnTrain):
        model = build(kind, noise(FRAMES), **small(PPO))
        with pytest.MonkeyPatch.context() as patch:
            if kind is WithOwnTrain:
                # SB3's own report at the end takes arrays.
                patch.setattr("stable_baselines3.ppo.ppo.explained_variance", lambda *_: 0.0)
            learnt.append(parameters(model.learn(48)))
    assert torch.equal(*learnt)


@pytest.mark.parametrize("target_kl", [None, 10.0])
@pytest.mark.parametrize("replayed", [False, True])
def test_layers_that_are_frozen_stay_as_they_are(target_kl: float | None, replayed: bool) -> None:
    model = build(FastPPO, noise(), batch_size=12, n_epochs=2, target_kl=target_kl)
    if replayed:
        capturing(model)
    model.learn(2 * 48)
    frozen = model.policy.mlp_extractor.policy_net
    for parameter in frozen.parameters():
        parameter.requires_grad_(False)
    before = [parameter.detach().clone() for parameter in frozen.parameters()]
    moved = model.policy.action_net.weight.detach().clone()
    model.learn(2 * 48)
    for parameter, was in zip(frozen.parameters(), before, strict=True):
        assert torch.equal(parameter, was)
    assert not torch.equal(model.policy.action_net.weight, moved)


def test_an_optimiser_without_state_warms_up_before_it_is_captured() -> None:
    model = build(FastPPO, noise(), batch_size=12, n_epochs=2)
    recorder = capturing(model)
    model.learn(2 * 48)
    model.set_parameters(build(FastPPO, noise(), seed=8, batch_size=12, n_epochs=2).get_parameters())
    recorder.log.clear()
    model.learn(48)
    assert model.policy.optimizer.state
    update = recorder.log[recorder.log.index("warm-up") :]
    assert update[:4] == ["warm-up"] * 3 + ["capture"]


def test_a_subclass_with_a_constructor_of_its_own_keeps_its_signature() -> None:
    class Mine(FastPPO):
        def __init__(self, policy: Any, env: Any, beta: float = 1.0, **keywords: Any) -> None:
            super().__init__(policy, env, **keywords)

    class Plain(FastPPO):
        pass

    class Below(Mine):
        pass

    for kind in (Mine, Below):
        assert list(inspect.signature(kind).parameters) == ["policy", "env", "beta", "keywords"]
    assert {"n_steps", "tf32"} <= set(inspect.signature(Plain).parameters)
