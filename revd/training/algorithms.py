"""On-policy algorithms by name: SB3's, sb3-contrib's and our fast ones."""

import inspect
import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Literal

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.vec_env import VecEnv

from revd.names import unknown_name
from revd.spaces import image_channel_axis
from revd.training.policies import policy_class

ALGORITHMS: Mapping[str, tuple[str, str]] = {
    "ppo": ("stable_baselines3", "PPO"),
    "a2c": ("stable_baselines3", "A2C"),
    "trpo": ("sb3_contrib", "TRPO"),
    "recurrent-ppo": ("sb3_contrib", "RecurrentPPO"),
    "maskable-ppo": ("sb3_contrib", "MaskablePPO"),
}
#: Off-policy algorithms of SB3, sb3-contrib and SBX, recognised for a clear error.
OFF_POLICY = frozenset({"crossq", "ddpg", "dqn", "droq", "her", "qrdqn", "redq", "sac", "simba", "td3", "tqc"})
#: Our faster implementations, which learn the same.
FAST: Mapping[str, tuple[str, str]] = {"ppo": ("revd.fast", "FastPPO"), "a2c": ("revd.fast", "FastA2C")}
Trainer = Literal["auto", "fast", "sb3"]

# SB3's default of 2048 steps is meant for one environment. With ten, 10,000 steps would be half a rollout, and a reward
# that compares rollouts would never be paid. The paper collects 256 steps from each of ten environments.
ROLLOUT_STEPS: Mapping[str, int] = {"ppo": 256, "trpo": 256, "maskable-ppo": 256}

_SET_ELSEWHERE = frozenset({"self", "env", "seed", "device", "verbose", "tensorboard_log", "_init_setup_model"})


def algorithm_class(algo: str, *, fast: bool = False) -> type[OnPolicyAlgorithm]:
    """Return the class of an algorithm, the original or our fast one."""
    if re.sub(r"[-_ ]", "", algo.lower()) in OFF_POLICY:
        raise ValueError(
            f"algo {algo!r} is off-policy: it learns from a replay buffer, and a bonus is computed for whole rollouts; "
            f"use one that learns from rollouts: {', '.join(ALGORITHMS)}"
        )
    if algo not in ALGORITHMS:
        raise ValueError(unknown_name("algo", algo, ALGORITHMS))
    if fast and algo not in FAST:
        raise ValueError(f"trainer 'fast' supports {', '.join(FAST)}, not for algo {algo!r}; use 'auto' or 'sb3'")
    package, name = (FAST if fast else ALGORITHMS)[algo]
    # sb3-contrib is optional.
    try:
        module = import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise ValueError(f"algo {algo!r} needs {package}: pip install 'revd[contrib]'") from error
    found: type[OnPolicyAlgorithm] = getattr(module, name)
    return found


def algorithm_parameters(
    algo: str, observation_space: spaces.Space[Any], overrides: Mapping[str, Any]
) -> dict[str, Any]:
    """Return all hyperparameters: the library's defaults, replaced by ours and then by `overrides`."""
    signature = inspect.signature(algorithm_class(algo)).parameters
    defaults = {name: entry.default for name, entry in signature.items() if name not in _SET_ELSEWHERE}
    defaults["policy"] = policy_name(algo, observation_space)
    overrides = {name: _plain_value(name, value) for name, value in overrides.items()}
    for name in overrides:
        if name not in defaults:
            raise ValueError(unknown_name(f"parameter of {algo}", name, defaults, listed=40))
        _check_parameter(f"{name} of {algo}", name, overrides[name], defaults[name])
    if algo in ROLLOUT_STEPS:
        defaults["n_steps"] = ROLLOUT_STEPS[algo]
    return {**defaults, **overrides}


def policy_name(algo: str, observation_space: spaces.Space[Any]) -> str:
    """Return SB3's name of the policy for a space; for recurrent-ppo the LSTM variant."""
    # Images too small for SB3's three convolutions use the MLP.
    if isinstance(observation_space, spaces.Dict):
        name = "MultiInputPolicy"
    elif is_image_space(observation_space) and image_channel_axis(observation_space) is not None:
        name = "CnnPolicy"
    else:
        name = "MlpPolicy"
    return name.replace("Policy", "LstmPolicy") if algo == "recurrent-ppo" else name


def make_algorithm(
    algo: str,
    env: VecEnv,
    *,
    seed: int,
    device: str = "auto",
    trainer: Trainer = "auto",
    parameters: Mapping[str, Any] | None = None,
) -> OnPolicyAlgorithm:
    """Make an algorithm that can learn in `env`.

    Args:
        algo: Name of the algorithm.
        env: The environments.
        seed: Seed of the algorithm.
        device: "auto" puts only convolutional policies on a GPU: small networks are faster on a CPU.
        trainer: "auto" uses our fast PPO and A2C, "fast" fails for other algorithms, "sb3" uses the originals.
        parameters: Hyperparameters of the constructor. The observation space determines the policy unless they do.
    """
    arguments = algorithm_parameters(algo, env.observation_space, parameters or {})
    if device == "auto" and "Cnn" not in str(arguments["policy"]):
        device = "cpu"
    arguments["policy"] = policy_class(arguments["policy"])
    _check_device(device)
    fast = trainer == "fast" or (trainer == "auto" and algo in FAST)
    try:
        return algorithm_class(algo, fast=fast)(env=env, seed=seed, device=device, **arguments)
    except (AssertionError, TypeError, NotImplementedError) as error:
        # SB3 checks spaces and values with assertions.
        raise ValueError(f"algo {algo!r} cannot be built with {dict(parameters or {})}: {error}") from error


def is_gpu(device: str) -> bool:
    """Whether `device` is a GPU; "auto" is one if torch finds one."""
    return device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())


def learn_arguments(model: OnPolicyAlgorithm) -> dict[str, Any]:
    """Return further arguments of `learn`: MaskablePPO needs a flag if there are no action masks."""
    if type(model).__name__ != "MaskablePPO":
        return {}
    from sb3_contrib.common.maskable.utils import is_masking_supported

    env = model.get_env()
    return {"use_masking": env is not None and is_masking_supported(env)}


def predict_arguments(model: OnPolicyAlgorithm, env: VecEnv) -> dict[str, Any]:
    """Return further arguments of `predict`: for MaskablePPO the action masks of `env`, if it has any."""
    if type(model).__name__ != "MaskablePPO":
        return {}
    from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported

    return {"action_masks": get_action_masks(env)} if is_masking_supported(env) else {}


#: Integer hyperparameters and their least values. SB3 and sb3-contrib would fail only in the middle of a training.
_COUNTS: Mapping[str, int] = {
    "n_steps": 1,
    "batch_size": 1,
    "n_epochs": 1,
    "n_critic_updates": 1,
    "cg_max_steps": 1,
    "line_search_max_iter": 1,
    "sub_sampling_factor": 1,
    "stats_window_size": 0,
}
#: Hyperparameters in [0, 1].
_FRACTIONS = frozenset({"gamma", "gae_lambda"})
#: Hyperparameters that are a number, a schedule or None.
_OPTIONAL = frozenset({"target_kl", "clip_range_vf"})


def _check_parameter(label: str, name: str, value: object, default: object) -> None:
    """Raise a ValueError for a hyperparameter of another kind than its default, or out of range."""
    number = _is_number(value)
    if _is_number(default) and not number:
        raise ValueError(f"{label} must be a number, as its default {default}, got {value!r}")
    if name in _COUNTS and not (isinstance(value, int) and value >= _COUNTS[name]):
        raise ValueError(f"{label} must be an integer of at least {_COUNTS[name]}, got {value!r}")
    if name in _FRACTIONS and not (isinstance(value, int | float) and 0 <= value <= 1):
        raise ValueError(f"{label} must lie in [0, 1], got {value!r}")
    if name in _OPTIONAL and not (value is None or number or callable(value)):
        raise ValueError(f"{label} must be a number or null, got {value!r}")


def _plain_value(name: str, value: Any) -> Any:
    """Convert NumPy scalars to Python's types, and counts such as 1e3 to integers."""
    value = value.item() if isinstance(value, np.generic) else value
    return int(value) if name in _COUNTS and isinstance(value, float) and value.is_integer() else value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_device(device: str) -> None:
    """Raise a ValueError for an unknown device or a missing GPU; SB3 would silently use the CPU."""
    try:
        found = torch.device("cpu" if device == "auto" else device)
    except RuntimeError as error:
        raise ValueError(f"device must be auto, cpu, cuda or cuda:NUMBER, got {device!r}") from error
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"there is no device {device!r}; torch finds {torch.cuda.device_count()} GPUs")
