"""The policy acts while a rollout is collected: from a CUDA graph, and straight into the buffer."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor

from revd.fast.actor_critic import Networks
from revd.fast.buffer import DeviceRolloutBuffer
from revd.fast.cuda_graphs import Recorder, Replayable, addresses
from revd.rollout import Observations

Answer = tuple[Tensor, Tensor, Tensor]


class Acting:
    """Stands in for a policy's `forward` during SB3's `collect_rollouts`.

    The first call of each step is SB3's: its observations are on the device already, so they go into the buffer from
    there, together with the answer. Any other call, of a callback perhaps, gets what the policy itself says.
    """

    def __init__(
        self, policy: ActorCriticPolicy, networks: Networks, buffer: DeviceRolloutBuffer, recorder: Recorder | None
    ) -> None:
        self.policy = policy
        self.networks = networks
        self._buffer = buffer
        # `forward` as it was, for by the time of the call the policy's is this object.
        self._forward = policy.forward
        self._answer: Replayable[Answer] = Replayable("acting", networks.forward, recorder, self._fingerprint)

    @contextmanager
    def instead_of_forward(self) -> Iterator[None]:
        """While it lasts, calling the policy means calling this."""
        self._answer.renew()
        policy: Any = self.policy
        policy.forward = self
        try:
            yield
        finally:
            del policy.forward

    def __call__(self, obs: Observations, deterministic: bool = False) -> Answer:
        """Actions, values and log-probabilities, as the policy's `forward`."""
        buffer = self._buffer
        foreign = buffer.is_staged or buffer.full or deterministic or _batch_size(obs) != buffer.n_envs
        if foreign:
            return self._forward(obs, deterministic)  # type: ignore[arg-type]
        # Only tensors are captured; a policy of dictionaries has no recorder.
        actions, values, log_probs = self._answer(buffer.stage_observations(obs))  # type: ignore[arg-type]
        return actions, *buffer.stage_answer(actions, values, log_probs)

    def _fingerprint(self) -> Hashable:
        return addresses(*self.policy.parameters(), *self.policy.buffers())


def _batch_size(obs: Observations) -> int:
    return len(next(iter(obs.values())) if isinstance(obs, dict) else obs)
