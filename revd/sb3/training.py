"""An algorithm and its exploration bonus as one thing that learns and can be saved."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import configure
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from revd.sb3.algorithms import learn_arguments
from revd.sb3.callback import IntrinsicRewardCallback
from revd.sb3.environments import normalization_state
from revd.sb3.progress import Episode, EpisodeCallback, Progress, ProgressCallback


@dataclass(frozen=True, kw_only=True)
class Training:
    """A model in its environments, with the bonus it is paid, if any."""

    model: OnPolicyAlgorithm
    intrinsic: IntrinsicRewardCallback | None = None

    def check(self) -> None:
        """Raise now what the bonus would have against this model once training starts."""
        if self.intrinsic is not None:
            self.intrinsic.init_callback(self.model)

    def learn(
        self,
        steps: int,
        *,
        logs: Path,
        on_rollout: Callable[[Progress], None],
        on_episode: Callable[[Episode], None],
    ) -> None:
        """Train for `steps`; the logger writes `progress.csv` and TensorBoard events to `logs`."""
        callbacks: list[BaseCallback] = [] if self.intrinsic is None else [self.intrinsic]
        callbacks.append(ProgressCallback(on_rollout, total_steps=steps, intrinsic=self.intrinsic))
        callbacks.append(EpisodeCallback(on_episode))
        logger = configure(str(logs), ["csv", "tensorboard"])
        self.model.set_logger(logger)
        try:
            self.model.learn(steps, callback=callbacks, **learn_arguments(self.model))
        finally:
            logger.close()

    def save_model(self, path: Path) -> None:
        """The networks and the optimiser, as SB3's own zip."""
        self.model.save(path)

    def save_normalization(self, path: Path) -> None:
        """The statistics of VecNormalize, as safetensors."""
        save_file(self.normalization_state(), path)

    def normalization_state(self) -> dict[str, torch.Tensor]:
        """The statistics of VecNormalize; empty where nothing is normalised."""
        env = self.model.get_env()
        return {} if env is None else normalization_state(env)

    def close(self) -> None:
        """Close the environments."""
        env = self.model.get_env()
        if env is not None:
            env.close()
