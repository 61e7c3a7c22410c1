"""RLlib: PPO of the new API stack with REVD on MountainCar.

Run it, from the root of the repository::

    pip install ".[rllib]"
    python examples/rllib_ppo.py

It takes about 65 seconds on one core. Look at `return`: an episode that never reaches the flag returns -200, and with
this seed the mean leaves -200 after 56,000 steps. `share` is the bonus's part of what the policy learns from, about 0.1
on average.
"""

import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.connectors.env_to_module import MeanStdFilter
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

import revd

ENVS, STEPS = 10, 200  # in each batch


def main(steps: int = 80_000) -> None:
    """Train, and print a line for each batch."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    config = (
        PPOConfig()
        .environment("MountainCar-v0")
        # Environments in this process; with num_env_runners=2 there are two processes of ENVS environments each.
        .env_runners(
            num_env_runners=0,
            num_envs_per_env_runner=ENVS,
            env_to_module_connector=lambda env=None, spaces=None, device=None: MeanStdFilter(),
        )
        .training(
            train_batch_size_per_learner=ENVS * STEPS,
            minibatch_size=64,
            num_epochs=10,
            lr=3e-4,
            vf_clip_param=float("inf"),  # RLlib's default of 10 is small beside returns of -100
            use_kl_loss=False,
        )
        .rl_module(
            model_config=DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="tanh", vf_share_layers=False)
        )
        .debugging(seed=1, log_level="ERROR")
    )
    config = revd.rllib.with_intrinsic_reward(config, "revd")
    algorithm = config.build_algo()
    batches = -(-steps // (ENVS * STEPS))
    for batch in range(1, batches + 1):
        results = algorithm.train()
        mean = results["env_runners"]["episode_return_mean"]
        share = results["learners"]["default_policy"]["exploration"]["bonus_share"]
        print(f"{batch * ENVS * STEPS:,} steps: return {mean:.1f}, share {share:.2f}")
    algorithm.stop()
    ray.shutdown()


if __name__ == "__main__":
    main()
