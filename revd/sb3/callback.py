"""One line in a Stable-Baselines3 script: the bonus enters the rewards before returns and advantages are computed."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.utils import obs_as_tensor

from revd.rewards import IntrinsicReward, check_parameters, make_reward
from revd.rewards.config import require_choice, require_fraction, require_number
from revd.rollout import is_finite
from revd.sb3.checkpoint import Checkpoint
from revd.sb3.recorder import RolloutRecorder
from revd.weighting.balance import Balance, BalanceWatch

if TYPE_CHECKING:
    from stable_baselines3.common.buffers import RolloutBuffer

    from revd.arrays import Array
    from revd.rewards.config import BonusNormalization

#: Beyond this, a return over a long rollout may be no number of float32, whatever the weights are.
LARGEST_REWARD = 1e34
_OWN_PARAMETERS = ("weight", "decay", "decay_per", "extrinsic_weight", "verbose")
_PLACE = "pass IntrinsicRewardCallback to learn() itself or in a list, not as the child of another callback"
#: Among the locals of one learn(), which all of its callbacks share: the one that pays.
_PAYER = "intrinsic_reward_callback"


class IntrinsicRewardCallback(BaseCallback):
    """Trains PPO, A2C, TRPO, RecurrentPPO or MaskablePPO on extrinsic reward plus weighted bonus.

    ::

        r_t = extrinsic_weight * r_t(extrinsic) + lambda_l * r^_t,      lambda_l = weight * (1 - decay)^l

    l = 1, 2, … counts rollouts, or the environment steps with decay_per="step". SB3 computes returns and advantages
    before a callback sees the rollout, so they are computed again from the changed rewards; what SB3 bootstraps at
    time-outs is kept as it is. With VecNormalize the reward sees what the policy sees.

    Each `learn()` takes one such callback; two in one are refused. A later `learn()` goes on with memory and counts.
    Everything is logged under `exploration/`; `latest` holds the numbers of the last rollout. `watch` warns where the
    bonus does not steer the policy, or is nearly all that steers it.

    Args:
        reward: A name ("revd", "re3", "ride") or an `IntrinsicReward`.
        weight: lambda_0, the bonus's initial weight.
        decay: kappa, by which the weight shrinks.
        decay_per: "rollout" or "step" (environment steps, all environments counted).
        extrinsic_weight: Factor of the task's own reward; 0 trains on the bonus alone.
        normalize: "rms" divides the bonus by its running standard deviation.
        verbose: SB3's verbosity.
        reward_params: Parameters of the method, such as `k` or `alpha`; `seed` is the model's unless given.
    """

    def __init__(
        self,
        reward: str | IntrinsicReward = "revd",
        *,
        weight: float = 0.1,
        decay: float = 1e-5,
        decay_per: Literal["rollout", "step"] = "rollout",
        extrinsic_weight: float = 1.0,
        normalize: BonusNormalization = "none",
        verbose: int = 0,
        **reward_params: Any,
    ) -> None:
        super().__init__(verbose)
        require_number("weight", weight)
        require_fraction("decay", decay)
        require_choice("decay_per", decay_per, ("rollout", "step"))
        require_number("extrinsic_weight", extrinsic_weight)
        require_choice("normalize", normalize, ("none", "rms"))
        params = dict(reward_params)
        if normalize != "none" and isinstance(reward, IntrinsicReward):
            reward.config = replace(reward.config, normalize=normalize)
        elif normalize != "none":
            params["normalize"] = normalize
        check_parameters(reward, params, besides=_OWN_PARAMETERS)
        self.weight = weight
        self.decay = decay
        self.decay_per = decay_per
        self.extrinsic_weight = extrinsic_weight
        self.reward = reward if isinstance(reward, IntrinsicReward) else None
        self.rollouts = 0
        self.steps = 0
        self.latest: dict[str, float] = {}
        self._requested = reward
        self._params = params
        self._recorder = RolloutRecorder()
        self.watch = BalanceWatch()
        self._pending: Checkpoint | None = None
        self._last_end = 0.0

    def save(self, path: str | PathLike[str]) -> None:
        """Write counts, statistics and the reward's state to one safetensors file: no pickles."""
        self.checkpoint().write(path)

    def load(self, path: str | PathLike[str]) -> None:
        """Go on where `save` stopped; before training starts, the state is applied when it does."""
        self.restore(Checkpoint.read(path))

    def checkpoint(self) -> Checkpoint:
        """What `save` writes."""
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
        """What `load` does with what it has read."""
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
            # An instance, or the reward of an earlier learn(): it goes on, if it fits this model.
            return make_reward(self.reward, *spaces, n_envs=model.n_envs)
        params = dict(self._params)
        if model.seed is not None:
            params.setdefault("seed", model.seed)
        return make_reward(self._requested, *spaces, n_envs=model.n_envs, **params)

    def _restore(self, reward: IntrinsicReward, checkpoint: Checkpoint) -> None:
        checkpoint.load_into(reward)
        self.rollouts, self.steps = checkpoint.rollouts, checkpoint.steps

    def _on_training_start(self) -> None:
        if _PAYER in self.locals:
            raise RuntimeError(
                "this training has a second IntrinsicRewardCallback: each would take the other's bonus for the task's "
                "reward or SB3's time-out bootstrap; pass one to learn(), once"
            )
        # One that learn() was given itself is nobody's child, though it may have been in an earlier learn().
        if self.parent is not None and self.locals.get("callback") is not self:
            # An EventCallback passes neither the start nor the end of a rollout on to its children.
            raise RuntimeError(f"{type(self.parent).__name__} would never pay the bonus: {_PLACE}")
        self.locals[_PAYER] = self
        self._last_end = time.perf_counter()

    def _on_rollout_start(self) -> None:
        assert self.reward is not None
        self._recorder.start(successors=self.reward.uses_successors)

    def _on_step(self) -> bool:
        if "rewards" not in self.locals:
            # EvalCallback tells its callback_on_new_best of new best policies alone.
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
            # learn() was called anew, or every episode has just ended, in which case this changes nothing.
            reward.end_episodes()
        rollout = self._recorder.rollout(model)
        raw = self._recorder.rewards
        bootstrap = _bootstrap(buffer.rewards, raw)
        bonus = reward.compute(rollout).cpu().numpy()
        losses = reward.update(rollout)
        weights = self._weights(buffer.buffer_size, buffer.n_envs)
        last_values = _predicted_values(model)
        dones = model._last_episode_starts
        assert dones is not None
        # A number too large for float32 becomes infinite here, and is named below rather than warned about.
        with np.errstate(over="ignore", invalid="ignore"):
            buffer.rewards = (self.extrinsic_weight * raw + bootstrap + weights * bonus).astype(np.float32)
            buffer.compute_returns_and_advantage(last_values=last_values, dones=dones)
        self._check_finite(buffer, raw, last_values)
        self._log(bonus, weights, raw, {**reward.metrics(), **losses}, began)

    def _weights(self, n_steps: int, n_envs: int) -> Array:
        """The weight of each step of the rollout, (n_steps, 1); counts the rollout."""
        self.rollouts += 1
        steps = self.steps + n_envs * np.arange(1, n_steps + 1)
        self.steps += n_envs * n_steps
        exponents = np.full(n_steps, self.rollouts) if self.decay_per == "rollout" else steps
        weights: Array = self.weight * (1 - self.decay) ** exponents[:, None].astype(np.float64)
        return weights

    def _check_finite(self, buffer: RolloutBuffer, raw: Array, last_values: torch.Tensor) -> None:
        """Raise a ValueError rather than let the policy train on rewards or returns that are NaN or infinite."""
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
            cause = f"the policy's values of what the environments show now are {last_values.flatten().tolist()}"
        raise ValueError(
            f"the reward at step {step} of environment {env} is {buffer.rewards[step, env]} and its return "
            f"{returns[step, env]}: {cause}"
        )

    def _log(self, bonus: Array, weights: Array, raw: Array, metrics: dict[str, float], began: float) -> None:
        extrinsic, task = self.extrinsic_weight * raw, self._recorder.original_rewards
        balance = Balance.of(weights * bonus, extrinsic, task=task)
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
        if self.weight > 0:
            undecayed = Balance.of(np.float64(self.weight) * bonus, extrinsic, task=task)
            self._observe(balance, undecayed, metrics, bonus.shape)

    def _observe(self, balance: Balance, undecayed: Balance, metrics: dict[str, float], shape: Any) -> None:
        """Warn if something is amiss for long."""
        assert self.reward is not None
        if self.extrinsic_weight > 0:
            self.watch.observe(balance, undecayed=undecayed, shape=shape)
        eps = getattr(self.reward.config, "eps", None)
        if "duplicates" in metrics and eps is not None:
            self.watch.observe_duplicates(metrics["duplicates"], eps=eps, shape=shape)


def _bootstrap(rewards: Array, raw: Array) -> Array:
    """What SB3 has added to the rewards for episodes that ran out of time, gamma V(terminal), (n_steps, n_envs).

    Raises:
        ValueError: It is not finite.
    """
    # A reward that is not finite itself is named when the total is.
    with np.errstate(invalid="ignore"):
        added = rewards - raw
    bad = np.argwhere(np.isfinite(raw) & ~np.isfinite(added))
    if len(bad) > 0:
        step, env = bad[0]
        raise ValueError(
            f"the policy's value of the observation with which an episode ran out of time at step {step} of "
            f"environment {env} is not finite, nor is perhaps that observation"
        )
    return added


def _predicted_values(model: OnPolicyAlgorithm) -> torch.Tensor:
    """V(s_T), the value of the observations that the environments show now; not every loop leaves it in its locals."""
    observation = obs_as_tensor(model._last_obs, model.device)  # type: ignore[arg-type]
    with torch.no_grad():
        if not hasattr(model, "_last_lstm_states"):
            return model.policy.predict_values(observation)
        policy: Any = model.policy
        starts = torch.tensor(model._last_episode_starts, dtype=torch.float32, device=model.device)
        values: torch.Tensor = policy.predict_values(observation, model._last_lstm_states.vf, starts)
        return values
