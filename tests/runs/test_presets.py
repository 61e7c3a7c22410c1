"""Every number of the paper's four hyperparameter tables, typed here a second time from the paper."""

import pytest

from revd.runs.config import TrainConfig
from revd.runs.presets import preset_config, preset_fields
from revd.runs.train import prepare, resolve
from tests.support.bullet import needs_pybullet

# Rows of "Hyperparameters of PPO+REVD / A2C+REVD for Atari / PyBullet experiments", in the paper's own words.
TABLES = {
    ("atari", "ppo"): {
        "Environment steps": 10_000_000, "Number of workers": 10, "Episode steps": 256, "Optimizer": "Adam",
        "Learning rate": 0.0003, "GAE coefficient": 0.95, "Action entropy coefficient": 0.05,
        "Value loss coefficient": 0.5, "Max gradient norm": 0.5, "Value clipping coefficient": 0.2, "Batch size": 64,
        "Update epochs": 5, "Gamma": 0.99,
        "Embedding size": 128, "k": 5, "alpha": 0.5, "lambda_0": 0.1, "kappa": 0.00001, "epsilon": 0.0001,
    },
    ("atari", "a2c"): {
        "Environment steps": 10_000_000, "Number of workers": 10, "Episode steps": 32, "Optimizer": "Adam",
        "Learning rate": 0.0003, "GAE coefficient": 0.95, "Action entropy coefficient": 0.01,
        "Value loss coefficient": 0.5, "Max gradient norm": 0.5, "Gamma": 0.99,
        "Embedding size": 128, "k": 5, "alpha": 0.5, "lambda_0": 0.1, "kappa": 0.00001, "epsilon": 0.0001,
    },
    ("bullet", "ppo"): {
        "Environment steps": 2_000_000, "Number of workers": 10, "Episode steps": 128, "Optimizer": "Adam",
        "Learning rate": 0.0003, "GAE coefficient": 0.95, "Action entropy coefficient": 0.01,
        "Value loss coefficient": 0.5, "Max gradient norm": 0.5, "Value clipping coefficient": 0.2, "Batch size": 64,
        "Update epochs": 5, "Gamma": 0.99,
        "Embedding size": 64, "k": 3, "alpha": 0.5, "lambda_0": 0.1, "kappa": 0.00001, "epsilon": 0.0001,
    },
    ("bullet", "a2c"): {
        "Environment steps": 2_000_000, "Number of workers": 10, "Episode steps": 8, "Optimizer": "Adam",
        "Learning rate": 0.0003, "GAE coefficient": 0.95, "Action entropy coefficient": 0.01,
        "Value loss coefficient": 0.5, "Max gradient norm": 0.5, "Gamma": 0.99,
        "Embedding size": 64, "k": 3, "alpha": 0.5, "lambda_0": 0.1, "kappa": 0.00001, "epsilon": 0.0001,
    },
}  # fmt: skip
ROWS = {
    "Environment steps": ("config", "steps"),
    "Number of workers": ("config", "n_envs"),
    "lambda_0": ("config", "weight"),
    "kappa": ("config", "decay"),
    "Episode steps": ("model", "n_steps"),
    "Learning rate": ("model", "learning_rate"),
    "GAE coefficient": ("model", "gae_lambda"),
    "Action entropy coefficient": ("model", "ent_coef"),
    "Value loss coefficient": ("model", "vf_coef"),
    "Max gradient norm": ("model", "max_grad_norm"),
    "Batch size": ("model", "batch_size"),
    "Update epochs": ("model", "n_epochs"),
    "Gamma": ("model", "gamma"),
    "Embedding size": ("reward", "embedding_size"),
    "k": ("reward", "k"),
    "alpha": ("reward", "alpha"),
    "epsilon": ("reward", "eps"),
}
GAMES = {"atari": "atari/assault", "bullet": "bullet/hopper"}


@pytest.mark.parametrize(
    ("family", "algo"),
    [pytest.param(*key, marks=needs_pybullet if key[0] == "bullet" else ()) for key in TABLES],
)
def test_what_is_built_is_the_papers_table(family, algo):
    config = preset_config("paper", task=GAMES[family], algo=algo, reward="revd")
    training = prepare(config)
    holders = {"config": config, "model": training.model, "reward": training.intrinsic.reward.config}
    for row, value in TABLES[family, algo].items():
        if row == "Optimizer":
            assert type(training.model.policy.optimizer).__name__ == value
        elif row == "Value clipping coefficient":
            assert training.model.clip_range_vf(1.0) == value
        else:
            holder, name = ROWS[row]
            assert getattr(holders[holder], name) == value, row
    assert holders["reward"].merge_duplicates is False, "the equation as it is printed"
    assert holders["reward"].init == "torch"
    if family == "atari":
        assert training.model.observation_space.shape == (4, 84, 84), "stacked and small frames"
    training.close()


@pytest.mark.parametrize(("family", "size"), [("atari", 128), ("bullet", 64)])
def test_the_other_rewards_of_the_appendix(family, size):
    re3 = preset_fields("paper", family=family, algo="ppo", reward="re3")
    assert (re3["weight"], re3["decay"]) == (0.05, 1e-5)
    assert re3["reward_params"] == {
        "embedding_size": size,
        "k": 5,
        "log": False,
        "init": "torch",
        "merge_duplicates": False,
    }
    ride = preset_fields("paper", family=family, algo="ppo", reward="ride")
    assert (ride["weight"], ride["decay"]) == (0.1, 1e-5)
    assert ride["reward_params"] == {"embedding_size": size, "inverse": False, "learning_rate": 3e-4, "init": "torch"}


def test_decisions_where_the_paper_is_silent():
    bullet = preset_config("paper", task="bullet/hopper", algo="ppo", reward="none")
    assert (bullet.normalize, bullet.algo_params["clip_range"]) == ("both", 0.2)
    assert preset_config("paper", task="atari/assault", algo="ppo", reward="none").normalize == "none"


def test_single_parameters_go_over_the_presets():
    config = preset_config("paper", task="bullet/hopper", algo="ppo", reward="revd", algo_params={"n_steps": 64})
    assert (config.algo_params["n_steps"], config.algo_params["batch_size"]) == (64, 64)
    assert config.reward_params["k"] == 3


def test_the_resolved_networks_are_named():
    training = prepare(preset_config("paper", task="atari/assault", algo="a2c", reward="none"))
    config = preset_config("paper", task="atari/assault", algo="a2c", reward="none")
    assert resolve(config, training)["algo_params"]["policy"] == "PaperCnnPolicy"
    training.close()


@pytest.mark.parametrize("reward", ["revd+re3", "mypkg.rewards:Mine"])
def test_other_rewards_get_the_papers_training_and_their_own_defaults(reward):
    papers, other = (preset_config("paper", task="bullet/hopper", algo="ppo", reward=name) for name in ("revd", reward))
    assert (other.steps, other.normalize, other.algo_params) == (papers.steps, papers.normalize, papers.algo_params)
    assert other.reward_params == {}
    assert other.weight == TrainConfig(task="CartPole-v1").weight


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"preset": "papr"}, "did you mean 'paper'"),
        ({"task": "CartPole-v1"}, "atari/… and bullet/…"),
        ({"task": "minigrid/door-key-8x8"}, "atari/… and bullet/…"),
        ({"algo": "trpo"}, "ppo and a2c"),
    ],
)
def test_what_the_preset_does_not_cover(changes, message):
    asked = {"preset": "paper", "task": "bullet/hopper", "algo": "ppo", "reward": "revd", **changes}
    with pytest.raises(ValueError, match=message):
        preset_config(asked.pop("preset"), **asked)
