"""Everything a training needs to go on, as tensors and JSON: no pickles, nothing that could execute."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from revd.sb3.checkpoint import Checkpoint
from revd.training.random_state import Generators, load_generators
from revd.training.vec_env import load_normalization_state, normalization_state

if TYPE_CHECKING:
    from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

    from revd.sb3.callback import IntrinsicRewardCallback

Snapshot = tuple[dict[str, Tensor], dict[str, Any]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Moment:
    """
    What changes while a rollout is collected, as it was before: counters, VecNormalize, random generators.

    Cheap to keep, unlike networks, optimiser and bonus. Those a rollout leaves as they are, so a snapshot of the moment
    can be taken until the next update begins.
    """

    num_timesteps: int
    n_updates: int
    episodes: list[dict[str, Any]]
    successes: list[Any]
    normalization: dict[str, Tensor]
    generators: Generators

    @classmethod
    def now(cls, model: OnPolicyAlgorithm) -> Moment:
        """As it is, between two rollouts."""
        env = model.get_env()
        return cls(
            num_timesteps=model.num_timesteps,
            n_updates=model._n_updates,
            episodes=list(model.ep_info_buffer or ()),
            successes=list(model.ep_success_buffer or ()),
            normalization={} if env is None else normalization_state(env),
            generators=Generators.now(),
        )

    @property
    def counters(self) -> dict[str, Any]:
        """Everything that is counted, as JSON's types."""
        return {
            "num_timesteps": self.num_timesteps,
            "n_updates": self.n_updates,
            "episodes": [{name: float(episode[name]) for name in ("r", "l", "t")} for episode in self.episodes],
            "successes": [bool(success) for success in self.successes],
        }


def take_snapshot(model: OnPolicyAlgorithm, intrinsic: IntrinsicRewardCallback | None, moment: Moment) -> Snapshot:
    """Policy, optimiser, bonus, VecNormalize, counters and random generators, as at a moment since the last update."""
    parameters = model.get_parameters()
    optimizer, options = _optimizer_state(parameters["policy.optimizer"])
    tensors = {
        **_prefixed("policy", parameters["policy"]),
        **_prefixed("optimizer", optimizer),
        **_prefixed("random", moment.generators.tensors()),
        **_prefixed("normalization", moment.normalization),
    }
    values: dict[str, Any] = {"counters": moment.counters, "optimizer": options}
    if intrinsic is not None:
        checkpoint = intrinsic.checkpoint()
        tensors |= _prefixed("bonus", checkpoint.state)
        values["bonus"] = checkpoint.values
    return tensors, values


def policy_snapshot(
    policy: Mapping[str, Tensor], optimizer: Mapping[str, Any] | None, normalization: Mapping[str, Tensor]
) -> Snapshot:
    """What `load_policy` reads, made of `state_dict`s of a policy and its optimiser and VecNormalize's statistics."""
    state, options = ({}, []) if optimizer is None else _optimizer_state(optimizer)
    tensors = {
        **_prefixed("policy", policy),
        **_prefixed("optimizer", state),
        **_prefixed("normalization", normalization),
    }
    return tensors, {"optimizer": options}


def restore_snapshot(snapshot: Snapshot, model: OnPolicyAlgorithm, intrinsic: IntrinsicRewardCallback | None) -> None:
    """Put a snapshot into a training built from the same config. Environments start new episodes."""
    tensors, values = snapshot
    model.policy.load_state_dict(_without("policy", tensors))
    _load_optimizer_state(model.policy.optimizer, _without("optimizer", tensors), values["optimizer"])
    normalization = _without("normalization", tensors)
    env = model.get_env()
    if normalization and env is not None:
        load_normalization_state(env, normalization)
    if intrinsic is not None:
        intrinsic.restore(Checkpoint(**values["bonus"], state=_without("bonus", tensors)))
    _load_counters(model, values["counters"])
    load_generators(_without("random", tensors))


def load_policy(snapshot: Snapshot, model: OnPolicyAlgorithm, *, value: bool, optimizer: bool) -> None:
    """Start from another training's policy and the observation statistics that it was trained under.

    Args:
        snapshot: Of a training on the same spaces with the same networks.
        model: A fresh model.
        value: Take the value network too; it predicts another reward's returns.
        optimizer: Take the optimiser's state too.
    """
    tensors, values = snapshot
    policy = _without("policy", tensors)
    fresh = {name: tensor.clone() for name, tensor in model.policy.state_dict().items()}
    if {name: tensor.shape for name, tensor in policy.items()} != {name: t.shape for name, t in fresh.items()}:
        raise ValueError("init_from holds a policy of other networks, or for other observations or actions")
    shared = model.policy.share_features_extractor
    kept = {name: tensor for name, tensor in policy.items() if value or not _is_value(name, shared=shared)}
    model.policy.load_state_dict({**fresh, **kept})
    if optimizer:
        _load_optimizer_state(model.policy.optimizer, _without("optimizer", tensors), values["optimizer"])
    env = model.get_env()
    assert env is not None
    ours, theirs = normalization_state(env), _without("normalization", tensors)
    statistics = {name: tensor for name, tensor in theirs.items() if name.startswith("observations")}
    needed = {name for name in ours if name.startswith("observations")}
    if statistics.keys() != needed:
        raise ValueError(_other_normalization(bool(statistics), bool(needed)))
    load_normalization_state(env, {**ours, **statistics})


def _other_normalization(theirs: bool, ours: bool) -> str:
    """What is wrong if the observations of the two trainings are not normalised alike."""
    if theirs and not ours:
        return "init_from was trained on normalised observations; use normalize 'observations' or 'both'"
    if ours and not theirs:
        return (
            "init_from has no statistics of normalised observations, which this training needs: use normalize 'none' "
            "or 'rewards', or name the run's directory; those of a model.zip lie beside it in normalization.safetensors"
        )
    return "init_from was trained with other observations normalised than this training's; use the same task"


def _is_value(name: str, *, shared: bool) -> bool:
    """Whether a parameter of SB3's policies serves the value function alone.

    A shared features extractor stands in the policy's state under three names, that of the value function included.
    """
    own = ("value_net.", "mlp_extractor.value_net.", "lstm_critic.", "critic.")
    return name.startswith(own) or (not shared and name.startswith("vf_features_extractor."))


def _load_counters(model: OnPolicyAlgorithm, counters: Mapping[str, Any]) -> None:
    model.num_timesteps = counters["num_timesteps"]
    model._n_updates = counters["n_updates"]
    # learn() makes these two anew only when they are missing or when it starts counting from zero.
    model.ep_info_buffer = deque(counters["episodes"], maxlen=model._stats_window_size)
    model.ep_success_buffer = deque(counters["successes"], maxlen=model._stats_window_size)


def _optimizer_state(state: Mapping[str, Any]) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    """State tensors by "index.name", and the options of each group that are numbers or flags."""
    tensors = {
        f"{index}.{name}": torch.as_tensor(value)
        for index, entries in state["state"].items()
        for name, value in entries.items()
    }
    options = [
        {name: value for name, value in group.items() if isinstance(value, bool | int | float)}
        for group in state["param_groups"]
    ]
    return tensors, options


def _load_optimizer_state(
    optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], options: list[dict[str, Any]]
) -> None:
    state = optimizer.state_dict()
    loaded: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        index, name = key.split(".", 1)
        loaded.setdefault(int(index), {})[name] = tensor
    groups = [{**group, **saved} for group, saved in zip(state["param_groups"], options, strict=True)]
    optimizer.load_state_dict({"state": loaded, "param_groups": groups})


def _prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def _without(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    start = f"{prefix}/"
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
