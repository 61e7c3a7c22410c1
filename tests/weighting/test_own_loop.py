"""A loop of one's own with every reward, which is saved and restored in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from revd import Rollout, make_reward
from revd.weighting.automatic import AutomaticWeight
from tests.support.every_reward import EVERY
from tests.support.rollouts import BOX, DISCRETE, make_rollouts


class Loop:
    """What a loop keeps between rollouts; the task's advantages and the states after a rollout are drawn at random."""

    def __init__(self, case: str, seed: int = 3) -> None:
        name, parameters = EVERY[case]
        self.reward: Any = make_reward(name, BOX, DISCRETE, n_envs=2, seed=seed, **parameters)
        self.automatic = AutomaticWeight(self.reward)

    def step(self, rollout: Rollout, number: int) -> list[Tensor]:
        """The bonus, the losses of the reward's models, and the advantages that the policy learns from."""
        task, last = (torch.from_numpy(np.random.default_rng(number).normal(size=(8, 2, 3)).astype(np.float32)),) * 2
        bonus = self.reward.compute(rollout)
        weighed = self.automatic.weigh(
            bonus,
            self.automatic.embedder.embed(self.reward, rollout, last[0]),
            task[..., 0],
            strength=torch.full((8, 1), 0.1),
            extrinsic_weight=1.0,
            valid=rollout.valid,
            paid=self.reward.latest_paid,
        )
        losses = self.reward.update(rollout)
        return [bonus, weighed.advantages, torch.tensor([*losses.values(), *weighed.numbers.values()])]

    def save(self, folder: Path) -> None:
        for module in (self.reward, self.automatic):
            save_file(module.state_dict(), folder / type(module).__name__)

    def load(self, folder: Path) -> None:
        for module in (self.reward, self.automatic):
            module.load_state_dict(load_file(folder / type(module).__name__))


@pytest.mark.parametrize("case", EVERY)
def test_a_restored_loop_continues_as_the_original(case: str, tmp_path: Path) -> None:
    whole, restored = Loop(case), Loop(case)
    for number, rollout in enumerate(make_rollouts(9, 2)):
        restored.step(rollout, number)  # a past that must be forgotten
    for number, rollout in enumerate(make_rollouts(0, 6)):
        if number == 3:
            whole.save(tmp_path)
            restored.load(tmp_path)
        expected = whole.step(rollout, number)
        if number >= 3:
            found = restored.step(rollout, number)
            assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))
    assert expected[0].any()
    assert expected[1].std() > 0
