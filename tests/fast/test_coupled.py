"""FastPPO as on a GPU beside SB3's PPO, with the same noise and the same minibatches, in a game: they play the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback

from revd.fast.actor_critic import FastActorCritic
from revd.fast.buffer import DeviceRolloutBuffer
from revd.fast.overlapped_rollouts import GroupActor
from revd.sb3 import FastPPO
from revd.training.atari_vec_env import AtariVecEnv
from tests.fast.support import Replays, array

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
N_ENVS, N_STEPS, ROLLOUTS = 4, 32, 3
SETTINGS: dict[str, Any] = {
    "n_steps": N_STEPS,
    "batch_size": 32,
    "n_epochs": 2,
    "learning_rate": lambda left: 2.5e-4 * left,
    "clip_range": lambda left: 0.1 * left,
    "policy_kwargs": {"features_extractor_kwargs": {"features_dim": 32}},
}


class Rollouts(BaseCallback):
    """Keeps what was played, and finished games."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[dict[str, Any]] = []

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        buffer: Any = self.model.rollout_buffer
        names = ("observations", "actions", "rewards", "episode_starts", "values", "log_probs", "advantages")
        self.seen.append({name: array(getattr(buffer, name)).reshape(N_STEPS, N_ENVS, -1) for name in names})


def beginner(kind: Any) -> tuple[Any, Any]:
    """A model that has not learnt yet, and its environment, as equal as they can be for both kinds."""
    env = AtariVecEnv("breakout", N_ENVS, threads=2)
    env.seed(0)
    return kind("CnnPolicy", env, seed=0, device=DEVICE, **SETTINGS), env


def play(model: Any, env: Any) -> list[dict[str, Any]]:
    callback = Rollouts()
    np.random.seed(1)  # noqa: NPY002 - SB3's own order of minibatches
    model.learn(ROLLOUTS * N_STEPS * N_ENVS, callback=callback)
    env.close()
    return callback.seen


def ours(monkeypatch: pytest.MonkeyPatch) -> tuple[list[dict[str, Any]], list[torch.Tensor]]:
    """What FastPPO played, and the noise of each rollout, (n_steps, n_envs, n_actions)."""
    model, env = beginner(FastPPO)
    if DEVICE == "cpu":
        model._recorder = Replays()
        model._bind_policy()
        actor_critic = FastActorCritic(model.policy)
        actor_critic._discrete = True
        model._policy_step.actor_critic = model._update._actor_critic = actor_critic
    noise: list[torch.Tensor] = []
    start_rollout = GroupActor.start_rollout

    def noted(self: GroupActor) -> None:
        start_rollout(self)
        noise.append(self._noise.clone())

    monkeypatch.setattr(GroupActor, "start_rollout", noted)
    seen = play(model, env)
    return seen, [torch.cat(noise[index : index + 2], dim=1) for index in range(0, len(noise), 2)]


def theirs(noise: list[torch.Tensor]) -> list[dict[str, Any]]:
    """What SB3's PPO plays when it draws its actions with that noise."""
    model, env = beginner(PPO)
    model.policy.to(memory_format=torch.channels_last)
    rows = iter(torch.cat(noise))

    def forward(obs: Any, deterministic: bool = False) -> Any:
        distribution = model.policy.get_distribution(obs)
        actions = (distribution.distribution.logits + next(rows)).argmax(-1)
        return actions, model.policy.predict_values(obs), distribution.log_prob(actions)

    model.policy.forward = forward
    return play(model, env)


def test_the_same_noise_gives_the_same_games(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    monkeypatch.setattr(
        DeviceRolloutBuffer,
        "permutation",
        lambda self: torch.from_numpy(np.random.permutation(self.buffer_size * self.n_envs)).to(self.device),  # noqa: NPY002
    )
    found, noise = ours(monkeypatch)
    expected = theirs(noise)
    assert len(found) == len(expected) == ROLLOUTS
    assert sum(rollout["rewards"].sum() for rollout in found) > 0, "a brick is hit: there is something to learn"
    for rollout, reference in zip(found, expected, strict=True):
        for name in ("observations", "actions", "rewards", "episode_starts"):
            np.testing.assert_array_equal(rollout[name], reference[name])
        for name in ("values", "log_probs", "advantages"):
            np.testing.assert_allclose(rollout[name], reference[name], atol=5e-3)
