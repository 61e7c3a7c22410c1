"""Everything a training needs to go on, as tensors and JSON: no pickles, nothing that could execute."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from revd.sb3.checkpoint import Checkpoint
from revd.sb3.environments import load_normalization_state, normalization_state

if TYPE_CHECKING:
    from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

    from revd.sb3.callback import IntrinsicRewardCallback

Snapshot = tuple[dict[str, Tensor], dict[str, Any]]


def take_snapshot(model: OnPolicyAlgorithm, intrinsic: IntrinsicRewardCallback | None) -> Snapshot:
    """Policy, optimiser, bonus, VecNormalize, counters and random generators, between two rollouts."""
    optimizer, options = _optimizer_state(model.policy.optimizer)
    tensors = {
        **_prefixed("policy", model.policy.state_dict()),
        **_prefixed("optimizer", optimizer),
        **_prefixed("random", _random_state()),
    }
    env = model.get_env()
    if env is not None:
        tensors |= _prefixed("normalization", normalization_state(env))
    values: dict[str, Any] = {"counters": _counters(model), "optimizer": options}
    if intrinsic is not None:
        checkpoint = intrinsic.checkpoint()
        tensors |= _prefixed("bonus", checkpoint.state)
        values["bonus"] = checkpoint.values
    return tensors, values


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
    _load_random_state(_without("random", tensors))


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
    if statistics.keys() != {name for name in ours if name.startswith("observations")}:
        raise ValueError("init_from was trained under another normalisation of observations; use the same `normalize`")
    load_normalization_state(env, {**ours, **statistics})


def _is_value(name: str, *, shared: bool) -> bool:
    """Whether a parameter of SB3's policies serves the value function alone.

    A shared features extractor stands in the policy's state under three names, that of the value function included.
    """
    own = ("value_net.", "mlp_extractor.value_net.", "lstm_critic.", "critic.")
    return name.startswith(own) or (not shared and name.startswith("vf_features_extractor."))


def _counters(model: OnPolicyAlgorithm) -> dict[str, Any]:
    episodes = [{name: float(episode[name]) for name in ("r", "l", "t")} for episode in model.ep_info_buffer or ()]
    return {
        "num_timesteps": model.num_timesteps,
        "n_updates": model._n_updates,
        "episodes": episodes,
        "successes": [bool(success) for success in model.ep_success_buffer or ()],
    }


def _load_counters(model: OnPolicyAlgorithm, counters: Mapping[str, Any]) -> None:
    model.num_timesteps = counters["num_timesteps"]
    model._n_updates = counters["n_updates"]
    # learn() makes these two anew only when they are missing or when it starts counting from zero.
    model.ep_info_buffer = deque(counters["episodes"], maxlen=model._stats_window_size)
    model.ep_success_buffer = deque(counters["successes"], maxlen=model._stats_window_size)


def _optimizer_state(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    """State tensors by "index.name", and the options of each group that are numbers or flags."""
    state = optimizer.state_dict()
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


def _random_state() -> dict[str, Tensor]:
    """The global generators of torch, NumPy and Python, from which policies and minibatches are drawn."""
    _, keys, position, has_gauss, cached = np.random.get_state(legacy=True)  # noqa: NPY002
    version, state, gauss = random.getstate()
    tensors = {
        "torch": torch.get_rng_state(),
        "numpy_keys": torch.from_numpy(np.asarray(keys, dtype=np.int64)),
        "numpy_rest": torch.tensor([position, has_gauss, cached], dtype=torch.float64),
        "python": torch.tensor([version, *state], dtype=torch.int64),
        "python_gauss": torch.tensor([] if gauss is None else [gauss], dtype=torch.float64),
    }
    if torch.cuda.is_available():
        tensors |= {f"cuda{index}": state for index, state in enumerate(torch.cuda.get_rng_state_all())}
    return tensors


def _load_random_state(tensors: Mapping[str, Tensor]) -> None:
    torch.set_rng_state(tensors["torch"])
    position, has_gauss, cached = tensors["numpy_rest"].tolist()
    keys = tensors["numpy_keys"].numpy().astype(np.uint32)
    np.random.set_state(("MT19937", keys, int(position), int(has_gauss), cached))  # noqa: NPY002
    version, *state = tensors["python"].tolist()
    gauss = tensors["python_gauss"].tolist()
    random.setstate((version, tuple(state), gauss[0] if gauss else None))
    if torch.cuda.is_available():
        # A checkpoint from a machine without a GPU, or with fewer, leaves the others as they are.
        for index in range(torch.cuda.device_count()):
            if f"cuda{index}" in tensors:
                torch.cuda.set_rng_state(tensors[f"cuda{index}"], index)


def _prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def _without(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    start = f"{prefix}/"
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
