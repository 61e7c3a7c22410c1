"""A policy of SB3's on a GPU in few kernels: the critic beside the actor, and discrete actions without detours."""

from __future__ import annotations

from typing import Protocol

import torch
from stable_baselines3.common.distributions import CategoricalDistribution, Distribution
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.preprocessing import preprocess_obs
from torch import Tensor

#: What a policy must have left as SB3 wrote it, for its networks to be called one by one.
_UNCHANGED = ("forward", "evaluate_actions", "extract_features", "_get_action_dist_from_latent")


class Networks(Protocol):
    """What acting and learning ask of a policy."""

    def forward(self, obs: Tensor, deterministic: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """Actions, values and log-probabilities."""

    def evaluate_actions(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Values, log-probabilities and entropies of the actions."""


def networks_of(policy: ActorCriticPolicy) -> Networks:
    """The policy itself, or the same in fewer kernels where it is on a GPU and as SB3 wrote it."""
    unchanged = all(getattr(type(policy), name) is getattr(ActorCriticPolicy, name) for name in _UNCHANGED)
    return Branches(policy) if unchanged and policy.device.type == "cuda" else policy


class Branches:
    """A policy's `forward` and `evaluate_actions`.

    Where actor and critic share nothing, the critic runs on a stream of its own, and autograd goes back on the streams
    of the way there. Actions of a Discrete space are drawn and rated by `Choices`.
    """

    def __init__(self, policy: ActorCriticPolicy) -> None:
        self._policy = policy
        self._side = None if policy.share_features_extractor else torch.cuda.Stream(policy.device)
        self._discrete = type(policy.action_dist) is CategoricalDistribution

    def forward(self, obs: Tensor, deterministic: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """Actions, values and log-probabilities."""
        latent, values = self._latent_and_values(obs)
        distribution = self._distribution(latent)
        actions = distribution.get_actions(deterministic=deterministic)
        log_prob = distribution.log_prob(actions)
        return actions.reshape(-1, *self._policy.action_space.shape), self._joined(values), log_prob  # type: ignore[misc]

    def evaluate_actions(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Values, log-probabilities and entropies of the actions."""
        latent, values = self._latent_and_values(obs)
        distribution = self._distribution(latent)
        log_prob, entropy = distribution.log_prob(actions), distribution.entropy()
        return self._joined(values), log_prob, entropy

    def _distribution(self, latent: Tensor) -> Choices | Distribution:
        if self._discrete:
            return Choices(self._policy.action_net(latent))
        return self._policy._get_action_dist_from_latent(latent)

    def _latent_and_values(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """The actor's last layer but one, and the values, which are not to be used before `_joined`."""
        policy = self._policy
        seen = preprocess_obs(obs, policy.observation_space, normalize_images=policy.normalize_images)
        assert isinstance(seen, Tensor)
        if self._side is None:
            latent, latent_of_value = policy.mlp_extractor(policy.features_extractor(seen))
            return latent, policy.value_net(latent_of_value)
        self._side.wait_stream(torch.cuda.current_stream(policy.device))
        # Neither stream may be given the other's memory while it is read.
        seen.record_stream(self._side)
        with torch.cuda.stream(self._side):
            values = policy.value_net(policy.mlp_extractor.forward_critic(policy.vf_features_extractor(seen)))
        return policy.mlp_extractor.forward_actor(policy.pi_features_extractor(seen)), values

    def _joined(self, values: Tensor) -> Tensor:
        if self._side is not None:
            current = torch.cuda.current_stream(self._policy.device)
            current.wait_stream(self._side)
            values.record_stream(current)
        return values


class Choices:
    """Categorical distributions over the last dimension of logits (n, n_actions), as SB3's CategoricalDistribution.

    torch's own normalises the logits in ten kernels, and looks at them in a dozen more before it draws.
    """

    def __init__(self, logits: Tensor) -> None:
        self._log_probs = torch.log_softmax(logits, dim=-1)

    def get_actions(self, deterministic: bool = False) -> Tensor:
        """The likeliest actions, or ones drawn: argmax_i p_i / E_i with E_i ~ Exp(1) has the probabilities p."""
        if deterministic:
            return self._log_probs.argmax(dim=-1)
        waits = torch.empty_like(self._log_probs).exponential_()
        return (self._log_probs - waits.log()).argmax(dim=-1)

    def log_prob(self, actions: Tensor) -> Tensor:
        """Log p(actions), (n,)."""
        return self._log_probs.gather(-1, actions.long().unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """- sum_i p_i log p_i, (n,); what is impossible adds nothing."""
        finite = self._log_probs.clamp(min=torch.finfo(self._log_probs.dtype).min)
        return -(self._log_probs.exp() * finite).sum(dim=-1)
