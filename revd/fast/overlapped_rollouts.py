"""Rollouts from environments in groups: one group steps while the other's actions are computed."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.utils import obs_as_tensor
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn
from torch import Tensor

from revd.fast.actor_critic import Branches, Networks, gumbel_noise
from revd.fast.buffer import Array, DeviceRolloutBuffer
from revd.fast.cuda_graphs import Recorder, Replayable, addresses
from revd.fast.env_groups import GroupedVecEnv, joined


class GroupActor:
    """Acts for the environments of one group.

    From the frames in the host's memory to the actions there, everything is one replayable piece of work, which also
    writes the step into the buffer. A GPU does it while the host turns to something else.
    """

    def __init__(
        self,
        policy: ActorCriticPolicy,
        networks: Networks,
        buffer: DeviceRolloutBuffer,
        envs: slice,
        recorder: Recorder | None,
    ) -> None:
        assert isinstance(buffer.stored.observations, Tensor)
        self._networks = networks
        self._policy = policy
        self._buffer = buffer
        self._envs = envs
        self._step = torch.zeros(1, dtype=torch.int64, device=buffer.device)
        # As in the buffer, with its memory layout.
        self._seen = torch.empty_like(buffer.stored.observations[0, envs])
        self._arriving = torch.empty_like(self._seen, memory_format=torch.contiguous_format)
        host: dict[str, Any] = {"device": "cpu", "pin_memory": buffer.device.type == "cuda"}
        self._observations = torch.empty(self._seen.shape, dtype=self._seen.dtype, **host)
        self._shown = self._observations.numpy()
        actions = (len(self._seen), *(buffer.action_space.shape or ()))
        self._actions = torch.empty(actions, dtype=buffer.stored.actions.dtype, **host)
        # Numbers drawn for a whole rollout: a graph that draws its own is told of the generator before every replay.
        n_choices = networks.n_choices if isinstance(networks, Branches) else 0
        self._noise = torch.empty((buffer.buffer_size, len(self._seen), n_choices), device=buffer.device)
        self._work: Replayable[None] = Replayable("acting", self._act, recorder, self._fingerprint)

    def begin(self) -> None:
        """A rollout begins."""
        self._step.zero_()
        gumbel_noise(self._noise)
        self._work.renew()

    @torch.no_grad()
    def see(self, observations: Array) -> None:
        """Begin to act on what the group shows."""
        self._shown[...] = observations.reshape(self._shown.shape)
        self._work()

    def actions(self) -> Array:
        """Wait for the actions."""
        if self._buffer.device.type == "cuda":
            torch.cuda.current_stream(self._buffer.device).synchronize()
        return self._actions.numpy().copy()

    def _act(self) -> None:
        self._seen.copy_(self._arriving.copy_(self._observations, non_blocking=True))
        actions, values, log_probs = self._answer()
        self._buffer.write(self._step, self._envs, self._seen, (actions, values, log_probs))
        self._step += 1
        # At the end: kernels would wait longer for a copy than for each other.
        self._actions.copy_(actions, non_blocking=True)

    def _answer(self) -> tuple[Tensor, Tensor, Tensor]:
        if isinstance(self._networks, Branches) and self._noise.numel():
            return self._networks.forward(self._seen, noise=self._noise.index_select(0, self._step)[0])
        return self._networks.forward(self._seen)

    def _fingerprint(self) -> Hashable:
        return addresses(*self._policy.parameters(), *self._policy.buffers(), *self._buffer.tensors)


class OverlappedRollouts:
    """SB3's `collect_rollouts` with the groups of an environment out of step by half a step.

    A group is sent its next actions as soon as it has answered, before the other has: so emulators play while the
    policy computes and while callbacks look at the step before. Every environment's own sequence is what it would be,
    and nothing is under way before a rollout begins and after it has ended.
    """

    def __init__(
        self, model: OnPolicyAlgorithm, env: GroupedVecEnv, networks: Networks, recorder: Recorder | None
    ) -> None:
        assert isinstance(model.rollout_buffer, DeviceRolloutBuffer)
        self.env = env
        self._model = model
        self._buffer = model.rollout_buffer
        self._actors = [GroupActor(model.policy, networks, self._buffer, envs, recorder) for envs in env.groups]
        self._under_way: set[int] = set()

    def collect(self, callback: BaseCallback, n_steps: int) -> bool:
        """Fill the buffer; False if a callback wants the training to end."""
        self._under_way.clear()
        try:
            going_on = self._collect(callback, n_steps)
        except BaseException:
            # Nobody knows which environments have answered. Without a last observation SB3 resets them all.
            self._model._last_obs = None
            raise
        if not going_on:
            self._settle()
        return going_on

    def _collect(self, callback: BaseCallback, n_steps: int) -> bool:
        model = self._model
        model.policy.set_training_mode(False)
        self._buffer.reset()
        callback.on_rollout_start()
        for actor in self._actors:
            actor.begin()
        chosen = []
        for group, envs in enumerate(self.env.groups):
            self._actors[group].see(model._last_obs[envs])  # type: ignore[index]
            chosen.append(self._send(group))
        for step in range(n_steps):
            shown, outcomes, following = [], [], []
            for group, actor in enumerate(self._actors):
                going_on = step + 1 < n_steps
                shown.append(self._receive(group))
                if going_on:
                    actor.see(shown[group])
                outcomes.append(self.env.outcome(group))
                if going_on:
                    following.append(self._send(group))
            if not self._finish_step(callback, np.concatenate(chosen), joined(shown, outcomes), n_steps):
                return False
            chosen = following
        self._finish(callback)
        return True

    def _send(self, group: int) -> Array:
        """Let a group step as the policy has decided; returns the actions."""
        actions = self._actors[group].actions()
        self.env.send(group, self._executable(actions))
        self._under_way.add(group)
        return actions

    def _receive(self, group: int) -> Array:
        self._under_way.discard(group)
        return self.env.receive(group)

    def _settle(self) -> None:
        """After a callback has ended the training: the next rollout begins where the environments are by now."""
        model = self._model
        for group in sorted(self._under_way):
            envs = self.env.groups[group]
            model._last_obs[envs] = self.env.receive(group)  # type: ignore[index]
            _, model._last_episode_starts[envs], _ = self.env.outcome(group)  # type: ignore[index]
        self._under_way.clear()

    def _executable(self, actions: Array) -> Array:
        """Actions as SB3 hands them to environments."""
        space = self._model.action_space
        if not isinstance(space, spaces.Box):
            return actions
        if self._model.policy.squash_output:
            return self._model.policy.unscale_action(actions)
        return np.clip(actions, space.low, space.high)

    def _finish_step(self, callback: BaseCallback, actions: Array, received: VecEnvStepReturn, n_steps: int) -> bool:
        """What SB3 does after a step of all environments; False if a callback wants the training to end."""
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
                "clipped_actions": self._executable(actions),
                "values": buffer.stored.values[buffer.pos].unsqueeze(1),
                "log_probs": buffer.stored.log_probs[buffer.pos],
                "new_obs": new_obs,
                "rewards": rewards,
                "dones": dones,
                "infos": infos,
            }
        )
        going_on = callback.on_step()
        if going_on:
            model._update_info_buffer(infos, dones)
            self._add_time_outs(rewards, dones, infos)
            buffer.complete(rewards, model._last_episode_starts)  # type: ignore[arg-type]
        model._last_obs, model._last_episode_starts = new_obs, dones  # type: ignore[assignment]
        return going_on

    @torch.no_grad()
    def _add_time_outs(self, rewards: Array, dones: Array, infos: list[dict[str, Any]]) -> None:
        """An episode that ran out of time would have gone on: SB3 adds gamma V(terminal) to its last reward."""
        policy = self._model.policy
        for index in map(int, np.flatnonzero(dones)):
            last = infos[index].get("terminal_observation")
            if last is not None and infos[index].get("TimeLimit.truncated", False):
                value = policy.predict_values(policy.obs_to_tensor(last)[0])[0]
                rewards[index] += self._model.gamma * float(value)

    @torch.no_grad()
    def _finish(self, callback: BaseCallback) -> None:
        model = self._model
        last, dones = model._last_obs, model._last_episode_starts
        values = model.policy.predict_values(obs_as_tensor(last, model.device))  # type: ignore[arg-type]
        self._buffer.compute_returns_and_advantage(last_values=values, dones=dones)  # type: ignore[arg-type]
        callback.update_locals({"n_steps": self._buffer.pos, "values": values})
        callback.on_rollout_end()
