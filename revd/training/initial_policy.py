"""The policy that a training starts from: another training's, or one in a model that SB3 saved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from stable_baselines3.common.save_util import load_from_zip_file

from revd.training.algorithms import algorithm_class
from revd.training.snapshot import (
    Snapshot,
    load_normalization_state,
    load_optimizer_state,
    normalization_state,
    policy_snapshot,
    without_prefix,
)

if TYPE_CHECKING:
    from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
    from stable_baselines3.common.vec_env import VecEnv
    from torch import Tensor

#: What the names of the value function's own parameters start with in SB3's policies.
_VALUE_PARAMETERS = ("value_net.", "mlp_extractor.value_net.", "lstm_critic.", "critic.")


def load_policy(snapshot: Snapshot, model: OnPolicyAlgorithm, *, value: bool, optimizer: bool) -> None:
    """Start from another training's policy and its statistics of observations.

    Args:
        snapshot: Of a training with the same spaces and networks.
        model: A fresh model.
        value: Take the value network too; it predicts the returns of the other training's reward.
        optimizer: Take the optimiser's state too.
    """
    policy = without_prefix("policy", snapshot[0])
    fresh = {name: tensor.clone() for name, tensor in model.policy.state_dict().items()}
    if {name: tensor.shape for name, tensor in policy.items()} != {name: t.shape for name, t in fresh.items()}:
        raise ValueError("init_from holds a policy of other networks, or for other observations or actions")
    shared = model.policy.share_features_extractor
    taken = {name: tensor for name, tensor in policy.items() if value or not _is_value(name, shared=shared)}
    model.policy.load_state_dict({**fresh, **taken})
    if optimizer:
        load_optimizer_state(model.policy.optimizer, snapshot)
    _load_observation_statistics(snapshot, model)


def _load_observation_statistics(snapshot: Snapshot, model: OnPolicyAlgorithm) -> None:
    env = model.get_env()
    assert env is not None
    current, saved = normalization_state(env), without_prefix("normalization", snapshot[0])
    statistics = {name: tensor for name, tensor in saved.items() if name.startswith("observations")}
    needed = {name for name in current if name.startswith("observations")}
    if statistics.keys() != needed:
        raise ValueError(_normalization_mismatch(has_statistics=bool(statistics), needs_statistics=bool(needed)))
    load_normalization_state(env, {**current, **statistics})


def _normalization_mismatch(*, has_statistics: bool, needs_statistics: bool) -> str:
    """The message for two trainings whose observations are not normalised alike."""
    if has_statistics and not needs_statistics:
        return "init_from was trained on normalised observations; use normalize 'observations' or 'both'"
    if needs_statistics and not has_statistics:
        return (
            "init_from has no statistics of normalised observations, which this training needs: use normalize 'none' "
            "or 'rewards', or name the run's directory; those of a model.zip lie beside it in normalization.safetensors"
        )
    return "init_from was trained with other observations normalised than this training's; use the same task"


def _is_value(name: str, *, shared: bool) -> bool:
    """Whether a parameter of SB3's policies belongs to the value function only.

    A shared features extractor has three names in the policy's state, one of them that of the value function.
    """
    return name.startswith(_VALUE_PARAMETERS) or (not shared and name.startswith("vf_features_extractor."))


def require_trust(path: Path, *, trust: bool) -> None:
    """Raise a ValueError that explains the danger, unless the user trusts the file."""
    if not trust:
        raise ValueError(
            f"{str(path)!r} is not a run directory but a file, as Stable-Baselines3 saves models: it holds pickles, "
            "and reading one can execute any code that its writer put there; if you trust its source, add --trust"
        )


def read_saved_policy(path: Path, statistics: Path, *, trust: bool) -> Snapshot:
    """Read policy and optimiser of a saved model; of its pickles, only those of tensors are read.

    Args:
        path: The model's zip file.
        statistics: The statistics of VecNormalize that a run exports beside its model; the file may be missing.
        trust: Whether the user trusts the file.
    """
    require_trust(path, trust=trust)
    _, parameters, _ = load_from_zip_file(path, load_data=False, device="cpu")
    saved: dict[str, Any] = dict(parameters)
    if "policy" not in saved:
        raise ValueError(f"{str(path)!r} holds no policy: it is not a model that Stable-Baselines3 saved")
    return policy_snapshot(saved, _read_statistics(statistics))


def _read_statistics(path: Path) -> dict[str, Tensor]:
    """Read the saved statistics of VecNormalize; empty if there is no such file."""
    if not path.exists():
        return {}
    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise ValueError(f"{str(path)!r}, the statistics of the model beside it, cannot be read: {error}") from error


def load_saved_model(algo: str, path: Path, env: VecEnv, *, trust: bool) -> OnPolicyAlgorithm:
    """Load a whole model as SB3 does, to act in `env`. This executes the code in its pickles."""
    require_trust(path, trust=trust)
    return algorithm_class(algo).load(path, env=env, device="cpu")
