"""Tiny models, a reward with known numbers, and callbacks that record a training."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from sb3_contrib import TRPO, MaskablePPO, RecurrentPPO
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.vec_env import VecEnv

from revd import Rollout
from revd.rewards import IntrinsicReward
from revd.sb3 import FastA2C, FastPPO, IntrinsicRewardCallback
from tests.support.environments import counting_envs

Array = np.ndarray[Any, Any]

ALGORITHMS: dict[str, type[OnPolicyAlgorithm]] = {
    algorithm.__name__: algorithm for algorithm in (PPO, A2C, TRPO, RecurrentPPO, MaskablePPO)
}
#: Ours among them.
ALL_ALGORITHMS: dict[str, type[OnPolicyAlgorithm]] = {**ALGORITHMS, "FastPPO": FastPPO, "FastA2C": FastA2C}


def make_model(algo: str, env: VecEnv, *, n_steps: int = 8, policy: str = "MlpPolicy", **arguments: Any) -> Any:
    """A model of the given class with networks of a few units, on the CPU."""
    networks: dict[str, Any] = {"net_arch": [8]}
    if algo == "RecurrentPPO":
        policy = policy.replace("Policy", "LstmPolicy")
        networks["lstm_hidden_size"] = 8
    if "A2C" not in algo:
        arguments.setdefault("batch_size", n_steps * env.num_envs)
    if algo.endswith("PPO"):
        arguments.setdefault("n_epochs", 2)
    networks.update(arguments.pop("policy_kwargs", {}))
    arguments.setdefault("seed", 0)
    model = ALL_ALGORITHMS[algo](policy, env, n_steps=n_steps, device="cpu", policy_kwargs=networks, **arguments)
    # SB3 would make a folder in /tmp for every learn().
    model.set_logger(Logger(folder=None, output_formats=[]))
    return model


def flat_parameters(model: Any) -> torch.Tensor:
    """All of a policy's numbers, one after the other."""
    return torch.cat([tensor.detach().reshape(-1).double() for tensor in model.policy.state_dict().values()])


class ScriptedReward(IntrinsicReward):
    """Pays the bonuses of a table, and keeps the rollouts that it was given."""

    def __init__(self, *arguments: Any, table: Array | None = None, **parameters: Any) -> None:
        super().__init__(*arguments, **parameters)
        self.table = table
        self.rollouts: list[Rollout] = []
        self.ended_before: list[int] = []
        self.paid: list[Array] = []
        self.updated: list[int] = []

    def bonus(self, rollout: Rollout) -> torch.Tensor:
        self.rollouts.append(rollout)
        table = self.table
        if table is None:
            # Two rollouts never pay the same.
            table = np.random.default_rng(len(self.rollouts)).normal(size=rollout.dones.shape)
        self.paid.append(table)
        return torch.as_tensor(table, dtype=torch.float32)

    def update(self, rollout: Rollout) -> dict[str, float]:
        assert rollout is self.rollouts[-1]
        self.updated.append(len(self.rollouts))
        return {"loss": 0.25}

    def end_episodes(self) -> None:
        self.ended_before.append(len(self.rollouts))


def scripted_reward(model: Any, table: Array | None = None) -> ScriptedReward:
    """One that fits a model."""
    return ScriptedReward(model.observation_space, model.action_space, model.n_envs, table=table)


@dataclass
class Seen:
    """One rollout as it was collected, and the buffer as the update found it."""

    raw: list[Array] = field(default_factory=list)
    dones: list[Array] = field(default_factory=list)
    bootstrap: list[Array] = field(default_factory=list)
    values: Array | None = None
    rewards: Array | None = None
    advantages: Array | None = None
    returns: Array | None = None


class Witness(BaseCallback):
    """Records, independently of the code under test, each rollout, and the buffer when `train()` is called."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Seen] = []

    def _init_callback(self) -> None:
        train = self.model.train  # type: ignore[attr-defined]

        def witnessed() -> None:
            buffer = self.model.rollout_buffer  # type: ignore[attr-defined]
            for name in ("values", "rewards", "advantages", "returns"):
                setattr(self.seen[-1], name, getattr(buffer, name).astype(np.float64))
            train()

        self.model.train = witnessed  # type: ignore[attr-defined]

    def _on_rollout_start(self) -> None:
        self.seen.append(Seen())

    def _on_step(self) -> bool:
        seen = self.seen[-1]
        seen.raw.append(np.array(self.locals["rewards"], dtype=np.float64))
        seen.dones.append(np.array(self.locals["dones"]))
        seen.bootstrap.append(np.array([self._bootstrap(env) for env in range(len(seen.dones[-1]))]))
        return True

    def _bootstrap(self, env: int) -> float:
        """gamma * V(terminal observation) if a time limit ended the episode."""
        info = self.locals["infos"][env]
        if not self.locals["dones"][env] or not info["TimeLimit.truncated"]:
            return 0.0
        policy: Any = self.model.policy
        observation, _ = policy.obs_to_tensor(info["terminal_observation"])
        memory = []
        if "lstm_states" in self.locals:
            states = [part[:, env : env + 1].contiguous() for part in self.locals["lstm_states"].vf]
            memory = [tuple(states), torch.zeros(1)]
        with torch.no_grad():
            value = policy.predict_values(observation, *memory)
        return float(self.model.gamma * value.double())  # type: ignore[attr-defined]


class Onlooker(Witness):
    """Also keeps the bonus of each rollout, and the values of its critic before it learns from it.

    Values are None where the critic was not asked.
    """

    def __init__(self, callback: IntrinsicRewardCallback) -> None:
        super().__init__()
        self.callback = callback
        self.values: list[Array | None] = []
        self.paid: list[Array] = []

    def _on_training_start(self) -> None:
        assert self.callback.reward is not None
        assert self.callback.weighting.automatic is not None
        self.callback.weighting.automatic.critic.register_forward_hook(self._keep_values)
        compute = self.callback.reward.compute
        self.callback.reward.compute = lambda rollout: self._keep(compute(rollout))  # type: ignore[method-assign]

    def _on_rollout_start(self) -> None:
        super()._on_rollout_start()
        self.values.append(None)

    def _keep(self, bonus: torch.Tensor) -> torch.Tensor:
        self.paid.append(bonus.double().numpy().copy())
        return bonus

    def _keep_values(self, critic: Any, inputs: Any, values: torch.Tensor) -> None:
        # All states at once; minibatches have one dimension.
        if values.ndim == 2:
            self.values[-1] = values.detach().double().numpy().copy()


def generalized_advantages(
    rewards: Array, values: Array, last_values: Array, dones: Array, gamma: float, gae_lambda: float
) -> Array:
    """GAE as the double sum of its definition: A_t = sum_j (gamma lambda)^j delta_{t+j}, up to the episode's end."""
    n_steps, n_envs = rewards.shape
    following = np.concatenate([values[1:], last_values[None]])
    advantages = np.zeros((n_steps, n_envs))
    for env in range(n_envs):
        for step in range(n_steps):
            for later in range(step, n_steps):
                alive = 0.0 if dones[later, env] else 1.0
                delta = rewards[later, env] + gamma * alive * following[later, env] - values[later, env]
                advantages[step, env] += (gamma * gae_lambda) ** (later - step) * delta
                if dones[later, env]:
                    break
    return advantages


def trained(callback: Any = None, *, algo: str = "PPO", rollouts: int = 3, env: Any = None, **arguments: Any) -> Any:
    env = env or counting_envs(2, truncate=True)
    policy = "MultiInputPolicy" if isinstance(env.observation_space, spaces.Dict) else "MlpPolicy"
    model = make_model(algo, env, **{"policy": policy, "n_steps": 6, **arguments})
    return model.learn(rollouts * model.n_steps * env.num_envs, callback=callback)


def scripted_callback(env: Any, table: np.ndarray | None = None, **arguments: Any) -> Any:
    class Model:
        observation_space, action_space, n_envs = env.observation_space, env.action_space, env.num_envs

    return IntrinsicRewardCallback(scripted_reward(Model, table), **arguments)


class LatestOfEachRollout(BaseCallback):
    """Keeps the numbers of the bonus's callback, earlier in the list, and of the logger after each rollout."""

    def __init__(self, source: IntrinsicRewardCallback) -> None:
        super().__init__()
        self.source = source
        self.latest: list[dict[str, float]] = []
        self.logged: list[dict[str, Any]] = []
        self.rewards: list[np.ndarray] = []

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        self.latest.append(dict(self.source.latest))
        self.logged.append(dict(self.logger.name_to_value))
        self.rewards.append(self.model.rollout_buffer.rewards.copy())  # type: ignore[attr-defined]
