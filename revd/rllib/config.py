"""One line in an RLlib script: PPO that trains on extrinsic reward plus weighted bonus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.utils import force_list

from revd.rllib.callback import NoteOrigin, check_learner
from revd.rllib.learner import COMPONENT, IntrinsicRewardLearner, check_pipeline
from revd.rllib.options import Options

if TYPE_CHECKING:
    from revd.rewards import IntrinsicReward
    from revd.rewards.config import BonusNormalization


def with_intrinsic_reward(
    config: PPOConfig,
    reward: str | IntrinsicReward = "revd",
    *,
    weight: float = 0.1,
    decay: float = 1e-5,
    decay_per: Literal["rollout", "step"] = "rollout",
    extrinsic_weight: float = 1.0,
    normalize: BonusNormalization = "none",
    **reward_params: Any,
) -> PPOConfig:
    """A copy of the config whose PPO trains on extrinsic reward plus weighted bonus.

    ::

        r_t = extrinsic_weight * r_t(extrinsic) + lambda_l * r^_t,      lambda_l = weight * (1 - decay)^l

    l = 1, 2, … counts batches, or the environment steps with decay_per="step". The config that is passed stays as it
    is; connectors and callbacks that it has keep their place. The reward sees the observations in RLlib's episodes,
    normalised ones where an env-to-module connector such as `MeanStdFilter` has written them there. Numbers appear in
    RLlib's results under `learners/default_policy/exploration/`.

    Args:
        config: PPO on RLlib's new API stack, with one agent.
        reward: A name ("revd", "re3", "ride") or an `IntrinsicReward` for all environments of all env runners.
        weight: lambda_0, the bonus's initial weight.
        decay: kappa, by which the weight shrinks.
        decay_per: "rollout" (a batch of RLlib) or "step" (environment steps, all environments counted).
        extrinsic_weight: Factor of the task's own reward; 0 trains on the bonus alone.
        normalize: "rms" divides the bonus by its running standard deviation.
        reward_params: Parameters of the method, such as `k` or `alpha`; `seed` is the config's unless given.

    Raises:
        TypeError: It is no config of PPO.
        ValueError: An argument is unknown or out of range, or the config is of a kind that cannot take a bonus.
    """
    options = Options(
        reward=reward,
        weight=weight,
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
    """Raise an error that says what is valid unless the bonus can enter this config."""
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
        raise ValueError("config has an intrinsic reward already: pass the one it was made from")
    learner = config.learner_class
    if learner is not PPOTorchLearner and not issubclass(learner, IntrinsicRewardLearner):
        raise ValueError(
            f"config has a learner of its own, {learner.__name__}: derive it from revd.rllib.IntrinsicRewardLearner"
        )
