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
    # First, since a policy that overrides these need not have the layers.
    if not _has_standard_methods(policy):
        return False
    modules, parameters = list(policy.modules()), list(policy.parameters())
    return (
        isinstance(policy.observation_space, spaces.Box)
        and type(policy.action_dist) in (CategoricalDistribution, DiagGaussianDistribution)
        and _has_standard_layers(policy)
        and _has_standard_parameters(policy, parameters)
        and all(vars(module).keys().isdisjoint(_REPLACED_METHODS) for module in modules)
        and not _is_observed(modules, parameters)
    )


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


def _has_standard_parameters(policy: ActorCriticPolicy, parameters: Iterable[nn.Parameter]) -> bool:
    """Whether every parameter is trained and optimised, and belongs to one layer or to the distribution."""
    extractor = policy.mlp_extractor
    # Network by network, so that a layer that two of them share is listed twice.
    networks = (extractor.policy_net, policy.action_net, extractor.value_net, policy.value_net)
    linear = [module for network in networks for module in network.modules() if isinstance(module, nn.Linear)]
    expected = [parameter for layer in linear for parameter in (layer.weight, layer.bias)]
    if type(policy.action_dist) is DiagGaussianDistribution:
        expected.append(policy.log_std)
    optimized = [parameter for group in policy.optimizer.param_groups for parameter in group["params"]]
    # A parameter that the optimiser does not know gathers the gradients of all minibatches, in SB3 too.
    same = sorted(map(id, parameters)) == sorted(map(id, expected)) == sorted(map(id, optimized))
    return same and all(map(_is_trained_on_cpu, parameters))


def _is_trained_on_cpu(parameter: nn.Parameter) -> bool:
    plain = parameter.dtype == torch.float32 and parameter.is_contiguous()
    return parameter.requires_grad and plain and parameter.device.type == "cpu"


def _has_standard_methods(policy: ActorCriticPolicy) -> bool:
    kind = type(policy)
    return all(getattr(kind, name, None) is getattr(ActorCriticPolicy, name) for name in _REPLACED_METHODS)


def _is_observed(modules: Iterable[nn.Module], parameters: Iterable[nn.Parameter]) -> bool:
    """Whether hooks or autocasting would see or change a pass through torch's modules."""
    return (
        any(vars(module)[name] for module in modules for name in _HOOKS)
        or any(getattr(torch_modules, f"_global{name}") for name in _HOOKS)
        or any(each._backward_hooks or each._post_accumulate_grad_hooks for each in parameters)
        or torch.is_autocast_enabled("cpu")
    )
