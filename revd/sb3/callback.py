"""The callback that adds the bonus to a rollout's rewards before returns and advantages are computed."""

from __future__ import annotations

import time
from dataclasses import asdict
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.utils import obs_as_tensor

from revd.rewards import IntrinsicReward, check_parameters, make_reward
from revd.rewards.config import require_choice
from revd.rollout import is_finite
from revd.sb3.checkpoint import Checkpoint
from revd.sb3.recorder import RolloutRecorder
from revd.weighting.balance_warnings import RolloutSize
from revd.weighting.weighting import Weighting

if TYPE_CHECKING:
    from stable_baselines3.common.buffers import RolloutBuffer

    from revd.arrays import Array
    from revd.rewards.config import BonusNormalization
    from revd.weighting.schedule import DecayPer

#: Above this, a return over a long rollout may overflow float32, whatever the weights are.
LARGEST_REWARD = 1e34
_OWN_PARAMETERS = ("weight", "decay", "decay_per", "extrinsic_weight", "verbose")
_PLACE = "pass IntrinsicRewardCallback to learn() itself or in a list, not as the child of another callback"
#: The key of the callback that pays, in the locals that all callbacks of one learn() share.
_PAYER = "intrinsic_reward_callback"


class IntrinsicRewardCallback(BaseCallback):
    """Trains PPO, A2C, TRPO, RecurrentPPO or MaskablePPO on extrinsic reward plus weighted bonus.

    ::

        r_t = extrinsic_weight * r_t(extrinsic) + lambda_l * r^_t,      lambda_l = weight * (1 - decay)^l

    l = 1, 2, … counts rollouts, or the environment steps with decay_per="step". SB3 computes returns and advantages
    before a callback sees the rollout, so they are computed again from the changed rewards. SB3's time-out bootstrap is
    kept unscaled. With VecNormalize the reward sees the same observations as the policy.

    Each `learn()` takes one such callback; a second one is an error. A later `learn()` keeps memory and counts. All
    numbers are logged under `exploration/`; `latest` holds those of the last rollout. Warnings tell when the bonus does
    not steer the policy, or when almost nothing else does.

    Args:
        reward: A name ("revd", "re3", "ride") or an `IntrinsicReward`.
        weight: lambda_0, the bonus's initial weight.
        decay: kappa, by which the weight shrinks.
        decay_per: "rollout" or "step" (environment steps, all environments counted).
        extrinsic_weight: Factor of the task's own reward; 0 trains on the bonus alone.
        normalize: "rms" divides the bonus by its running standard deviation. Only with a name: pass it to `make_reward`
            for an instance.
        verbose: SB3's verbosity.
        reward_params: Parameters of the method, such as `k` or `alpha`, only with a name; `seed` is the model's by
            default.
    """

    def __init__(
        self,
        reward: str | IntrinsicReward = "revd",
        *,
        weight: float = 0.1,
        decay: float = 1e-5,
        decay_per: DecayPer = "rollout",
        extrinsic_weight: float = 1.0,
        normalize: BonusNormalization = "none",
        verbose: int = 0,
        **reward_params: Any,
    ) -> None:
        super().__init__(verbose)
        self.weighting = Weighting(weight=weight, decay=decay, decay_per=decay_per, extrinsic_weight=extrinsic_weight)
        require_choice("normalize", normalize, ("none", "rms"))
        params = reward_params if normalize == "none" else {**reward_params, "normalize": normalize}
        check_parameters(reward, params, besides=_OWN_PARAMETERS)
        self.reward = reward if isinstance(reward, IntrinsicReward) else None
        self.latest: dict[str, float] = {}
        self._requested = reward
        self._params = params
        self._recorder = RolloutRecorder()
        self._pending: Checkpoint | None = None
        self._last_end = 0.0

    @property
    def weight(self) -> float:
        """lambda_0; it and the next three may be changed between rollouts."""
        return self.weighting.schedule.weight

    @weight.setter
    def weight(self, value: float) -> None:
        self.weighting.schedule.weight = value

    @property
    def decay(self) -> float:
        """Kappa."""
        return self.weighting.schedule.decay

    @decay.setter
    def decay(self, value: float) -> None:
        self.weighting.schedule.decay = value

    @property
    def decay_per(self) -> DecayPer:
        """What l counts."""
        return self.weighting.schedule.decay_per

    @decay_per.setter
    def decay_per(self, value: DecayPer) -> None:
        self.weighting.schedule.decay_per = value

    @property
    def extrinsic_weight(self) -> float:
        """Factor of the task's own reward."""
        return self.weighting.extrinsic_weight

    @extrinsic_weight.setter
    def extrinsic_weight(self, value: float) -> None:
        self.weighting.extrinsic_weight = value

    @property
    def rollouts(self) -> int:
        """Rollouts so far."""
        return self.weighting.schedule.rollouts

    @property
    def steps(self) -> int:
        """Environment steps so far, of all environments."""
        return self.weighting.schedule.steps

    def save(self, path: str | PathLike[str]) -> None:
        """Write counts, statistics and the reward's state to one safetensors file: no pickles."""
        self.checkpoint().write(path)

    def load(self, path: str | PathLike[str]) -> None:
        """Restore what `save` wrote; before training, the state is applied when training starts."""
        self.restore(Checkpoint.read(path))

    def checkpoint(self) -> Checkpoint:
        """The state that `save` writes."""
        if self.reward is None:
            raise ValueError("there is nothing to save before training has started")
        return Checkpoint(
            method=type(self.reward).__name__,
            parameters=asdict(self.reward.config),
            rollouts=self.rollouts,
            steps=self.steps,
            state=self.reward.state_dict(),
            n_envs=self.reward.n_envs,
        )

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore a state that `checkpoint` returned, as `load` does."""
        if self.reward is None:
            self._pending = checkpoint
        else:
            self._restore(self.reward, checkpoint)

    def _init_callback(self) -> None:
        model = self.model
        if not isinstance(model, OnPolicyAlgorithm):
            raise TypeError(
                f"IntrinsicRewardCallback changes on-policy rollouts before the update, which {type(model).__name__} "
                "does not have; use PPO, A2C, TRPO, RecurrentPPO or MaskablePPO"
            )
        reward = self._make_reward(model)
        reward.check_rollout_length(model.n_steps)
        if self._pending is not None:
            self._restore(reward, self._pending)
            self._pending = None
        self.reward = reward.to(model.device)

    def _make_reward(self, model: OnPolicyAlgorithm) -> IntrinsicReward:
        spaces = model.observation_space, model.action_space
        if self.reward is not None:
            # An instance, or the reward of an earlier learn(), is used again if it fits this model.
            return make_reward(self.reward, *spaces, n_envs=model.n_envs)
        params = dict(self._params)
        if model.seed is not None:
            params.setdefault("seed", model.seed)
        return make_reward(self._requested, *spaces, n_envs=model.n_envs, **params)

    def _restore(self, reward: IntrinsicReward, checkpoint: Checkpoint) -> None:
        checkpoint.load_into(reward)
        schedule = self.weighting.schedule
        schedule.rollouts, schedule.steps = checkpoint.rollouts, checkpoint.steps
        self.weighting.warnings.resume()

    def _on_training_start(self) -> None:
        if _PAYER in self.locals:
            raise RuntimeError(
                "this training has a second IntrinsicRewardCallback: each would take the other's bonus for the task's "
                "reward or SB3's time-out bootstrap; pass one, once, and mix rewards in it: reward=['revd', 're3']"
            )
        # A callback passed to learn() itself has no parent now, though it may have had one in an earlier learn().
        if self.parent is not None and self.locals.get("callback") is not self:
            # An EventCallback does not tell its children when a rollout starts or ends.
            raise RuntimeError(f"{type(self.parent).__name__} would never pay the bonus: {_PLACE}")
        self.locals[_PAYER] = self
        self._last_end = time.perf_counter()

    def _on_training_end(self) -> None:
        # A loop of one's own may pass the same locals to its next training.
        self.locals.pop(_PAYER, None)

    def _on_rollout_start(self) -> None:
        assert self.reward is not None
        self._recorder.start(successors=self.reward.uses_successors)

    def _on_step(self) -> bool:
        if "rewards" not in self.locals:
            # EvalCallback calls its callback_on_new_best only for new best policies.
            raise RuntimeError(f"the callback is not shown the rewards: {_PLACE}")
        rewards = self.locals["rewards"]
        normalization = self.model.get_vec_normalize_env()
        original = rewards if normalization is None else normalization.get_original_reward()
        self._recorder.step(rewards, self.locals["dones"], self.locals["infos"], original)
        return True

    def _on_rollout_end(self) -> None:
        """Compute the bonus, change the rewards, and let returns and advantages follow."""
        began = time.perf_counter()
        model, reward = self.model, self.reward
        assert isinstance(model, OnPolicyAlgorithm)
        assert reward is not None
        buffer = model.rollout_buffer
        if self._recorder.n_steps != buffer.buffer_size:
            raise RuntimeError(
                f"the callback saw {self._recorder.n_steps} of {buffer.buffer_size} steps of the rollout: {_PLACE}"
            )
        if buffer.episode_starts[0].all():
            # learn() was called again; or all episodes have just ended, and then this changes nothing.
            reward.end_episodes()
        rollout = self._recorder.rollout(model)
        raw = self._recorder.rewards
        bootstrap = _bootstrap(buffer.rewards, raw)
        bonus = reward.compute(rollout).cpu().numpy()
        losses = reward.update(rollout)
        weights = self.weighting.schedule.next_weights(np.full(buffer.buffer_size, buffer.n_envs))
        last_values = _predicted_values(model)
        dones = model._last_episode_starts
        assert dones is not None
        # A number too large for float32 becomes infinite here; _check_finite below raises a better error.
        with np.errstate(over="ignore", invalid="ignore"):
            buffer.rewards = (self.extrinsic_weight * raw + bootstrap + weights * bonus).astype(np.float32)
            buffer.compute_returns_and_advantage(last_values=last_values, dones=dones)
        self._check_finite(buffer, raw, last_values)
        self._log(bonus, weights, raw, {**reward.metrics(), **losses}, began)

    def _check_finite(self, buffer: RolloutBuffer, raw: Array, last_values: torch.Tensor) -> None:
        """Raise a ValueError if a reward or a return is NaN or infinite."""
        returns = torch.as_tensor(buffer.returns).cpu().numpy()
        bad = np.argwhere(~(np.isfinite(buffer.rewards) & np.isfinite(returns)))
        if len(bad) == 0:
            return
        step, env = bad[0]
        cause = f"weight = {self.weight:g} or extrinsic_weight = {self.extrinsic_weight:g} is too large for float32"
        largest = np.unravel_index(np.abs(raw).argmax(), raw.shape)
        if not abs(raw[largest]) < LARGEST_REWARD:
            step, env = largest
            cause = f"the task's own reward is {raw[step, env]:g}"
        elif not is_finite(last_values.cpu().numpy()):
            cause = f"the policy's values of the current observations are {last_values.flatten().tolist()}"
        raise ValueError(
            f"the reward at step {step} of environment {env} is {buffer.rewards[step, env]} and its return "
            f"{returns[step, env]}: {cause}"
        )

    def _log(self, bonus: Array, weights: Array, raw: Array, metrics: dict[str, float], began: float) -> None:
        assert self.reward is not None
        size = RolloutSize(steps_per_env=len(bonus), steps=bonus.size)
        task = self._recorder.original_rewards
        balance = self.weighting.check_balance(self.reward, bonus, weights, raw, task=task, size=size)
        now = time.perf_counter()
        self.latest = {
            **metrics,
            "bonus_mean": float(bonus.mean()),
            "weight": float(weights[-1, 0]),
            "bonus_share": balance.share,
            "time_fraction": (now - began) / max(now - self._last_end, 1e-9),
        }
        if balance.std_ratio is not None:
            self.latest["std_ratio"] = balance.std_ratio
        self._last_end = now
        for name, value in self.latest.items():
            self.logger.record(f"exploration/{name}", value)


def _bootstrap(rewards: Array, raw: Array) -> Array:
    """SB3's bootstrap for episodes that ran out of time, gamma V(terminal), (n_steps, n_envs).

    Raises:
        ValueError: The bootstrap is not finite.
    """
    # A reward that is not finite itself is reported later, with the total.
    with np.errstate(invalid="ignore"):
        added = rewards - raw
    bad = np.argwhere(np.isfinite(raw) & ~np.isfinite(added))
    if len(bad) > 0:
        step, env = bad[0]
        raise ValueError(
            f"the policy's value of the observation with which an episode ran out of time at step {step} of "
            f"environment {env} is not finite; perhaps the observation is not finite either"
        )
    return added


def _predicted_values(model: OnPolicyAlgorithm) -> torch.Tensor:
    """V(s_T), the value of the environments' current observations; not every algorithm has it in its locals."""
    observation = obs_as_tensor(model._last_obs, model.device)  # type: ignore[arg-type]
    with torch.no_grad():
        if not hasattr(model, "_last_lstm_states"):
            return model.policy.predict_values(observation)
        policy: Any = model.policy
        starts = torch.tensor(model._last_episode_starts, dtype=torch.float32, device=model.device)
        values: torch.Tensor = policy.predict_values(observation, model._last_lstm_states.vf, starts)
        return values
