"""Rollouts in groups of environments: one group steps while the actions of the other are computed."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.utils import obs_as_tensor
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn
from torch import Tensor

from revd.fast.actor_critic import ActorCritic, FastActorCritic, gumbel_noise
from revd.fast.buffer import DeviceRolloutBuffer
from revd.fast.cuda_graphs import GraphedFunction, GraphRecorder, addresses
from revd.fast.env_groups import GroupedVecEnv, concatenate_groups

if TYPE_CHECKING:
    from revd.arrays import Array


class GroupActor:
    """Computes the actions of one group of environments.

    One graphed function copies observations from the host, computes the policy, writes the step into the buffer and
    copies the actions back. A GPU runs it while the host does other work.
    """

    def __init__(
        self,
        policy: ActorCriticPolicy,
        actor_critic: ActorCritic,
        buffer: DeviceRolloutBuffer,
        envs: slice,
        recorder: GraphRecorder | None,
    ) -> None:
        assert isinstance(buffer.stored.observations, Tensor)
        self._actor_critic = actor_critic
        self._policy = policy
        self._buffer = buffer
        self._envs = envs
        self._step = torch.zeros(1, dtype=torch.int64, device=buffer.device)
        # The policy's input has the buffer's memory layout, the copy from the host is contiguous.
        self._policy_input = torch.empty_like(buffer.stored.observations[0, envs])
        self._from_host = torch.empty_like(self._policy_input, memory_format=torch.contiguous_format)
        host: dict[str, Any] = {"device": "cpu", "pin_memory": buffer.device.type == "cuda"}
        self._observations = torch.empty(self._policy_input.shape, dtype=self._policy_input.dtype, **host)
        self._observation_array = self._observations.numpy()
        n_envs = len(self._policy_input)
        self._actions = torch.empty(
            (n_envs, *(buffer.action_space.shape or ())), dtype=buffer.stored.actions.dtype, **host
        )
        # Drawn for a whole rollout at once: a graph that draws its own numbers costs an extra call at every replay.
        n_actions = actor_critic.n_discrete_actions if isinstance(actor_critic, FastActorCritic) else 0
        self._noise = torch.empty((buffer.buffer_size, n_envs, n_actions), device=buffer.device)
        self._graphed_act: GraphedFunction[None] = GraphedFunction(
            "the policy's forward pass", self._act, recorder, self._fingerprint
        )

    def start_rollout(self) -> None:
        """Prepare for the first step of a rollout."""
        self._step.zero_()
        gumbel_noise(self._noise)
        self._graphed_act.drop_stale_captures()

    @torch.no_grad()
    def start(self, observations: Array) -> None:
        """Start computing the actions for the group's observations."""
        self._observation_array[...] = observations.reshape(self._observation_array.shape)
        self._graphed_act()

    def actions(self) -> Array:
        """Wait for the actions and return them."""
        if self._buffer.device.type == "cuda":
            torch.cuda.current_stream(self._buffer.device).synchronize()
        return self._actions.numpy().copy()

    def _act(self) -> None:
        self._policy_input.copy_(self._from_host.copy_(self._observations, non_blocking=True))
        actions, values, log_probs = self._policy_output()
        self._buffer.write_step(self._step, self._envs, self._policy_input, (actions, values, log_probs))
        self._step += 1
        # Last, because a kernel after a copy waits longer than a kernel after a kernel.
        self._actions.copy_(actions, non_blocking=True)

    def _policy_output(self) -> tuple[Tensor, Tensor, Tensor]:
        if isinstance(self._actor_critic, FastActorCritic) and self._noise.numel():
            return self._actor_critic.forward(self._policy_input, noise=self._noise.index_select(0, self._step)[0])
        return self._actor_critic.forward(self._policy_input)

    def _fingerprint(self) -> Hashable:
        return addresses(*self._policy.parameters(), *self._policy.buffers(), *self._buffer.tensors)


class OverlappedRollouts:
    """SB3's `collect_rollouts` with two or more groups of environments, half a step apart.

    Each group gets its next actions as soon as its step is done, without waiting for the others. So emulators run while
    the policy computes and while callbacks process the previous step. Each environment's own sequence of steps is
    unchanged, and no step is pending before or after a rollout.
    """

    def __init__(
        self, model: OnPolicyAlgorithm, env: GroupedVecEnv, actor_critic: ActorCritic, recorder: GraphRecorder | None
    ) -> None:
        assert isinstance(model.rollout_buffer, DeviceRolloutBuffer)
        self.env = env
        self._model = model
        self._buffer = model.rollout_buffer
        self._actors = [GroupActor(model.policy, actor_critic, self._buffer, envs, recorder) for envs in env.groups]
        self._pending: set[int] = set()

    def collect(self, callback: BaseCallback, n_steps: int) -> bool:
        """Fill the buffer; False if a callback stopped the training."""
        self._pending.clear()
        try:
            completed = self._collect(callback, n_steps)
        except BaseException:
            # Some environments may still be stepping. Without a last observation SB3 resets all of them.
            self._model._last_obs = None
            raise
        if not completed:
            self._receive_pending()
        return completed

    def _collect(self, callback: BaseCallback, n_steps: int) -> bool:
        model = self._model
        model.policy.set_training_mode(False)
        self._buffer.reset()
        callback.on_rollout_start()
        for actor in self._actors:
            actor.start_rollout()
        actions = []
        for group, envs in enumerate(self.env.groups):
            self._actors[group].start(model._last_obs[envs])  # type: ignore[index]
            actions.append(self._send(group))
        for step in range(n_steps):
            received, next_actions = self._step_groups(last=step + 1 == n_steps)
            if not self._finish_step(callback, np.concatenate(actions), received, n_steps):
                return False
            actions = next_actions
        self._finish_rollout(callback)
        return True

    def _step_groups(self, *, last: bool) -> tuple[VecEnvStepReturn, list[Array]]:
        """Receive a step from every group and, unless it is the last, send each its next actions at once."""
        observations, results, next_actions = [], [], []
        for group, actor in enumerate(self._actors):
            observations.append(self._receive(group))
            if not last:
                actor.start(observations[group])
            results.append(self.env.step_results(group))
            if not last:
                next_actions.append(self._send(group))
        return concatenate_groups(observations, results), next_actions

    def _send(self, group: int) -> Array:
        """Wait for a group's actions, send them and return them."""
        actions = self._actors[group].actions()
        self.env.send(group, self._clipped(actions))
        self._pending.add(group)
        return actions

    def _receive(self, group: int) -> Array:
        self._pending.discard(group)
        return self.env.receive(group)

    def _receive_pending(self) -> None:
        """Receive pending steps after a callback stopped the training; the next rollout starts from there."""
        model = self._model
        for group in sorted(self._pending):
            envs = self.env.groups[group]
            model._last_obs[envs] = self.env.receive(group)  # type: ignore[index]
            _, model._last_episode_starts[envs], _ = self.env.step_results(group)  # type: ignore[index]
        self._pending.clear()

    def _clipped(self, actions: Array) -> Array:
        """Clip or unscale actions as SB3 does before a step."""
        space = self._model.action_space
        if not isinstance(space, spaces.Box):
            return actions
        if self._model.policy.squash_output:
            return self._model.policy.unscale_action(actions)
        return np.clip(actions, space.low, space.high)

    def _finish_step(self, callback: BaseCallback, actions: Array, received: VecEnvStepReturn, n_steps: int) -> bool:
        """Do what SB3 does after a step of all environments; False if a callback stopped the training."""
        model, buffer = self._model, self._buffer
        new_obs, rewards, dones, infos = received
        model.num_timesteps += self.env.num_envs
        callback.update_locals(
            {
                "self": model,
                "env": self.env,
                "callback": callback,
                "rollout_buffer": buffer,
                "n_rollout_steps": n_steps,
                "n_steps": buffer.pos,
                "obs_tensor": buffer.stored.observations[buffer.pos],  # type: ignore[index]
                "actions": actions,
                "clipped_actions": self._clipped(actions),
                "values": buffer.stored.values[buffer.pos].unsqueeze(1),
                "log_probs": buffer.stored.log_probs[buffer.pos],
                "new_obs": new_obs,
                "rewards": rewards,
                "dones": dones,
                "infos": infos,
            }
        )
        proceed = callback.on_step()
        if proceed:
            model._update_info_buffer(infos, dones)
            self._bootstrap_time_outs(rewards, dones, infos)
            buffer.complete_step(rewards, model._last_episode_starts)  # type: ignore[arg-type]
        model._last_obs, model._last_episode_starts = new_obs, dones  # type: ignore[assignment]
        return proceed

    @torch.no_grad()
    def _bootstrap_time_outs(self, rewards: Array, dones: Array, infos: list[dict[str, Any]]) -> None:
        """Add gamma V(terminal) to the last reward of episodes that timed out, as SB3 does."""
        policy = self._model.policy
        for index in map(int, np.flatnonzero(dones)):
            terminal = infos[index].get("terminal_observation")
            if terminal is not None and infos[index].get("TimeLimit.truncated", False):
                value = policy.predict_values(policy.obs_to_tensor(terminal)[0])[0]
                rewards[index] += self._model.gamma * float(value)

    @torch.no_grad()
    def _finish_rollout(self, callback: BaseCallback) -> None:
        """Compute returns and advantages and call `on_rollout_end`."""
        model = self._model
        last, dones = model._last_obs, model._last_episode_starts
        values = model.policy.predict_values(obs_as_tensor(last, model.device))  # type: ignore[arg-type]
        self._buffer.compute_returns_and_advantage(last_values=values, dones=dones)  # type: ignore[arg-type]
        callback.update_locals({"n_steps": self._buffer.pos, "values": values})
        callback.on_rollout_end()
