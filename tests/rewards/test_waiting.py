"""How often the host would wait for a GPU: each time it asks for a number that the GPU has yet to compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

import revd
from revd.functional import neighbors
from tests.support.rollouts import DISCRETE

IMAGE = spaces.Box(0, 255, (1, 36, 36), np.uint8)
#: Are the actions valid; are embeddings small enough; how many states are remembered; is the bonus finite; and all
#: metrics at once.
EXPECTED_WAITS = 5
READS = {"__bool__", "__int__", "__float__", "__index__", "item", "tolist", "nonzero", "cpu", "numpy"}
INDEXING = {"__getitem__", "__setitem__"}


class Waits(TorchFunctionMode):
    """Notes what is read of tensors that would lie on a GPU: those given, and all that is computed from them."""

    def __init__(self, on_device: Any) -> None:
        super().__init__()
        self.reads: list[str] = []
        self._on_device: dict[int, Tensor] = {}
        self.put_on_device(on_device)

    def put_on_device(self, values: Any) -> None:
        for tensor in tree_leaves(values):
            if isinstance(tensor, Tensor) and tensor.numel():
                # Kept, so that no other tensor gets their memory.
                self._on_device[tensor.untyped_storage().data_ptr()] = tensor

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        involved = any(self._is_on_device(tensor) for tensor in tensors)
        if involved and self._is_read(func.__name__, tensors):
            self.reads.append(func.__name__)
        result = func(*args, **(kwargs or {}))
        if involved:
            self.put_on_device(tensors[0] if func.__name__ == "__setitem__" else result)
        return result

    def _is_on_device(self, tensor: Tensor) -> bool:
        return tensor.untyped_storage().data_ptr() in self._on_device

    @staticmethod
    def _is_read(name: str, tensors: list[Tensor]) -> bool:
        by_mask = name in INDEXING and any(tensor.dtype == torch.bool for tensor in tensors[1:])
        return name in READS or by_mask


def waits(reward: revd.IntrinsicReward, rollout: revd.Rollout, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    on_device = (rollout.observations, rollout.actions, rollout.next_observations, reward.state_dict())
    mode, search = Waits(on_device), neighbors.search

    def unseen(*arguments: Any) -> Any:
        # On a GPU the search waits for nothing (revd/functional/fused.py), on a CPU it is another.
        with torch._C.DisableTorchFunction():
            found = search(*arguments)
        mode.put_on_device(found)
        return found

    with mode, monkeypatch.context() as patched:
        patched.setattr(neighbors, "search", unseen)
        reward.compute(rollout)
    return mode.reads


def make_images(seed: int) -> revd.Rollout:
    rng = np.random.default_rng(seed)
    frames = rng.integers(0, 256, (13, 2, *IMAGE.shape)).astype(np.uint8)
    return revd.Rollout(
        observations=frames[:-1].copy(),
        actions=rng.integers(0, 4, (12, 2)),
        next_observations=frames[1:].copy(),
        dones=rng.random((12, 2)) < 0.2,
    )


def test_revd_waits_for_a_gpu_to_check_what_it_is_given_and_to_report_but_not_to_pay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reward = revd.make_reward("revd", IMAGE, DISCRETE, n_envs=2, k=3, embedding_size=4)
    for seed in range(3):
        reads = waits(reward, make_images(seed), monkeypatch)
    assert reward.metrics()["unpaid"] == 0
    assert 0 < len(reads) <= EXPECTED_WAITS, reads


def test_a_number_that_depends_on_the_device_is_waited_for() -> None:
    far, near = torch.ones(3), torch.arange(3)
    with Waits([far]) as mode:
        assert near.tolist() == [0, 1, 2]
        assert near[near > 0].sum() == 3
        kept = torch.zeros(3)
        kept[near] = far * 2
        assert mode.reads == []
        float(kept.sum())
        kept[kept > 1]
    assert mode.reads == ["__float__", "__getitem__"]
