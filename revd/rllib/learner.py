"""RLlib's PPO learner with the bonus in its pipeline and the bonus's state in its checkpoints."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner

from revd.rllib.connector import IntrinsicAdvantageConnector, IntrinsicRewardConnector

#: The key of the options in the config's `learner_config_dict`, and of the bonus in the learner's state.
COMPONENT = "intrinsic_reward"


def check_pipeline(config: Any) -> None:
    """Raise a ValueError if learners get batches from aggregators: then they have no pipeline for the bonus."""
    if config.num_aggregator_actors_per_learner > 0:
        raise ValueError(
            "num_aggregator_actors_per_learner must be 0, since the bonus is paid in the learner, got "
            f"{config.num_aggregator_actors_per_learner}"
        )


class IntrinsicRewardLearner(PPOTorchLearner):
    """`PPOTorchLearner` with an `IntrinsicRewardConnector` before all other pieces of its pipeline.

    With an automatic weight, an `IntrinsicAdvantageConnector` follows after all others.

    RLlib does not save the state of learner connectors, so this learner does. Derive your own learner from this class.
    """

    bonus: IntrinsicRewardConnector

    def build(self) -> None:
        """Build the learner, then put the connectors into its pipeline."""
        if self._is_built:
            return
        config = self.config
        if COMPONENT not in config.learner_config_dict:
            raise ValueError(
                f"{type(self).__name__} has no options for the reward: make the config with "
                "revd.rllib.with_intrinsic_reward"
            )
        check_pipeline(config)
        super().build()
        self.bonus = IntrinsicRewardConnector(
            config.learner_config_dict[COMPONENT],
            n_runners=max(config.num_env_runners, 1),
            envs_per_runner=config.num_envs_per_env_runner,
            n_learners=max(config.num_learners, 1),
            seed=config.seed,
            device=self.device,
        )
        assert self._learner_connector is not None  # check_pipeline ensures it
        self._learner_connector.prepend(self.bonus)
        if self.bonus.weighting.is_automatic:
            self._learner_connector.append(IntrinsicAdvantageConnector(self.bonus))

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """The state of RLlib's learner and of the bonus."""
        state: dict[str, Any] = super().get_state(components, not_components=not_components, **kwargs)
        if self._check_component(COMPONENT, components, not_components):
            state[COMPONENT] = self.bonus.get_state()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state that `get_state` returned, or a part of it."""
        # First, since it raises an error for the state of another reward.
        if COMPONENT in state:
            self.bonus.set_state(state[COMPONENT])
        super().set_state(state)
