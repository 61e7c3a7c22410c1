"""What the fuzzed tests share: the decorator, what a documented error is, and values that no parameter expects."""

import functools
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import revd

#: Name of the profile of `make fuzz`.
PROFILE = "fuzz"
#: Examples of each test in `make test`.
FEW = 40
#: Examples so far of the running test.
EXAMPLES: Counter[str] = Counter()

PACKAGE = str(Path(revd.__file__).parent)


def fuzz(**arguments: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`hypothesis.given` with as many examples as the profile says, which are counted; marks the test."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def counted(*args: Any, **kwargs: Any) -> None:
            EXAMPLES[test.__qualname__] += 1
            test(*args, **kwargs)

        fuzzed = given(**arguments)(counted)
        if settings.get_current_profile_name() == PROFILE:
            # Thirty times as many examples take longer than one test may otherwise.
            fuzzed = pytest.mark.timeout(0)(fuzzed)
        else:
            fuzzed = settings(max_examples=FEW, derandomize=True, deadline=None, database=None)(fuzzed)
        return pytest.mark.fuzz(fuzzed)

    return decorate


@contextmanager
def documented(names: Iterable[str], kinds: tuple[type[Exception], ...] = (ValueError, TypeError)) -> Iterator[None]:
    """Lets pass what our own checks raise: of exactly these kinds, raised in our package, and naming an argument."""
    try:
        yield
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1].filename
        named = any(name in str(error) for name in names)
        if type(error) not in kinds or not where.startswith(PACKAGE) or not named:
            raise AssertionError(f"undocumented {type(error).__name__} from {where}: {error}") from error


#: Numbers at the edge of everything.
NUMBERS = st.one_of(
    st.integers(-3, 20),
    st.floats(),
    st.floats(0, 1),
    st.sampled_from([2**31, 2**53, 2**63, 2**64, 10**30, 10**400, -(10**400), 1e-300, 1e300, 1e-16, 1 - 1e-16]),
    st.sampled_from([np.int64(3), np.float32(0.5), np.float64("nan"), np.bool_(True), np.complex64(1)]),
)
#: Values of JSON's types, as from a file.
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
#: Anything.
JUNK = st.one_of(
    NUMBERS,
    JSON,
    st.sampled_from(["none", "rms", "rollout", "episode", "step", "paper", "revd", "ppo", "", "no", "0,5", "\0"]),
    st.sampled_from(
        [b"x", 1j, object(), int, np.zeros(2), np.array("rms"), torch.zeros(2), torch.tensor(3), {1}, Path()]
    ),
)


def sometimes(good: st.SearchStrategy[Any], bad: st.SearchStrategy[Any] = JUNK) -> st.SearchStrategy[Any]:
    """Mostly good values, so that what lies behind the first check is reached too."""
    return st.integers(0, 7).flatmap(lambda number: bad if number == 7 else good)
