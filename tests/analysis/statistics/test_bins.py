import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from revd.analysis.statistics.bins import bin_episodes
from revd.episodes import PARTS, Episodes, part_returns
from tests.analysis.support import episodes


def naive_bins(found, total_steps, bins):
    rows = []
    for index in range(bins):
        low, high = index * total_steps / bins, (index + 1) * total_steps / bins
        returns = [value for step, value in zip(found.steps, found.returns, strict=True) if low < step <= high]
        if returns:
            rows.append((int(high), len(returns), sum(returns) / len(returns)))
    return rows


@given(
    ends=st.lists(st.integers(1, 3000), max_size=60),
    total_steps=st.integers(1, 2500),
    bins=st.sampled_from([PARTS, 7 * PARTS, 1000]),
)
def test_bins_are_those_of_a_loop_and_keep_the_returns_of_all_parts(ends, total_steps, bins):
    ends = np.sort(np.array(ends, dtype=float))
    found = Episodes(steps=ends, returns=np.sin(np.arange(len(ends))) * 1000)
    binned = bin_episodes(found, total_steps, bins=bins)
    expected = naive_bins(found, total_steps, bins)
    assert binned.steps.tolist() == [step for step, _, _ in expected]
    assert binned.counts.tolist() == [count for _, count, _ in expected]
    np.testing.assert_allclose(binned.means, [mean for _, _, mean in expected])
    again = Episodes(
        steps=np.repeat(binned.steps, binned.counts).astype(float), returns=np.repeat(binned.means, binned.counts)
    )
    before, after = part_returns(found, total_steps), part_returns(again, total_steps)
    assert [part is None for part in before] == [part is None for part in after]
    np.testing.assert_allclose([part or 0 for part in after], [part or 0 for part in before], rtol=1e-12, atol=1e-9)


def test_no_episodes_are_no_bins():
    assert len(bin_episodes(episodes(), 1000).steps) == 0
