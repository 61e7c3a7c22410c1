"""A faster forward pass for SB3's policies.

Frames are scaled once, and on a GPU actor and critic run in parallel.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from gymnasium import spaces
from stable_baselines3.common.distributions import CategoricalDistribution, Distribution
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.preprocessing import preprocess_obs
from torch import Tensor

#: Methods of SB3 that a policy must not override, because `FastActorCritic` replaces them.
_REPLACED_METHODS = ("forward", "evaluate_actions", "extract_features", "_get_action_dist_from_latent")


class ActorCritic(Protocol):
    """The two methods of a policy that collecting and learning call."""

    def forward(self, obs: Tensor, deterministic: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """Return actions, values and log-probabilities."""

    def evaluate_actions(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return values, log-probabilities and entropies of the actions."""


def own_methods(policy: ActorCriticPolicy) -> dict[str, Any]:
    """Those of the replaced methods that were set on this very policy, as `torch.compile` or a debugger may do."""
    return {name: vars(policy)[name] for name in _REPLACED_METHODS if name in vars(policy)}


def make_actor_critic(policy: ActorCriticPolicy) -> ActorCritic:
    """Return a `FastActorCritic` if it supports the policy and is faster, else the policy."""
    inherited = all(getattr(type(policy), name) is getattr(ActorCriticPolicy, name) for name in _REPLACED_METHODS)
    supported = (
        inherited
        and not own_methods(policy)
        and isinstance(policy.observation_space, spaces.Box)
        and not policy.use_sde
    )
    faster = policy.device.type == "cuda" or not policy.share_features_extractor
    return FastActorCritic(policy) if supported and faster else policy


class FastActorCritic:
    """A policy's `forward` and `evaluate_actions`, computed faster.

    SB3 scales the frames once for the actor and once for the critic if they have separate features extractors; this
    class scales them once. On a GPU the critic then runs on its own stream (autograd uses the same streams on the way
    back), and Discrete actions come from `FastCategorical`. On a CPU all numbers equal SB3's to the last bit.
    """

    def __init__(self, policy: ActorCriticPolicy) -> None:
        on_gpu = policy.device.type == "cuda"
        self._policy = policy
        self._separate = not policy.share_features_extractor
        self._critic_stream = torch.cuda.Stream(policy.device) if on_gpu and self._separate else None
        self._discrete = on_gpu and type(policy.action_dist) is CategoricalDistribution

    @property
    def n_discrete_actions(self) -> int:
        """Actions that `FastCategorical` chooses between; 0 if SB3's distribution is used."""
        distribution = self._policy.action_dist
        return distribution.action_dim if self._discrete and isinstance(distribution, CategoricalDistribution) else 0

    def forward(
        self, obs: Tensor, deterministic: bool = False, noise: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return actions, values and log-probabilities.

        Args:
            obs: Observations, (n, …).
            deterministic: Take the most probable actions.
            noise: Gumbel noise to sample the actions with, (n, n_discrete_actions).
        """
        latent, values = self._latent_and_values(obs)
        distribution = self._distribution(latent)
        if noise is None:
            actions = distribution.get_actions(deterministic=deterministic)
        else:
            assert isinstance(distribution, FastCategorical)
            actions = distribution.sample_with(noise)
        log_prob = distribution.log_prob(actions)
        shaped = actions.reshape(-1, *self._policy.action_space.shape)  # type: ignore[misc]
        return shaped, self._wait_for_critic(values), log_prob

    def logits_and_values(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits of Discrete actions, (n, n_discrete_actions), and the values, (n, 1)."""
        latent, values = self._latent_and_values(obs)
        logits: Tensor = self._policy.action_net(latent)
        return logits, self._wait_for_critic(values)

    def evaluate_actions(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return values, log-probabilities and entropies of the actions."""
        latent, values = self._latent_and_values(obs)
        distribution = self._distribution(latent)
        log_prob, entropy = distribution.log_prob(actions), distribution.entropy()
        return self._wait_for_critic(values), log_prob, entropy

    def _distribution(self, latent: Tensor) -> FastCategorical | Distribution:
        if self._discrete:
            return FastCategorical(self._policy.action_net(latent))
        return self._policy._get_action_dist_from_latent(latent)

    def _latent_and_values(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the actor's last hidden layer and the values.

        Call `_wait_for_critic` before using the values.
        """
        policy = self._policy
        scaled = preprocess_obs(obs, policy.observation_space, normalize_images=policy.normalize_images)
        assert isinstance(scaled, Tensor)
        extractor = policy.mlp_extractor
        if not self._separate:
            latent, critic_latent = extractor(policy.features_extractor(scaled))
            return latent, policy.value_net(critic_latent)
        if self._critic_stream is None:
            # In SB3's order: layers may draw random numbers.
            features, critic_features = policy.pi_features_extractor(scaled), policy.vf_features_extractor(scaled)
            latent = extractor.forward_actor(features)
            return latent, policy.value_net(extractor.forward_critic(critic_features))
        with self._on_stream(self._critic_stream, scaled):
            values = policy.value_net(extractor.forward_critic(policy.vf_features_extractor(scaled)))
        return extractor.forward_actor(policy.pi_features_extractor(scaled)), values

    @contextmanager
    def _on_stream(self, stream: torch.cuda.Stream, inputs: Tensor) -> Iterator[None]:
        """Run the block on another stream once `inputs` are ready."""
        stream.wait_stream(torch.cuda.current_stream(self._policy.device))
        # Keeps the allocator from reusing the memory while the other stream still reads it.
        inputs.record_stream(stream)
        with torch.cuda.stream(stream):
            yield

    def _wait_for_critic(self, values: Tensor) -> Tensor:
        if self._critic_stream is not None:
            current = torch.cuda.current_stream(self._policy.device)
            current.wait_stream(self._critic_stream)
            values.record_stream(current)
        return values


class FastCategorical:
    """Categorical distributions over the last dimension of logits (n, n_actions), like SB3's.

    torch's own distribution launches ten kernels to normalise the logits, and a dozen more to validate them before it
    samples.
    """

    def __init__(self, logits: Tensor) -> None:
        self._log_probs = torch.log_softmax(logits, dim=-1)

    def get_actions(self, deterministic: bool = False) -> Tensor:
        """Return the most probable actions, or sample."""
        if deterministic:
            return self._log_probs.argmax(dim=-1)
        return self.sample_with(gumbel_noise(torch.empty_like(self._log_probs)))

    def sample_with(self, noise: Tensor) -> Tensor:
        """Sample with Gumbel noise: argmax_i (log p_i + g_i) has the probabilities p."""
        return (self._log_probs + noise).argmax(dim=-1)

    def log_prob(self, actions: Tensor) -> Tensor:
        """Return log p(actions), (n,)."""
        return self._log_probs.gather(-1, actions.long().unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """Return - sum_i p_i log p_i, (n,); impossible actions add nothing."""
        finite = self._log_probs.clamp(min=torch.finfo(self._log_probs.dtype).min)
        return -(self._log_probs.exp() * finite).sum(dim=-1)


def gumbel_noise(target: Tensor) -> Tensor:
    """Fill a tensor with g = -log(E), E ~ Exp(1)."""
    return target.exponential_().log_().neg_()
