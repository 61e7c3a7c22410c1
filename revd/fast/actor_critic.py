"""A policy of SB3's with less to do: frames are scaled once, and on a GPU the critic runs beside the actor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import torch
from gymnasium import spaces
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
    """The policy itself, or the same with less to do where its parts are put together as SB3 does it."""
    unchanged = all(getattr(type(policy), name) is getattr(ActorCriticPolicy, name) for name in _UNCHANGED)
    on_gpu = policy.device.type == "cuda"
    simple = isinstance(policy.observation_space, spaces.Box) and not policy.use_sde
    return Branches(policy) if unchanged and simple and (on_gpu or not policy.share_features_extractor) else policy


class Branches:
    """A policy's `forward` and `evaluate_actions`.

    Where actor and critic share nothing, SB3 scales the frames for each of them, and we once. On a GPU the critic then
    runs on a stream of its own, and autograd goes back on the streams of the way there; actions of a Discrete space are
    drawn and rated by `Choices`. On a CPU all numbers are SB3's to the last bit.
    """

    def __init__(self, policy: ActorCriticPolicy) -> None:
        on_gpu = policy.device.type == "cuda"
        self._policy = policy
        self._separate = not policy.share_features_extractor
        self._side = torch.cuda.Stream(policy.device) if on_gpu and self._separate else None
        self._discrete = on_gpu and type(policy.action_dist) is CategoricalDistribution

    @property
    def n_choices(self) -> int:
        """How many numbers of `gumbel_noise` an action of a Discrete space is drawn with; 0 where it cannot be."""
        distribution = self._policy.action_dist
        return distribution.action_dim if self._discrete and isinstance(distribution, CategoricalDistribution) else 0

    def forward(
        self, obs: Tensor, deterministic: bool = False, noise: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Actions, values and log-probabilities; `noise` of (n, n_choices) makes the draw if there is some."""
        latent, values = self._latent_and_values(obs)
        distribution = self._distribution(latent)
        if noise is None:
            actions = distribution.get_actions(deterministic=deterministic)
        else:
            assert isinstance(distribution, Choices)
            actions = distribution.chosen_with(noise)
        log_prob = distribution.log_prob(actions)
        return actions.reshape(-1, *self._policy.action_space.shape), self._joined(values), log_prob  # type: ignore[misc]

    def logits_and_values(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """The logits of the actions of a Discrete space, (n, n_choices), and the values, (n, 1)."""
        latent, values = self._latent_and_values(obs)
        logits: Tensor = self._policy.action_net(latent)
        return logits, self._joined(values)

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
        extractor = policy.mlp_extractor
        if not self._separate:
            latent, latent_of_value = extractor(policy.features_extractor(seen))
            return latent, policy.value_net(latent_of_value)
        if self._side is None:
            # In SB3's order: layers may draw random numbers.
            features, features_of_value = policy.pi_features_extractor(seen), policy.vf_features_extractor(seen)
            latent = extractor.forward_actor(features)
            return latent, policy.value_net(extractor.forward_critic(features_of_value))
        with self._beside(seen, self._side):
            values = policy.value_net(extractor.forward_critic(policy.vf_features_extractor(seen)))
        return extractor.forward_actor(policy.pi_features_extractor(seen)), values

    @contextmanager
    def _beside(self, seen: Tensor, side: torch.cuda.Stream) -> Iterator[None]:
        """On the side stream, from where `seen` is ready."""
        side.wait_stream(torch.cuda.current_stream(self._policy.device))
        # Neither stream may be given the other's memory while it is read.
        seen.record_stream(side)
        with torch.cuda.stream(side):
            yield

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
        """The likeliest actions, or ones drawn."""
        if deterministic:
            return self._log_probs.argmax(dim=-1)
        return self.chosen_with(gumbel_noise(torch.empty_like(self._log_probs)))

    def chosen_with(self, noise: Tensor) -> Tensor:
        """The actions that Gumbel noise draws: argmax_i (log p_i + g_i) has the probabilities p."""
        return (self._log_probs + noise).argmax(dim=-1)

    def log_prob(self, actions: Tensor) -> Tensor:
        """Log p(actions), (n,)."""
        return self._log_probs.gather(-1, actions.long().unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """- sum_i p_i log p_i, (n,); what is impossible adds nothing."""
        finite = self._log_probs.clamp(min=torch.finfo(self._log_probs.dtype).min)
        return -(self._log_probs.exp() * finite).sum(dim=-1)


def gumbel_noise(target: Tensor) -> Tensor:
    """Fill a tensor with g = -log(E), E ~ Exp(1)."""
    return target.exponential_().log_().neg_()
