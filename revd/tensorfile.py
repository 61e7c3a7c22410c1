"""Tensors and JSON in one file, replaced as a whole: a safetensors file, which holds no code."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

_KEY = "revd"


def write_tensors(path: str | os.PathLike[str], tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
    """Write both in one step: a reader, and a crash at any moment, find the old file or the new one."""
    path = Path(path)
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    temporary = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        with temporary.open("wb") as file:
            file.write(save(plain, metadata={_KEY: json.dumps(dict(values), allow_nan=False)}))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def read_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `write_tensors` wrote. A file that is damaged or something else is a ValueError."""
    try:
        with safe_open(os.fspath(path), framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged or no safetensors file: {error}") from error
    try:
        values: dict[str, Any] = dict(json.loads(metadata[_KEY]))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} was not written by revd") from error
    return tensors, values
