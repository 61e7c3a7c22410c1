"""Exploration rewards for reinforcement learning.

The heart is REVD, Rewarding Episodic Visitation Discrepancy. Importing this package loads torch, but no RL framework,
no environment and no plotting library.
"""

from revd.functional import episode_distances, neighbor_distances, renyi_divergence
from revd.rewards import RE3, REVD, RIDE, IntrinsicReward, make_reward
from revd.rollout import Rollout

__version__ = "0.1.0"

__all__ = [
    "RE3",
    "REVD",
    "RIDE",
    "IntrinsicReward",
    "Rollout",
    "episode_distances",
    "make_reward",
    "neighbor_distances",
    "renyi_divergence",
]
