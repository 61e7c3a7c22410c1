"""Compatibility with models that earlier versions saved: the module path of the paper's networks in their pickles."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """Return a class that is now in `revd.training.policies`."""
    return getattr(import_module("revd.training.policies"), name)
