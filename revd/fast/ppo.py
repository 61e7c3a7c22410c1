"""A faster PPO with the interface of Stable-Baselines3's."""

from __future__ import annotations

import math

import numpy as np
from stable_baselines3 import PPO

from revd.fast.algorithm import FastOnPolicy
from revd.fast.losses import PPOObjective
from revd.fast.update import PolicyUpdate

_APPROX_KL = PPOObjective.statistics.index("approx_kl")


class FastPPO(FastOnPolicy, PPO):
    """SB3's PPO, faster, with the same arguments, policies, callbacks, logs and files."""

    def train(self) -> None:
        """Train for some epochs on shuffled minibatches; `target_kl` may stop it early."""
        if not self._fast:
            super().train()
            return
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        self._choose_update(keeps_gradients=self.target_kl is not None)
        coefficients = self._coefficients()
        objective = PPOObjective(self.normalize_advantage, clip_values=self.clip_range_vf is not None)
        n_minibatches = math.ceil(self.n_steps * self.n_envs / self.batch_size)
        with (
            self._precision(),
            self._update.prepared(
                objective, coefficients, max_grad_norm=self.max_grad_norm, steps=self.n_epochs * n_minibatches
            ),
        ):
            for epoch in range(self.n_epochs):
                last_epoch, stopped = self._train_epoch(epoch)
                self._n_updates += 1
                if stopped:
                    break
        self._log(coefficients, last_epoch)

    def _train_epoch(self, epoch: int) -> tuple[int, bool]:
        """Train on the rollout once.

        Returns:
            The number of minibatches evaluated, and whether `target_kl` stopped the training.
        """
        evaluated = 0
        for rows in self._buffer.minibatches(self.batch_size):
            evaluated += 1
            if self.target_kl is None:
                self._update.step(rows)
                continue
            assert isinstance(self._update, PolicyUpdate)
            approx_kl = float(self._update.gradients(rows)[_APPROX_KL])
            if approx_kl > 1.5 * self.target_kl:
                if self.verbose >= 1:
                    print(f"Early stopping at step {epoch} due to reaching max kl: {approx_kl:.2f}")
                return evaluated, True
            self._update.apply_gradients()
        return evaluated, False

    def _coefficients(self) -> dict[str, float]:
        """Return the objective's coefficients at this point of the training."""
        progress = self._current_progress_remaining
        # _setup_model has made schedules of both ranges.
        clip_range = float(self.clip_range(progress))  # type: ignore[operator]
        clip_range_vf = math.inf if self.clip_range_vf is None else float(self.clip_range_vf(progress))  # type: ignore[operator]
        return {
            "low": 1 - clip_range,
            "high": 1 + clip_range,
            "clip_range": clip_range,
            "clip_range_vf": clip_range_vf,
            "ent_coef": self.ent_coef,
            "vf_coef": self.vf_coef,
        }

    def _log(self, coefficients: dict[str, float], last_epoch: int) -> None:
        """Log the update; `last_epoch` is the number of minibatches in the last epoch."""
        statistics = self._update.statistics()
        columns = dict(zip(PPOObjective.statistics, statistics.T, strict=True))
        for name in ("entropy_loss", "policy_gradient_loss", "value_loss", "clip_fraction"):
            self.logger.record(f"train/{name}", np.mean(columns[name], dtype=np.float64))
        # As in SB3: the KL of the last epoch only, the loss of the last minibatch only.
        self.logger.record("train/approx_kl", np.mean(columns["approx_kl"][-last_epoch:]))
        self.logger.record("train/loss", float(columns["loss"][-1]))
        self._log_policy()
        self.logger.record("train/clip_range", coefficients["clip_range"])
        if self.clip_range_vf is not None:
            self.logger.record("train/clip_range_vf", coefficients["clip_range_vf"])
