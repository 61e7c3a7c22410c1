"""The paper's hyperparameters as data, table by table (Yuan et al., 2022, appendix).

docs/reproduction.md explains the choices where the paper gives no value or contradicts itself.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from revd.envs.tasks import find_task
from revd.names import unknown_name
from revd.runs.config import TrainConfig
from revd.runs.parameters import Parameters

#: Values that the four hyperparameter tables share. The policy's clip range is not given; 0.2 is PPO's default.
_PPO = {
    "learning_rate": 3e-4,
    "gae_lambda": 0.95,
    "vf_coef": 0.5,
    "max_grad_norm": 0.5,
    "clip_range_vf": 0.2,
    "clip_range": 0.2,
    "batch_size": 64,
    "n_epochs": 5,
    "gamma": 0.99,
}
#: SB3's A2C takes one full-batch step, so the tables' batch size and value clipping have no counterpart; the
#: tables' Adam replaces SB3's RMSprop.
_A2C = {
    "learning_rate": 3e-4,
    "gae_lambda": 0.95,
    "ent_coef": 0.01,
    "vf_coef": 0.5,
    "max_grad_norm": 0.5,
    "gamma": 0.99,
    "use_rms_prop": False,
}

#: Tables "Hyperparameters of PPO+REVD / A2C+REVD for Atari / PyBullet experiments", the algorithms' rows.
PAPER_ALGORITHMS: MappingProxyType[tuple[str, str], dict[str, Any]] = MappingProxyType(
    {
        ("atari", "ppo"): {**_PPO, "n_steps": 256, "ent_coef": 0.05},
        ("atari", "a2c"): {**_A2C, "n_steps": 32},
        ("bullet", "ppo"): {**_PPO, "n_steps": 128, "ent_coef": 0.01},
        ("bullet", "a2c"): {**_A2C, "n_steps": 8},
    }
)

#: The same tables' rows about the training as a whole, and the networks of tables "CNN-based" and "MLP-based".
PAPER_TRAINING: MappingProxyType[str, dict[str, Any]] = MappingProxyType(
    {
        "atari": {
            "steps": 10_000_000,
            "n_envs": 10,
            "normalize": "none",
            "network": "paper",
            # The tables have BatchNorm; of the three readings of it, this one learnt best: results/batch-norm.
            "batch_norm": "off",
        },
        "bullet": {"steps": 2_000_000, "n_envs": 10, "normalize": "both", "network": "paper"},
    }
)

_EMBEDDING = {"atari": 128, "bullet": 64}
_NEIGHBORS = {"atari": 5, "bullet": 3}
#: PyTorch's own weights, as in the method authors' published code; the paper says "randomly initialized".
_ENCODER = {"init": "torch"}
#: The equations as they are printed: every copy of a state is a neighbour, and is paid in full.
_LITERAL = {"merge_duplicates": False}

#: The tables' rows about REVD, and the appendix's paragraphs "RE3" and "RIDE".
PAPER_REWARDS: MappingProxyType[tuple[str, str], dict[str, Any]] = MappingProxyType(
    {
        (family, reward): preset
        for family in PAPER_TRAINING
        for reward, preset in {
            "revd": {
                "weight": 0.1,
                "decay": 1e-5,
                "reward_params": {
                    "embedding_size": _EMBEDDING[family],
                    "k": _NEIGHBORS[family],
                    "alpha": 0.5,
                    "eps": 1e-4,
                    **_ENCODER,
                    **_LITERAL,
                },
            },
            "re3": {
                "weight": 0.05,
                "decay": 1e-5,
                "reward_params": {"embedding_size": _EMBEDDING[family], "k": 5, "log": False, **_ENCODER, **_LITERAL},
            },
            "ride": {
                "weight": 0.1,
                "decay": 1e-5,
                "reward_params": {
                    "embedding_size": _EMBEDDING[family],
                    "inverse": False,
                    "learning_rate": 3e-4,
                    **_ENCODER,
                },
            },
            "none": {},
        }.items()
    }
)

PRESETS = ("none", "paper")
#: Fields that a preset may set, besides `algo_params` and `reward_params`, which are merged one by one.
PRESET_FIELDS = frozenset(
    name for preset in (*PAPER_TRAINING.values(), *PAPER_REWARDS.values()) for name in preset if name != "reward_params"
)


def preset_config(preset: str, *, task: str, algo: str, reward: str, **changes: Any) -> TrainConfig:
    """A training with a preset's values, and `changes` over them; parameters are merged one by one."""
    values = preset_fields(preset, family=find_task(task).family, algo=algo, reward=reward)
    merged = {
        name: Parameters({**values.get(name, {}), **changes.get(name, {})}) for name in ("algo_params", "reward_params")
    }
    return TrainConfig(task=task, algo=algo, reward=reward, **{**values, **changes, **merged})


def preset_fields(preset: str, *, family: str | None, algo: str, reward: str) -> dict[str, Any]:
    """The fields of a `TrainConfig` that a preset sets for a task's family, an algorithm and a reward.

    A reward that the paper does not have gets its settings of the training and the algorithm only.
    """
    if preset not in PRESETS:
        raise ValueError(unknown_name("preset", preset, PRESETS))
    if preset == "none":
        return {}
    if family is None or family not in PAPER_TRAINING:
        raise ValueError("preset 'paper' covers the tasks atari/… and bullet/…; `revd tasks` lists them")
    if (family, algo) not in PAPER_ALGORITHMS:
        raise ValueError(f"preset 'paper' covers ppo and a2c, not {algo!r}")
    # Rewards that the paper does not have keep their own defaults, so that they can be compared under its settings.
    own = PAPER_REWARDS.get((family, reward), {})
    return {**PAPER_TRAINING[family], **own, "algo_params": dict(PAPER_ALGORITHMS[family, algo])}
