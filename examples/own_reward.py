"""A reward of your own: counts of visits to the cells of a grid, from the class to the training.

Run it, from the root of the repository::

    pip install ".[sb3]"
    python examples/own_reward.py

It takes about 30 seconds on one core. First the reward passes the library's checks of the contract (shapes, seeds,
checkpoints, devices, and more). Then it trains PPO on MountainCar. Look at `exploration/cells`, the visited cells,
which the class records itself, and at `ep_rew_mean`, which leaves -200 after about 30,000 steps.

All about it: docs/adding-a-reward.md.
"""

from dataclasses import dataclass

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from revd.rewards import IntrinsicReward, RewardConfig
from revd.rewards.config import require_integer
from revd.sb3 import IntrinsicRewardCallback
from revd.spaces import feature_size, features
from revd.testing import check_reward


@dataclass(frozen=True, kw_only=True)
class CellCountsConfig(RewardConfig):
    """The parameters, with their defaults: `bins` cells along each number of an observation, from -3 to 3."""

    bins: int = 20

    def __post_init__(self):
        super().__post_init__()
        require_integer("bins", self.bins, minimum=2)


class CellCounts(IntrinsicReward):
    """Pays 1 / sqrt(n), n the number of visits so far to the cell of the state."""

    config_type = CellCountsConfig
    uses_successors = False  # it does not read rollout.next_observations

    def __init__(self, observation_space, action_space, n_envs, **parameters):
        super().__init__(observation_space, action_space, n_envs, **parameters)
        # State is in buffers, so that checkpoints and .to(device) are complete.
        n_cells = self.config.bins ** feature_size(observation_space)
        self.register_buffer("visits", torch.zeros(n_cells, dtype=torch.int64))

    def bonus(self, rollout):
        """Count the rollout's states, and pay for their cells."""
        states = features(self.observation_space, rollout.steps(rollout.observations)).to(self.device)
        cells = self.cells(states)
        self.visits += torch.bincount(cells, minlength=len(self.visits))
        self.record(cells=(self.visits > 0).sum())
        valid = rollout.valid.to(self.device)
        bonus = torch.zeros(valid.shape, device=self.device)
        bonus[valid] = self.visits[cells].float().rsqrt()
        return bonus

    def cells(self, states):
        """The number of each state's cell, (n,); normalised observations are rarely beyond 3."""
        bins = self.config.bins
        along = ((states.clamp(-3, 3) + 3) / 6 * bins).long().clamp(max=bins - 1)
        return (along * bins ** torch.arange(states.shape[1], device=self.device)).sum(dim=1)


def main(steps: int = 60_000) -> None:
    """Check the reward, then train with it."""
    check_reward(CellCounts)
    env = VecNormalize(make_vec_env("MountainCar-v0", n_envs=10, seed=1), norm_reward=False)
    model = PPO("MlpPolicy", env, n_steps=128, seed=1, device="cpu", verbose=1)
    reward = CellCounts(env.observation_space, env.action_space, env.num_envs, bins=30)
    model.learn(steps, callback=IntrinsicRewardCallback(reward))


if __name__ == "__main__":
    main()
