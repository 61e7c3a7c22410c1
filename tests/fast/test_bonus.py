"""The exploration bonus in a training of ours: the same numbers as in SB3's, and no frame leaves the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3 import A2C, PPO

from revd.sb3 import FastA2C, FastPPO, IntrinsicRewardCallback
from tests.fast.support import CONTINUOUS, DISCRETE, FRAMES, VECTOR, array, build, capturing, noise
from tests.support.sb3 import scripted_reward


class Collected(IntrinsicRewardCallback):
    """Keeps what the update will find in the buffer."""

    def _on_rollout_end(self) -> None:
        super()._on_rollout_end()
        buffer = self.model.rollout_buffer  # type: ignore[attr-defined]
        self.kept = [array(part) for part in (buffer.rewards, buffer.advantages, buffer.returns)]


@pytest.mark.parametrize(("theirs", "ours"), [(PPO, FastPPO), (A2C, FastA2C)])
@pytest.mark.parametrize(("space", "actions"), [(VECTOR, CONTINUOUS), (FRAMES, DISCRETE)], ids=["mlp", "cnn"])
@pytest.mark.parametrize("method", ["revd", "re3", "ride"])
@pytest.mark.parametrize("weight", [0.5, "auto"])
def test_the_bonus_enters_as_it_enters_sb3s(
    theirs: Any, ours: Any, space: Any, actions: Any, method: str, weight: Any
) -> None:
    kept, latest = [], []
    for kind in (theirs, ours):
        model = build(kind, noise(space, actions), **({"batch_size": 48} if theirs is PPO else {}))
        model.train = lambda: None
        callback = Collected(method, weight=weight, extrinsic_weight=0.25)
        model.learn(2 * 48, callback=callback)
        kept.append(callback.kept)
        latest.append({name: value for name, value in callback.latest.items() if name != "time_fraction"})
    for found, expected in zip(kept[1], kept[0], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert latest[1] == pytest.approx(latest[0], rel=1e-4)


def test_a_reward_sees_the_buffers_own_memory() -> None:
    model = build(FastPPO, noise(FRAMES), batch_size=24, n_epochs=1)
    capturing(model)
    reward = scripted_reward(model)
    model.learn(48, callback=IntrinsicRewardCallback(reward))
    seen = reward.rollouts[0].observations
    assert isinstance(seen, torch.Tensor)
    assert seen.data_ptr() == model.rollout_buffer.tensors[0].data_ptr()


def test_rewards_that_are_not_finite_are_named() -> None:
    model = build(FastPPO, noise(), batch_size=24, n_epochs=1)
    with pytest.raises(ValueError, match=r"weight = 1e\+39"):
        model.learn(48, callback=IntrinsicRewardCallback(scripted_reward(model), weight=1e39))
