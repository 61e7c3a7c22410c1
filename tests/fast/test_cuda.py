"""The path of a GPU: captured graphs against SB3's own update, no waiting, files that a CPU can read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from stable_baselines3 import A2C, PPO

from revd.fast.buffer import DeviceRolloutBuffer
from revd.fast.cuda_graphs import CudaGraphRecorder, without_garbage_collection
from revd.sb3 import FastA2C, FastPPO, IntrinsicRewardCallback
from revd.training.atari_vec_env import AtariVecEnv
from revd.training.policies import PaperCnnPolicy
from tests.fast.support import (
    CONTINUOUS,
    DISCRETE,
    FRAMES,
    VECTOR,
    build,
    collect,
    copy_rollout,
    distance,
    noise,
    parameters,
    update,
)
from tests.fast.test_overlapped_rollouts import N_ENVS, Clocks, Keeper

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU, which this machine has not"),
    pytest.mark.filterwarnings("ignore:You are trying to run"),
    pytest.mark.filterwarnings("ignore:You have specified a mini-batch size"),
]


@pytest.fixture(autouse=True)
def _numpys_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Minibatches in SB3's order, and float32 without TF32, so that the two can be compared."""
    monkeypatch.setattr(
        DeviceRolloutBuffer,
        "permutation",
        lambda self: torch.from_numpy(np.random.permutation(self.buffer_size * self.n_envs)).to(self.device),  # noqa: NPY002
    )
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def small(kind: Any) -> dict[str, Any]:
    return {"batch_size": 20, "n_epochs": 4} if issubclass(kind, PPO) else {}


NETWORKS: dict[str, tuple[Any, dict[str, Any]]] = {
    "mlp": (VECTOR, {}),
    "cnn": (FRAMES, {}),
    "cnn, separate": (FRAMES, {"policy_kwargs": {"share_features_extractor": False}}),
    "cnn, batch norm": (FRAMES, {"policy": PaperCnnPolicy, "policy_kwargs": {"batch_norm": "train"}}),
}


def trained_together(
    theirs: Any, ours: Any, network: str, actions: Any, **options: Any
) -> tuple[Any, Any, Any, torch.Tensor]:
    """SB3's, ours and SB3's in channels_last after five updates from the same rollouts, and the parameters before."""
    space, architecture = NETWORKS[network]
    options = {**architecture, **small(theirs), "device": "cuda", **options}
    kinds = theirs, ours, theirs
    reference, fast, rearranged = (build(kind, noise(space, actions), **_copied(options)) for kind in kinds)
    rearranged.policy.to(memory_format=torch.channels_last)
    start = parameters(reference)
    collect(reference)
    for order in range(5):
        # SB3's `get` has flattened its arrays: fill them anew.
        collect(reference)
        for model in (fast, rearranged):
            copy_rollout(reference, model)
        for model in (reference, fast, rearranged):
            model._current_progress_remaining = 1 - order / 5
            update(model, order)
    assert fast._update._graphed_step._captured or fast._update._graphed_gradients._captured
    return reference, fast, rearranged, start


@pytest.mark.parametrize(("theirs", "ours"), [(PPO, FastPPO), (A2C, FastA2C)])
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("actions", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])
@pytest.mark.parametrize("target_kl", [None, 10.0], ids=["one graph", "two graphs"])
def test_captured_updates_are_as_near_to_sb3s_as_sb3_in_channels_last(
    theirs: Any, ours: Any, network: str, actions: Any, target_kl: float | None
) -> None:
    options = {"target_kl": target_kl} if theirs is PPO else {}
    reference, fast, rearranged, start = trained_together(theirs, ours, network, actions, **options)
    yardstick = max(distance(rearranged, reference, start), 1e-5)
    assert distance(fast, reference, start) <= 2 * yardstick


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("actions", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])
def test_replays_follow_schedules_and_clip(network: str, actions: Any) -> None:
    """A ratio at the edge of the range is clipped in one and not in the other, so that they part a little.

    With the clip range of the first update they would end 0.045 to 0.1 apart, with its learning rate 0.6.
    """
    schedules = {"learning_rate": lambda left: 1e-3 * left, "clip_range": lambda left: 0.004 * left}
    reference, fast, _, start = trained_together(PPO, FastPPO, network, actions, **schedules)
    assert 0 < fast.logger.name_to_value["train/clip_fraction"] < 1
    assert distance(fast, reference, start) < 0.04


def _copied(options: dict[str, Any]) -> dict[str, Any]:
    # A2C writes its optimiser into the dictionary.
    return {name: dict(value) if isinstance(value, dict) else value for name, value in options.items()}


@pytest.mark.parametrize("kind", [FastPPO, FastA2C])
@pytest.mark.parametrize("space", [VECTOR, FRAMES], ids=["mlp", "cnn"])
def test_files_load_without_a_gpu(kind: Any, space: Any, tmp_path: Path) -> None:
    model = build(kind, noise(space), device="cuda", **small(kind)).learn(6 * 48)
    assert model._policy_step._graphed_forward._captured
    model.save(tmp_path / "model")
    for reader in (kind, kind.__mro__[2]):
        loaded = reader.load(tmp_path / "model", env=noise(space), device="cpu")
        assert torch.equal(parameters(loaded), parameters(model).cpu())
        assert loaded.policy.optimizer.param_groups[0]["capturable"] is False
        loaded.learn(2 * 48)


def test_minibatches_are_captured_wherever_their_rows_begin() -> None:
    """48 steps in minibatches of 15: the address of the last one's rows is not divided by 16."""
    model = build(FastPPO, noise(FRAMES), device="cuda", batch_size=15, n_epochs=6).learn(48)
    assert {tuple(rows[0]) for (rows,) in model._update._graphed_step._captured} == {(15,), (3,)}


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype feature:UserWarning")
def test_nothing_waits_within_an_epoch() -> None:
    model = build(FastPPO, noise(FRAMES), device="cuda", batch_size=16, n_epochs=4).learn(2 * 48)
    rows = next(iter(model.rollout_buffer.minibatches(16)))
    steps = model._update._graphed_step
    model._update._next_row.zero_()
    try:
        torch.cuda.set_sync_debug_mode("error")
        for _ in range(3):
            steps(rows)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert steps._captured


def test_replays_draw_new_actions_with_the_policys_probabilities() -> None:
    model = build(FastPPO, noise(), device="cuda", batch_size=48, n_epochs=1)
    model.train = lambda: None  # type: ignore[method-assign]
    observation = torch.zeros(3, 5, device="cuda")
    model.learn(48)
    with torch.no_grad():
        drawn = torch.stack(
            [model._policy_step._graphed_forward(observation)[0].clone() for _ in range(2_000)]
        ).flatten()
        expected = model.policy.get_distribution(observation).distribution.probs[0]
    found = torch.bincount(drawn, minlength=3) / len(drawn)
    torch.testing.assert_close(found, expected, rtol=0, atol=0.03)


# Both answers go backwards to the same parameters, from different streams.
@pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream does not match:UserWarning")
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("actions", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])
def test_streams_and_few_kernels_change_no_number(network: str, actions: Any) -> None:
    space, options = NETWORKS[network]
    model = build(FastPPO, noise(space, actions), device="cuda", batch_size=48, **_copied(options))
    policy, actor_critic = model.policy, model._policy_step.actor_critic
    assert actor_critic is not policy
    seen = torch.as_tensor(np.stack([space.sample() for _ in range(48)]), device="cuda")
    policy.set_training_mode(False)
    for _ in range(3):
        with torch.no_grad():
            chosen, values, log_probs = actor_critic.forward(seen)
        expected = policy.evaluate_actions(seen, chosen)
        found = actor_critic.evaluate_actions(seen, chosen)
        for ours, theirs in zip((values, log_probs, *found), (*expected[:2], *expected), strict=True):
            torch.testing.assert_close(ours.flatten(), theirs.flatten(), rtol=1e-5, atol=1e-5)
    gradients = []
    for answer in (found, expected):
        policy.optimizer.zero_grad()
        sum(part.sum() for part in answer).backward()
        gradients.append(torch.cat([parameter.grad.flatten() for parameter in policy.parameters()]))
    assert float((gradients[0] - gradients[1]).norm() / gradients[1].norm()) < 1e-5


@pytest.mark.parametrize("actions", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])
def test_overlapped_rollouts_are_replayed_and_intact(actions: Any) -> None:
    model = build(FastPPO, Clocks(actions), device="cuda", batch_size=40, n_epochs=1)
    model.train = lambda: None  # type: ignore[method-assign]
    keeper = Keeper()
    model.learn(4 * 16 * N_ENVS, callback=keeper)
    assert all(actor._graphed_act._captured for actor in model._overlapped._actors)
    executed = np.stack([step["rewards"] for step in keeper.seen]) - 1000 * np.arange(N_ENVS) - np.arange(64)[:, None]
    stored = np.concatenate([rollout["actions"] for rollout in keeper.rollouts])
    stored = stored.clip(-1, 1) if actions is CONTINUOUS else stored
    np.testing.assert_allclose(executed, stored.sum(axis=2), atol=1e-3, err_msg="what was stored is what was done")
    for time, rollout in zip(range(0, 64, 16), keeper.rollouts, strict=True):
        times = rollout["observations"][:, :, 1]
        np.testing.assert_array_equal(times, np.broadcast_to(time + np.arange(16)[:, None], times.shape))
        flat = {name: torch.as_tensor(part, device="cuda").flatten(0, 1) for name, part in rollout.items()}
        chosen = flat["actions"].flatten() if actions is DISCRETE else flat["actions"]
        with torch.no_grad():
            values, log_probs, _ = model.policy.evaluate_actions(flat["observations"], chosen)
        torch.testing.assert_close(flat["values"], values.flatten(), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(flat["log_probs"], log_probs, rtol=1e-4, atol=1e-4)


def test_overlapped_frames_are_stored_as_they_were_shown() -> None:
    env = AtariVecEnv("breakout", 4, threads=2)
    model = build(FastPPO, env, policy="CnnPolicy", device="cuda", batch_size=64, n_epochs=1)  # type: ignore[arg-type]
    keeper = Keeper()
    model.learn(3 * 64, callback=keeper)
    stored = np.concatenate([rollout["observations"] for rollout in keeper.rollouts])
    shown = np.stack([step["new_obs"] for step in keeper.seen])
    np.testing.assert_array_equal(stored[1:], shown[:-1])
    env.close()


def test_actions_are_waited_for_on_a_busy_gpu() -> None:
    model = build(FastPPO, Clocks(), device="cuda", batch_size=40, n_epochs=1).learn(3 * 16 * N_ENVS)
    for envs, actor in zip((slice(0, 2), slice(2, N_ENVS)), model._overlapped._actors, strict=True):
        actor.start_rollout()
        for step in range(8):
            torch.cuda._sleep(20_000_000)
            seen = np.full((envs.stop - envs.start, 3), step, np.float32)
            actor.start(seen)
            actions = actor.actions()
            np.testing.assert_array_equal(model.rollout_buffer.actions[step, envs].flatten().cpu(), actions)
            np.testing.assert_array_equal(model.rollout_buffer.observations[step, envs].cpu(), seen)


def test_each_group_draws_new_actions_with_the_policys_probabilities() -> None:
    model = build(FastPPO, Clocks(), device="cuda", n_steps=500, batch_size=2_500, n_epochs=1)
    model.train = lambda: None  # type: ignore[method-assign]
    model.learn(2_500)
    drawn = []
    for envs, actor in zip((slice(0, 2), slice(2, N_ENVS)), model._overlapped._actors, strict=True):
        actor.start_rollout()
        seen = np.zeros((envs.stop - envs.start, 3), np.float32)
        drawn.append(np.stack([(actor.start(seen), actor.actions())[1] for _ in range(500)]))
        with torch.no_grad():
            expected = model.policy.get_distribution(torch.zeros(1, 3, device="cuda")).distribution.probs[0]
        found = np.bincount(drawn[-1].flatten(), minlength=3) / drawn[-1].size
        np.testing.assert_allclose(found, expected.cpu(), atol=0.07)
        before = actor._noise.clone()
        actor.start_rollout()
        assert (actor._noise != before).float().mean() > 0.99, "each rollout has noise of its own"
    assert (drawn[0][:, 0] != drawn[1][:, 0]).any()


@pytest.mark.parametrize("method", ["revd", "re3", "ride"])
def test_the_bonus_reads_frames_where_they_are(method: str) -> None:
    model = build(FastPPO, noise(FRAMES), device="cuda", batch_size=24, n_epochs=2)
    callback = IntrinsicRewardCallback(method)
    model.learn(4 * 48, callback=callback)
    assert callback.rollouts == 4
    assert np.isfinite(callback.latest["bonus_mean"])


def test_a_training_uses_our_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton", reason="Triton is not made for this system")
    from revd.fast import clipped_adam, discrete_ppo

    ours = ((clipped_adam, "step"), (discrete_ppo, "gradients"))
    spies = []
    for module, name in ours:
        spies.append(Mock(wraps=getattr(module, name)))
        monkeypatch.setattr(module, name, spies[-1])
    build(FastPPO, noise(FRAMES), device="cuda", **small(FastPPO)).learn(2 * 48)
    assert all(spy.called for spy in spies)


def test_garbage_of_earlier_models_does_not_end_a_capture() -> None:
    recorder = CudaGraphRecorder(torch.device("cuda"))

    def work() -> torch.Tensor:
        kept = [[] for _ in range(10_000)]  # so many that Python looks for garbage meanwhile
        return torch.full((1,), float(len(kept)), device="cuda")

    recorder.warm_up(work)
    with without_garbage_collection():
        cycle = [recorder.capture(work)]
        cycle.append(cycle)  # type: ignore[arg-type]
        del cycle
    replay, result = recorder.capture(work)
    replay()
    assert float(result) == 10_000


def test_a_training_begins_without_a_warning() -> None:
    """In a process of its own: whether torch's thread for gradients knows the GPU is settled once for all."""
    program = """
import gymnasium, torch
from revd.sb3 import FastPPO
model = FastPPO("MlpPolicy", gymnasium.make("CartPole-v1"), n_steps=32, batch_size=16, device="cuda")
model.learn(64)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "CUDA context" not in done.stderr
