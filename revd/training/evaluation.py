"""Evaluations during a training: the deterministic policy on the unchanged task."""

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
class EvaluationResult:
    """The deterministic policy's returns of the task itself.

    Attributes:
        steps: Environment steps of the training at the time.
        return_mean: Mean over the episodes.
        return_std: Standard deviation over the episodes.
        episodes: Number of episodes.
    """

    steps: int
    return_mean: float
    return_std: float
    episodes: int


class _MaskedModel:
    """A model for SB3's `evaluate_policy` that adds action masks to `predict` if the environment has any."""

    def __init__(self, model: Any, env: VecEnv) -> None:
        self._model = model
        self._env = env

    def predict(self, observation: Any, **settings: Any) -> Any:
        return self._model.predict(observation, **settings, **predict_arguments(self._model, self._env))


class EvaluationCallback(BaseCallback):
    """Evaluates the policy between rollouts, every `every` steps.

    Args:
        env: A separate environment without sparse rewards, with a VecNormalize if the training's has one.
        every: Steps between two evaluations.
        episodes: Episodes per evaluation.
        report: Called with each result.
    """

    def __init__(self, env: VecEnv, *, every: int, episodes: int, report: Callable[[EvaluationResult], None]) -> None:
        super().__init__()
        self._env = env
        self._every = every
        self._episodes = episodes
        self._report = report
        self._next = every

    def _init_callback(self) -> None:
        # Images channels first, as in the training's environment.
        self._env = self.model._wrap_env(self._env, monitor_wrapper=False)

    def _on_training_start(self) -> None:
        self._next = (self.num_timesteps // self._every + 1) * self._every

    def _on_rollout_start(self) -> None:
        self._evaluate_if_due()

    def _on_training_end(self) -> None:
        self._evaluate_if_due()

    def _evaluate_if_due(self) -> None:
        # The model's count: this callback's own is not yet updated in on_rollout_start.
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
        model: Any = _MaskedModel(self.model, self._env)
        returns: Any
        returns, _ = evaluate_policy(
            model, self._env, n_eval_episodes=self._episodes, deterministic=True, return_episode_rewards=True
        )
        result = EvaluationResult(
            steps=self.model.num_timesteps,
            return_mean=float(np.mean(returns)),
            return_std=float(np.std(returns)),
            episodes=len(returns),
        )
        self.logger.record("eval/return_mean", result.return_mean)
        self._report(result)
