"""A sound reward of a user's own, and the same with one thing wrong with it, for each contract at least once."""

import random
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from revd import IntrinsicReward, Rollout
from revd.rewards import RewardConfig


@dataclass(frozen=True, kw_only=True)
class SoundConfig(RewardConfig):
    """`scale` multiplies the bonus, `momentum` moves the mean, `learning_rate` trains the model."""

    scale: float = 1.0
    momentum: float = 0.9
    learning_rate: float = 1e-2


class Sound(IntrinsicReward):
    """Pays for the distance of a state's random features from their moving mean; a model learns to predict them."""

    config_type: ClassVar[type[RewardConfig]] = SoundConfig
    config: SoundConfig
    mean: Tensor

    def __init__(self, observation_space: Any, action_space: Any, n_envs: int, **parameters: Any) -> None:
        super().__init__(observation_space, action_space, n_envs, **parameters)
        generator = torch.Generator().manual_seed(self.config.seed)
        self.random = nn.Linear(3, 4).requires_grad_(False)
        self.model = nn.Linear(3, 4)
        for parameter in self.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator)
        self.register_buffer("mean", torch.zeros(4))

    def features(self, rollout: Rollout) -> Tensor:
        states: Tensor = rollout.observations[rollout.valid].float()  # type: ignore[index]
        found: Tensor = self.random(states.to(self.device))
        return found

    def pay(self, rollout: Rollout) -> Tensor:
        features = self.features(rollout)
        self.mean.lerp_(features.mean(dim=0), 1 - self.config.momentum)
        return self.config.scale * (features - self.mean).norm(dim=-1)

    def bonus(self, rollout: Rollout) -> Tensor:
        bonus = torch.zeros(rollout.n_steps, rollout.n_envs, device=self.device)
        bonus[rollout.valid] = self.pay(rollout)
        return bonus

    def update(self, rollout: Rollout) -> dict[str, float]:
        if not rollout.valid.any():
            return {}
        states: Tensor = rollout.observations[rollout.valid].float()  # type: ignore[index]
        loss = (self.model(states) - self.features(rollout)).square().mean()
        for parameter, gradient in zip(
            self.model.parameters(), torch.autograd.grad(loss, [*self.model.parameters()]), strict=True
        ):
            parameter.data -= self.config.learning_rate * gradient
        return {"loss": float(loss.detach())}


class WrongShape(Sound):
    def compute(self, rollout: Rollout) -> Tensor:
        return super().compute(rollout).mean(dim=1, keepdim=True)


class NoTensor(Sound):
    def compute(self, rollout: Rollout) -> Any:
        return super().compute(rollout).numpy()


class DoublePrecision(Sound):
    def bonus(self, rollout: Rollout) -> Tensor:
        return super().bonus(rollout).double()

    def compute(self, rollout: Rollout) -> Tensor:
        return super().compute(rollout).double()


class FollowsTheInputsPrecision(Sound):
    def features(self, rollout: Rollout) -> Tensor:
        states: Tensor = rollout.observations[rollout.valid]  # type: ignore[index]
        found: Tensor = self.random(states)
        return found


class KeepsTheGradient(Sound):
    def compute(self, rollout: Rollout) -> Tensor:
        return super().compute(rollout).requires_grad_()


class DividesByTheSpread(Sound):
    """NaN where every state is the same."""

    def pay(self, rollout: Rollout) -> Tensor:
        paid = super().pay(rollout)
        return paid / (paid.max() - paid.min()) * (paid.max() - paid.min())


class InfiniteLoss(Sound):
    def update(self, rollout: Rollout) -> dict[str, float]:
        return {name: value * float("inf") for name, value in super().update(rollout).items()}


class SquaresWhatIsHuge(Sound):
    """Pays and trains within bounds, but its loss overflows."""

    def pay(self, rollout: Rollout) -> Tensor:
        return super().pay(rollout).clamp(max=1.0)

    def update(self, rollout: Rollout) -> dict[str, float]:
        return {"loss": float(self.features(rollout).square().mean())}


class SpreadOverTime(Sound):
    """NaN in rollouts of one step, which it does not refuse."""

    def bonus(self, rollout: Rollout) -> Tensor:
        bonus = super().bonus(rollout)
        return bonus + ((bonus - bonus.mean(dim=0)).square().sum(dim=0) / (rollout.n_steps - 1)).sqrt()


class MetricsOfTheFirstCall(Sound):
    def metrics(self) -> dict[str, float]:
        if not hasattr(self, "first") and self._metrics:
            self.first = dict(self._metrics)
        return dict(getattr(self, "first", {}))


class MetricsInADictOfItsOwn(Sound):
    def metrics(self) -> dict[str, float]:
        return self._metrics


class MetricsAreTensors(Sound):
    def metrics(self) -> Any:
        return {name: torch.tensor(value) for name, value in super().metrics().items()}


class MetricsBeforeTheFirstCall(Sound):
    def metrics(self) -> dict[str, float]:
        return super().metrics() or {"bonus_mean": 0.0}


class WeightsFromTheGlobalGenerator(Sound):
    def __init__(self, *arguments: Any, **parameters: Any) -> None:
        super().__init__(*arguments, **parameters)
        self.random.weight.data = torch.randn(4, 3)


class SeedsTheGlobalGenerator(Sound):
    def __init__(self, *arguments: Any, **parameters: Any) -> None:
        super().__init__(*arguments, **parameters)
        torch.manual_seed(self.config.seed)


class NoiseFromTheGlobalGenerator(Sound):
    def pay(self, rollout: Rollout) -> Tensor:
        return super().pay(rollout) + torch.rand(())


class NoiseFromNumPy(Sound):
    def pay(self, rollout: Rollout) -> Tensor:
        return super().pay(rollout) + np.random.rand()  # noqa: NPY002


class NoiseFromPython(Sound):
    def pay(self, rollout: Rollout) -> Tensor:
        return super().pay(rollout) + random.random()


_GENERATOR = torch.Generator().manual_seed(0)


class SharesAGenerator(Sound):
    """Of all instances, so that no two of them are alike."""

    def pay(self, rollout: Rollout) -> Tensor:
        return super().pay(rollout) + torch.rand((), generator=_GENERATOR)


class CountsUpdates(Sound):
    def update(self, rollout: Rollout) -> dict[str, float]:
        self.calls += 1
        return super().update(rollout)


class WritesIntoTheRollout(Sound):
    def features(self, rollout: Rollout) -> Tensor:
        rollout.observations.sub_(1.0)  # type: ignore[union-attr]
        return super().features(rollout)


class KeepsAViewOfTheRollout(Sound):
    last: Tensor

    def __init__(self, *arguments: Any, **parameters: Any) -> None:
        super().__init__(*arguments, **parameters)
        self.register_buffer("last", torch.zeros(3))

    def pay(self, rollout: Rollout) -> Tensor:
        paid = super().pay(rollout) + self.last.mean()
        self.last = rollout.observations[-1, 0]  # type: ignore[index]
        return paid


class ReadsPaddedSteps(Sound):
    def pay(self, rollout: Rollout) -> Tensor:
        return super().pay(rollout) + rollout.observations[-1].nan_to_num().abs().mean()  # type: ignore[index]


class TrainsOnPaddedSteps(Sound):
    def update(self, rollout: Rollout) -> dict[str, float]:
        losses = super().update(rollout)
        return {name: value + float(rollout.dones.sum()) for name, value in losses.items()}


class PaysPaddedSteps(Sound):
    def compute(self, rollout: Rollout) -> Tensor:
        return super().compute(rollout) + 1


class TrainsOnNothing(Sound):
    def update(self, rollout: Rollout) -> dict[str, float]:
        return super().update(rollout) or {"loss": 0.0}


class RemembersEmptyRollouts(Sound):
    def compute(self, rollout: Rollout) -> Tensor:
        self.mean += 1
        return super().compute(rollout)


class PaysForNaN(Sound):
    def compute(self, rollout: Rollout) -> Tensor:
        bonus = torch.zeros(rollout.n_steps, rollout.n_envs)
        bonus[rollout.valid] = self.pay(rollout).nan_to_num()
        self.calls += 1
        return bonus


class ChangesBeforeItChecks(Sound):
    def compute(self, rollout: Rollout) -> Tensor:
        self.mean += 0.1
        return super().compute(rollout)


class ForgetsItsMean(Sound):
    """It is an attribute, not a buffer: a checkpoint loses it."""

    def pay(self, rollout: Rollout) -> Tensor:
        features = self.features(rollout)
        kept = getattr(self, "kept", 0.0)
        self.kept = 0.9 * kept + 0.1 * float(features.mean())
        return (features - self.kept).norm(dim=-1)


class ForgetsItsMetrics(Sound):
    def metrics(self) -> dict[str, float]:
        self.asked = getattr(self, "asked", 0) + 1
        return {"seen": float(self.seen), **super().metrics()} if self._metrics else {}

    def pay(self, rollout: Rollout) -> Tensor:
        self.seen = getattr(self, "seen", 0) + 1
        return super().pay(rollout)


class CannotBeLoadedWhenUsed(Sound):
    """Its memory has grown, and loading does not resize it."""

    def pay(self, rollout: Rollout) -> Tensor:
        paid = super().pay(rollout)
        self.register_buffer("memory", torch.zeros(rollout.n_steps))
        return paid


class LoadsOnlyAPart(Sound):
    def load_state_dict(self, state_dict: Any, *arguments: Any, **options: Any) -> Any:
        kept = self.mean.clone()
        result = super().load_state_dict(state_dict, *arguments, **options)
        self.mean.copy_(kept)
        return result


class EndsEpisodesTwice(Sound):
    def end_episodes(self) -> None:
        self.mean += 1


class TrainsInCompute(Sound):
    def pay(self, rollout: Rollout) -> Tensor:
        self.model.weight.data += 0.1
        return super().pay(rollout)


class ChangesFrozenParameters(Sound):
    def update(self, rollout: Rollout) -> dict[str, float]:
        self.random.weight.data *= 0.9
        return super().update(rollout)


class FrozenBatchNorm(Sound):
    """Its statistics follow the batches, since nothing keeps it in eval mode."""

    def __init__(self, *arguments: Any, **parameters: Any) -> None:
        super().__init__(*arguments, **parameters)
        self.random = nn.Sequential(self.random, nn.BatchNorm1d(4).requires_grad_(False))  # type: ignore[assignment]


class CachesItsDevice(Sound):
    def __init__(self, *arguments: Any, **parameters: Any) -> None:
        super().__init__(*arguments, **parameters)
        self.place = torch.device("cpu")


class CachesItsDevicesName(Sound):
    def __init__(self, *arguments: Any, **parameters: Any) -> None:
        super().__init__(*arguments, **parameters)
        self.place = "cpu"


class KeepsTensorsInAList(Sound):
    def pay(self, rollout: Rollout) -> Tensor:
        paid = super().pay(rollout)
        self.history = {"paid": [*getattr(self, "history", {"paid": []})["paid"], paid]}
        return paid


class SaysAnotherDevice(Sound):
    @property
    def device(self) -> torch.device:
        return torch.device("cpu")


class IgnoresNormalize(Sound):
    def _divide_by_std(self, bonus: Tensor, valid: Tensor) -> Tensor:
        return bonus


class IgnoresAParameter(Sound):
    def pay(self, rollout: Rollout) -> Tensor:
        features = self.features(rollout)
        self.mean.lerp_(features.mean(dim=0), 1 - self.config.momentum)
        return (features - self.mean).norm(dim=-1)


class IgnoresItsSeed(Sound):
    def __init__(self, *arguments: Any, seed: int = 0, **parameters: Any) -> None:
        super().__init__(*arguments, seed=0, **parameters)


@dataclass(frozen=True, kw_only=True)
class NamedConfig(SoundConfig):
    prefix: str = "a"


class Named(Sound):
    """Sound, but no check can guess which words it takes."""

    config_type = NamedConfig

    def pay(self, rollout: Rollout) -> Tensor:
        return len(self.config.prefix) * super().pay(rollout)  # type: ignore[attr-defined]


class Breaks(Sound):
    def pay(self, rollout: Rollout) -> Tensor:
        raise RuntimeError("out of order")


class HidesThatItLooksAhead(Sound):
    uses_successors = False

    def pay(self, rollout: Rollout) -> Tensor:
        following: Tensor = rollout.successors[rollout.valid].float()  # type: ignore[index]
        return super().pay(rollout) + following.norm(dim=-1)


class HidesThatItPeeks(Sound):
    uses_successors = False

    def pay(self, rollout: Rollout) -> Tensor:
        return super().pay(rollout) + (rollout.next_observations is None)


class PaysWithoutSuccessors(Sound):
    def check_rollout(self, rollout: Rollout) -> None:
        rollout.check_against(self.observation_space, self.action_space, self.n_envs)
