"""Tensors and JSON in a safetensors file with a checksum. The format holds no code."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from revd.storage.atomic import write_whole

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from torch import Tensor

_KEY = "revd"
_CHECKSUM = "sha256"


def write_tensors(path: str | os.PathLike[str], tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
    """Write tensors and values atomically: after a crash there is the old file or the new one."""
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    text = json.dumps(dict(values), allow_nan=False)
    write_whole(Path(path), save(plain, metadata={_KEY: text, _CHECKSUM: _checksum(plain, text)}))


def read_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a file of `write_tensors`; a ValueError if it is damaged or another kind of file."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    try:
        with safe_open(str(path), framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    # Besides its own error, safetensors passes on torch's errors about invalid headers.
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise ValueError(f"{path} is damaged or not a safetensors file: {error}") from error
    if not {_KEY, _CHECKSUM} <= metadata.keys():
        raise ValueError(f"{path} was not written by revd, or by a version before checksums")
    text = metadata[_KEY]
    if metadata[_CHECKSUM] != _checksum(tensors, text):
        raise ValueError(f"{path} is damaged: its content does not match its checksum")
    try:
        return tensors, dict(json.loads(text))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} was not written by revd: its values are {text[:80]!r}") from error


def _checksum(tensors: Mapping[str, Tensor], text: str) -> str:
    """SHA-256 of the JSON and of each tensor's name, type, shape and bytes, sorted by name."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"\n{name!r} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        # An empty tensor has no bytes, and may have a stride that forbids to view it as bytes.
        if tensor.numel():
            digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
