"""A bonus in one line: Stable-Baselines3's PPO with REVD on MountainCar.

Run it, from the root of the repository::

    pip install ".[sb3]"
    python examples/sb3_one_line.py

It takes about 35 seconds on one core. Look at `ep_rew_mean`: an episode that never reaches the flag returns -200, and
nothing else tells the agent that there is a flag. With this seed it leaves -200 after about 40,000 steps.
`exploration/bonus_share` is the bonus's part of what the policy learns from: about 0.1 on average.
"""

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from revd.sb3 import IntrinsicRewardCallback


def main(steps: int = 80_000) -> None:
    """Train PPO with the bonus, and print Stable-Baselines3's log."""
    env = make_vec_env("MountainCar-v0", n_envs=10, seed=1)
    # Distances between observations decide what is new, so all of their numbers should have the same scale.
    env = VecNormalize(env, norm_reward=False)
    model = PPO("MlpPolicy", env, n_steps=128, seed=1, device="cpu", verbose=1)
    model.learn(steps, callback=IntrinsicRewardCallback("revd"))


if __name__ == "__main__":
    main()
