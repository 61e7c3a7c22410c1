"""All checks, and the functions that run them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from gymnasium import spaces

from revd.testing import inputs, outcomes, parameters, state
from revd.testing.subject import Subject

if TYPE_CHECKING:
    from revd.spaces import Space
    from revd.testing.subject import Factory

#: The spaces of the checks unless others are given.
DEFAULT_OBSERVATIONS: Space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
DEFAULT_ACTIONS: Space = spaces.Discrete(4)

#: check(factory, *, observation_space=None, action_space=None, parameters=None); raises AssertionError.
Check: TypeAlias = Callable[..., None]

_CONTRACTS: dict[str, Callable[[Subject], None]] = {
    "shape": outcomes.check_shape,
    "dtype": outcomes.check_dtype,
    "finite": outcomes.check_finite,
    "metrics": outcomes.check_metrics,
    "determinism": outcomes.check_determinism,
    "counting": outcomes.check_counting,
    "input untouched": inputs.check_input_untouched,
    "no aliasing": inputs.check_no_aliasing,
    "successors": inputs.check_successors,
    "padding": inputs.check_padding,
    "empty rollout": inputs.check_empty_rollout,
    "bad rollout": inputs.check_bad_rollout,
    "state": state.check_state,
    "end of episodes": state.check_end_of_episodes,
    "frozen parameters": state.check_frozen_parameters,
    "device": state.check_device,
    "normalize": parameters.check_normalize,
    "parameters": parameters.check_parameters_matter,
}

#: Contracts that compare two rewards with equal parameters. They mean nothing if determinism is broken.
_COMPARING_CONTRACTS = ("no aliasing", "successors", "padding", "empty rollout", "state", "device", "normalize")


def check_reward(
    factory: Factory,
    *,
    observation_space: Space | None = None,
    action_space: Space | None = None,
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Run every contract of an `IntrinsicReward`, and raise one AssertionError that lists those it breaks.

    Contracts that compare two rewards are not judged if rewards with equal parameters differ.

    Args:
        factory: Called as factory(observation_space, action_space, n_envs); the class of a reward is one.
        observation_space: Vectors of three numbers by default.
        action_space: Four discrete actions by default.
        parameters: Values for each parameter whose effect the check does not find itself, and for others that it
            needs, such as {"memory_size": {"memory_size": 4, "boundary": "episode"}}.
    """
    broken = {}
    for name, check in reward_checks():
        try:
            check(factory, observation_space=observation_space, action_space=action_space, parameters=parameters)
        except AssertionError as error:
            broken[name] = str(error)
    if broken:
        raise AssertionError(_describe_broken(broken))


def _describe_broken(broken: Mapping[str, str]) -> str:
    """Describe broken contracts, each cause once."""
    doubtful = [name for name in broken if name in _COMPARING_CONTRACTS and "determinism" in broken]
    lines = [f"- {message}" for name, message in broken.items() if name not in doubtful]
    found = f"{len(lines)} of {len(_CONTRACTS)} contracts {'is' if len(lines) == 1 else 'are'} broken:"
    if doubtful:
        lines.append(f"Not judged before determinism holds, since they compare two rewards: {', '.join(doubtful)}")
    return "\n".join([found, *lines])


def reward_checks() -> list[tuple[str, Check]]:
    """The single contracts, for parametrised tests: names, and functions with the arguments of `check_reward`."""
    return [(name, _public_check(name, contract)) for name, contract in _CONTRACTS.items()]


def _public_check(name: str, contract: Callable[[Subject], None]) -> Check:
    @wraps(contract)
    def check(
        factory: Factory,
        *,
        observation_space: Space | None = None,
        action_space: Space | None = None,
        parameters: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        subject = Subject(
            factory=factory,
            observation_space=DEFAULT_OBSERVATIONS if observation_space is None else observation_space,
            action_space=DEFAULT_ACTIONS if action_space is None else action_space,
            parameters=parameters or {},
        )
        try:
            # A reward that changes torch's global generator must not affect other tests.
            with torch.random.fork_rng(devices=[]):
                contract(subject)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error
        except Exception as error:
            raise AssertionError(f"{name}: {type(error).__name__} was raised: {error}") from error

    return check
