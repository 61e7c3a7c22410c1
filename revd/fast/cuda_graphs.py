"""Functions that are captured as CUDA graphs and replayed, which saves launching each kernel."""

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

#: Eager calls before the capture, in which libraries choose their kernels and optimisers create their state.
WARM_UPS = 3


class GraphRecorder(Protocol):
    """How a function is captured; `CudaGraphRecorder`, or a substitute in tests."""

    def warm_up(self, function: Callable[[], T]) -> T:
        """Run the function on the stream on which it will be captured."""

    def capture(self, function: Callable[[], T]) -> tuple[Callable[[], None], T]:
        """Capture the function without running it.

        Returns:
            A function that replays the capture, and the result, which each replay overwrites.
        """


@dataclass(frozen=True)
class _Capture(Generic[T]):
    inputs: tuple[Tensor, ...]
    replay: Callable[[], None]
    result: T
    fingerprint: Hashable


class GraphedFunction(Generic[T]):
    """A function of tensors that is captured after a few calls and replayed from then on.

    Without a recorder it is the function itself. With one, each combination of shapes has its own capture, inputs are
    copied to where the capture reads them, and results are valid until the next call. The first calls run eagerly and
    count: warming up repeats nothing and undoes nothing.

    Args:
        name: Names the function in the warning that it could not be captured.
        function: The function. It must not wait for the GPU.
        recorder: None to capture nothing.
        fingerprint: Returns the addresses of all tensors that the function reads besides its inputs, and its
            constants. A capture is stale once this value has changed.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., T],
        recorder: GraphRecorder | None,
        fingerprint: Callable[[], Hashable],
    ) -> None:
        self._name = name
        self._function = function
        self._recorder = recorder
        self._fingerprint = fingerprint
        self._calls: dict[Hashable, int] = {}
        self._captured: dict[Hashable, _Capture[T]] = {}

    def drop_stale_captures(self) -> None:
        """Drop captures that use tensors no longer in use; call it before a series of calls.

        Dropped captures warm up again: an optimiser may have lost its state, which must not be created in a capture.
        """
        if not self._captured:
            return
        current = self._fingerprint()
        for key in [key for key, capture in self._captured.items() if capture.fingerprint != current]:
            del self._captured[key], self._calls[key]

    def __call__(self, *inputs: Tensor) -> T:
        """Call the function, eagerly or as a replay."""
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
                return self._stop_capturing(error, inputs)
        capture = self._captured[key]
        for static, value in zip(capture.inputs, inputs, strict=True):
            static.copy_(value)
        capture.replay()
        return capture.result

    def _capture(self, recorder: GraphRecorder, inputs: tuple[Tensor, ...]) -> _Capture[T]:
        static = _copies(inputs)
        replay, result = recorder.capture(lambda: self._function(*static))
        return _Capture(static, replay, result, self._fingerprint())

    def _stop_capturing(self, error: RuntimeError, inputs: tuple[Tensor, ...]) -> T:
        self._recorder = None
        warnings.warn(
            f"{self._name} runs without a CUDA graph, because it could not be captured: {error}", stacklevel=4
        )
        return self._function(*inputs)


def _copies(inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Copy the inputs of a capture or a warm-up call.

    A copy's memory is aligned, that of a view may not be, and Triton compiles a different kernel for each. Compiling or
    loading a kernel during a capture makes the capture fail.
    """
    return tuple(torch.empty_like(tensor).copy_(tensor) for tensor in inputs)


class CudaGraphRecorder:
    """Captures CUDA graphs on its own stream."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)
        # torch's autograd thread warns if a matrix product is its first operation on a GPU.
        torch.zeros((), device=device, requires_grad=True).neg().backward()

    def warm_up(self, function: Callable[[], T]) -> T:
        """Run on the stream of the captures: autograd remembers the stream on which it first used a parameter."""
        caller = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(caller)
        with torch.cuda.stream(self._stream), unvalidated_distributions():
            result = function()
        caller.wait_stream(self._stream)
        return result

    def capture(self, function: Callable[[], T]) -> tuple[Callable[[], None], T]:
        """Capture a graph; torch registers its default generator with it, so replays draw new random numbers."""
        graph = torch.cuda.CUDAGraph()
        # Lets other threads, of an environment or a logger, use the GPU at the same time.
        capturing = torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local")
        with unvalidated_distributions(), without_garbage_collection(), capturing:
            result = function()
        return graph.replay, result


@contextmanager
def unvalidated_distributions() -> Iterator[None]:
    """Keep torch's distributions from validating their parameters, which would wait for the GPU."""
    before = Distribution._validate_args
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(before)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Pause garbage collection: freeing the old graphs of another model would make a capture fail."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def addresses(*tensors: Tensor) -> tuple[int, ...]:
    """Return the memory addresses of tensors, for a fingerprint."""
    return tuple(tensor.data_ptr() for tensor in tensors)
