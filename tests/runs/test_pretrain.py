"""Pre-training on the bonus alone: the policy reaches more of the state space than a random one."""

from pathlib import Path

import numpy as np

from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory
from revd.runs.parameters import Parameters
from revd.runs.train import prepare, train

BINS = 20


def cells_visited(model, env, steps=400):
    """Cells of a grid over MountainCar's positions and velocities that ten copies of the policy enter."""
    low, high = env.observation_space.low, env.observation_space.high
    observations, seen = env.reset(), set()
    for _ in range(steps):
        actions, _ = model.predict(observations, deterministic=False)
        observations, _, _, _ = env.step(actions)
        cells = np.floor((env.get_original_obs() - low) / (high - low) * BINS).astype(int)
        seen |= set(map(tuple, cells))
    return len(seen)


def test_a_pretrained_policy_covers_more_states_than_a_random_one(tmp_path: Path):
    config = TrainConfig(
        task="MountainCar-v0",
        steps=7_680,
        seed=1,
        normalize="observations",
        extrinsic_weight=0.0,
        weight=1.0,
        algo_params=Parameters(n_steps=128),
        output=tmp_path / "pretrained",
    )
    train(config)
    training = prepare(config)
    env = training.model.get_env()
    env.training = False
    random_cells = cells_visited(training.model, env)
    training.restore(RunDirectory(config.directory).checkpoints.newest())
    assert cells_visited(training.model, env) > 1.3 * random_cells
