"""RIDE: Rewarding Impact-Driven Exploration (Raileanu & Rocktäschel, 2020)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from revd.functional import pseudo_counts, visible_distances
from revd.networks import two_layer_network
from revd.rewards.actions import ActionModel
from revd.rewards.config import (
    LARGEST,
    LARGEST_COUNT,
    LARGEST_SIZE,
    EmbeddingConfig,
    RewardConfig,
    require,
    require_integer,
    require_positive,
)
from revd.rewards.embedding import EmbeddingReward
from revd.rewards.metrics import Mean, total
from revd.rewards.optimizer import AdamState
from revd.rewards.segments import EpisodeMemory
from revd.rollout import map_observations

if TYPE_CHECKING:
    from revd.rollout import Observations, Rollout
    from revd.spaces import Space


@dataclass(frozen=True, kw_only=True)
class RIDEConfig(EmbeddingConfig):
    """Parameters of RIDE.

    Attributes:
        inverse: Train phi by an inverse and a forward model. False keeps phi random and trains only the forward model.
        learning_rate: Learning rate of Adam on the models.
        batch_size: Transitions in one step of Adam, which makes one pass over each rollout.
        k: Nearest earlier states that a pseudo-count sums over.
        memory_size: States of the running episode kept from rollout to rollout, per environment.
        kernel_eps: eps of the pseudo-count's kernel.
        cluster_distance: xi, the relative squared distance below which two states count as the same.
        c: Added to the square root of the pseudo-count.
        s_max: Square roots above this are paid 0.
        momentum: Momentum of the moving average of the squared distances, per rollout.
    """

    inverse: bool = True
    learning_rate: float = 3e-4
    batch_size: int = 256
    k: int = 10
    memory_size: int = 10_000
    kernel_eps: float = 1e-4
    cluster_distance: float = 0.008
    c: float = 0.001
    s_max: float = 8.0
    momentum: float = 0.99

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, largest in (("batch_size", LARGEST_COUNT), ("k", LARGEST_SIZE), ("memory_size", LARGEST_COUNT)):
            require_integer(name, getattr(self, name), minimum=1, maximum=largest)
        for name in ("learning_rate", "kernel_eps", "s_max"):
            require_positive(name, getattr(self, name))
        for name in ("cluster_distance", "c"):
            value = getattr(self, name)
            require(0 <= value <= LARGEST, name, value, f"a number from 0 to {LARGEST:g}")
        require(0 <= self.momentum < 1, "momentum", self.momentum, "inside [0, 1)")


class RIDE(EmbeddingReward):
    """Pays each action for how much it changes the state, discounted by visits within the episode.

    ::

        r^_t = || phi(s_{t+1}) - phi(s_t) ||_2 / sqrt(N_ep(s_{t+1}))
        sqrt(N_ep(s)) = sqrt( 1 + sum_i K(phi(s), phi(s_i)) ) + c,      paid 0 above s_max

    K is Never Give Up's kernel (`revd.functional.pseudo_counts`) over the k nearest states s_i of the same true episode
    before s_{t+1}, those of earlier rollouts included, as they were embedded when they were visited. Squared distances
    are divided by their moving average over rollouts.

    phi is trained by an inverse model p(a | phi, phi') and a forward model g(phi, a), whose loss is
    || g(phi(s_t), a_t) - phi(s_{t+1}) ||_2. The forward loss alone would make phi a constant, so phi stays random
    without the inverse model.

    Metrics: `impact` (mean ||phi' - phi||), `count` (mean N_ep), `bonus_mean`; losses: `forward_loss`, `inverse_loss`.
    """

    advice = "Procedural levels, where actions that change something matter."
    config_type: ClassVar[type[RewardConfig]] = RIDEConfig
    config: RIDEConfig
    mean_square: Tensor
    updates: Tensor

    def __init__(self, observation_space: Space, action_space: Space, n_envs: int, **parameters: Any) -> None:
        super().__init__(observation_space, action_space, n_envs, **parameters)
        size = self.encoder.embedding_size
        generator = torch.Generator().manual_seed(self.config.seed)
        self.actions = ActionModel(action_space)
        self.forward_model = two_layer_network(size + self.actions.size, size, generator)
        self.inverse_model = two_layer_network(2 * size, self.actions.size, generator) if self.config.inverse else None
        self.adam = AdamState(self._trained_parameters())
        self.memory = EpisodeMemory(n_envs, size, k=1, keep_previous=False, capacity=self.config.memory_size)
        self.register_buffer("mean_square", torch.zeros(()))
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    @property
    def trains_encoder(self) -> bool:
        """Phi is trained together with the inverse model."""
        return self.config.inverse

    def end_episodes(self) -> None:
        """Start the counts of all environments from zero."""
        self.memory.end_episodes()

    def bonus(self, rollout: Rollout) -> Tensor:
        """|| phi(s_{t+1}) - phi(s_t) || / sqrt(N_ep(s_{t+1})), 0 where the root exceeds `s_max`."""
        phi, phi_next = (self.embed(rollout, part) for part in (rollout.observations, rollout.successors))
        impact = (phi_next - phi).norm(dim=-1)
        counts = self._counts(phi, phi_next, rollout)
        root = counts.sqrt() + self.config.c
        self.record(impact=_mean(impact, rollout), count=_mean(counts, rollout))
        return torch.where(root > self.config.s_max, 0.0, impact / root)

    @torch.enable_grad()
    def update(self, rollout: Rollout) -> dict[str, float]:
        """Train the models by one pass of Adam over the rollout's transitions in random order.

        Raises:
            ValueError: The rollout does not fit, or training has diverged.
        """
        self.check_rollout(rollout)
        if not self.encoder.ready or rollout.n_valid == 0:
            return {}
        observations, successors = rollout.steps(rollout.observations), rollout.steps(rollout.successors)
        executed = rollout.steps(rollout.actions)
        assert isinstance(executed, Tensor)
        actions = self.actions.features(executed.to(self.device))
        adam = self.adam.optimizer(self._trained_parameters(), self.config.learning_rate)
        sums: dict[str, float] = defaultdict(float)
        for batch in self._minibatches(len(actions)):
            losses = self._losses(_select(observations, batch), _rows(actions, batch), _select(successors, batch))
            together = torch.stack(list(losses.values()))
            # All in one transfer: the host would wait for a GPU at each number.
            numbers = dict(zip(losses, together.tolist(), strict=True))
            _check_losses(numbers)
            adam.zero_grad()
            together.sum().backward()
            adam.step()
            for name, loss in numbers.items():
                sums[name] += loss * len(batch)
        self.updates += 1
        return {name: added / len(actions) for name, added in sums.items()}

    def _counts(self, phi: Tensor, phi_next: Tensor, rollout: Rollout) -> Tensor:
        config = self.config
        distances = phi.new_full((*phi.shape[:2], config.k), torch.inf)
        for segments in self.memory.segments(phi, rollout):
            # s_{t+1} sees the states before it: the carried ones, and the new ones up to s_t.
            visible = (segments.carried[:, None] + segments.offsets + 1) * segments.is_new
            found = visible_distances(segments.take(phi_next), segments.current, k=config.k, visible=visible)
            segments.put(distances, found)
        self._update_mean_square(distances)
        return pseudo_counts(
            distances, self.mean_square, eps=config.kernel_eps, cluster_distance=config.cluster_distance
        )

    def _update_mean_square(self, distances: Tensor) -> None:
        """Move the average towards the mean square of the distances; missing distances are inf."""
        found = distances < torch.inf
        # In float64: sums of large squares overflow float32, and then all states would count as duplicates.
        mean = torch.where(found, distances.double(), 0.0).square().sum() / found.sum()
        updated = self.mean_square.lerp(mean.float(), 1 - self.config.momentum)
        self.mean_square.copy_(torch.where(self.mean_square > 0, updated, mean.float()))

    def _losses(self, observations: Observations, actions: Tensor, successors: Observations) -> dict[str, Tensor]:
        with torch.set_grad_enabled(self.config.inverse):
            phi, phi_next = self.encoder(observations), self.encoder(successors)
        predicted = self.forward_model(torch.cat([phi, actions], dim=-1))
        losses = {"forward_loss": (predicted - phi_next).norm(dim=-1).mean()}
        if self.inverse_model is not None:
            predicted_actions = self.inverse_model(torch.cat([phi, phi_next], dim=-1))
            losses["inverse_loss"] = self.actions.loss(predicted_actions, actions)
        return losses

    def _minibatches(self, size: int) -> Iterator[Tensor]:
        """Indices on the host, in an order that depends only on the seed and the number of updates.

        So a resumed run uses the same order.
        """
        generator = torch.Generator().manual_seed(self.config.seed + int(self.updates))
        yield from torch.randperm(size, generator=generator, device="cpu").split(self.config.batch_size)

    def _trained_parameters(self) -> list[nn.Parameter]:
        models = [self.forward_model, self.inverse_model, self.encoder if self.config.inverse else None]
        return [parameter for model in models if model is not None for parameter in model.parameters()]


def _mean(values: Tensor, rollout: Rollout) -> Mean:
    """The mean over the valid steps of the rollout."""
    return Mean(total(torch.where(rollout.valid_on(values.device), values, 0.0)), rollout.n_valid)


def _check_losses(losses: dict[str, float]) -> None:
    for name, loss in losses.items():
        if not math.isfinite(loss):
            raise ValueError(
                f"{name} of RIDE is {loss}: its models diverge; lower learning_rate, or normalise observations and "
                "actions"
            )


def _select(observations: Observations, index: Tensor) -> Observations:
    return map_observations(lambda values: _rows(values, index), observations)


def _rows(values: Tensor, index: Tensor) -> Tensor:
    """Select rows of a tensor on any device; the host does not wait for the copy of the index."""
    return values[index.to(values.device, non_blocking=True)]
