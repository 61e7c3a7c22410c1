"""How fast does rounding make trainings diverge?

    python benchmarks/rounding.py [--device cpu|cuda] [--updates 12]

SB3's PPO plays Breakout with RL Zoo's settings. After each rollout, other models learn from the same rollout in the
same minibatches: SB3's PPO in channels_last, FastPPO, and SB3's PPO with initial weights perturbed by a relative 1e-7.
Prints the distance of their weights from those of the first model, relative to how far that model has moved.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from breakout import SETTINGS, Job, channels_last_ppo, make_env
from measure import machine, markdown_table
from stable_baselines3 import PPO
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from torch import Tensor

from revd.fast.buffer import DeviceRolloutBuffer
from revd.sb3 import FastPPO

PERTURBATION = 1e-7


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--updates", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    env = make_env(Job("PPO", arguments.seed, 0, 0, arguments.device, threads=1, zoo=True))
    kinds = {"PPO in channels_last": channels_last_ppo, "FastPPO": FastPPO, "PPO, perturbed by 1e-7": perturbed_ppo}
    settings = {"seed": arguments.seed, "device": arguments.device, **SETTINGS}
    reference, *others = (kind("CnnPolicy", env, **settings) for kind in (PPO, *kinds.values()))
    for model in (reference, *others):
        model.set_logger(Logger(folder=None, output_formats=[]))
    start = parameters(reference)
    _, callback = reference._setup_learn(1, None)
    rows = []
    assert reference.env is not None
    for number in range(1, arguments.updates + 1):
        reference.collect_rollouts(reference.env, callback, reference.rollout_buffer, reference.n_steps)
        for model in others:
            copy_rollout(reference, model)
        for model in (reference, *others):
            with same_minibatches(number):
                model.train()
        moved = (parameters(reference) - start).norm()
        distances = [(parameters(model) - parameters(reference)).norm() / moved for model in others]
        rows.append([str(number), *(f"{float(distance):.1e}" for distance in distances)])
    print(f"{machine(arguments.device)}; Breakout, {PPO.__name__} plays, all models learn from its rollouts\n")
    print(markdown_table(("updates", *kinds), rows))


def perturbed_ppo(*arguments: Any, **keywords: Any) -> PPO:
    """SB3's PPO with slightly perturbed initial weights."""
    model = PPO(*arguments, **keywords)
    with torch.no_grad():
        for parameter in model.policy.parameters():
            parameter.mul_(1 + PERTURBATION * torch.randn_like(parameter))
    return model


def copy_rollout(source: OnPolicyAlgorithm, target: OnPolicyAlgorithm) -> None:
    """Copy the rollout buffer of one model into that of another."""
    theirs, ours = source.rollout_buffer, target.rollout_buffer
    ours.reset()
    for step in range(theirs.buffer_size):
        numbers = (torch.as_tensor(part[step]) for part in (theirs.values, theirs.log_probs))
        known = (part[step] for part in (theirs.observations, theirs.actions, theirs.rewards, theirs.episode_starts))
        ours.add(*known, *numbers)
    for name in ("advantages", "returns"):
        setattr(ours, name, getattr(theirs, name).copy())


@contextmanager
def same_minibatches(seed: int) -> Iterator[None]:
    """Shuffle with NumPy's generator and this seed, in our buffer on a GPU too."""

    def permutation(buffer: DeviceRolloutBuffer) -> Tensor:
        order = np.random.permutation(buffer.buffer_size * buffer.n_envs)  # noqa: NPY002
        return torch.from_numpy(order).to(buffer.device)

    np.random.seed(seed)  # noqa: NPY002
    with patch.object(DeviceRolloutBuffer, "permutation", permutation):
        yield


def parameters(model: OnPolicyAlgorithm) -> Tensor:
    """All weights of a model as one vector."""
    return torch.cat([parameter.detach().double().flatten() for parameter in model.policy.parameters()])


if __name__ == "__main__":
    main()
