"""Evaluations while training: the deterministic policy on the untouched task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import sync_envs_normalization, unwrap_vec_normalize

from revd.training.algorithms import predict_arguments

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecEnv


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The task's own return of the deterministic policy after so many steps of training."""

    steps: int
    return_mean: float
    return_std: float
    episodes: int


class _Player:
    """The model as SB3's evaluation asks it, told of action masks where there are any."""

    def __init__(self, model: Any, env: VecEnv) -> None:
        self._model = model
        self._env = env

    def predict(self, observation: Any, **settings: Any) -> Any:
        return self._model.predict(observation, **settings, **predict_arguments(self._model, self._env))


class EvaluationCallback(BaseCallback):
    """Evaluates between two rollouts, whenever `every` steps have passed, and reports.

    Args:
        env: An environment of its own, without sparse rewards; normalised as the training's, if that is.
        every: Steps between two evaluations.
        episodes: Episodes of each.
        report: Told of every evaluation.
    """

    def __init__(self, env: VecEnv, *, every: int, episodes: int, report: Callable[[Evaluation], None]) -> None:
        super().__init__()
        self._env = env
        self._every = every
        self._episodes = episodes
        self._report = report
        self._next = every

    def _init_callback(self) -> None:
        # As the training's own environment was: images channels first.
        self._env = self.model._wrap_env(self._env, monitor_wrapper=False)

    def _on_training_start(self) -> None:
        self._next = (self.num_timesteps // self._every + 1) * self._every

    def _on_rollout_start(self) -> None:
        self._evaluate_if_due()

    def _on_training_end(self) -> None:
        self._evaluate_if_due()

    def _evaluate_if_due(self) -> None:
        # The model's own count: in on_rollout_start this callback's is still the one before the rollout.
        steps = self.model.num_timesteps
        if steps >= self._next:
            self._next = (steps // self._every + 1) * self._every
            self._evaluate()

    def _on_step(self) -> bool:
        return True

    def _evaluate(self) -> None:
        normalization = unwrap_vec_normalize(self._env)
        if normalization is not None:
            normalization.training = False
            sync_envs_normalization(self.training_env, self._env)
        player: Any = _Player(self.model, self._env)
        returns: Any
        returns, _ = evaluate_policy(
            player, self._env, n_eval_episodes=self._episodes, deterministic=True, return_episode_rewards=True
        )
        evaluation = Evaluation(
            steps=self.model.num_timesteps,
            return_mean=float(np.mean(returns)),
            return_std=float(np.std(returns)),
            episodes=len(returns),
        )
        self.logger.record("eval/return_mean", evaluation.return_mean)
        self._report(evaluation)
