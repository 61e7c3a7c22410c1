"""One training with Stable-Baselines3: algorithm, policy, environments, evaluation, snapshots, timing."""
