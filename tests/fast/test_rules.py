"""Whole trainings by the rules of a GPU, without one: nothing of the host meets what is there, and few wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import pytest
import torch
from gymnasium import spaces
from sb3_contrib import RecurrentPPO
from stable_baselines3 import PPO

from revd.fast.cuda_graphs import unvalidated_distributions
from revd.sb3 import FastA2C, FastPPO, IntrinsicRewardCallback
from revd.training.policies import PaperCnnPolicy
from tests.fast.support import CONTINUOUS, DISCRETE, FRAMES, VECTOR, Replays, build, noise
from tests.fast.test_overlapped_rollouts import N_ENVS, Clocks

pytest.importorskip("triton", reason="Triton is not made for this system")

if torch.cuda.is_available():
    pytest.skip("there is a GPU, and this pretends one", allow_module_level=True)

from tests.support.pretend_gpu import PretendGpu

T = TypeVar("T")
pytestmark = [
    pytest.mark.filterwarnings("ignore:You are trying to run"),
    pytest.mark.filterwarnings("ignore:FastPPO runs without CUDA graphs"),
]
ROLLOUT = 48
SMALL: dict[str, Any] = {"batch_size": 24, "n_epochs": 2}
PAPERS: dict[str, Any] = {"policy": PaperCnnPolicy, "policy_kwargs": {"batch_norm": "train"}}
BOTH = spaces.Dict({"numbers": VECTOR, "frames": FRAMES})
CASES: dict[str, tuple[Any, Any, Any, dict[str, Any]]] = {
    "the paper's": (FastPPO, FRAMES, DISCRETE, {**SMALL, **PAPERS}),
    "shared features": (FastPPO, FRAMES, DISCRETE, SMALL),
    "continuous": (FastPPO, VECTOR, CONTINUOUS, SMALL),
    "several actions": (FastPPO, VECTOR, spaces.MultiDiscrete([3, 2]), SMALL),
    "target_kl": (FastPPO, VECTOR, DISCRETE, {**SMALL, "target_kl": 10.0}),
    "A2C": (FastA2C, VECTOR, DISCRETE, {}),
    "A2C with Adam": (FastA2C, FRAMES, DISCRETE, {"use_rms_prop": False}),
    "gSDE, without graphs": (FastPPO, VECTOR, CONTINUOUS, {**SMALL, "use_sde": True}),
    "dictionaries, without graphs": (FastPPO, BOTH, DISCRETE, SMALL),
    "SB3's PPO": (PPO, FRAMES, DISCRETE, SMALL),
    "RecurrentPPO": (RecurrentPPO, VECTOR, DISCRETE, {**SMALL, "policy": "MlpLstmPolicy"}),
}


class Strict(Replays):
    """Work that waits cannot be captured; of distributions, CudaGraphRecorder sees to it that they do not."""

    def __init__(self, gpu: PretendGpu) -> None:
        super().__init__()
        self._gpu = gpu

    def capture(self, work: Callable[[], T]) -> tuple[Callable[[], None], T]:
        replay, result = super().capture(work)

        def checked() -> None:
            with self._gpu.without_waiting(), unvalidated_distributions():
                replay()

        return checked, result


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[PretendGpu]:
    with PretendGpu().present() as found:
        monkeypatch.setattr("revd.fast.algorithm.CudaGraphRecorder", lambda device: Strict(found))
        yield found


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("method", ["revd", "ride"])
def test_trainings_keep_to_them(gpu: PretendGpu, case: str, method: str) -> None:
    kind, space, actions, options = CASES[case]
    model = build(kind, noise(space, actions), device="cuda", **options)
    callback = IntrinsicRewardCallback(method)
    # A2C has one minibatch in each, of which three are warm-ups.
    rollouts = 5 if kind is FastA2C else 3
    model.learn(rollouts * ROLLOUT, callback=callback)
    assert callback.rollouts == rollouts
    assert np.isfinite(callback.latest["bonus_mean"])
    assert {each.device.type for each in (*model.policy.parameters(), *callback.reward.state_dict().values())} == {
        "cuda"
    }
    if isinstance(model, FastPPO | FastA2C) and "without graphs" not in case:
        assert model._policy_step._graphed_forward._captured
        assert model._update._graphed_step._captured or model._update._graphed_gradients._captured


@pytest.mark.parametrize("actions", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])
def test_so_do_groups_which_wait_for_their_actions_alone(gpu: PretendGpu, actions: Any) -> None:
    model = build(FastPPO, Clocks(actions), device="cuda", batch_size=40, n_epochs=1)
    late, waits = [], []

    def count(locals_: Any, globals_: Any) -> bool:
        late.append(sum(info["TimeLimit.truncated"] for info in locals_["infos"]))
        waits.append(len(gpu.waits))
        return True

    model.learn(2 * 16 * N_ENVS, callback=count)
    # Two groups, of which none acts after the last step; and what an episode that ran out of time would still have been
    # worth: sent, and read.
    sent = np.array([2] * 14 + [0])
    np.testing.assert_array_equal(np.diff(waits[16:]), sent + 2 * np.array(late[16:-1]))


def test_advantages_wait_for_one_way_to_the_gpu(gpu: PretendGpu) -> None:
    model = build(FastPPO, noise(FRAMES), device="cuda", **SMALL).learn(ROLLOUT)
    gpu.waits.clear()
    model.rollout_buffer.compute_returns_and_advantage(torch.zeros(3, device="cuda"), np.zeros(3, bool))
    assert gpu.waits == ["to"]


def test_updates_wait_as_often_for_many_minibatches_as_for_few(gpu: PretendGpu) -> None:
    waits = []
    for n_epochs in (1, 4):
        model = build(FastPPO, noise(FRAMES), device="cuda", batch_size=24, n_epochs=n_epochs).learn(ROLLOUT)
        gpu.waits.clear()
        model.train()
        waits.append(len(gpu.waits))
    assert waits[0] == waits[1] > 0, gpu.waits
