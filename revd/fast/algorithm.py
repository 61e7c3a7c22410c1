"""The common part of FastPPO and FastA2C: the rollout buffer, the policy's forward pass, saving."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import DictRolloutBuffer, RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor

from revd.fast.actor_critic import make_actor_critic
from revd.fast.buffer import DeviceRolloutBuffer
from revd.fast.cuda_graphs import CudaGraphRecorder, GraphRecorder
from revd.fast.env_groups import GroupedVecEnv, as_grouped
from revd.fast.mlp_step import acting_with_mlp
from revd.fast.mlp_update import MlpUpdate
from revd.fast.optimizers import is_capturable
from revd.fast.overlapped_rollouts import OverlappedRollouts
from revd.fast.policy_step import PolicyStep
from revd.fast.standard_mlp import is_standard_mlp
from revd.fast.update import PolicyUpdate


class FastOnPolicy(OnPolicyAlgorithm):
    """Rollouts on the device, CUDA graphs and channels_last, behind the interface of an SB3 algorithm.

    On a GPU, the policy's forward pass and the gradient step of a minibatch are CUDA graphs. Without a GPU, and for
    policies that cannot be captured, the same code runs eagerly: on a CPU a message is printed with verbose=1, on a GPU
    there is one warning.

    A `rollout_buffer_class` of your own turns everything off: the algorithm is then SB3's. Otherwise `rollout_buffer`
    holds arrays on a CPU, as in SB3. On a GPU it holds tensors, except that rewards and episode starts are arrays.
    On a GPU with Adam, gradients are clipped as they are used: after an update, `grad` holds the unclipped gradients.

    Args:
        tf32: Whether float32 matrix products and convolutions on a GPU may round to TensorFloat-32. None, the default,
            keeps torch's own settings (off for products, on for convolutions). Graphs keep the setting with which they
            were captured. Our own kernels always compute in float32.
        overlap: Whether one half of the environments steps while the actions of the other half are computed, if the
            environments support it (`revd.fast.env_groups`). Each environment behaves as before, but random actions are
            drawn for one half after the other, and callbacks see a step when the next one has already begun.
        arguments: The arguments of SB3's constructor.
    """

    def __init__(self, *arguments: Any, tf32: bool | None = None, overlap: bool = True, **keywords: Any) -> None:
        self.tf32 = tf32
        self.overlap = overlap
        super().__init__(*arguments, **keywords)

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Give each subclass a signature with SB3's parameters and ours, or that of an `__init__` of its own."""
        super().__init_subclass__(**keywords)
        if cls.__init__ is not FastOnPolicy.__init__:
            its = inspect.signature(cls.__init__)
            cls.__signature__ = its.replace(parameters=list(its.parameters.values())[1:])  # type: ignore[attr-defined]
            return
        own = inspect.signature(FastOnPolicy.__init__).parameters.values()
        ours = [parameter for parameter in own if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
        theirs = inspect.signature(cls.__mro__[cls.__mro__.index(FastOnPolicy) + 1])
        cls.__signature__ = theirs.replace(parameters=[*theirs.parameters.values(), *ours])  # type: ignore[attr-defined]

    def _setup_model(self) -> None:
        super()._setup_model()
        self._fast = self.rollout_buffer_class in (RolloutBuffer, DictRolloutBuffer)
        self._recorder: GraphRecorder | None = None
        if not self._fast:
            self._notify(f"{type(self).__name__} is SB3's own with a rollout_buffer_class")
            return
        self._convolutional = any(parameter.ndim == 4 for parameter in self.policy.parameters())
        if self._convolutional:
            self.policy.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.rollout_buffer = DeviceRolloutBuffer(
            self.n_steps,
            self.observation_space,
            self.action_space,
            device=self.device,
            gamma=self.gamma,
            gae_lambda=self.gae_lambda,
            n_envs=self.n_envs,
            channels_last=self._convolutional,
        )
        obstacle = self._capture_obstacle()
        if obstacle is None:
            self._recorder = CudaGraphRecorder(self.device)
        else:
            self._notify(f"{type(self).__name__} runs without CUDA graphs: {obstacle}")
        self._bind_policy()

    @property
    def _buffer(self) -> DeviceRolloutBuffer:
        assert isinstance(self.rollout_buffer, DeviceRolloutBuffer)
        return self.rollout_buffer

    def _bind_policy(self) -> None:
        """Build the forward pass and the update for the current policy object."""
        actor_critic = make_actor_critic(self.policy)
        self._policy_step = PolicyStep(self.policy, actor_critic, self._buffer, self._recorder)
        self._graphed_update = PolicyUpdate(self.policy, actor_critic, self._buffer, self._recorder)
        self._mlp_update: MlpUpdate | None = None
        self._update: PolicyUpdate | MlpUpdate = self._graphed_update
        self._overlapped: OverlappedRollouts | None = None

    def _choose_update(self, *, keeps_gradients: bool = False) -> None:
        """Choose the implementation of the next update: hooks, frozen parameters or other layers may have come.

        Args:
            keeps_gradients: Whether the update looks at gradients before it applies them.
        """
        if keeps_gradients or self._recorder is not None or not is_standard_mlp(self.policy):
            self._update = self._graphed_update
            return
        if self._mlp_update is None or not self._mlp_update.is_for(self.policy):
            self._mlp_update = MlpUpdate(self.policy, self._buffer)
        self._update = self._mlp_update

    def collect_rollouts(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer, n_rollout_steps: int
    ) -> bool:
        """Collect a rollout into the buffer on the device; False if a callback stopped the training."""
        if not self._fast:
            return super().collect_rollouts(env, callback, rollout_buffer, n_rollout_steps)
        if not self._policy_step.is_for(self.policy):
            self._bind_policy()
        grouped = self._as_grouped(env)
        if grouped is not None:
            with self._precision():
                return self._overlapped_rollouts(grouped).collect(callback, n_rollout_steps)
        with self._precision(), self._replacing_forward():
            return super().collect_rollouts(env, callback, rollout_buffer, n_rollout_steps)

    def _replacing_forward(self) -> AbstractContextManager[None]:
        """Return a context in which SB3's loop calls a faster `forward` of the policy, if there is one."""
        if self._recorder is not None or self._convolutional:
            return self._policy_step.replacing_forward()
        return acting_with_mlp(self.policy) if is_standard_mlp(self.policy) else nullcontext()

    def _as_grouped(self, env: VecEnv) -> GroupedVecEnv | None:
        """Return the environment if it is to be stepped group by group."""
        possible = self.overlap and not self.use_sde and not isinstance(self.observation_space, spaces.Dict)
        return as_grouped(env) if possible else None

    def _overlapped_rollouts(self, env: GroupedVecEnv) -> OverlappedRollouts:
        if self._overlapped is None or self._overlapped.env is not env:
            self._overlapped = OverlappedRollouts(self, env, self._policy_step.actor_critic, self._recorder)
        return self._overlapped

    def get_parameters(self) -> dict[str, dict[str, Any]]:
        """Return the parameters in SB3's memory layout, so that saved files equal SB3's.

        If our layout differs, as for convolutions, all tensors are copies. A mixture of copies and of tensors that
        follow the training would let `set_parameters` restore only half a network.
        """
        parameters = super().get_parameters()
        return _copied(parameters) if self._fast and self._convolutional else parameters

    def _excluded_save_params(self) -> list[str]:
        return [
            *super()._excluded_save_params(),
            "_fast",
            "_convolutional",
            "_recorder",
            "_policy_step",
            "_update",
            "_graphed_update",
            "_mlp_update",
            "_overlapped",
        ]

    def _log_policy(self) -> None:
        """Log the values that SB3's PPO and A2C both report after an update."""
        self.logger.record("train/explained_variance", self._update.explained_variance())
        if hasattr(self.policy, "log_std"):
            self.logger.record("train/std", torch.exp(self.policy.log_std).mean().item())
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")

    @contextmanager
    def _precision(self) -> Iterator[None]:
        """Set torch's precision to `tf32` within the block; None neither reads nor changes it."""
        if self.tf32 is None:
            yield
            return
        products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
        before = products.allow_tf32, convolutions.allow_tf32
        products.allow_tf32 = convolutions.allow_tf32 = self.tf32
        try:
            yield
        finally:
            products.allow_tf32, convolutions.allow_tf32 = before

    def _capture_obstacle(self) -> str | None:
        """Return why CUDA graphs cannot be captured, None if they can."""
        if self.device.type != "cuda":
            return f"the policy is on the {self.device.type}"
        if self.use_sde:
            return "gSDE resamples its noise during rollouts"
        if isinstance(self.observation_space, spaces.Dict):
            return "observations are dictionaries"
        if not is_capturable(self.policy.optimizer):
            return f"{type(self.policy.optimizer).__name__} cannot be captured"
        return None

    def _notify(self, message: str) -> None:
        if self.device.type == "cuda":
            warnings.warn(message, stacklevel=2)
        elif self.verbose >= 1:
            print(message)


def _copied(state: Any) -> Any:
    """Copy nested dictionaries and lists of tensors; the copies are contiguous."""
    if isinstance(state, Tensor):
        return state.clone(memory_format=torch.contiguous_format)
    if isinstance(state, dict):
        return type(state)((key, _copied(value)) for key, value in state.items())
    if isinstance(state, list):
        return [_copied(value) for value in state]
    return state
