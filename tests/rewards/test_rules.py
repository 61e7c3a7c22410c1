"""Rewards by the rules of a GPU, without one: they pay the same there, and the host waits for few numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

import revd
from revd.rewards import REWARDS
from revd.testing import reward_checks
from tests.rewards.test_contract import MODES, SETTINGS
from tests.support.rollouts import DISCRETE

pytest.importorskip("triton", reason="Triton is not made for this system")

if torch.cuda.is_available():
    pytest.skip("there is a GPU, and this pretends one", allow_module_level=True)

from tests.support.pretend_gpu import PretendGpu

IMAGE = spaces.Box(0, 255, (1, 36, 36), np.uint8)
#: Are the actions valid; are embeddings small enough; how many states are remembered; how many of them are distinct; is
#: the bonus finite; and all metrics at once. RIDE does not merge copies. It embeds successors too, remembers three
#: things, and sends what states see, for short episodes and for long ones.
EXPECTED_WAITS = {"revd": 6, "re3": 6, "ride": 10, "rnd": 8, "icm": 8, "disagreement": 8}
EXPECTED_WAITS |= {"rise": 6, "ngu": 10, "e3b": 8, "drnd": 8}
#: Tables of visits grow by what is new, whose number the host must know.
EXPECTED_WAITS |= {"counts": 30, "noveld": 40}
#: What the methods are made with here, besides the size of embeddings.
PARAMETERS: dict[str, dict[str, Any]] = {"revd": {"k": 3}, "re3": {"k": 3}, "ride": {"k": 3}, "rnd": {"warmup": 8}}
PARAMETERS |= {"rise": {"k": 3}, "noveld": {"warmup": 8}, "drnd": {"warmup": 8}}


@pytest.fixture
def gpu() -> Iterator[PretendGpu]:
    with PretendGpu().present() as found:
        yield found


def images(seed: int, place: str = "cuda") -> revd.Rollout:
    """Observations and actions on the GPU, where a fast policy has left them; the ends of episodes are the host's.

    The first environment stands still for three steps, the second comes back to where it was.
    """
    rng = np.random.default_rng(seed)
    frames = rng.integers(0, 256, (13, 2, *IMAGE.shape)).astype(np.uint8)
    frames[3:5, 0], frames[9, 1] = frames[2, 0], frames[4, 1]
    frames = torch.as_tensor(frames, device=place)
    return revd.Rollout(
        observations=frames[:-1],
        actions=torch.as_tensor(rng.integers(0, 4, (12, 2)), device=place),
        next_observations=frames[1:],
        dones=rng.random((12, 2)) < 0.2,
    )


def on_gpu(method: str, **parameters: Any) -> revd.IntrinsicReward:
    return made(method, **parameters).to("cuda")


def made(method: str, **parameters: Any) -> revd.IntrinsicReward:
    given = {"embedding_size": 4} | PARAMETERS.get(method, {}) | parameters
    return revd.make_reward(method, IMAGE, DISCRETE, n_envs=2, **given)


@pytest.mark.parametrize("method", EXPECTED_WAITS)
def test_a_bonus_waits_for_checks_and_reports_alone(gpu: PretendGpu, method: str) -> None:
    reward = on_gpu(method)
    for seed in range(3):
        rollout = images(seed)
        gpu.waits.clear()
        assert reward.compute(rollout).device.type == "cuda"
    assert method not in ("revd", "re3") or reward.metrics()["unpaid"] == 0
    assert 0 < len(gpu.waits) <= EXPECTED_WAITS[method], gpu.waits


@pytest.mark.parametrize(("place", "sent"), [("cuda", 0), ("cpu", 3)])
def test_ride_waits_once_for_each_minibatch(gpu: PretendGpu, place: str, sent: int) -> None:
    """And, where frames are the host's, until observations, other successors and their places are sent."""
    waits = []
    for batch_size in (24, 4):
        reward = on_gpu("ride", batch_size=batch_size, update_fraction=1.0)
        rollout = images(0, place)
        reward.compute(rollout)
        gpu.waits.clear()
        assert reward.update(rollout).keys() == {"forward_loss", "inverse_loss"}
        waits.append(len(gpu.waits))
    assert waits[1] - waits[0] <= (1 + sent) * (24 / 4 - 24 / 24), gpu.waits


@pytest.mark.parametrize("parameters", [{}, {"boundary": "episode"}, {"normalize": "rms"}], ids=str)
@pytest.mark.parametrize("method", EXPECTED_WAITS)
def test_what_is_paid_there_is_what_the_cpu_pays(gpu: PretendGpu, method: str, parameters: dict[str, Any]) -> None:
    if method not in ("revd", "re3"):
        parameters = {name: value for name, value in parameters.items() if name != "boundary"}
    theirs = on_gpu(method, **parameters)
    ours = made(method, **parameters)
    for seed in range(3):
        rollout = images(seed)
        near = revd.Rollout(
            observations=rollout.observations.cpu(),  # type: ignore[union-attr]
            actions=rollout.actions.cpu(),
            next_observations=rollout.successors.cpu(),  # type: ignore[union-attr]
            dones=rollout.dones,
        )
        torch.testing.assert_close(theirs.compute(rollout).cpu(), ours.compute(near), rtol=1e-4, atol=1e-5)
        assert theirs.update(rollout) == pytest.approx(ours.update(near), rel=1e-3)
    assert {tensor.device.type for tensor in theirs.state_dict().values()} == {"cuda"}


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("mode", MODES)
def test_the_contract_of_devices_is_kept(gpu: PretendGpu, mode: str, settings: str) -> None:
    method = REWARDS[mode.split()[0]]
    parameters = {"embedding_size": 4} | MODES[mode] | SETTINGS[settings]
    dict(reward_checks())["device"](lambda *arguments: method(*arguments, **parameters))
    assert gpu.waits, "it was looked for, and found"
