"""The function that makes an RLlib PPO config train on the task's reward and a bonus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.utils import force_list

from revd.rllib.callback import NoteOrigin, check_learner
from revd.rllib.learner import COMPONENT, IntrinsicRewardLearner, check_pipeline
from revd.rllib.options import Options
from revd.weighting.weighting import STRENGTH, Weight

if TYPE_CHECKING:
    from revd.rewards import RewardLike
    from revd.rewards.config import BonusNormalization
    from revd.weighting.schedule import DecayPer


def with_intrinsic_reward(
    config: PPOConfig,
    reward: RewardLike = "revd",
    *,
    weight: Weight = "auto",
    strength: float = STRENGTH,
    yield_to_task: bool = True,
    decay: float = 1e-5,
    decay_per: DecayPer = "rollout",
    extrinsic_weight: float = 1.0,
    normalize: BonusNormalization = "none",
    **reward_params: Any,
) -> PPOConfig:
    """Copy a config, so that its PPO trains on the task's reward and a bonus.

    With weight="auto", the bonus joins the advantages, and its weight follows from the data::

        A_t = extrinsic_weight * A_t(task) + w * A_t(bonus),    w = strength * sigma(A(task)) / sigma(A(bonus))

    The bonus has a critic of its own (`revd.weighting.automatic`). The value function's targets stay the task's.
    Nothing needs tuning. With a number, the bonus joins the rewards, as in the paper::

        r_t = extrinsic_weight * r_t(extrinsic) + lambda_l * r^_t,      lambda_l = weight * (1 - decay)^l

    l = 1, 2, … counts batches, or the environment steps with decay_per="step". The original config is not changed; its
    connectors and callbacks keep their places. The reward sees the observations in RLlib's episodes, which are
    normalised if an env-to-module connector such as `MeanStdFilter` wrote them. Numbers appear in RLlib's results under
    `learners/default_policy/exploration/`. With a number as weight, warnings tell when the bonus does not steer the
    policy, or when almost nothing else does.

    Args:
        config: PPO on RLlib's new API stack, with one agent.
        reward: A name (`revd rewards` lists them), a list of names to mix, or an `IntrinsicReward`. It serves all
            environments of all env runners.
        weight: "auto", or lambda_0, the bonus's initial weight.
        strength: With "auto", how strong the bonus is in the advantages, relative to the task. It decays like a
            weight.
        yield_to_task: With "auto", whether the bonus leaves the policy to a task whose reward is dense: one that
            differs at most steps from the step before.
        decay: kappa, by which weight or strength shrinks.
        decay_per: "rollout" (a batch of RLlib) or "step" (environment steps, all environments counted).
        extrinsic_weight: Factor of the task's own reward; 0 trains on the bonus alone.
        normalize: "rms" divides the bonus by its running standard deviation, "standard" subtracts its running mean
            first. Only with a name: pass it to `make_reward` for an instance.
        reward_params: Parameters of the reward, such as `k` or `alpha`, only with a name; `seed` is the config's by
            default.

    Raises:
        TypeError: The config is not one of PPO.
        ValueError: An argument is unknown or out of range, or the config does not support a bonus.
    """
    options = Options(
        reward=reward,
        weight=weight,
        strength=strength,
        yield_to_task=yield_to_task,
        decay=decay,
        decay_per=decay_per,
        extrinsic_weight=extrinsic_weight,
        normalize=normalize,
        reward_params=reward_params,
    )
    _check(config)
    config = config.copy(copy_frozen=False)
    config.callbacks(
        on_episode_created=[NoteOrigin(), *force_list(config.callbacks_on_episode_created)],
        on_algorithm_init=[*force_list(config.callbacks_on_algorithm_init), check_learner],
    )
    learner = config.learner_class
    return config.learners(
        learner_class=learner if issubclass(learner, IntrinsicRewardLearner) else IntrinsicRewardLearner,
        learner_config_dict={COMPONENT: options},
    )


def _check(config: PPOConfig) -> None:
    """Raise an error that says what is valid, unless the bonus can enter this config."""
    if not isinstance(config, PPOConfig):
        raise TypeError(f"config must be a PPOConfig of RLlib, got {type(config).__name__}")
    if not (config.enable_rl_module_and_learner and config.enable_env_runner_and_connector_v2):
        raise ValueError(
            "config uses RLlib's old API stack, which has no learner connectors: enable the new one with "
            "config.api_stack(enable_rl_module_and_learner=True, enable_env_runner_and_connector_v2=True)"
        )
    if config.is_multi_agent:
        raise ValueError(
            f"config has several policies ({', '.join(config.policies)}), intrinsic rewards need one agent"
        )
    check_pipeline(config)
    if COMPONENT in config.learner_config_dict:
        raise ValueError("config has an intrinsic reward already: pass the config that it was made from")
    learner = config.learner_class
    if learner is not PPOTorchLearner and not issubclass(learner, IntrinsicRewardLearner):
        raise ValueError(
            f"config has a learner of its own, {learner.__name__}: derive it from revd.rllib.IntrinsicRewardLearner"
        )
