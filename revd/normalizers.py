"""Normalisers of observations, whose statistics are buffers: frozen after a warm-up, or running."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from revd.moments import RunningMoments

#: A running normaliser cuts its output off at this many standard deviations.
CLIP = 5.0


class FrozenNormalizer(nn.Module):
    """Normalises to zero mean and unit variance, with statistics of at least `warmup` first observations.

    The statistics are then frozen. Otherwise all embeddings would shift between episodes, which would be paid as
    novelty.
    """

    def __init__(self, shape: tuple[int, ...], warmup: int) -> None:
        super().__init__()
        self.warmup = warmup
        self.moments = RunningMoments(shape)

    @property
    def ready(self) -> bool:
        """Whether the warm-up is over."""
        return int(self.moments.count) >= self.warmup

    @property
    def learning(self) -> bool:
        """Whether further observations belong to the statistics."""
        return not self.ready

    def forward(self, values: Tensor) -> Tensor:
        """Normalise values; a feature that did not vary so far is only centred."""
        std = self.moments.std
        scale = torch.where(std > 1e-6, std, 1.0)
        return (values - self.moments.mean.to(values.dtype)).div_(scale.to(values.dtype))


class RunningNormalizer(FrozenNormalizer):
    """Normalises with statistics of all observations so far, and clips to +-`CLIP`.

    For methods that compare two networks on the same input, as RND does. The clip keeps features that hardly ever vary
    from becoming huge when they do.
    """

    @property
    def learning(self) -> bool:
        """Always: the statistics follow the observations."""
        return True

    def forward(self, values: Tensor) -> Tensor:
        """Normalise and clip values."""
        return super().forward(values).clamp_(-CLIP, CLIP)
