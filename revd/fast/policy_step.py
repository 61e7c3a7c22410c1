"""The policy's forward pass during a rollout, from a CUDA graph and into the buffer."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor

from revd.fast.actor_critic import ActorCritic, own_methods
from revd.fast.buffer import DeviceRolloutBuffer
from revd.fast.cuda_graphs import GraphedFunction, GraphRecorder, addresses
from revd.rollout import Observations

#: Actions, values and log-probabilities.
PolicyOutput = tuple[Tensor, Tensor, Tensor]


class PolicyStep:
    """Replaces a policy's `forward` during SB3's `collect_rollouts`.

    The first call of each step is SB3's: its observations are already on the device, so they are written to the buffer
    from there, together with the policy's output. Every other call, for example from a callback, runs the policy's own
    `forward`.
    """

    def __init__(
        self,
        policy: ActorCriticPolicy,
        actor_critic: ActorCritic,
        buffer: DeviceRolloutBuffer,
        recorder: GraphRecorder | None,
    ) -> None:
        self.policy = policy
        self.actor_critic = actor_critic
        self._buffer = buffer
        # Kept, since `policy.forward` is this object while a rollout is collected.
        self._forward = policy.forward
        self._own_methods = own_methods(policy)
        self._graphed_forward: GraphedFunction[PolicyOutput] = GraphedFunction(
            "the policy's forward pass", actor_critic.forward, recorder, self._fingerprint
        )

    def is_for(self, policy: ActorCriticPolicy) -> bool:
        """Whether it was made for a policy with the methods that this one has now."""
        return policy is self.policy and own_methods(policy) == self._own_methods

    @contextmanager
    def replacing_forward(self) -> Iterator[None]:
        """Within the block, calls of the policy come here."""
        self._graphed_forward.drop_stale_captures()
        policy: Any = self.policy
        policy.forward = self
        try:
            yield
        finally:
            del policy.forward
            vars(policy).update(self._own_methods)

    def __call__(self, obs: Observations, deterministic: bool = False) -> PolicyOutput:
        """Return actions, values and log-probabilities, like the policy's `forward`."""
        buffer = self._buffer
        not_from_sb3 = buffer.is_staged or buffer.full or deterministic or _batch_size(obs) != buffer.n_envs
        if not_from_sb3:
            return self._forward(obs, deterministic)  # type: ignore[arg-type]
        # Dict observations come here too: without a recorder the function is called as it is.
        actions, values, log_probs = self._graphed_forward(buffer.stage_observations(obs))  # type: ignore[arg-type]
        return actions, *buffer.stage_policy_output(actions, values, log_probs)

    def _fingerprint(self) -> Hashable:
        return addresses(*self.policy.parameters(), *self.policy.buffers())


def _batch_size(obs: Observations) -> int:
    return len(next(iter(obs.values())) if isinstance(obs, dict) else obs)
