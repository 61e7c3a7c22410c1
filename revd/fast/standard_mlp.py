"""Recognise SB3's MLP policy with nothing changed that a written-out pass (`mlp.py`) would miss."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from gymnasium import spaces
from stable_baselines3.common.distributions import CategoricalDistribution, DiagGaussianDistribution
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import FlattenExtractor, MlpExtractor
from torch import nn
from torch.nn.modules import module as torch_modules

#: Methods of SB3's policy that a subclass must not override.
_REPLACED_METHODS = ("forward", "evaluate_actions", "extract_features", "_get_action_dist_from_latent")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def is_standard_mlp(policy: ActorCriticPolicy) -> bool:
    """Whether a policy is SB3's MLP policy with Tanh on a CPU: Box observations, Discrete or continuous actions.

    Overridden methods, hooks, other layers, and frozen or shared parameters are not standard.
    """
    return (
        policy.device.type == "cpu"
        and isinstance(policy.observation_space, spaces.Box)
        and type(policy.action_dist) in (CategoricalDistribution, DiagGaussianDistribution)
        and _has_standard_methods(policy)
        and _has_standard_layers(policy)
        and _has_standard_parameters(policy)
        and not _is_observed(policy)
    )


def _has_standard_methods(policy: ActorCriticPolicy) -> bool:
    inherited = all(getattr(type(policy), name) is getattr(ActorCriticPolicy, name) for name in _REPLACED_METHODS)
    names = {"forward", *_REPLACED_METHODS}
    return inherited and not any(names & vars(module).keys() for module in policy.modules())


def _has_standard_layers(policy: ActorCriticPolicy) -> bool:
    extractors = (policy.features_extractor, policy.pi_features_extractor, policy.vf_features_extractor)
    if type(policy.mlp_extractor) is not MlpExtractor or any(type(each) is not FlattenExtractor for each in extractors):
        return False
    networks = (policy.mlp_extractor.policy_net, policy.mlp_extractor.value_net)
    outputs = (policy.action_net, policy.value_net)
    return all(map(_alternates, networks)) and all(type(layer) is nn.Linear for layer in outputs)


def _alternates(network: nn.Module) -> bool:
    """Whether linear layers and Tanh take turns."""
    kinds = [type(layer) for layer in network.children()]
    return type(network) is nn.Sequential and kinds == [nn.Linear, nn.Tanh] * (len(kinds) // 2)


def _has_standard_parameters(policy: ActorCriticPolicy) -> bool:
    """Whether every parameter is trained and belongs to one layer, or to the distribution."""
    linear = [module for module in policy.modules() if isinstance(module, nn.Linear)]
    expected = [parameter for layer in linear for parameter in (layer.weight, layer.bias)]
    if type(policy.action_dist) is DiagGaussianDistribution:
        expected.append(policy.log_std)
    parameters = list(policy.parameters())
    return _identities(parameters) == _identities(expected) and all(map(_is_trained, parameters))


def _identities(tensors: Iterable[nn.Parameter]) -> list[int]:
    return sorted(id(tensor) for tensor in tensors)


def _is_trained(parameter: nn.Parameter) -> bool:
    return parameter.requires_grad and parameter.dtype == torch.float32 and parameter.is_contiguous()


def _is_observed(policy: ActorCriticPolicy) -> bool:
    """Whether hooks or autocasting would see or change a pass through torch's modules."""
    global_hooks = (getattr(torch_modules, f"_global{name}") for name in _HOOKS)
    return (
        any(getattr(module, name) for module in policy.modules() for name in _HOOKS)
        or any(global_hooks)
        or any(each._backward_hooks or each._post_accumulate_grad_hooks for each in policy.parameters())
        or torch.is_autocast_enabled("cpu")
    )
