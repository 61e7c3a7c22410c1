"""Where exported models of earlier versions look for the paper's networks, which are in `revd.training.policies`."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """What a pickle inside such a `model.zip` asks for."""
    return getattr(import_module("revd.training.policies"), name)
