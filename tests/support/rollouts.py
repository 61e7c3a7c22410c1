"""Random rollouts of vector observations, and Hypothesis strategies of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from hypothesis import strategies as st

from revd import Rollout
from revd.testing.samples import changed, with_garbage
from tests.support.naive import Points, Steps

__all__ = ["BOX", "DISCRETE", "Shape", "changed", "embedded", "make_rollout", "make_rollouts", "shapes"]

BOX = spaces.Box(-np.inf, np.inf, (3,), np.float32)
DISCRETE = spaces.Discrete(4)


@dataclass(frozen=True)
class Shape:
    """Shapes and contents of random rollouts."""

    n_steps: int = 8
    n_envs: int = 2
    done_rate: float = 0.2
    duplicate_rate: float = 0.0
    scale: float = 1.0
    ragged: bool = False


def make_rollout(seed: int, shape: Shape = Shape(), action_space: spaces.Space[Any] = DISCRETE) -> Rollout:  # noqa: B008
    """A rollout over `BOX`; successors are consistent within an episode, and a state of their own at its end."""
    rng = np.random.default_rng(seed)
    n_steps, n_envs = shape.n_steps, shape.n_envs
    states = rng.normal(size=(n_steps + 1, n_envs, 3)).astype(np.float32) * np.float32(shape.scale)
    for t, env in np.argwhere(rng.random((n_steps, n_envs)) < shape.duplicate_rate):
        states[t + 1, env] = states[rng.integers(t + 1), env]
    dones = rng.random((n_steps, n_envs)) < shape.done_rate
    successors = states[1:].copy()
    successors[dones] = rng.normal(size=(int(dones.sum()), 3)).astype(np.float32) * np.float32(shape.scale)
    action_space.seed(seed)
    actions = np.array([[action_space.sample() for _ in range(n_envs)] for _ in range(n_steps)])
    lengths = rng.integers(0, n_steps + 1, n_envs) if shape.ragged else None
    rollout = Rollout(
        observations=states[:-1].copy(), actions=actions, next_observations=successors, dones=dones, lengths=lengths
    )
    return with_garbage(rollout) if shape.ragged else rollout


def make_rollouts(seed: int, count: int, shape: Shape = Shape()) -> list[Rollout]:  # noqa: B008
    return [make_rollout(1_000 * seed + i, shape) for i in range(count)]


def embedded(reward: Any, rollout: Rollout) -> Steps:
    """What the naive rewards read: the embeddings of the valid steps, NaN elsewhere."""
    phi, phi_next = (_embed(reward, rollout, part) for part in (rollout.observations, rollout.next_observations))
    lengths = [rollout.n_steps] * rollout.n_envs if rollout.lengths is None else rollout.lengths.tolist()
    return Steps(phi=phi, phi_next=phi_next, dones=rollout.dones.numpy(), lengths=lengths)


def _embed(reward: Any, rollout: Rollout, observations: Any) -> Points:
    phi = np.full((rollout.n_steps, rollout.n_envs, reward.encoder.embedding_size), np.nan)
    phi[rollout.valid.numpy()] = reward.encoder(observations[rollout.valid]).detach().double().numpy()
    return phi


@st.composite
def shapes(draw: st.DrawFn, *, min_steps: int, ragged: bool = False) -> Shape:
    return Shape(
        n_steps=draw(st.integers(min_steps, min_steps + 8)),
        n_envs=draw(st.integers(1, 3)),
        done_rate=draw(st.sampled_from([0.08, 0.0, 0.3, 1.0])),
        duplicate_rate=draw(st.sampled_from([0.0, 0.3, 1.0])),
        scale=draw(st.sampled_from([0.01, 1.0, 30.0])),
        ragged=ragged,
    )
