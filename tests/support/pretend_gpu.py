"""The rules of a GPU where there is none: what lies on it, what may meet, and what the host has to wait for.

Everything is computed on the CPU, but torch says of tensors that they are on "cuda" where they would be, refuses to
compute with tensors of both sides, and counts the waits of the host. Kernels of Triton run in its interpreter.

It looks at what torch is asked for in Python. Streams and graphs are not acted out, and backward passes are not seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from revd.functional.search.triton_support import triton_works

CUDA = torch.device("cuda", 0)
CPU = torch.device("cpu")
#: Calls that read numbers, or count them.
ASKING = {"__bool__", "__float__", "__int__", "__index__", "__contains__", "__format__", "__repr__", "item", "tolist"}
ASKING |= {"equal", "allclose", "nonzero", "argwhere", "masked_select", "unique", "bincount", "repeat_interleave"}
#: Calls that do not accept even single numbers of the host, as others do.
STRICT = {"stack", "cat", "gather", "index_select", "index_copy_", "scatter_", "embedding"}
#: Calls that may use tensors of both sides.
MOVING = {"copy_", "tensor", "as_tensor", "__set__", "_has_compatible_shallow_copy_type"}


class MixedError(RuntimeError):
    """An operation that would fail on a GPU."""


class PretendGpu(TorchFunctionMode):
    """Within `present` there is a GPU; `waits` holds the names of what the host has waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[str] = []
        #: The state of its random generator, which is saved and restored; numbers are drawn from the CPU's.
        self.generator = torch.arange(16, dtype=torch.uint8)
        # By their addresses, which stay taken as long as they are kept here.
        self._memory: dict[int, torch.UntypedStorage] = {}

    @contextmanager
    def present(self) -> Iterator[PretendGpu]:
        """Let torch, Stable-Baselines3 and Triton find it."""
        stream = SimpleNamespace(wait_stream=lambda other: None, synchronize=lambda: self.waits.append("synchronize"))
        fakes = {
            "is_available": lambda: True,
            "device_count": lambda: 1,
            "get_rng_state_all": lambda: [self.generator],
            "set_rng_state": lambda state, device: setattr(self, "generator", state),
            "get_device_capability": lambda device=None: (9, 0),
            "device": lambda device: nullcontext(),
            "Stream": lambda device=None: stream,
            "current_stream": lambda device=None: stream,
            "stream": lambda stream: nullcontext(),
        }
        # torch looks at the type of a stream before it asks us, and at the devices of gradients without asking.
        unrecorded = patch.object(Tensor, "record_stream", lambda tensor, stream: None)
        # Optimizers ask for it in a torch that is built with CUDA, and then for a driver.
        unaccelerated = patch.object(torch.accelerator, "current_accelerator", lambda check_available=False: None)
        grouped = patch.object(torch._C, "_group_tensors_by_device_and_dtype", self._grouped)
        triton_works.cache_clear()
        try:
            with patch.multiple(torch.cuda, **fakes), unrecorded, unaccelerated, grouped, _checked_launches(self), self:
                yield self
        finally:
            triton_works.cache_clear()

    @contextmanager
    def without_waiting(self) -> Iterator[None]:
        """Let waits be errors."""
        before = len(self.waits)
        yield
        assert self.waits[before:] == [], f"the host has waited: {self.waits[before:]}"

    def holds(self, tensor: Tensor) -> bool:
        """Whether a tensor is on the GPU."""
        return tensor.untyped_storage()._cdata in self._memory

    def check_launch(self, arguments: Iterable[Any]) -> None:
        """A kernel cannot read the host's memory."""
        if not all(map(self.holds, _tensors(list(arguments)))):
            raise MixedError("a kernel was given tensors of the host")

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Called for every function of torch in Python."""
        kwargs = dict(kwargs or {})
        name = function.__name__
        if name == "__get__":
            return self._attribute(function, *args)
        if name == "to":
            return self._moved(*args, **kwargs)
        if name in ("cpu", "cuda"):
            return self._moved(args[0], CPU if name == "cpu" else CUDA)
        if name == "__deepcopy__":
            # Its second argument holds all that was copied before.
            return self._beside(args[0], function(*args))
        return self._called(function, name, args, kwargs)

    def _called(self, function: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        kwargs.pop("pin_memory", None)
        asked = kwargs.pop("device", None)
        given = _tensors((args, kwargs))
        self._check(name, args, kwargs, given)
        on_gpu = any(map(self.holds, given)) if asked is None else torch.device(asked).type == "cuda"
        if on_gpu and kwargs.get("generator") is not None:
            raise MixedError(f"{name} on the GPU was given a generator of the host")
        if name in ("tensor", "as_tensor"):
            return self._converted(function, args, kwargs, asked)
        if asked is not None:
            kwargs["device"] = CPU if on_gpu else asked
        result = function(*args, **kwargs)
        # What was changed in place is given back, and stays where it is.
        known = {tensor.untyped_storage()._cdata for tensor in given}
        for tensor in _tensors(result) if on_gpu else ():
            if tensor.untyped_storage()._cdata not in known:
                self._put(tensor)
        return result

    def _converted(self, function: Any, args: Any, kwargs: dict[str, Any], asked: Any) -> Any:
        """A tensor of one, or of numbers, each of which is asked for if it is the GPU's."""
        result = function(*args, **kwargs)
        if isinstance(args[0], Tensor):
            result = self._beside(args[0], result)
        else:
            self.waits += ["tensor"] * sum(map(self.holds, _tensors(args[0])))
        return result if asked is None else self._moved(result, asked)

    def _grouped(self, lists: Any, with_indices: bool, group: Any = torch._C._group_tensors_by_device_and_dtype) -> Any:
        found = group(lists, with_indices)
        on_gpu = any(map(self.holds, _tensors(lists)))
        return {(CUDA if on_gpu else device, dtype): parts for (device, dtype), parts in found.items()}

    def _attribute(self, getter: Any, tensor: Tensor) -> Any:
        # `is_cuda` is left alone: by it our kernels tell a GPU from the interpreter.
        if getter == Tensor.device.__get__ and self.holds(tensor):  # type: ignore[attr-defined]
            return CUDA
        found = getter(tensor)
        return self._beside(tensor, found) if isinstance(found, Tensor) else found

    def _moved(self, tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """`Tensor.to`, which copies what goes to the other side."""
        target, rest = CUDA if self.holds(tensor) else CPU, []
        for argument in (*args, kwargs.pop("device", None)):
            if isinstance(argument, str | torch.device):
                target = torch.device(argument)
            elif isinstance(argument, Tensor):
                target = CUDA if self.holds(argument) else CPU
                rest.append(argument.dtype)
            elif isinstance(argument, bool):
                kwargs.setdefault("non_blocking", argument)
            elif argument is not None:
                rest.append(argument)
        moves = (target.type == "cuda") != self.holds(tensor)
        if moves and not kwargs.get("non_blocking"):
            self.waits.append("to")
        moved = tensor.to(*rest, **kwargs, **({"device": target} if target.type == "meta" else {}))
        if moves and moved.untyped_storage()._cdata == tensor.untyped_storage()._cdata:
            moved = moved.clone()
        return self._put(moved) if target.type == "cuda" else moved

    def _put(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        self._memory[storage._cdata] = storage
        return tensor

    def _beside(self, tensor: Tensor, other: Tensor) -> Tensor:
        """The other, where the tensor is."""
        return self._put(other) if self.holds(tensor) else other

    def _check(self, name: str, args: Any, kwargs: dict[str, Any], given: list[Tensor]) -> None:
        here = [tensor for tensor in given if not self.holds(tensor)]
        if len(here) == len(given):
            return
        if name in ("numpy", "__array__"):
            raise TypeError("can't convert a tensor on a GPU to numpy")
        if name in ASKING or (name == "where" and len(args) == 1):
            self.waits.append(name)
        if name in ("__getitem__", "__setitem__"):
            self._check_index(name, *args)
        elif name == "copy_" and here and not (kwargs.get("non_blocking") or True in args[2:]):
            self.waits.append(name)
        elif name not in MOVING and any(tensor.ndim > 0 or name in STRICT for tensor in here):
            raise MixedError(f"{name} was given tensors of the GPU and of the host")
        elif name not in MOVING and any(tensor is target for target in _changed(name, args, kwargs) for tensor in here):
            raise MixedError(f"{name} would write what the GPU has computed to the host")

    def _check_index(self, name: str, target: Tensor, index: Any, value: Any = None) -> None:
        parts = index if isinstance(index, tuple) else (index,)
        indices = _tensors(parts)
        if not self.holds(target) and any(map(self.holds, indices)):
            raise MixedError(f"{name} of the host was given indices of the GPU")
        # The True of a mask are counted, unless all become one number; single indices are asked for; those of the host
        # are sent.
        filled = name == "__setitem__" and not isinstance(value, Tensor)
        if any((part.dtype == torch.bool and not filled) or part.ndim == 0 or not self.holds(part) for part in indices):
            self.waits.append(name)
        if any(isinstance(part, list | np.ndarray) for part in parts):
            self.waits.append(name)
        if isinstance(value, Tensor) and value.ndim > 0 and self.holds(value) != self.holds(target):
            if indices:
                raise MixedError(f"{name} was given a value from the other side")
            self.waits.append(name)


def _changed(name: str, args: Any, kwargs: dict[str, Any]) -> list[Any]:
    """The tensors that a function writes to, if they are given."""
    in_place = (name.endswith("_") and not name.endswith("__")) or (name.startswith("__i") and name != "__index__")
    return [*args[: int(in_place)], kwargs.get("out")]


def _tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


@contextmanager
def _checked_launches(gpu: PretendGpu) -> Iterator[None]:
    """Check the arguments of kernels, and check nothing while the interpreter runs them."""
    from triton.runtime.interpreter import GridExecutor

    run = GridExecutor.__call__

    def launch(executor: Any, *args: Any, **kwargs: Any) -> None:
        with torch._C.DisableTorchFunction():
            gpu.check_launch([*args, *kwargs.values()])
            run(executor, *args, **kwargs)

    with patch.object(GridExecutor, "__call__", launch):
        yield
