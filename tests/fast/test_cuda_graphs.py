"""When work is captured, replayed, and captured anew."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, Distribution

from revd.fast.cuda_graphs import (
    WARM_UPS,
    GraphedFunction,
    addresses,
    unvalidated_distributions,
    without_garbage_collection,
)
from tests.fast.support import Replays


def summing(recorder: Any, seen: list[Tensor], fingerprint: Callable[[], Any] = lambda: 0) -> GraphedFunction[Any]:
    """Appends its input to `seen`, and returns the sum of it as a tuple."""

    def function(numbers: Tensor) -> tuple[Tensor]:
        seen.append(numbers)
        return (numbers.sum(),)

    return GraphedFunction("summing", function, recorder, fingerprint)


def test_without_a_recorder_it_is_the_function_itself() -> None:
    seen: list[Tensor] = []
    work, numbers = summing(None, seen), torch.ones(3)
    work.drop_stale_captures()
    assert work(numbers)[0] == 3
    assert seen[0] is numbers


def test_warm_ups_do_the_work_and_replays_read_the_same_memory() -> None:
    recorder, seen = Replays(), []
    work = summing(recorder, seen)
    for call in range(WARM_UPS + 3):
        assert work(torch.full((2,), float(call)))[0] == 2 * call
    assert recorder.log == ["warm-up"] * WARM_UPS + ["capture", "replay", "replay", "replay"]
    assert len({part.data_ptr() for part in seen[WARM_UPS:]}) == 1


def test_warm_ups_read_memory_that_is_aligned_as_that_of_a_capture_is() -> None:
    """Triton compiles another kernel for a pointer that is not, and may not do so during a capture."""
    seen: list[Tensor] = []
    work, numbers = summing(Replays(), seen), torch.arange(9)
    for _ in range(WARM_UPS + 1):
        tail = numbers[5:]
        assert tail.data_ptr() % 16 == 8
        assert work(tail)[0] == 26
    assert [part.data_ptr() % 16 for part in seen] == [0] * (WARM_UPS + 1)


def test_each_shape_has_its_own_capture() -> None:
    recorder = Replays()
    work = summing(recorder, [])
    for _ in range(WARM_UPS + 1):
        assert work(torch.ones(2))[0] == 2
        assert work(torch.ones(5))[0] == 5
    assert recorder.log.count("capture") == 2
    assert work(torch.ones(2))[0] == 2
    assert recorder.log.count("capture") == 2


def test_a_changed_fingerprint_means_warming_up_and_a_new_capture() -> None:
    recorder, version = Replays(), [0]
    work = summing(recorder, [], lambda: version[0])
    for _ in range(WARM_UPS + 1):
        work(torch.ones(2))
    work.drop_stale_captures()
    work(torch.ones(2))
    assert recorder.log.count("capture") == 1
    version[0] = 1
    work.drop_stale_captures()
    for _ in range(WARM_UPS + 1):
        work(torch.ones(2))
    assert recorder.log.count("capture") == 2
    assert recorder.log.count("warm-up") == 2 * WARM_UPS


def test_what_cannot_be_captured_runs_eagerly_and_says_so_once() -> None:
    class Fails(Replays):
        def capture(self, work: Callable[[], Any]) -> Any:
            raise RuntimeError("operation not permitted when stream is capturing")

    work = summing(Fails(), [])
    for _ in range(WARM_UPS):
        work(torch.ones(2))
    with pytest.warns(UserWarning, match=r"summing runs without a CUDA graph.*not permitted"):
        assert work(torch.ones(2))[0] == 2
    assert work(torch.ones(2))[0] == 2


def test_distributions_are_validated_again_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Distribution, "_validate_args", True)  # sb3-contrib, once imported, turns it off for all
    with unvalidated_distributions():
        Categorical(logits=torch.tensor([torch.nan, 0.0]))
    with pytest.raises(ValueError, match="constraint"):
        Categorical(logits=torch.tensor([torch.nan, 0.0]))


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_is_collected_again_afterwards_if_it_was(enabled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    switched: list[bool] = []
    monkeypatch.setattr(gc, "isenabled", lambda: enabled)
    monkeypatch.setattr(gc, "disable", lambda: switched.append(False))
    monkeypatch.setattr(gc, "enable", lambda: switched.append(True))
    with without_garbage_collection():
        assert switched == [False]
    assert switched == [False, True][: 1 + enabled]


def test_addresses_tell_tensors_apart() -> None:
    one, other = torch.zeros(2), torch.zeros(2)
    assert addresses(one) == addresses(one) != addresses(other)
