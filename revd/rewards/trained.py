"""The base class of rewards that train models of their own."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from revd.rewards.actions import ActionModel
from revd.rewards.config import LARGEST_COUNT, EmbeddingConfig, RewardConfig, require, require_integer, require_positive
from revd.rewards.embedding import EmbeddingReward
from revd.rewards.optimizer import AdamState
from revd.rollout import map_observations

if TYPE_CHECKING:
    from revd.rollout import Observations, Rollout
    from revd.spaces import Space
    from revd.states import Field, States


@dataclass(frozen=True, kw_only=True)
class TrainedConfig(EmbeddingConfig):
    """Parameters of every reward that trains models.

    Attributes:
        learning_rate: Learning rate of Adam on the models.
        batch_size: Transitions in one step of Adam.
        update_fraction: Share of each rollout's transitions that the models are trained on, once each.
    """

    learning_rate: float = 3e-4
    batch_size: int = 256
    update_fraction: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("learning_rate", self.learning_rate)
        require_integer("batch_size", self.batch_size, minimum=1, maximum=LARGEST_COUNT)
        require(0 < self.update_fraction <= 1, "update_fraction", self.update_fraction, "inside (0, 1]")


class TrainedReward(EmbeddingReward):
    """An intrinsic reward that trains models on each rollout: `update` does, by `losses` that a subclass defines.

    A subclass makes its models in `build` and returns its losses in `losses`. Every parameter that requires a gradient
    is trained: those of the models, and the encoder's if `trains_encoder`. Call `requires_grad_(False)` on a network
    that stays random. Adam's state and the number of updates are buffers, and the order of minibatches depends on the
    seed and that number only, so that a resumed run trains as one that was never interrupted. In outline::

        class Surprise(TrainedReward):
            def build(self, generator):
                self.model = two_layer_network(size, size, generator)

            def bonus(self, rollout):
                ...

            def losses(self, batch):
                phi, phi_next = self.encoder(batch.observations), self.encoder(batch.successors)
                return {"model_loss": (self.model(phi) - phi_next).square().mean()}
    """

    config_type: ClassVar[type[RewardConfig]] = TrainedConfig
    config: TrainedConfig
    updates: Tensor

    def __init__(self, observation_space: Space, action_space: Space, n_envs: int, **parameters: Any) -> None:
        super().__init__(observation_space, action_space, n_envs, **parameters)
        self.actions = ActionModel(action_space)
        self.build(torch.Generator().manual_seed(self.config.seed))
        self.adam = AdamState(self._trained_parameters())
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    @abstractmethod
    def build(self, generator: torch.Generator) -> None:
        """Make the models as attributes, with weights drawn from `generator`; `encoder` and `actions` are there."""

    @abstractmethod
    def losses(self, batch: Minibatch) -> dict[str, Tensor]:
        """The losses of a minibatch by name: means over its transitions, with gradients."""

    def objective(self, losses: dict[str, Tensor]) -> Tensor:
        """What Adam minimises: the sum of the losses."""
        return torch.stack(list(losses.values())).sum()

    @torch.enable_grad()
    def update(self, rollout: Rollout) -> dict[str, float]:
        """Train the models by one pass of Adam over the rollout's transitions, or a part of them, in random order.

        Returns:
            The mean of each loss; {} during the warm-up.

        Raises:
            ValueError: The rollout does not fit, or training has diverged.
        """
        self.check_rollout(rollout)
        if not self.encoder.ready or rollout.n_valid == 0:
            return {}
        transitions = Transitions(rollout, self.actions, self.device)
        adam = self.adam.optimizer(self._trained_parameters(), self.config.learning_rate)
        sums: dict[str, float] = defaultdict(float)
        trained = 0
        # Of the host, whatever torch's default device is.
        generator = torch.Generator("cpu").manual_seed(self.config.seed + int(self.updates))
        for rows in self._minibatches(rollout.n_valid, generator):
            losses = self.losses(Minibatch(transitions, rows, generator))
            numbers = self._read(losses)
            adam.zero_grad()
            self.objective(losses).backward()
            adam.step()
            trained += len(rows)
            for name, loss in numbers.items():
                sums[name] += loss * len(rows)
        self.updates += 1
        return {name: added / trained for name, added in sums.items()}

    def action_vectors(self, rollout: Rollout) -> Tensor:
        """Vectors of the rollout's actions, (n_steps, n_envs, size); zeros in padded steps."""
        return rollout.unflatten(Transitions(rollout, self.actions, self.device).actions)

    def _minibatches(self, size: int, generator: torch.Generator) -> Iterator[Tensor]:
        """Rows on the host, in random order, each at most once."""
        order = torch.randperm(size, generator=generator, device="cpu")
        yield from order[: math.ceil(self.config.update_fraction * size)].split(self.config.batch_size)

    def _read(self, losses: dict[str, Tensor]) -> dict[str, float]:
        """The losses as numbers, which must be finite."""
        # All in one transfer: the host would wait for a GPU at each number.
        values = torch.stack([loss.detach() for loss in losses.values()]).tolist()
        for name, loss in zip(losses, values, strict=True):
            if not math.isfinite(loss):
                raise ValueError(
                    f"{name} of {type(self).__name__} is {loss}: its models diverge; lower learning_rate, or normalise "
                    "observations and actions"
                )
        return dict(zip(losses, values, strict=True))

    def _trained_parameters(self) -> list[nn.Parameter]:
        """All parameters with a gradient, those of the encoder last, as Adam's state numbers them."""
        named = [(name, parameter) for name, parameter in self.named_parameters() if parameter.requires_grad]
        return [parameter for _, parameter in sorted(named, key=lambda item: item[0].startswith("encoder."))]


class Transitions:
    """The valid steps of a rollout, in order of time. What is not asked for is not prepared."""

    def __init__(self, rollout: Rollout, actions: ActionModel, device: torch.device) -> None:
        self._rollout = rollout
        self._actions = actions
        self._device = device

    @property
    def states(self) -> States:
        """Observations and successors, where the rollout has them."""
        return self._rollout.states

    @cached_property
    def observations(self) -> Observations:
        """(n, *obs_shape), where the rollout has them."""
        return self._rollout.steps(self._rollout.observations)

    @cached_property
    def successors(self) -> Observations:
        """(n, *obs_shape), where the rollout has them."""
        return self._rollout.steps(self._rollout.successors)

    @cached_property
    def actions(self) -> Tensor:
        """Vectors of the actions, (n, size), on the reward's device."""
        executed = self._rollout.steps(self._rollout.actions)
        assert isinstance(executed, Tensor)
        return self._actions.features(executed.to(self._device))


@dataclass(frozen=True, eq=False)
class Minibatch:
    """Some of a rollout's transitions.

    Attributes:
        transitions: All of them.
        rows: Which ones, on the host.
        generator: For random choices in a loss, on the host; equal in a resumed run.
    """

    transitions: Transitions
    rows: Tensor
    generator: torch.Generator

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def observations(self) -> Observations:
        """s_t, (n, *obs_shape)."""
        return self._select(self.transitions.observations)

    @property
    def successors(self) -> Observations:
        """s_{t+1}, (n, *obs_shape): the true successor, at an episode's end too."""
        return self._select(self.transitions.successors)

    @property
    def actions(self) -> Tensor:
        """Vectors of the actions, (n, size)."""
        return _rows(self.transitions.actions, self.rows)

    def evaluate(self, network: Callable[[Observations], Tensor], *fields: Field) -> list[Tensor]:
        """What a network says of the "observations", the "successors" or both, (n, …) each; repeated states once."""
        return self.transitions.states.evaluate(network, *fields, rows=self.rows)

    def _select(self, observations: Observations) -> Observations:
        return map_observations(lambda values: _rows(values, self.rows), observations)


def _rows(values: Tensor, index: Tensor) -> Tensor:
    """Select rows of a tensor on any device; the host does not wait for the copy of the index."""
    return values[index.to(values.device, non_blocking=True)]
