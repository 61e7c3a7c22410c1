"""A faster A2C with the interface of Stable-Baselines3's."""

from __future__ import annotations

from stable_baselines3 import A2C

from revd.fast.algorithm import FastOnPolicy
from revd.fast.losses import A2CObjective


class FastA2C(FastOnPolicy, A2C):
    """SB3's A2C, faster, with the same arguments, policies, callbacks, logs and files."""

    def train(self) -> None:
        """Make one gradient step on the whole rollout."""
        if not self._fast:
            super().train()
            return
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        self._choose_update()
        objective = A2CObjective(self.normalize_advantage)
        coefficients = {"ent_coef": self.ent_coef, "vf_coef": self.vf_coef}
        with (
            self._precision(),
            self._update.prepared(objective, coefficients, max_grad_norm=self.max_grad_norm, steps=1),
        ):
            for rows in self._buffer.minibatches():
                self._update.step(rows)
        self._n_updates += 1
        for name, value in zip(A2CObjective.statistics, self._update.statistics()[0], strict=True):
            self.logger.record(f"train/{name}", float(value))
        self._log_policy()
