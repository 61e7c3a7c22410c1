"""Models that Stable-Baselines3 saved: zip files with pickles inside, which are read only if the user trusts them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from stable_baselines3.common.save_util import load_from_zip_file

from revd.training.algorithms import algorithm_class
from revd.training.snapshot import Snapshot, policy_snapshot

if TYPE_CHECKING:
    from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
    from stable_baselines3.common.vec_env import VecEnv
    from torch import Tensor


def require_trust(path: Path, *, trust: bool) -> None:
    """Raise a ValueError that says why, unless the user has said to trust a file."""
    if not trust:
        raise ValueError(
            f"{str(path)!r} is no run directory but a file, as Stable-Baselines3 saves models: it holds pickles, and "
            "reading one can execute any code that its writer put there; if you know where it comes from, say --trust"
        )


def read_export(path: Path, statistics: Path, *, trust: bool) -> Snapshot:
    """
    The policy and the optimiser of a saved model; of its pickles, those of tensors only are read.

    `statistics` of VecNormalize belong to it where there is such a file, as a run exports it beside its model.
    """
    require_trust(path, trust=trust)
    _, parameters, _ = load_from_zip_file(path, load_data=False, device="cpu")
    saved: dict[str, Any] = dict(parameters)
    if "policy" not in saved:
        raise ValueError(f"{str(path)!r} holds no policy: it is not a model that Stable-Baselines3 saved")
    return policy_snapshot(saved["policy"], saved.get("policy.optimizer"), _read_statistics(statistics))


def _read_statistics(path: Path) -> dict[str, Tensor]:
    """What a run has saved of its VecNormalize; empty if there is no such file."""
    if not path.exists():
        return {}
    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise ValueError(f"{str(path)!r}, the statistics of the model beside it, cannot be read: {error}") from error


def load_export(algo: str, path: Path, env: VecEnv, *, trust: bool) -> OnPolicyAlgorithm:
    """The whole model, as SB3 itself loads it, to act in `env`. Executes what its pickles say."""
    require_trust(path, trust=trust)
    return algorithm_class(algo).load(path, env=env, device="cpu")
