r"""Your own environment: a Gymnasium class, its registration, and normalised observations.

Run it, from the root of the repository::

    pip install ".[sb3]"
    python examples/own_environment.py

It takes about 20 seconds on one core. A child on a swing leans back and forth until the swing hits a bell. Only the
bell is rewarded. Look at how often each training has rung it: with this seed never, and 441 times with the bonus.

The command line takes the environment by the name of its module and its id::

    PYTHONPATH=examples revd train --task own_environment:Swing-v0 --reward revd --normalize observations \
        --n-envs 16 --algo-params n_steps=128 --steps 60000
"""

import math

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from revd.sb3 import IntrinsicRewardCallback


class Swing(gym.Env):
    """A swing of four metres. The child leans back, sits still, or leans forward, every tenth of a second."""

    def __init__(self, bell=1.6, push=0.6):
        self.bell, self.push = bell, push
        self.observation_space = spaces.Box(-10, 10, (2,), np.float32)
        self.action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        """Hang almost still."""
        super().reset(seed=seed)
        self.angle, self.speed = self.np_random.uniform(-0.05, 0.05, size=2)
        return self.observation(), {}

    def step(self, action):
        """Swing on for a tenth of a second."""
        self.speed += 0.1 * (self.push * (int(action) - 1) - 9.8 / 4 * math.sin(self.angle) - 0.05 * self.speed)
        self.angle += 0.1 * self.speed
        rung = abs(self.angle) > self.bell
        return self.observation(), float(rung), rung, False, {}

    def observation(self):
        """Angle in radians, and speed in radians per second."""
        return np.array([self.angle, self.speed], dtype=np.float32)


# Registration gives it an id and a limit of steps. Gymnasium reports a time-out as `truncated`, which SB3 needs.
gym.register("Swing-v0", entry_point=Swing, max_episode_steps=200)


def main(steps: int = 60_000) -> None:
    """Check the environment, train twice, and print how often the bell rang."""
    check_env(gym.make("Swing-v0").unwrapped, skip_render_check=True)
    for name, callback in {"PPO": None, "PPO+REVD": IntrinsicRewardCallback("revd")}.items():
        env = make_vec_env(lambda: gym.make("Swing-v0"), n_envs=16, seed=1)
        # Angles and speeds have scales of their own, and distances between observations decide what is new: normalise
        # them. The rewards stay as they are.
        env = VecNormalize(env, norm_reward=False)
        model = PPO("MlpPolicy", env, n_steps=128, batch_size=256, seed=1, device="cpu")
        model.learn(steps, callback=callback)
        rings = sum(sum(rewards) for rewards in env.env_method("get_episode_rewards"))
        print(f"{name}: the bell rang {rings:.0f} times in {model.num_timesteps:,} steps")


if __name__ == "__main__":
    main()
