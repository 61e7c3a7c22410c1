import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from revd.functional import discounted_sums


@settings(derandomize=True, max_examples=50, deadline=None)
@given(
    n_steps=st.sampled_from([1, 2, 127, 128, 129, 300]),
    n=st.integers(1, 3),
    gamma=st.sampled_from([0.0, 0.5, 0.99, 1.0]),
    seed=st.integers(0, 1_000),
)
def test_equals_a_loop(n_steps: int, n: int, gamma: float, seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    values, before = (torch.rand(*shape, generator=rng, dtype=torch.float64) for shape in ((n_steps, n), (n,)))
    expected = torch.zeros_like(values)
    for column in range(n):
        current = float(before[column])
        for t in range(n_steps):
            current = gamma * current + float(values[t, column])
            expected[t, column] = current
    torch.testing.assert_close(discounted_sums(values, before, gamma=gamma), expected)
