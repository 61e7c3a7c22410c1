"""The callback that adds the bonus to a rollout before the update."""

from __future__ import annotations

import time
from dataclasses import asdict
from os import PathLike
from typing import TYPE_CHECKING, Any

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from revd.rewards import IntrinsicReward, RewardLike, check_parameters, make_reward
from revd.rewards.config import BONUS_NORMALIZATIONS, require_choice, require_number
from revd.sb3.checkpoint import Checkpoint
from revd.sb3.payment import add_to_advantages, add_to_rewards, time_out_bootstrap
from revd.sb3.recorder import RolloutRecorder
from revd.weighting.balance_warnings import RolloutSize
from revd.weighting.schedule import require_decay
from revd.weighting.weighting import STRENGTH, Weight, Weighting

if TYPE_CHECKING:
    from torch import Tensor

    from revd.arrays import Array
    from revd.rewards.config import BonusNormalization
    from revd.rollout import Rollout
    from revd.weighting.schedule import DecayPer

_OWN_PARAMETERS = ("weight", "strength", "yield_to_task", "decay", "decay_per", "extrinsic_weight", "verbose")
#: Characters of a number's name in the table that SB3 prints.
LONGEST_PRINTED_NAME = 33
_PLACE = "pass IntrinsicRewardCallback to learn() itself or in a list, not as the child of another callback"
#: The key of the callback that pays, in the locals that all callbacks of one learn() share.
_PAYER = "intrinsic_reward_callback"


class IntrinsicRewardCallback(BaseCallback):
    """Trains PPO, A2C, TRPO, RecurrentPPO or MaskablePPO on the task's reward and a bonus.

    With weight="auto", the bonus joins the policy's advantages, and its weight follows from the data::

        A_t = extrinsic_weight * A_t(task) + w * A_t(bonus),    w = strength * sigma(A(task)) / sigma(A(bonus))

    The bonus has a critic of its own (`revd.weighting.automatic`). Returns stay the task's. Nothing needs tuning.

    With a number, the bonus joins the rewards, as in the paper::

        r_t = extrinsic_weight * r_t(extrinsic) + lambda_l * r^_t,      lambda_l = weight * (1 - decay)^l

    SB3 computes returns and advantages before a callback sees the rollout, so they are computed again from the changed
    rewards. SB3's time-out bootstrap is kept unscaled. l = 1, 2, … counts rollouts, or the environment steps with
    decay_per="step".

    With VecNormalize the reward sees the same observations as the policy. Each `learn()` takes one such callback; a
    second one is an error. A later `learn()` keeps memory and counts. All numbers are logged under `exploration/`;
    `latest` holds those of the last rollout.

    Args:
        reward: A name (`revd rewards` lists them), a list of names to mix, or an `IntrinsicReward`.
        weight: "auto", or lambda_0, the bonus's initial weight.
        strength: With "auto", how strong the bonus is in the advantages, relative to the task. It decays like a
            weight.
        yield_to_task: With "auto", whether the bonus leaves the policy to a task whose reward is dense: one that
            differs at most steps from the step before.
        decay: kappa, by which weight or strength shrinks.
        decay_per: "rollout" or "step" (environment steps, all environments counted).
        extrinsic_weight: Factor of the task's own reward; 0 trains on the bonus alone.
        normalize: "rms" divides the bonus by its running standard deviation, "standard" subtracts its running mean
            first. Only with a name: pass it to `make_reward` for an instance.
        verbose: SB3's verbosity.
        reward_params: Parameters of the method, such as `k` or `alpha`, only with a name; `seed` is the model's by
            default, or 0 if the model has none.
    """

    def __init__(
        self,
        reward: RewardLike = "revd",
        *,
        weight: Weight = "auto",
        strength: float = STRENGTH,
        yield_to_task: bool = True,
        decay: float = 1e-5,
        decay_per: DecayPer = "rollout",
        extrinsic_weight: float = 1.0,
        normalize: BonusNormalization = "none",
        verbose: int = 0,
        **reward_params: Any,
    ) -> None:
        super().__init__(verbose)
        self.weighting = Weighting(
            weight=weight,
            strength=strength,
            yield_to_task=yield_to_task,
            decay=decay,
            decay_per=decay_per,
            extrinsic_weight=extrinsic_weight,
        )
        require_choice("normalize", normalize, BONUS_NORMALIZATIONS)
        params = reward_params if normalize == "none" else {**reward_params, "normalize": normalize}
        check_parameters(reward, params, besides=("reward", *_OWN_PARAMETERS))
        self.reward = reward if isinstance(reward, IntrinsicReward) else None
        self.latest: dict[str, float] = {}
        self._requested = reward
        self._params = params
        self._recorder = RolloutRecorder()
        self._pending: Checkpoint | None = None
        self._last_end = 0.0
        self._in_rollout = False

    @property
    def weight(self) -> Weight:
        """lambda_0, or "auto". A number and the next five may be changed between rollouts."""
        return "auto" if self.weighting.is_automatic else self.weighting.schedule.weight

    @weight.setter
    def weight(self, value: float) -> None:
        if self.weighting.is_automatic:
            raise ValueError("weight is 'auto' in this training: change strength, or begin with a number")
        require_number("weight", value)
        self.weighting.schedule.weight = value

    @property
    def strength(self) -> float:
        """With weight="auto", how strong the bonus is in the policy's advantages, relative to the task."""
        return self.weighting.schedule.weight if self.weighting.is_automatic else STRENGTH

    @strength.setter
    def strength(self, value: float) -> None:
        if not self.weighting.is_automatic:
            raise ValueError(f"weight is {self.weight}: strength belongs to weight='auto'")
        require_number("strength", value)
        self.weighting.schedule.weight = value

    @property
    def yield_to_task(self) -> bool:
        """With weight="auto", whether the bonus leaves the policy to a task whose reward is dense."""
        return self.weighting.yield_to_task

    @yield_to_task.setter
    def yield_to_task(self, value: bool) -> None:
        self.weighting.yield_to_task = value

    @property
    def decay(self) -> float:
        """Kappa."""
        return self.weighting.schedule.decay

    @decay.setter
    def decay(self, value: float) -> None:
        require_decay(value, self.decay_per)
        self.weighting.schedule.decay = value

    @property
    def decay_per(self) -> DecayPer:
        """What l counts."""
        return self.weighting.schedule.decay_per

    @decay_per.setter
    def decay_per(self, value: DecayPer) -> None:
        require_decay(self.decay, value)
        self.weighting.schedule.decay_per = value

    @property
    def extrinsic_weight(self) -> float:
        """Factor of the task's own reward."""
        return self.weighting.extrinsic_weight

    @extrinsic_weight.setter
    def extrinsic_weight(self, value: float) -> None:
        require_number("extrinsic_weight", value)
        self.weighting.extrinsic_weight = value

    @property
    def rollouts(self) -> int:
        """Rollouts so far."""
        return self.weighting.schedule.rollouts if self._pending is None else self._pending.rollouts

    @property
    def steps(self) -> int:
        """Environment steps so far, of all environments."""
        return self.weighting.schedule.steps if self._pending is None else self._pending.steps

    def save(self, path: str | PathLike[str]) -> None:
        """Write counts, statistics and the reward's state to one safetensors file: no pickles."""
        self.checkpoint().write(path)

    def load(self, path: str | PathLike[str]) -> None:
        """Restore what `save` wrote; before training, the state is applied when training starts."""
        self.restore(Checkpoint.read(path))

    def checkpoint(self) -> Checkpoint:
        """The state that `save` writes."""
        if self._pending is not None:
            return self._pending
        if self.reward is None:
            raise ValueError("there is nothing to save before training has started")
        tensors, values = self.weighting.state()
        return Checkpoint(
            method=type(self.reward).__name__,
            parameters=asdict(self.reward.config),
            state=self.reward.state_dict(),
            weighting=tensors,
            n_envs=self.reward.n_envs,
            **values,
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
        self.weighting.attach(reward)
        if self._pending is not None:
            self._restore(reward, self._pending)
            self._pending = None
        self.reward = reward.to(model.device)
        if self.weighting.automatic is not None:
            self.weighting.automatic.to(model.device)

    def _make_reward(self, model: OnPolicyAlgorithm) -> IntrinsicReward:
        spaces = model.observation_space, model.action_space
        if self.reward is not None:
            try:
                return make_reward(self.reward, *spaces, n_envs=model.n_envs)
            except ValueError as error:
                if self.reward is self._requested:
                    raise
                raise ValueError(
                    f"{error}. The callback made it in an earlier learn(): pass a new IntrinsicRewardCallback"
                ) from None
        params = dict(self._params)
        if model.seed is not None:
            params.setdefault("seed", model.seed)
        return make_reward(self._requested, *spaces, n_envs=model.n_envs, **params)

    def _restore(self, reward: IntrinsicReward, checkpoint: Checkpoint) -> None:
        checkpoint.load_into(reward)
        self._in_rollout = False
        # A file of a fixed weight tells nothing about an automatic one, nor does an earlier training.
        self.weighting.attach(reward, anew=not checkpoint.weighting)
        self.weighting.restore(checkpoint.weighting, checkpoint.values)

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
        if self._in_rollout:
            # The last one was abandoned, and with it the ends of its episodes.
            self._end_episodes(self.reward)
        self._in_rollout = True
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
        """Compute the bonus and add it to the rollout: to the advantages, or to the rewards."""
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
            self._end_episodes(reward)
        # Both may raise an error: before the reward's state changes.
        bootstrap = time_out_bootstrap(model, self._recorder)
        rollout = self._recorder.rollout(model)
        bonus = reward.compute(rollout)
        # Before the reward trains its encoder, whose embeddings the automatic weight reads.
        numbers = self._add(bonus, rollout, bootstrap)
        losses = reward.update(rollout)
        self.weighting.check_rollout(reward, RolloutSize(steps_per_env=rollout.n_steps, steps=bonus.numel()))
        self._log({**reward.metrics(), **losses, "bonus_mean": float(bonus.mean()), **numbers}, began)
        self._in_rollout = False

    def _end_episodes(self, reward: IntrinsicReward) -> None:
        reward.end_episodes()
        self.weighting.end_episodes()

    def _add(self, bonus: Tensor, rollout: Rollout, bootstrap: Array) -> dict[str, float]:
        """Add the bonus to the rollout; numbers for the log."""
        model = self.model
        assert isinstance(model, OnPolicyAlgorithm)
        assert self.reward is not None
        if self.weighting.is_automatic:
            return add_to_advantages(model, self._recorder, self.weighting, bonus, reward=self.reward, rollout=rollout)
        return add_to_rewards(model, self._recorder, self.weighting, bonus, bootstrap=bootstrap)

    def _log(self, numbers: dict[str, float], began: float) -> None:
        now = time.perf_counter()
        self.latest = {**numbers, "time_fraction": (now - began) / max(now - self._last_end, 1e-9)}
        self._last_end = now
        for name, value in self.latest.items():
            # SB3 cuts longer names in its table, and raises an error if two are then equal.
            exclude = ("stdout", "log") if len(name) > LONGEST_PRINTED_NAME else None
            self.logger.record(f"exploration/{name}", value, exclude=exclude)
