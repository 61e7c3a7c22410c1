"""The two ways in which a bonus enters a rollout of SB3: the rewards, or the policy's advantages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from stable_baselines3.common.utils import obs_as_tensor
from torch import Tensor

from revd.rollout import is_finite
from revd.weighting.balance_warnings import RolloutSize

if TYPE_CHECKING:
    from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

    from revd.arrays import Array
    from revd.rewards import IntrinsicReward
    from revd.rollout import Rollout
    from revd.sb3.recorder import RolloutRecorder
    from revd.weighting.weighting import Weighting

#: Above this, a return over a long rollout may overflow float32, whatever the weights are.
LARGEST_REWARD = 1e34


def time_out_bootstrap(model: OnPolicyAlgorithm, recorder: RolloutRecorder) -> Array:
    """SB3's bootstrap for episodes that ran out of time, gamma V(terminal), (n_steps, n_envs).

    Raises:
        ValueError: The bootstrap is not finite.
    """
    raw = recorder.rewards
    # A reward that is not finite itself is reported later, with the total.
    with np.errstate(invalid="ignore"):
        added: Array = model.rollout_buffer.rewards - raw
    bad = np.argwhere(np.isfinite(raw) & ~np.isfinite(added))
    if len(bad) > 0:
        step, env = bad[0]
        raise ValueError(
            f"the policy's value of the observation with which an episode ran out of time at step {step} of "
            f"environment {env} is not finite; perhaps the observation is not finite either"
        )
    return added


def add_to_rewards(
    model: OnPolicyAlgorithm, recorder: RolloutRecorder, weighting: Weighting, bonus: Tensor, *, bootstrap: Array
) -> dict[str, float]:
    """Add a bonus with a fixed weight to the rewards, and compute returns and advantages again.

    ::

        r_t = extrinsic_weight * r_t(extrinsic) + lambda_l * r^_t

    The time-out bootstrap is kept unscaled.

    Returns:
        Numbers for the log.
    """
    buffer = model.rollout_buffer
    raw, paid = recorder.rewards, bonus.cpu().numpy()
    weights = weighting.schedule.next_weights(np.full(buffer.buffer_size, buffer.n_envs))
    last_values = _predicted_values(model)
    dones = model._last_episode_starts
    assert dones is not None
    # A number too large for float32 becomes infinite here; _check_finite below raises a better error.
    with np.errstate(over="ignore", invalid="ignore"):
        buffer.rewards = (weighting.extrinsic_weight * raw + bootstrap + weights * paid).astype(np.float32)
        buffer.compute_returns_and_advantage(last_values=last_values, dones=dones)
    too_large = f"weight = {weighting.schedule.weight:g} or extrinsic_weight = {weighting.extrinsic_weight:g}"
    _check_finite(model, "return", raw, f"{too_large} is too large for float32")
    size = RolloutSize(steps_per_env=len(paid), steps=paid.size)
    balance = weighting.check_balance(paid, weights, raw, task=recorder.original_rewards, size=size)
    numbers = {"weight": float(weights[-1, 0]), "bonus_share": balance.share}
    return numbers if balance.std_ratio is None else {**numbers, "std_ratio": balance.std_ratio}


def add_to_advantages(
    model: OnPolicyAlgorithm,
    recorder: RolloutRecorder,
    weighting: Weighting,
    bonus: Tensor,
    *,
    reward: IntrinsicReward,
    rollout: Rollout,
) -> dict[str, float]:
    """Add a bonus with an automatic weight to the advantages.

    ::

        A_t = extrinsic_weight * A_t(task) + w * A_t(bonus)

    The returns, and so the policy's value function, stay the task's own. With extrinsic_weight = 0 they become the
    values, so that the value function learns nothing of the task.

    Returns:
        Numbers for the log.
    """
    buffer, automatic = model.rollout_buffer, weighting.automatic
    assert automatic is not None
    raw = recorder.rewards
    # Before the state of the automatic weight changes.
    _check_finite(model, "advantage", raw, "the policy's values are too large for float32")
    dones = np.asarray(rollout.dones)
    about_task = automatic.observe_task(recorder.original_rewards, dones, np.ones_like(dones))
    strength = weighting.schedule.next_weights(np.full(buffer.buffer_size, buffer.n_envs))
    weighed = automatic.weigh(
        bonus,
        automatic.embedder.embed(reward, rollout, recorder.last_observations(model)),
        torch.as_tensor(buffer.advantages).to(bonus.device),
        strength=torch.as_tensor(strength).to(bonus.device),
        extrinsic_weight=weighting.extrinsic_weight,
        paid=reward.latest_paid,
    )
    buffer.advantages = _like(buffer.advantages, weighed.advantages)
    too_large = f"strength = {weighting.schedule.weight:g} or extrinsic_weight = {weighting.extrinsic_weight:g}"
    _check_finite(model, "advantage", raw, f"{too_large} is too large for float32")
    if weighting.extrinsic_weight == 0:
        buffer.returns = buffer.values.copy() if isinstance(buffer.values, np.ndarray) else buffer.values
    return {**weighed.numbers, **about_task}


def _like(field: Any, values: Tensor) -> Any:
    """The values as the buffer's field is: an array on the host, or a tensor on the device."""
    return values.cpu().numpy().astype(np.float32) if isinstance(field, np.ndarray) else values.to(field)


def _check_finite(model: OnPolicyAlgorithm, learnt: Literal["return", "advantage"], raw: Array, cause: str) -> None:
    """Raise a ValueError if a reward, or the return or advantage that is learnt from it, is NaN or infinite."""
    buffer = model.rollout_buffer
    values = torch.as_tensor(getattr(buffer, f"{learnt}s")).cpu().numpy()
    bad = np.argwhere(~(np.isfinite(buffer.rewards) & np.isfinite(values)))
    if len(bad) == 0:
        return
    step, env = bad[0]
    largest = np.unravel_index(np.abs(raw).argmax(), raw.shape)
    last_values = _predicted_values(model)
    if not abs(raw[largest]) < LARGEST_REWARD:
        step, env = largest
        cause = f"the task's own reward is {raw[step, env]:g}"
    elif not is_finite(last_values.cpu().numpy()):
        cause = f"the policy's values of the current observations are {last_values.flatten().tolist()}"
    raise ValueError(
        f"the reward at step {step} of environment {env} is {buffer.rewards[step, env]} and its {learnt} "
        f"{values[step, env]}: {cause}"
    )


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
