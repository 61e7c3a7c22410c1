"""The loop in one file: its advantages are Stable-Baselines3's, and it logs both rewards."""

import re

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer

from revd.rewards import REWARDS
from tests.examples.scripts import load

LINE = re.compile(
    r"([\d,]+) steps: return (\S+), extrinsic (\S+), intrinsic (\S+), weight (\S+), share (\S+)", re.MULTILINE
)


def log_of(capsys, rollouts: int = 2, **settings: object) -> list[tuple[str, ...]]:
    module = load("cleanrl_style")
    before = {name: getattr(module, name) for name in settings}
    vars(module).update(settings)
    try:
        module.main(steps=1_280 * rollouts)
    finally:
        vars(module).update(before)
    return LINE.findall(capsys.readouterr().out)


def test_both_rewards_are_logged_and_the_weight_follows(capsys):
    first, second = log_of(capsys)
    assert first == ("1,280", "nan", "-1.000", "0.000", "0.000", "0.00")
    steps, mean, extrinsic, intrinsic, weight, share = second
    assert (steps, mean, extrinsic) == ("2,560", "-200.0", "-1.000"), "the task's rewards stay the task's"
    assert float(intrinsic) > 0
    assert float(weight) > 0
    assert 0.02 < float(share) < 0.3, "near the strength of 0.1"


def test_the_policy_follows_the_bonus_with_the_strength_that_is_set(capsys):
    weak, strong = (log_of(capsys, rollouts=3, STRENGTH=strength) for strength in (0.0, 10.0))
    assert weak[1][-1] == "0.00"
    assert float(strong[1][-1]) > 0.5
    assert weak[1][3] == strong[1][3], "nothing was paid before the second rollout"
    assert weak[2][3] != strong[2][3], "the third is that of another policy"


def test_another_reward_needs_another_name_only(capsys):
    _, (_, _, _, intrinsic, _, _) = log_of(capsys, REWARD="counts")
    assert 0 < float(intrinsic) <= 1


@pytest.mark.parametrize("name", REWARDS)
def test_every_reward_that_reads_no_successors_works_and_others_say_so(capsys, monkeypatch, name):
    module = load("cleanrl_style")
    for setting, value in {"REWARD": name, "N_STEPS": 16, "N_ENVS": 2}.items():
        monkeypatch.setattr(module, setting, value)
    if REWARDS[name].uses_successors:
        with pytest.raises(ValueError, match=f"no next_observations, which {REWARDS[name].__name__} reads"):
            module.main(steps=32)
        return
    module.main(steps=64)
    _, (_, _, _, intrinsic, weight, share) = LINE.findall(capsys.readouterr().out)
    assert min(float(number) for number in (intrinsic, weight, share)) > 0


def test_the_advantages_are_those_of_stable_baselines3():
    module = load("cleanrl_style")
    shape = (module.N_STEPS, module.N_ENVS)
    generator = torch.Generator().manual_seed(0)
    rewards, values = (torch.randn(shape, generator=generator) for _ in range(2))
    dones = torch.rand(shape, generator=generator) < 0.1
    last = torch.randn(module.N_ENVS, generator=generator)
    buffer = RolloutBuffer(
        module.N_STEPS,
        spaces.Box(0, 1, (1,)),
        spaces.Discrete(2),
        gae_lambda=module.GAE_LAMBDA,
        gamma=module.GAMMA,
        n_envs=module.N_ENVS,
    )
    buffer.rewards, buffer.values = rewards.numpy(), values.numpy()
    buffer.episode_starts = np.concatenate([np.zeros((1, module.N_ENVS)), dones[:-1].numpy()]).astype(np.float32)
    buffer.compute_returns_and_advantage(last, dones[-1].numpy())
    found = module.advantages_of(rewards, values, last, dones)
    np.testing.assert_allclose(found.numpy(), buffer.advantages, rtol=1e-4, atol=1e-5)
