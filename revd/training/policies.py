"""The paper's policy and value networks (tables "CNN-based" and "MLP-based"), which share no layer.

A policy is a name and JSON parameters, so that a configuration can be written as JSON.
"""

from typing import Any, Literal, get_args

import torch
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticCnnPolicy, ActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import Schedule
from torch import Tensor, nn

from revd.names import unknown_name
from revd.spaces import image_channel_axis

BatchNorm = Literal["train", "eval", "off"]

DENSE = 512
HIDDEN = (64, 64)


def paper_policy(observation_space: spaces.Space[Any], *, batch_norm: BatchNorm = "off") -> tuple[str, dict[str, Any]]:
    """Return the name and the JSON parameters of the paper's policy for a space.

    For images it is `PaperCnnPolicy`. For all other spaces it is SB3's policy with two layers of 64 units and Tanh for
    each network, which is the paper's MLP (and SB3's default).
    """
    _check_batch_norm(batch_norm)
    if image_channel_axis(observation_space) is not None:
        return "PaperCnnPolicy", {"batch_norm": batch_norm}
    if batch_norm != "off":
        raise ValueError(
            f"batch_norm is {batch_norm!r}, but it follows convolutions, and the paper's network for "
            f"{observation_space} has none; use 'off'"
        )
    name = "MultiInputPolicy" if isinstance(observation_space, spaces.Dict) else "MlpPolicy"
    return name, {"net_arch": {"pi": list(HIDDEN), "vf": list(HIDDEN)}}


def policy_class(name: str) -> str | type[ActorCriticPolicy]:
    """Return the `policy` argument of SB3's algorithms: our class for our name, any other name unchanged."""
    return PaperCnnPolicy if name == PaperCnnPolicy.__name__ else name


class PaperCNN(BaseFeaturesExtractor):
    """The paper's CNN for images.

    8x8 conv 32, 4x4 conv 64, 3x3 conv 32 with strides 4, 2, 1, each with BatchNorm and ReLU, then Dense 512 and ReLU.

    Args:
        observation_space: Images, channels first.
        batch_norm: "train" is BatchNorm as usual; SB3 acts in eval mode and learns in train mode, so the two use
            different networks. "eval" never uses the statistics of a batch. "off" leaves the layers out.
    """

    def __init__(self, observation_space: spaces.Box, batch_norm: BatchNorm = "off") -> None:
        super().__init__(observation_space, DENSE)
        _check_batch_norm(batch_norm)
        self.convolutions = nn.Sequential(
            *_convolution(observation_space.shape[0], 32, 8, 4, batch_norm),
            *_convolution(32, 64, 4, 2, batch_norm),
            *_convolution(64, 32, 3, 1, batch_norm),
            nn.Flatten(),
        )
        self.dense = nn.Sequential(nn.Linear(self._flat(observation_space.shape), DENSE), nn.ReLU())

    def forward(self, observations: Tensor) -> Tensor:
        """Compute features (n, 512) of images (n, channels, height, width) scaled to [0, 1]."""
        features: Tensor = self.dense(self.convolutions(observations))
        return features

    @torch.no_grad()
    def _flat(self, shape: tuple[int, ...]) -> int:
        # In eval mode, so that the black image does not change BatchNorm's statistics.
        flat = self.convolutions.eval()(torch.zeros(1, *shape)).shape[1]
        self.convolutions.train()
        return int(flat)


class FixedBatchNorm2d(nn.BatchNorm2d):
    """BatchNorm that stays in eval mode: a learnt scale and shift, independent of the batch."""

    def train(self, mode: bool = True) -> "FixedBatchNorm2d":
        """Keep the module in eval mode."""
        return super().train(False)


class PaperCnnPolicy(ActorCriticCnnPolicy):
    """Separate `PaperCNN`s for actions and value, each followed by a linear layer."""

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        lr_schedule: Schedule,
        batch_norm: BatchNorm = "off",
        **options: Any,
    ) -> None:
        networks = {
            "net_arch": [],
            "features_extractor_class": PaperCNN,
            "features_extractor_kwargs": {"batch_norm": batch_norm},
            "share_features_extractor": False,
        }
        super().__init__(observation_space, action_space, lr_schedule, **{**networks, **options})


def _convolution(inputs: int, outputs: int, kernel: int, stride: int, batch_norm: BatchNorm) -> list[nn.Module]:
    normalization: dict[BatchNorm, list[nn.Module]] = {
        "train": [nn.BatchNorm2d(outputs)],
        "eval": [FixedBatchNorm2d(outputs)],
        "off": [],
    }
    return [nn.Conv2d(inputs, outputs, kernel, stride), *normalization[batch_norm], nn.ReLU()]


def _check_batch_norm(batch_norm: str) -> None:
    if batch_norm not in get_args(BatchNorm):
        raise ValueError(unknown_name("value of batch_norm", batch_norm, get_args(BatchNorm)))
