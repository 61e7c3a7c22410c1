"""The base class of intrinsic rewards: a module that pays a bonus for every transition of a rollout."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from revd.moments import RunningMoments
from revd.rewards.config import RewardConfig, build_config, require_integer
from revd.rewards.metrics import Mean, as_mean, read_means, total
from revd.rollout import HOW_TO_GIVE_SUCCESSORS
from revd.spaces import check_space, dict_parts

if TYPE_CHECKING:
    from revd.rollout import Rollout
    from revd.spaces import Space


#: The most parallel environments: a reward keeps memory for each.
LARGEST_ENVS = 2**20


class IntrinsicReward(nn.Module, ABC):
    """Pays a bonus for every transition of a rollout, and holds all the state that resuming needs.

    A subclass names its parameters in `config_type` and implements `bonus`, and `update` if it trains models of its
    own. All tensor state lives in parameters and buffers, so that `state_dict`, `load_state_dict` and `.to(device)` are
    complete. A reward holds no reference to an algorithm, an environment or a logger. A subclass that does not read
    `rollout.next_observations` sets `uses_successors = False`, as REVD and RE3 do.

    Args:
        observation_space: Gymnasium space of one observation.
        action_space: Gymnasium space of one action.
        n_envs: Parallel environments, the columns of every rollout.
        parameters: The fields of `config_type`.
    """

    config_type: ClassVar[type[RewardConfig]] = RewardConfig
    config: RewardConfig
    calls: Tensor
    _embeddings: Tensor | None
    _latest_paid: Tensor | None
    #: One line for `revd rewards`: when to use the method. Without it, the docstring's first line is shown.
    advice: ClassVar[str] = ""
    #: Whether the method reads `rollout.next_observations`. If not, adapters do not gather them.
    uses_successors: bool = True

    def __init__(self, observation_space: Space, action_space: Space, n_envs: int, **parameters: Any) -> None:
        super().__init__()
        check_space(observation_space, "observation_space")
        check_space(action_space, "action_space")
        if dict_parts(action_space) is not None:
            raise ValueError(
                "action_space is a Dict space, which is not supported: a rollout holds one array of actions"
            )
        n_envs = int(n_envs) if isinstance(n_envs, np.integer) else n_envs
        require_integer("n_envs", n_envs, minimum=1, maximum=LARGEST_ENVS)
        self.config = build_config(self.config_type, type(self).__name__, parameters)
        self.observation_space = observation_space
        self.action_space = action_space
        self.n_envs = n_envs
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.bonus_moments = RunningMoments()
        self._metrics: dict[str, float] = {}
        self._recorded: dict[str, Mean] = {}
        self._paid: Tensor | None = None
        # Moved by .to(device), but no part of the state: only the adapter reads it, right after `compute`.
        self.register_buffer("_embeddings", None, persistent=False)
        self.register_buffer("_latest_paid", None, persistent=False)

    @property
    def device(self) -> torch.device:
        """The device of the state, read from a buffer each time."""
        return self.calls.device

    @torch.no_grad()
    def compute(self, rollout: Rollout) -> Tensor:
        """The unweighted bonus of every transition, (n_steps, n_envs) float32; advances the method's memory.

        Padded steps (beyond `rollout.lengths`) are paid 0. The rollout is not changed.

        Raises:
            ValueError: The rollout does not fit the spaces, is too short, or holds values that are NaN, infinite or too
                large; the memory is then unchanged. Or the bonus itself is not finite.
        """
        self.check_rollout(rollout)
        self.check_rollout_length(rollout.n_steps)
        self._metrics, self._recorded, self._paid = {}, {}, None
        self._embeddings = None
        valid = rollout.valid_on(self.device)
        bonus = torch.zeros(valid.shape, device=self.device)
        paid = torch.zeros_like(valid)
        if rollout.n_valid > 0 and self.warmed_up(rollout):
            bonus = torch.where(valid, self._checked(self.bonus(rollout), valid.shape), 0.0)
            paid, self._paid = valid if self._paid is None else valid & self._paid, None
        self._latest_paid = paid
        self._check_finite(bonus)
        if self.config.normalize == "rms":
            bonus = self._divide_by_std(bonus, valid)
        elif self.config.normalize == "standard":
            bonus = self._standardize(bonus, paid)
        self.calls += 1
        self.record(bonus_mean=Mean(total(bonus), max(rollout.n_valid, 1)))
        self._read_recorded()
        return bonus

    @abstractmethod
    def bonus(self, rollout: Rollout) -> Tensor:
        """The method's equation: the bonus of every step, (n_steps, n_envs) float32 on `device`.

        `compute` calls it without gradients, with a rollout that has been checked.
        """

    def warmed_up(self, rollout: Rollout) -> bool:
        """Whether `bonus` may be called now; `compute` pays 0 until then.

        A method that first gathers statistics overrides this, and gathers them from the rollout here.
        """
        return True

    def update(self, rollout: Rollout) -> dict[str, float]:
        """Train the method's own models on the rollout and return their losses; {} for methods without models."""
        return {}

    def check_rollout(self, rollout: Rollout) -> None:
        """Raise a ValueError unless the rollout has all that the method reads, in the shapes of its spaces."""
        rollout.check_against(self.observation_space, self.action_space, self.n_envs)
        if self.uses_successors and rollout.next_observations is None:
            raise ValueError(
                f"the rollout has no next_observations, which {type(self).__name__} reads; {HOW_TO_GIVE_SUCCESSORS}"
            )

    def check_rollout_length(self, n_steps: int) -> None:
        """Raise a ValueError if rollouts of `n_steps` steps are too short for the method's parameters."""

    def end_episodes(self) -> None:
        """End the running episodes, because all environments were reset from outside.

        If no episode is running, this must change nothing.
        """

    @property
    def latest_embeddings(self) -> Tensor | None:
        """Embeddings of the observations of the last `compute`, (n_steps, n_envs, d), if it made them all."""
        return self._embeddings

    @property
    def latest_paid(self) -> Tensor | None:
        """Which steps of the last `compute` could be paid, (n_steps, n_envs) bool; see `set_paid`."""
        return self._latest_paid

    @property
    def settings(self) -> dict[str, Any]:
        """Its parameters, as `make_reward` takes them."""
        return asdict(self.config)

    def fresh(self, n_envs: int | None = None, **parameters: Any) -> IntrinsicReward:
        """A reward of the same method without memory, for other environments or with some other parameters."""
        own = {entry.name: getattr(self.config, entry.name) for entry in fields(self.config)}
        n_envs = self.n_envs if n_envs is None else n_envs
        return type(self)(self.observation_space, self.action_space, n_envs, **{**own, **parameters})

    def metrics(self) -> dict[str, float]:
        """Numbers about the last `compute`, without those that were undefined then."""
        self._read_recorded()
        return dict(self._metrics)

    def record(self, **values: Tensor | float | Mean) -> None:
        """Add the present values of numbers to `metrics`, for use inside `bonus`.

        All those on a GPU are read together when `compute` ends, so that the host waits for it once.
        """
        self._recorded |= {name: as_mean(name, value) for name, value in values.items()}

    def _read_recorded(self) -> None:
        self._metrics |= read_means(self._recorded)
        self._recorded = {}

    def set_paid(self, paid: Tensor) -> None:
        """Say which steps have what the method needs, (n_steps, n_envs) bool, for use inside `bonus`; all by default.

        What standardises a bonus pays the others 0, rather than less than nothing, and leaves them out of its
        statistics.
        """
        self._paid = paid

    def _divide_by_std(self, bonus: Tensor, valid: Tensor) -> Tensor:
        # A call that pays nothing (REVD's first segment, a warm-up) does not show the size of the bonus.
        if bonus.any():
            self.bonus_moments.update(bonus[valid])
        return bonus / self._mean_and_divisor()[1]

    def _standardize(self, bonus: Tensor, paid: Tensor) -> Tensor:
        # As above: and a call that pays nothing must not become one that takes.
        if not bonus.any():
            return bonus
        self.bonus_moments.update(bonus[paid])
        mean, divisor = self._mean_and_divisor()
        return torch.where(paid, (bonus - mean) / divisor, 0.0)

    def _mean_and_divisor(self) -> tuple[float, float]:
        """The running mean of the bonus and its running standard deviation, or 1 if that is no divisor."""
        std, mean = torch.stack([self.bonus_moments.std, self.bonus_moments.mean]).tolist()
        # A constant bonus varies by rounding only, and float32 rounds very small deviations to 0.
        return mean, std if std > max(1e-6 * abs(mean), torch.finfo(torch.float32).tiny) else 1.0

    def _checked(self, bonus: Tensor, shape: torch.Size) -> Tensor:
        """What `bonus` has returned, in float32; another shape would be broadcast silently."""
        if not isinstance(bonus, Tensor) or bonus.shape != shape:
            got = f"one of {tuple(bonus.shape)}" if isinstance(bonus, Tensor) else f"a {type(bonus).__name__}"
            raise ValueError(
                f"bonus() of {type(self).__name__} must return a tensor of shape (n_steps, n_envs), here "
                f"{tuple(shape)}, got {got}"
            )
        return bonus.float()

    def _check_finite(self, bonus: Tensor) -> None:
        # The maximum is NaN if one value is. It needs fewer kernel launches than `isfinite`, which alone needs four.
        if not bonus.abs().amax() < torch.inf:
            step, env = (~bonus.isfinite()).nonzero()[0].tolist()
            raise ValueError(
                f"the bonus of {type(self).__name__} is not a finite number at step {step} of environment {env}"
            )
