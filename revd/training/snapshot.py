"""Everything needed to resume a training, as tensors and JSON: loading it executes no code."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from stable_baselines3.common.vec_env import VecEnv, VecNormalize, unwrap_vec_normalize
from torch import Tensor

from revd.coverage.state import CounterState
from revd.sb3.checkpoint import Checkpoint

if TYPE_CHECKING:
    from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
    from stable_baselines3.common.running_mean_std import RunningMeanStd

    from revd.sb3.callback import IntrinsicRewardCallback
    from revd.sb3.coverage import CoverageCallback

#: Tensors, and values of JSON's types.
Snapshot = tuple[dict[str, Tensor], dict[str, Any]]

#: Counts and integers in a snapshot must be smaller.
_INTEGER_LIMIT = 2**63


@dataclass(frozen=True, kw_only=True, eq=False)
class PreRolloutState:
    """The part of a training's state that collecting a rollout changes, as it was before the rollout.

    It is cheap to copy. Networks, optimiser and bonus change only in the update after the rollout; until then a
    snapshot of the state before the rollout can still be taken.

    Attributes:
        num_timesteps: Environment steps.
        n_updates: Gradient updates.
        episodes: A Monitor's reports of the last episodes.
        successes: The results of the last episodes, if the task reports success.
        normalization: The statistics of VecNormalize.
        generators: The states of the global random generators.
        pending: Values logged since the last line of the log; they belong to the line after the checkpoint.
    """

    num_timesteps: int
    n_updates: int
    episodes: list[dict[str, Any]]
    successes: list[Any]
    normalization: dict[str, Tensor]
    generators: GeneratorStates
    pending: dict[str, float]

    @classmethod
    def of_model(cls, model: OnPolicyAlgorithm, pending: Mapping[str, float]) -> PreRolloutState:
        """Copy the current state, between two rollouts."""
        env = model.get_env()
        return cls(
            num_timesteps=model.num_timesteps,
            n_updates=model._n_updates,
            episodes=list(model.ep_info_buffer or ()),
            successes=list(model.ep_success_buffer or ()),
            normalization={} if env is None else normalization_state(env),
            generators=GeneratorStates.current(),
            pending=dict(pending),
        )

    @property
    def counters(self) -> dict[str, Any]:
        """The counters and the last episodes in JSON's types."""
        return {
            "num_timesteps": self.num_timesteps,
            "n_updates": self.n_updates,
            "episodes": [{name: float(episode[name]) for name in ("r", "l", "t")} for episode in self.episodes],
            "successes": [bool(success) for success in self.successes],
        }


def take_snapshot(
    model: OnPolicyAlgorithm,
    intrinsic: IntrinsicRewardCallback | None,
    coverage: CoverageCallback | None,
    state: PreRolloutState,
    *,
    sessions: int,
) -> Snapshot:
    """Collect policy, optimiser, bonus, visits and `state`, which must have been copied since the last update."""
    tensors, values = policy_snapshot(model.get_parameters(), state.normalization)
    tensors |= _add_prefix("random", state.generators.tensors())
    values |= {"counters": state.counters, "sessions": sessions, "pending": state.pending}
    if intrinsic is not None:
        checkpoint = intrinsic.checkpoint()
        tensors |= _add_prefix("bonus", checkpoint.tensors)
        values["bonus"] = checkpoint.values
    if coverage is not None:
        visits = coverage.state()
        tensors |= _add_prefix("coverage", visits.tensors)
        values["coverage"] = visits.values
    return tensors, values


def visits_of(snapshot: Snapshot) -> CounterState | None:
    """The visits in a snapshot; None if none were counted."""
    tensors, values = snapshot
    if "coverage" not in values:
        return None
    found = without_prefix("coverage", tensors)
    return CounterState.of({name: tensor.numpy() for name, tensor in found.items()}, values["coverage"])


def policy_snapshot(parameters: Mapping[str, Any], normalization: Mapping[str, Tensor]) -> Snapshot:
    """Make the part of a snapshot that starts another training.

    Args:
        parameters: As from SB3's `get_parameters`; "policy.optimizer" may be missing.
        normalization: The statistics of VecNormalize.
    """
    optimizer, options = _optimizer_state(parameters.get("policy.optimizer", {"state": {}, "param_groups": []}))
    tensors = {
        **_add_prefix("policy", parameters["policy"]),
        **_add_prefix("optimizer", optimizer),
        **_add_prefix("normalization", normalization),
    }
    return tensors, {"optimizer": options}


def restore_snapshot(
    snapshot: Snapshot,
    model: OnPolicyAlgorithm,
    intrinsic: IntrinsicRewardCallback | None,
    coverage: CoverageCallback | None,
) -> None:
    """Restore a training that was built from the same config. The environments start new episodes.

    Raises:
        ValueError: A number in the snapshot is out of range or of another type.
        KeyError, TypeError, AttributeError, RuntimeError: Its structure is wrong, or it is of another training.
    """
    tensors, values = snapshot
    _check_values(values)
    model.policy.load_state_dict(without_prefix("policy", tensors))
    load_optimizer_state(model.policy.optimizer, snapshot)
    normalization = without_prefix("normalization", tensors)
    env = model.get_env()
    if normalization and env is not None:
        load_normalization_state(env, normalization)
    if intrinsic is not None:
        intrinsic.restore(Checkpoint.of(values["bonus"], without_prefix("bonus", tensors)))
    if coverage is not None:
        visits = visits_of(snapshot)
        if visits is None:
            raise ValueError("the checkpoint holds no visits: they were not counted from the start")
        coverage.restore(visits)
    _load_counters(model, values["counters"])
    _set_generator_states(without_prefix("random", tensors))


def _check_values(values: Mapping[str, Any]) -> None:
    """Check the types of a snapshot's values.

    Its checksum detects damage, but anybody can write a file with a valid checksum.
    """
    counters, bonus = values["counters"], values.get("bonus", {})
    for name, count in {
        "sessions": values["sessions"],
        "num_timesteps": counters["num_timesteps"],
        "n_updates": counters["n_updates"],
        "rollouts of the bonus": bonus.get("rollouts", 0),
        "steps of the bonus": bonus.get("steps", 0),
    }.items():
        if type(count) is not int or not 0 <= count < _INTEGER_LIMIT:
            raise ValueError(f"the checkpoint's {name} must be an integer of at least 0, got {count!r}")
    _check_numbers("pending", values["pending"])
    for name, counts in (bonus.get("warnings") or {}).items():
        _check_numbers(f"warnings of {name}", dict(enumerate(counts)))
    for options in values["optimizer"]:
        _check_numbers("optimizer", options)
    for episode in counters["episodes"]:
        _check_numbers("episodes", {name: episode[name] for name in ("r", "l", "t")})
    _check_numbers("successes", dict(enumerate(counters["successes"])))


def _check_numbers(name: str, numbers: Mapping[Any, Any]) -> None:
    for key, number in numbers.items():
        finite = isinstance(number, int | float) and abs(number) < math.inf
        if not finite or (isinstance(number, int) and abs(number) >= _INTEGER_LIMIT):
            raise ValueError(f"the checkpoint's {name} must be finite numbers, got {number!r} under {key!r}")


def _load_counters(model: OnPolicyAlgorithm, counters: Mapping[str, Any]) -> None:
    model.num_timesteps = counters["num_timesteps"]
    model._n_updates = counters["n_updates"]
    # learn() keeps these two unless they are missing or the count of steps starts at zero.
    model.ep_info_buffer = deque(counters["episodes"], maxlen=model._stats_window_size)
    model.ep_success_buffer = deque(counters["successes"], maxlen=model._stats_window_size)


def _optimizer_state(state: Mapping[str, Any]) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    """Return the state tensors by "index.name", and the numbers and flags among each group's options."""
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


def load_optimizer_state(optimizer: torch.optim.Optimizer, snapshot: Snapshot) -> None:
    """Load an optimiser's state from a snapshot."""
    tensors, values = snapshot
    state = optimizer.state_dict()
    loaded: dict[int, dict[str, Tensor]] = {}
    for key, tensor in without_prefix("optimizer", tensors).items():
        index, name = key.split(".", 1)
        loaded.setdefault(int(index), {})[name] = tensor
    groups = [{**group, **saved} for group, saved in zip(state["param_groups"], values["optimizer"], strict=True)]
    optimizer.load_state_dict({"state": loaded, "param_groups": groups})


def normalization_state(env: VecEnv) -> dict[str, Tensor]:
    """Return the statistics of the VecNormalize around `env`; empty if there is none."""
    wrapper = unwrap_vec_normalize(env)
    if wrapper is None:
        return {}
    state = {"returns": torch.from_numpy(wrapper.returns.copy())}
    for prefix, statistics in _running_statistics(wrapper):
        state[f"{prefix}.mean"] = torch.as_tensor(np.array(statistics.mean))
        state[f"{prefix}.var"] = torch.as_tensor(np.array(statistics.var))
        state[f"{prefix}.count"] = torch.tensor(statistics.count, dtype=torch.float64)
    return state


def load_normalization_state(env: VecEnv, state: Mapping[str, Tensor]) -> None:
    """Restore statistics that `normalization_state` returned for an environment of the same spaces."""
    wrapper = unwrap_vec_normalize(env)
    expected = {key: value.shape for key, value in normalization_state(env).items()}
    given = {key: value.shape for key, value in state.items()}
    if given != expected:
        raise ValueError(f"normalisation statistics {given} do not fit this environment, which needs {expected}")
    if wrapper is None:
        return
    wrapper.returns = state["returns"].numpy().copy()
    for prefix, statistics in _running_statistics(wrapper):
        statistics.mean = state[f"{prefix}.mean"].numpy().copy()
        statistics.var = state[f"{prefix}.var"].numpy().copy()
        statistics.count = float(state[f"{prefix}.count"])


def _running_statistics(wrapper: VecNormalize) -> Iterator[tuple[str, RunningMeanStd]]:
    yield "rewards", wrapper.ret_rms
    if not wrapper.norm_obs:
        return
    if isinstance(wrapper.obs_rms, dict):
        for key, statistics in wrapper.obs_rms.items():
            yield f"observations.{key}", statistics
    else:
        yield "observations", wrapper.obs_rms


@dataclass(frozen=True, kw_only=True, eq=False)
class GeneratorStates:
    """The states of the global random generators of torch, NumPy and Python.

    They are kept as the generators return them: converting them to tensors takes longer than reading them.
    """

    torch: Tensor
    numpy: tuple[Any, ...]
    python: tuple[Any, ...]
    cuda: tuple[Tensor, ...]

    @classmethod
    def current(cls) -> GeneratorStates:
        """Read the current states."""
        return cls(
            torch=torch.get_rng_state(),
            numpy=tuple(np.random.get_state(legacy=True)),  # noqa: NPY002
            python=random.getstate(),
            cuda=tuple(torch.cuda.get_rng_state_all()) if torch.cuda.is_available() else (),
        )

    def tensors(self) -> dict[str, Tensor]:
        """Convert the states to tensors."""
        _, keys, position, has_gauss, cached = self.numpy
        version, state, gauss = self.python
        return {
            "torch": self.torch,
            "numpy_keys": torch.from_numpy(np.asarray(keys, dtype=np.int64)),
            "numpy_rest": torch.tensor([position, has_gauss, cached], dtype=torch.float64),
            "python": torch.tensor([version, *state], dtype=torch.int64),
            "python_gauss": torch.tensor([] if gauss is None else [gauss], dtype=torch.float64),
            **{f"cuda{index}": state for index, state in enumerate(self.cuda)},
        }


def _set_generator_states(tensors: Mapping[str, Tensor]) -> None:
    """Set the global generators to states from `GeneratorStates.tensors`."""
    torch.set_rng_state(tensors["torch"])
    position, has_gauss, cached = tensors["numpy_rest"].tolist()
    keys = tensors["numpy_keys"].numpy().astype(np.uint32)
    np.random.set_state(("MT19937", keys, int(position), int(has_gauss), cached))  # noqa: NPY002
    version, *state = tensors["python"].tolist()
    gauss = tensors["python_gauss"].tolist()
    random.setstate((version, tuple(state), gauss[0] if gauss else None))
    # A checkpoint from a machine with fewer GPUs, or none, leaves the other GPUs' generators as they are.
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        if f"cuda{index}" in tensors:
            torch.cuda.set_rng_state(tensors[f"cuda{index}"], index)


def _add_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Put "prefix/" before each name."""
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def without_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names start with "prefix/", without it."""
    start = f"{prefix}/"
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
