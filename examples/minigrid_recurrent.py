"""Memory: sb3-contrib's RecurrentPPO with REVD on MiniGrid, where the agent sees a part of the room only.

Run it, from the root of the repository::

    pip install ".[contrib,minigrid]"
    python examples/minigrid_recurrent.py

It takes about 50 seconds on one core. The only reward is in the far corner of the room: 1, less a part for the steps
that it took. Look at `ep_rew_mean`, which ends above 0.9 with this seed.
"""

import minigrid  # noqa: F401  registers MiniGrid's environments
from sb3_contrib import RecurrentPPO
from stable_baselines3.common.env_util import make_vec_env

from revd.envs.minigrid import OneHotImage
from revd.sb3 import IntrinsicRewardCallback


def main(steps: int = 30_000) -> None:
    """Train a recurrent policy, and print Stable-Baselines3's log."""
    # MiniGrid's observations are codes of objects and colours. As one-hot vectors, their distances mean something.
    env = make_vec_env("MiniGrid-Empty-6x6-v0", n_envs=8, seed=1, wrapper_class=OneHotImage)
    model = RecurrentPPO(
        "MlpLstmPolicy",
        env,
        n_steps=128,
        batch_size=256,
        n_epochs=4,
        ent_coef=0.01,
        policy_kwargs={"lstm_hidden_size": 64, "enable_critic_lstm": False, "shared_lstm": True},
        seed=1,
        device="cpu",
        verbose=1,
    )
    # RecurrentPPO itself is unchanged: the callback adds the bonus to the advantages of its rollouts.
    model.learn(steps, callback=IntrinsicRewardCallback("revd"))


if __name__ == "__main__":
    main()
