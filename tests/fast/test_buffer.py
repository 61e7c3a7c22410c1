"""The rollout on the device holds what SB3's buffer holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback

from revd.fast.buffer import DeviceRolloutBuffer
from revd.sb3 import FastPPO
from tests.fast.support import (
    CONTINUOUS,
    DISCRETE,
    FRAMES,
    VECTOR,
    array,
    build,
    collect,
    copy_rollout,
    noise,
    parameters,
)

OBSERVATIONS: dict[str, spaces.Space[Any]] = {
    "vector": VECTOR,
    "frames": FRAMES,
    "float64": spaces.Box(-1, 1, (2, 2), np.float64),
    "discrete": spaces.Discrete(7),
    "uint16": spaces.Box(0, 60_000, (3,), np.uint16),
    "multi-binary": spaces.MultiBinary(4),
    "dict": spaces.Dict({"camera": FRAMES, "place": VECTOR, "level": spaces.Discrete(5)}),
}
ACTIONS: dict[str, spaces.Space[Any]] = {
    "discrete": DISCRETE,
    "continuous": CONTINUOUS,
    "multi-discrete": spaces.MultiDiscrete([3, 2]),
    "multi-binary": spaces.MultiBinary(3),
}
CASES = [(observed, "discrete") for observed in OBSERVATIONS] + [("vector", acted) for acted in ACTIONS]


@pytest.mark.parametrize(("observed", "acted"), CASES)
def test_a_rollout_is_the_one_that_sb3_collects(observed: str, acted: str) -> None:
    buffers, batches = [], []
    for kind in (PPO, FastPPO):
        model = build(kind, noise(OBSERVATIONS[observed], ACTIONS[acted]), batch_size=12)
        collect(model)
        buffer: Any = model.rollout_buffer
        buffers.append({name: array(getattr(buffer, name)) for name in ("rewards", "values", "advantages", "returns")})
        np.random.seed(1)  # noqa: NPY002
        batches.append(list(buffer.get(12)))
        assert len(batches[-1]) == 4
    for name, theirs in buffers[0].items():
        np.testing.assert_allclose(buffers[1][name], theirs, rtol=1e-5, atol=1e-6)
    for theirs, ours in zip(*batches, strict=True):
        for name, expected in theirs._asdict().items():
            parts = expected.items() if isinstance(expected, dict) else [(None, expected)]
            for key, part in parts:
                found = getattr(ours, name) if key is None else getattr(ours, name)[key]
                assert found.dtype == part.dtype or observed == "uint16"
                torch.testing.assert_close(found, part, rtol=1e-5, atol=1e-6, check_dtype=False)


def test_frames_stay_bytes_with_their_channels_innermost() -> None:
    model = build(FastPPO, noise(FRAMES), batch_size=12)
    collect(model)
    buffer = model.rollout_buffer
    assert isinstance(buffer, DeviceRolloutBuffer)
    stored = buffer.stored.observations
    assert isinstance(stored, torch.Tensor)
    assert stored.dtype == torch.uint8
    assert stored.shape == (16, 3, *FRAMES.shape)
    frames = next(buffer.get(12)).observations
    assert frames.is_contiguous(memory_format=torch.channels_last)


FIELDS = ("observations", "actions", "values", "log_probs", "advantages", "returns", "rewards", "episode_starts")


@pytest.mark.parametrize(("observed", "acted"), CASES)
def test_callbacks_on_a_cpu_find_the_arrays_of_sb3(observed: str, acted: str) -> None:
    theirs, ours = (
        build(kind, noise(OBSERVATIONS[observed], ACTIONS[acted]), batch_size=12).rollout_buffer
        for kind in (PPO, FastPPO)
    )
    for name in FIELDS:
        for expected, found in zip(arrays(getattr(theirs, name)), arrays(getattr(ours, name)), strict=True):
            assert type(found) is np.ndarray
            assert found.shape == expected.shape
            assert found.dtype == expected.dtype or observed == "uint16"


def arrays(field: Any) -> list[Any]:
    return list(field.values()) if isinstance(field, dict) else [field]


def test_on_another_device_they_find_the_tensors_there() -> None:
    buffer = DeviceRolloutBuffer(4, OBSERVATIONS["dict"], DISCRETE, device="meta", n_envs=2)
    assert buffer.observations == buffer.stored.observations
    for name in FIELDS[1:6]:
        assert getattr(buffer, name) is getattr(buffer.stored, name)


class Changes(BaseCallback):
    """Changes what the update will learn from, in place and by another array; keeps the actions."""

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        buffer = self.model.rollout_buffer  # type: ignore[attr-defined]
        buffer.advantages[3:] *= -2
        buffer.returns = buffer.returns + buffer.log_probs
        self.actions = buffer.actions.copy()


@pytest.mark.parametrize("observed", ["vector", "discrete"])
def test_changes_by_callbacks_are_trained_on(observed: str) -> None:
    def train(kind: Any, callback: Changes | None) -> Any:
        return build(kind, noise(OBSERVATIONS[observed]), batch_size=48, n_epochs=1).learn(48, callback=callback)

    theirs, ours = Changes(), Changes()
    expected, found = train(PPO, theirs), train(FastPPO, ours)
    np.testing.assert_array_equal(ours.actions, theirs.actions)
    assert torch.equal(parameters(found), parameters(expected))
    assert not torch.equal(parameters(found), parameters(train(FastPPO, None)))


@pytest.mark.parametrize("observed", ["frames", "dict"])
def test_observations_may_be_replaced_in_the_same_memory(observed: str) -> None:
    model = build(FastPPO, noise(OBSERVATIONS[observed]), batch_size=12)
    collect(model)
    buffer = model.rollout_buffer
    places = [tensor.data_ptr() for tensor in buffer.tensors]
    shown = buffer.observations
    buffer.observations = {key: 0 * part for key, part in shown.items()} if observed == "dict" else 0 * shown
    assert [tensor.data_ptr() for tensor in buffer.tensors] == places
    assert not any(part.any() for part in arrays(buffer.observations))


def test_one_key_of_the_observations_may_be_replaced() -> None:
    model = build(FastPPO, noise(OBSERVATIONS["dict"]), batch_size=12)
    collect(model)
    buffer = model.rollout_buffer
    places = [tensor.data_ptr() for tensor in buffer.tensors]
    buffer.observations["place"] = 7 * np.ones_like(buffer.observations["place"])
    assert (buffer.observations["place"] == 7).all()
    assert (buffer.stored.observations["place"] == 7).all()
    assert buffer.observations["camera"].any()
    assert [tensor.data_ptr() for tensor in buffer.tensors] == places


def test_memory_is_allocated_once() -> None:
    model = build(FastPPO, noise(), batch_size=12)
    places = [tensor.data_ptr() for tensor in model.rollout_buffer.tensors]
    model.learn(3 * 48)
    assert [tensor.data_ptr() for tensor in model.rollout_buffer.tensors] == places


def test_returns_follow_changed_rewards() -> None:
    reference, fast = (build(kind, noise(), batch_size=12) for kind in (PPO, FastPPO))
    collect(reference)
    copy_rollout(reference, fast)
    last, dones = torch.tensor([[0.5], [-1.0], [2.0]]), np.array([True, False, False])
    for model in (reference, fast):
        model.rollout_buffer.rewards = model.rollout_buffer.rewards + np.arange(48, dtype=np.float64).reshape(16, 3)
        model.rollout_buffer.compute_returns_and_advantage(last, dones)
    for name in ("advantages", "returns"):
        np.testing.assert_allclose(
            getattr(fast.rollout_buffer, name), getattr(reference.rollout_buffer, name), rtol=1e-5, atol=1e-5
        )


def test_a_whole_rollout_in_one_batch() -> None:
    model = build(FastPPO, noise(), batch_size=12)
    collect(model)
    (rows,) = model.rollout_buffer.minibatches()
    assert sorted(rows.tolist()) == list(range(48))


def test_the_order_on_another_device_is_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = DeviceRolloutBuffer(4, VECTOR, DISCRETE, device="cpu", n_envs=2)
    monkeypatch.setattr(buffer, "device", torch.device("meta"))
    assert buffer.permutation().device.type == "meta"


def test_advantages_on_a_device_are_sb3s() -> None:
    """The computation on a GPU, with values and rewards in other memory layouts."""
    reference, model = (build(kind, noise(), batch_size=12) for kind in (PPO, FastPPO))
    collect(reference)
    copy_rollout(reference, model)
    theirs, buffer = reference.rollout_buffer, model.rollout_buffer
    buffer.rewards = np.asfortranarray(buffer.rewards)
    last_values = torch.arange(6.0).reshape(3, 2)[:, :1]
    dones = np.array([True, False, False])
    theirs.compute_returns_and_advantage(last_values, dones)
    buffer._compute_on_gpu(last_values.flatten(), np.concatenate([buffer.episode_starts[1:], dones[None]]))
    for name in ("advantages", "returns"):
        np.testing.assert_allclose(getattr(buffer, name), getattr(theirs, name), rtol=1e-5, atol=1e-6)
