"""A step of work that a GPU can do again without being told each kernel anew."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor
from torch.distributions import Distribution

T = TypeVar("T")

#: Real calls before the capture: libraries choose their kernels in them and optimisers create their state.
WARM_UPS = 3


class Recorder(Protocol):
    """How work is recorded; a CUDA stream in earnest."""

    def warm_up(self, work: Callable[[], T]) -> T:
        """Do the work where it will be captured."""

    def capture(self, work: Callable[[], T]) -> tuple[Callable[[], None], T]:
        """Record the work without doing it: what does it, and its results, which every replay overwrites."""


@dataclass(frozen=True)
class _Captured(Generic[T]):
    inputs: tuple[Tensor, ...]
    replay: Callable[[], None]
    result: T
    fingerprint: Hashable


class Replayable(Generic[T]):
    """A function of tensors that is captured once it is warm, and from then on replayed.

    Without a recorder it is the function itself. With one, each combination of shapes has its own capture, inputs are
    copied to where the capture reads them, and results are valid until the next call. Warming up is no dry run: the
    first calls do their work eagerly, so nothing has to be undone.

    Args:
        name: What it is, for the warning that it could not be captured.
        function: The work. It must not wait for the GPU.
        recorder: None for no capturing.
        fingerprint: Equal as long as a capture may be replayed: addresses of the tensors that the function reads
            besides its inputs, and its constants.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., T],
        recorder: Recorder | None,
        fingerprint: Callable[[], Hashable],
    ) -> None:
        self._name = name
        self._function = function
        self._recorder = recorder
        self._fingerprint = fingerprint
        self._calls: dict[Hashable, int] = {}
        self._captured: dict[Hashable, _Captured[T]] = {}

    def renew(self) -> None:
        """Forget captures that would read or write what is no longer in use; call it before a series of calls.

        What is forgotten warms up again: an optimiser may have lost its state, which must not be created in a capture.
        """
        if not self._captured:
            return
        current = self._fingerprint()
        for key in [key for key, kept in self._captured.items() if kept.fingerprint != current]:
            del self._captured[key], self._calls[key]

    def __call__(self, *inputs: Tensor) -> T:
        """Do the work."""
        if self._recorder is None:
            return self._function(*inputs)
        key = tuple((tensor.shape, tensor.stride(), tensor.dtype) for tensor in inputs)
        if key not in self._captured:
            calls = self._calls[key] = self._calls.get(key, 0) + 1
            if calls <= WARM_UPS:
                return self._recorder.warm_up(lambda: self._function(*_copies(inputs)))
            try:
                self._captured[key] = self._capture(self._recorder, inputs)
            except RuntimeError as error:
                return self._without_recorder(error, inputs)
        captured = self._captured[key]
        for static, given in zip(captured.inputs, inputs, strict=True):
            static.copy_(given)
        captured.replay()
        return captured.result

    def _capture(self, recorder: Recorder, inputs: tuple[Tensor, ...]) -> _Captured[T]:
        static = _copies(inputs)
        replay, result = recorder.capture(lambda: self._function(*static))
        return _Captured(static, replay, result, self._fingerprint())

    def _without_recorder(self, error: RuntimeError, inputs: tuple[Tensor, ...]) -> T:
        self._recorder = None
        warnings.warn(f"{self._name} runs without a CUDA graph, for it could not be captured: {error}", stacklevel=4)
        return self._function(*inputs)


def _copies(inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Inputs as captures read them, and warm-ups too.

    Memory of their own is aligned, a view of other memory need not be, and Triton compiles a kernel for either: what is
    compiled or loaded during a capture ends it.
    """
    return tuple(torch.empty_like(tensor).copy_(tensor) for tensor in inputs)


class CudaRecorder:
    """Records CUDA graphs on a stream of its own."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)
        # The thread in which torch computes gradients warns if a matrix product is the first thing it does on a GPU.
        torch.zeros((), device=device, requires_grad=True).neg().backward()

    def warm_up(self, work: Callable[[], T]) -> T:
        """Do the work on the side stream: autograd remembers the stream on which it first saw a parameter."""
        caller = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(caller)
        with torch.cuda.stream(self._stream), unvalidated_distributions():
            result = work()
        caller.wait_stream(self._stream)
        return result

    def capture(self, work: Callable[[], T]) -> tuple[Callable[[], None], T]:
        """Capture a graph; torch registers its default generator with it, so that replays draw new numbers."""
        graph = torch.cuda.CUDAGraph()
        # Other threads, of an environment or a logger, may use the GPU meanwhile.
        capturing = torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local")
        with unvalidated_distributions(), without_garbage_collection(), capturing:
            result = work()
        return graph.replay, result


@contextmanager
def unvalidated_distributions() -> Iterator[None]:
    """Let torch's distributions not look at their parameters, for which they would wait for the GPU."""
    before = Distribution._validate_args
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(before)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Let nothing be freed that happens to be garbage: a model's old graphs, freed now, would end a capture."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def addresses(*tensors: Tensor) -> tuple[int, ...]:
    """Where tensors lie, as part of a fingerprint."""
    return tuple(tensor.data_ptr() for tensor in tensors)
