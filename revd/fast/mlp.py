"""SB3's actor-critic of two multilayer perceptrons as plain matrix products (`functional/perceptron.py`), for a CPU.

Much of the time of a small network's pass goes to objects of distributions too. Without them, every number still equals
SB3's to the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.preprocessing import is_image_space
from torch import Tensor, nn

from revd.fast.mlp_distributions import Categorical, Gaussian
from revd.functional.perceptron import Layer, run


class Weights(NamedTuple):
    """All parameters of an actor-critic, or their gradients.

    Attributes:
        actor: Linear layers from features to logits or means, with Tanh between any two.
        critic: The same from features to values.
        log_std: Logarithms of the standard deviations of continuous actions, (n_dims,); None for Discrete ones.
    """

    actor: Sequence[Layer]
    critic: Sequence[Layer]
    log_std: Tensor | None


def weights_of(policy: ActorCriticPolicy, tensors: Mapping[Tensor, Tensor]) -> Weights:
    """Arrange tensors, one for each parameter of a policy that `is_standard_mlp`."""

    def layers(hidden: nn.Module, last: nn.Module) -> list[Layer]:
        linear: list[Any] = [module for module in (*hidden.children(), last) if isinstance(module, nn.Linear)]
        return [Layer(tensors[module.weight], tensors[module.bias]) for module in linear]

    extractor, log_std = policy.mlp_extractor, getattr(policy, "log_std", None)
    return Weights(
        layers(extractor.policy_net, policy.action_net),
        layers(extractor.value_net, policy.value_net),
        None if log_std is None else tensors[log_std],
    )


class MlpActorCritic:
    """What SB3's policy computes for a minibatch or a step, with given weights.

    Args:
        policy: `is_standard_mlp`.
        tensors: To be used in place of its parameters; None for the parameters themselves.
    """

    def __init__(self, policy: ActorCriticPolicy, tensors: Mapping[Tensor, Tensor] | None = None) -> None:
        if tensors is None:
            tensors = {parameter: parameter for parameter in policy.parameters()}
        self.weights = weights_of(policy, tensors)
        log_std = self.weights.log_std
        self.distribution = Categorical() if log_std is None else Gaussian(log_std)
        self._action_shape = policy.action_space.shape or ()
        self._scales = policy.normalize_images and is_image_space(policy.observation_space)

    def features(self, observations: Tensor) -> Tensor:
        """Return observations (n, …) as the networks read them, (n, n_features); bytes of images in [0, 1]."""
        numbers = observations.float()
        return (numbers / 255.0 if self._scales else numbers).flatten(1)

    def act(self, observations: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
        """Sample actions; return them, values (n, 1) and log-probabilities (n,), like SB3's `forward`.

        Returns None, with no random number drawn, if the policy's output is not a number: SB3 has an error for that.
        """
        features = self.features(observations)
        outputs = run(self.weights.actor, features)[-1]
        if torch.isnan(outputs.sum()):
            return None
        values = run(self.weights.critic, features)[-1]
        actions, log_prob = self.distribution.sample(outputs)
        return actions.reshape(-1, *self._action_shape), values, log_prob
