"""What FastPPO and FastA2C share: where rollouts lie, how the policy acts, and what goes into a file."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import DictRolloutBuffer, RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor

from revd.fast.actor_critic import networks_of
from revd.fast.buffer import DeviceRolloutBuffer
from revd.fast.cuda_graphs import CudaRecorder, Recorder
from revd.fast.env_groups import GroupedVecEnv, find_groups
from revd.fast.optimizers import is_capturable
from revd.fast.overlapped_rollouts import OverlappedRollouts
from revd.fast.policy_step import Acting
from revd.fast.update import Update


class FastOnPolicy(OnPolicyAlgorithm):
    """Device-side rollouts, CUDA graphs and channels_last, below the surface of an algorithm of SB3.

    On a GPU, acting and a minibatch's gradient step are CUDA graphs. Without one, and for policies that cannot be
    captured, the same code runs eagerly: on a CPU that is said with verbose=1, on a GPU by a warning, once.

    A `rollout_buffer_class` of the user's own turns all of it off: the algorithm is then SB3's. Otherwise callbacks
    that look into `rollout_buffer` find arrays on a CPU, as in SB3's; on a GPU they find tensors there, and arrays for
    rewards and starts of episodes alone. On a GPU with Adam, gradients are clipped as they are used: what parameters
    hold as `grad` after an update is not.

    Args:
        tf32: Whether float32 matrix products and convolutions on a GPU may round to TensorFloat-32. None, the default,
            leaves it to torch, whose own defaults are no for products and yes for convolutions. Graphs keep what was
            chosen when they were captured, and kernels of our own always compute in float32.
        overlap: Whether one half of the environments steps while the actions of the other are computed, where the
            environments can do that (`revd.fast.env_groups`). Each environment's own sequence is not touched by it, but
            random actions are drawn for one half after the other, and callbacks look at a step when the next is under
            way.
        arguments: Those of SB3's constructor.
    """

    def __init__(self, *arguments: Any, tf32: bool | None = None, overlap: bool = True, **keywords: Any) -> None:
        self.tf32 = tf32
        self.overlap = overlap
        super().__init__(*arguments, **keywords)

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Show SB3's parameters and ours to whoever asks for the signature."""
        super().__init_subclass__(**keywords)
        own = inspect.signature(FastOnPolicy.__init__).parameters.values()
        ours = [parameter for parameter in own if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
        theirs = inspect.signature(cls.__mro__[cls.__mro__.index(FastOnPolicy) + 1])
        cls.__signature__ = theirs.replace(parameters=[*theirs.parameters.values(), *ours])  # type: ignore[attr-defined]

    def _setup_model(self) -> None:
        super()._setup_model()
        self._fast = self.rollout_buffer_class in (RolloutBuffer, DictRolloutBuffer)
        self._recorder: Recorder | None = None
        if not self._fast:
            self._say(f"{type(self).__name__} is SB3's own with a rollout_buffer_class")
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
        obstacle = self._obstacle()
        if obstacle is None:
            self._recorder = CudaRecorder(self.device)
        else:
            self._say(f"{type(self).__name__} runs without CUDA graphs: {obstacle}")
        self._begin()

    @property
    def _buffer(self) -> DeviceRolloutBuffer:
        assert isinstance(self.rollout_buffer, DeviceRolloutBuffer)
        return self.rollout_buffer

    def _begin(self) -> None:
        """Work on the policy as it is."""
        networks = networks_of(self.policy)
        self._acting = Acting(self.policy, networks, self._buffer, self._recorder)
        self._update = Update(self.policy, networks, self._buffer, self._recorder)
        self._overlapped: OverlappedRollouts | None = None

    def collect_rollouts(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer, n_rollout_steps: int
    ) -> bool:
        """SB3's own, with the policy acting from a graph and into the buffer on the device."""
        if not self._fast:
            return super().collect_rollouts(env, callback, rollout_buffer, n_rollout_steps)
        if self.policy is not self._acting.policy:
            self._begin()
        grouped = self._grouped(env)
        if grouped is not None:
            with self._precision():
                return self._overlapping(grouped).collect(callback, n_rollout_steps)
        # Without graphs and frames there is nothing to gain from acting into the buffer.
        plain = self._recorder is None and not self._convolutional
        with self._precision(), nullcontext() if plain else self._acting.instead_of_forward():
            return super().collect_rollouts(env, callback, rollout_buffer, n_rollout_steps)

    def _grouped(self, env: VecEnv) -> GroupedVecEnv | None:
        """The environment, if it is to be stepped in groups."""
        possible = self.overlap and not self.use_sde and not isinstance(self.observation_space, spaces.Dict)
        return find_groups(env) if possible else None

    def _overlapping(self, env: GroupedVecEnv) -> OverlappedRollouts:
        if self._overlapped is None or self._overlapped.env is not env:
            self._overlapped = OverlappedRollouts(self, env, self._acting.networks, self._recorder)
        return self._overlapped

    def get_parameters(self) -> dict[str, dict[str, Any]]:
        """As SB3's, in SB3's memory layout, so that a file does not tell which of the two has written it.

        Where that is another than ours, as of convolutions, the numbers are copies, and so all of them are: with some
        that follow the training and some that do not, `set_parameters` would put back half a network.
        """
        found = super().get_parameters()
        return _copied(found) if self._fast and self._convolutional else found

    def _excluded_save_params(self) -> list[str]:
        return [
            *super()._excluded_save_params(),
            "_fast",
            "_convolutional",
            "_recorder",
            "_acting",
            "_update",
            "_overlapped",
        ]

    def _log_policy(self) -> None:
        """What SB3 reports after an update of PPO and of A2C alike."""
        self.logger.record("train/explained_variance", self._update.explained_variance())
        if hasattr(self.policy, "log_std"):
            self.logger.record("train/std", torch.exp(self.policy.log_std).mean().item())
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")

    @contextmanager
    def _precision(self) -> Iterator[None]:
        """The settings of torch, changed to `tf32` while they matter; untouched, and not even read, for None."""
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

    def _obstacle(self) -> str | None:
        """Why nothing can be captured, if so."""
        if self.device.type != "cuda":
            return f"the policy is on the {self.device.type}"
        if self.use_sde:
            return "gSDE replaces its noise while it acts"
        if isinstance(self.observation_space, spaces.Dict):
            return "observations are dictionaries"
        if not is_capturable(self.policy.optimizer):
            return f"{type(self.policy.optimizer).__name__} cannot be captured"
        return None

    def _say(self, what: str) -> None:
        if self.device.type == "cuda":
            warnings.warn(what, stacklevel=2)
        elif self.verbose >= 1:
            print(what)


def _copied(state: Any) -> Any:
    """Nested dictionaries and lists of tensors, each in the order of its dimensions."""
    if isinstance(state, Tensor):
        return state.clone(memory_format=torch.contiguous_format)
    if isinstance(state, dict):
        return type(state)((key, _copied(value)) for key, value in state.items())
    if isinstance(state, list):
        return [_copied(value) for value in state]
    return state
