"""PPO as CleanRL's users run it, for `training.py`: one loop in torch, Adam, Tanh networks, distributions of torch.

Written after the published settings of CleanRL's ppo.py, ppo_continuous_action.py and ppo_atari_envpool.py. EnvPool
steps the tasks that it has; the others run in Gymnasium's SyncVectorEnv, continuous ones with CleanRL's wrappers.
Numbers of environments, steps, epochs and minibatches are those of the other rows.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical, Normal
from torch.nn import functional

from revd.envs import envpool
from revd.envs.tasks import Task

GAMMA, GAE_LAMBDA, CLIP, ENTROPY, VALUE, MAX_NORM = 0.99, 0.95, 0.2, 0.01, 0.5, 0.5


def make_envs(task: Task, n_envs: int) -> Any:
    """Make the environments, with `step` and `reset` of Gymnasium's vector interface."""
    if envpool.is_installed() and envpool.has_task(task.gymnasium_id):
        return Pool(task.gymnasium_id, n_envs)
    task_id = task.gymnasium_id if task.module is None else f"{task.module}:{task.gymnasium_id}"
    return gymnasium.vector.SyncVectorEnv([lambda: wrapped(gymnasium.make(task_id))] * n_envs)


class Pool:
    """EnvPool, with one-hot codes for grid worlds: the input that the other rows have."""

    def __init__(self, gymnasium_id: str, n_envs: int) -> None:
        self._pool = envpool.make_pool(gymnasium_id, n_envs, seed=0)
        space, self._convert = envpool.observation_format(gymnasium_id, self._pool.observation_space)
        self.single_observation_space, self.single_action_space = space, self._pool.action_space

    def reset(self) -> tuple[Any, Any]:
        observations, infos = self._pool.reset()
        return self._convert(observations), infos

    def step(self, actions: Any) -> tuple[Any, ...]:
        observations, *others = self._pool.step(actions)
        return self._convert(observations), *others


def wrapped(env: Any) -> Any:
    """CleanRL's wrappers for continuous actions."""
    wrappers = gymnasium.wrappers
    env = wrappers.RecordEpisodeStatistics(wrappers.FlattenObservation(env))
    if isinstance(env.action_space, gymnasium.spaces.Box):
        env = wrappers.NormalizeObservation(wrappers.ClipAction(env))
        env = wrappers.TransformObservation(env, lambda each: np.clip(each, -10, 10), env.observation_space)
        env = wrappers.TransformReward(
            wrappers.NormalizeReward(env, gamma=GAMMA), lambda each: float(np.clip(float(each), -10, 10))
        )
    return env


def linear(inputs: int, outputs: int, scale: float = np.sqrt(2)) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, scale)
    nn.init.zeros_(layer.bias)
    return layer


class Agent(nn.Module):
    """Two networks of two layers of 64 units."""

    def __init__(self, n_features: int, action_space: Any) -> None:
        super().__init__()
        self.discrete = isinstance(action_space, gymnasium.spaces.Discrete)
        n_outputs = int(action_space.n) if self.discrete else int(np.prod(action_space.shape))
        hidden = [[linear(n_features, 64), nn.Tanh(), linear(64, 64), nn.Tanh()] for _ in range(2)]
        self.actor = nn.Sequential(*hidden[0], linear(64, n_outputs, 0.01))
        self.critic = nn.Sequential(*hidden[1], linear(64, 1, 1.0))
        self.log_std = nn.Parameter(torch.zeros(1, n_outputs))

    def forward(self, observations: Tensor, actions: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return actions, their log-probabilities, entropies and values."""
        outputs = self.actor(observations)
        if self.discrete:
            choices = Categorical(logits=outputs)
            actions = choices.sample() if actions is None else actions
            return actions, choices.log_prob(actions), choices.entropy(), self.critic(observations)
        normal = Normal(outputs, torch.exp(self.log_std.expand_as(outputs)))
        actions = normal.sample() if actions is None else actions
        return actions, normal.log_prob(actions).sum(1), normal.entropy().sum(1), self.critic(observations)


class SingleFilePPO:
    """The loop: `collect` fills the storage, `update` trains on it."""

    def __init__(self, task: Task, *, n_envs: int, n_steps: int, batch_size: int, n_epochs: int) -> None:
        self.envs = make_envs(task, n_envs)
        self._batch_size, self._n_epochs = batch_size, n_epochs
        self._shape = (n_steps, n_envs)
        n_features = int(np.prod(self.envs.single_observation_space.shape))
        space = self.envs.single_action_space
        self._agent = Agent(n_features, space)
        self._optimizer = torch.optim.Adam(
            self._agent.parameters(), lr=2.5e-4 if self._agent.discrete else 3e-4, eps=1e-5
        )
        self._observations = torch.zeros((*self._shape, n_features))
        self._actions = torch.zeros((*self._shape, *space.shape))
        self._log_probs, self._rewards, self._dones, self._values = (torch.zeros(self._shape) for _ in range(4))
        self._next = self._flat(self.envs.reset()[0])
        self._next_done = torch.zeros(n_envs)

    def _flat(self, observations: Any) -> Tensor:
        return torch.Tensor(observations).flatten(1)

    def collect(self) -> None:
        for step in range(self._shape[0]):
            self._observations[step], self._dones[step] = self._next, self._next_done
            with torch.no_grad():
                actions, self._log_probs[step], _, values = self._agent(self._next)
            self._actions[step], self._values[step] = actions, values.flatten()
            observations, rewards, terminated, truncated, _ = self.envs.step(actions.numpy())
            self._rewards[step] = torch.tensor(rewards).view(-1)
            self._next, self._next_done = self._flat(observations), torch.Tensor(np.logical_or(terminated, truncated))

    def update(self) -> None:
        advantages = self._advantages()
        batch = [each.flatten(0, 1) for each in (self._observations, self._actions, self._log_probs, self._values)]
        batch += [advantages.flatten(), (advantages + self._values).flatten()]
        order = np.arange(len(batch[0]))
        clipped = []
        for _ in range(self._n_epochs):
            np.random.shuffle(order)  # noqa: NPY002
            for first in range(0, len(order), self._batch_size):
                rows = order[first : first + self._batch_size]
                clipped.append(self._step(*(each[rows] for each in batch)))

    def _advantages(self) -> Tensor:
        with torch.no_grad():
            next_value = self._agent.critic(self._next).flatten()
        advantages, last = torch.zeros(self._shape), torch.zeros(())
        alive = 1 - self._next_done
        for step in reversed(range(self._shape[0])):
            delta = self._rewards[step] + GAMMA * next_value * alive - self._values[step]
            advantages[step] = last = delta + GAMMA * GAE_LAMBDA * alive * last
            next_value, alive = self._values[step], 1 - self._dones[step]
        return advantages

    def _step(
        self,
        observations: Tensor,
        actions: Tensor,
        log_probs: Tensor,
        values: Tensor,
        advantages: Tensor,
        returns: Tensor,
    ) -> float:
        """Train on a minibatch; return the share of clipped ratios, which CleanRL reads after each."""
        _, new_log_probs, entropies, new_values = self._agent(observations, actions)
        ratio = (new_log_probs - log_probs).exp()
        with torch.no_grad():
            clipped: float = ((ratio - 1).abs() > CLIP).float().mean().item()
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        policy_loss = torch.max(-advantages * ratio, -advantages * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
        new_values = new_values.flatten()
        near = values + (new_values - values).clamp(-CLIP, CLIP)
        errors = [functional.mse_loss(each, returns, reduction="none") for each in (new_values, near)]
        value_loss = 0.5 * torch.max(*errors).mean()
        loss = policy_loss - ENTROPY * entropies.mean() + VALUE * value_loss
        self._optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self._agent.parameters(), MAX_NORM)
        self._optimizer.step()
        return clipped
