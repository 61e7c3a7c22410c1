"""Images: SB3's CnnPolicy with REVD, in four rooms that the agent sees from above.

Run it, from the root of the repository::

    pip install ".[sb3]"
    python examples/images.py

It takes about 30 seconds on one core. The only reward is 1 in the far corner. Look at the goals that each training has
found: with this seed none, and 195 with the bonus. The reward needs no setting for images: its random convolutions take
every uint8 image with sides of 36 pixels or more, and scale the pixels.
"""

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

from revd.sb3 import IntrinsicRewardCallback

MAZE = (
    "S....#....",
    ".....#....",
    ".....#....",
    "..........",
    "#.#####.##",
    "..........",
    ".....#....",
    ".....#....",
    ".....#....",
    ".....#...G",
)
PIXELS = 4  # of a cell's side


class Maze(gym.Env):
    """The agent is a bright square, walls are grey, and the goal is not shown."""

    def __init__(self):
        cells = np.array([list(row) for row in MAZE])
        self.walls = cells == "#"
        self.start, self.goal = (np.argwhere(cells == letter)[0] for letter in "SG")
        self.background = np.kron(100 * self.walls, np.ones((PIXELS, PIXELS))).astype(np.uint8)
        self.observation_space = spaces.Box(0, 255, (*self.background.shape, 1), np.uint8)
        self.action_space = spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        """Start at S."""
        super().reset(seed=seed)
        self.place = self.start
        return self.image(), {}

    def step(self, action):
        """Go down, up, right or left, unless there is a wall."""
        move = np.array([(1, 0), (-1, 0), (0, 1), (0, -1)][action])
        place = np.clip(self.place + move, 0, len(MAZE) - 1)
        if not self.walls[tuple(place)]:
            self.place = place
        found = bool((self.place == self.goal).all())
        return self.image(), float(found), found, False, {}

    def image(self):
        """What the agent sees, (40, 40, 1)."""
        image = self.background.copy()
        row, column = PIXELS * self.place
        image[row : row + PIXELS, column : column + PIXELS] = 255
        return image[..., None]


gym.register("Maze-v0", entry_point=Maze, max_episode_steps=60)


def main(steps: int = 30_000) -> None:
    """Train twice, and print how often the goal was found."""
    for name, callback in {"PPO": None, "PPO+REVD": IntrinsicRewardCallback("revd")}.items():
        env = make_vec_env(lambda: gym.make("Maze-v0"), n_envs=8, seed=1)
        model = PPO("CnnPolicy", env, n_steps=128, batch_size=256, n_epochs=4, ent_coef=0.01, seed=1)
        model.learn(steps, callback=callback)
        goals = sum(sum(rewards) for rewards in env.env_method("get_episode_rewards"))
        print(f"{name}: {goals:.0f} goals in {model.num_timesteps:,} steps")


if __name__ == "__main__":
    main()
