"""The on-policy algorithms of Stable-Baselines3 and sb3-contrib, and our fast ones, by name."""

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
#: SB3's, sb3-contrib's and SBX's that learn from a replay buffer, as one may write them.
OFF_POLICY = frozenset({"crossq", "ddpg", "dqn", "droq", "her", "qrdqn", "redq", "sac", "simba", "td3", "tqc"})
#: Those that we compute faster on a GPU.
FAST: Mapping[str, tuple[str, str]] = {"ppo": ("revd.fast", "FastPPO"), "a2c": ("revd.fast", "FastA2C")}
Trainer = Literal["auto", "fast", "sb3"]

# SB3's 2048 steps suit one environment. With ten of them, 10,000 steps would be half a rollout, and rewards
# that compare a rollout with the one before would never pay; the paper collects 256 steps from each of ten.
ROLLOUT_STEPS: Mapping[str, int] = {"ppo": 256, "trpo": 256, "maskable-ppo": 256}

_SET_ELSEWHERE = frozenset({"self", "env", "seed", "device", "verbose", "tensorboard_log", "_init_setup_model"})


def algorithm_class(algo: str, *, fast: bool = False) -> type[OnPolicyAlgorithm]:
    """The class behind a name, the original or our fast one; those of sb3-contrib are imported only when asked for."""
    if re.sub(r"[-_ ]", "", algo.lower()) in OFF_POLICY:
        raise ValueError(
            f"algo {algo!r} is off-policy: it learns from a replay buffer, and a bonus is computed for whole rollouts; "
            f"use one that learns from rollouts: {', '.join(ALGORITHMS)}"
        )
    if algo not in ALGORITHMS:
        raise ValueError(unknown_name("algo", algo, ALGORITHMS))
    if fast and algo not in FAST:
        raise ValueError(f"trainer 'fast' is made for {', '.join(FAST)}, not for algo {algo!r}; use 'auto' or 'sb3'")
    package, name = (FAST if fast else ALGORITHMS)[algo]
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
    """All hyperparameters of an algorithm: the library's defaults, ours where they differ, `overrides`."""
    signature = inspect.signature(algorithm_class(algo)).parameters
    defaults = {name: entry.default for name, entry in signature.items() if name not in _SET_ELSEWHERE}
    defaults["policy"] = policy_name(algo, observation_space)
    overrides = {name: _plain(name, value) for name, value in overrides.items()}
    for name in overrides:
        if name not in defaults:
            raise ValueError(unknown_name(f"parameter of {algo}", name, defaults, listed=40))
        _check_parameter(f"{name} of {algo}", name, overrides[name], defaults[name])
    if algo in ROLLOUT_STEPS:
        defaults["n_steps"] = ROLLOUT_STEPS[algo]
    return {**defaults, **overrides}


def policy_name(algo: str, observation_space: spaces.Space[Any]) -> str:
    """The kind of policy network that suits a space, by SB3's name; for recurrent-ppo its LSTM variant."""
    # Images too small for three convolutions (SB3's network needs what the encoder's does) go through the MLP.
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
    """
    An algorithm ready to learn in `env`.

    `parameters` are the constructor's own hyperparameters; the policy is chosen by the observation space unless
    they name one. With `device="auto"` only convolutional policies go to a GPU: small networks are faster
    without it. With `trainer="auto"` the fast PPO and A2C are taken on a GPU; "fast" takes them on a CPU too.
    """
    arguments = algorithm_parameters(algo, env.observation_space, parameters or {})
    if device == "auto" and "Cnn" not in str(arguments["policy"]):
        device = "cpu"
    arguments["policy"] = policy_class(arguments["policy"])
    _check_device(device)
    fast = trainer == "fast" or (trainer == "auto" and algo in FAST and is_gpu(device))
    try:
        return algorithm_class(algo, fast=fast)(env=env, seed=seed, device=device, **arguments)
    except (AssertionError, TypeError, NotImplementedError) as error:
        # SB3 states its requirements on spaces and values as assertions.
        raise ValueError(f"algo {algo!r} cannot be built with {dict(parameters or {})}: {error}") from error


def is_gpu(device: str) -> bool:
    """Whether that names a GPU; "auto" does where torch sees one."""
    return device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())


def learn_arguments(model: OnPolicyAlgorithm) -> dict[str, Any]:
    """What `learn` needs besides: MaskablePPO insists on action masks unless told that there are none."""
    if type(model).__name__ != "MaskablePPO":
        return {}
    from sb3_contrib.common.maskable.utils import is_masking_supported

    env = model.get_env()
    return {"use_masking": env is not None and is_masking_supported(env)}


def predict_arguments(model: OnPolicyAlgorithm, env: VecEnv) -> dict[str, Any]:
    """What `predict` needs besides: MaskablePPO the action masks of `env`, where there are any."""
    if type(model).__name__ != "MaskablePPO":
        return {}
    from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported

    return {"action_masks": get_action_masks(env)} if is_masking_supported(env) else {}


#: What SB3 and sb3-contrib would only stumble over in the middle of a training: the smallest of what is counted, …
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
#: … what lies between 0 and 1, and what is a number, a schedule, or nothing at all.
_FRACTIONS = frozenset({"gamma", "gae_lambda"})
_OPTIONAL = frozenset({"target_kl", "clip_range_vf"})


def _check_parameter(what: str, name: str, value: object, default: object) -> None:
    """Raise a ValueError for a hyperparameter that is not of its default's kind, or that no training can have."""
    number = _is_number(value)
    if _is_number(default) and not number:
        raise ValueError(f"{what} must be a number, as its default {default}, got {value!r}")
    if name in _COUNTS and not (isinstance(value, int) and value >= _COUNTS[name]):
        raise ValueError(f"{what} must be an integer of at least {_COUNTS[name]}, got {value!r}")
    if name in _FRACTIONS and not (isinstance(value, int | float) and 0 <= value <= 1):
        raise ValueError(f"{what} must lie in [0, 1], got {value!r}")
    if name in _OPTIONAL and not (value is None or number or callable(value)):
        raise ValueError(f"{what} must be a number or null, got {value!r}")


def _plain(name: str, value: Any) -> Any:
    """A value without NumPy's type; a count that was written as 1e3 as the integer that it is."""
    value = value.item() if isinstance(value, np.generic) else value
    return int(value) if name in _COUNTS and isinstance(value, float) and value.is_integer() else value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_device(device: str) -> None:
    """Refuse what torch does not know, and a GPU that is not there: SB3 would quietly take the CPU instead."""
    try:
        found = torch.device("cpu" if device == "auto" else device)
    except RuntimeError as error:
        raise ValueError(f"device must be auto, cpu, cuda or cuda:NUMBER, got {device!r}") from error
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device {device!r} is not there; torch sees {torch.cuda.device_count()} GPUs")
