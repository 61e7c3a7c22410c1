import numpy as np
import torch

from revd.moments import RunningMoments


def test_batches_give_the_moments_of_everything_seen() -> None:
    values = 100 + 5 * torch.randn(60, 2, 3, generator=torch.Generator().manual_seed(0))
    moments = RunningMoments((2, 3))
    for part in values.split([1, 40, 0, 19]):
        moments.update(part)
    assert moments.count == 60
    np.testing.assert_allclose(moments.mean, values.double().mean(dim=0), rtol=1e-12)
    np.testing.assert_allclose(moments.std, values.double().std(dim=0, unbiased=False), rtol=1e-9)


def test_scalars_and_the_state_before_the_first_value() -> None:
    moments = RunningMoments()
    assert moments.std == 0
    moments.update(torch.tensor([1.0, 3.0]))
    assert moments.std == 1
    assert moments.mean == 2


def test_nothing_changes_without_values() -> None:
    moments = RunningMoments()
    moments.update(torch.zeros(0))
    assert moments.count == 0
    assert moments.mean == 0
    assert moments.std == 0


def test_small_variations_around_a_large_mean_survive() -> None:
    values = 1e6 + torch.arange(100, dtype=torch.float64) / 1e3
    moments = RunningMoments()
    for part in values.split(7):
        moments.update(part)
    np.testing.assert_allclose(moments.std, values.std(unbiased=False), rtol=1e-6)


def test_state_dict_round_trips() -> None:
    moments, copy = RunningMoments((2,)), RunningMoments((2,))
    moments.update(torch.randn(5, 2))
    copy.load_state_dict(moments.state_dict())
    more = torch.randn(3, 2)
    moments.update(more)
    copy.update(more)
    assert torch.equal(moments.std, copy.std)
    assert torch.equal(moments.mean, copy.mean)


def test_counted_values_are_added_as_often_as_they_occurred() -> None:
    generator = torch.Generator().manual_seed(0)
    values, counts = 100 + torch.randn(20, 2, 3, generator=generator), torch.randint(1, 9, (20,), generator=generator)
    moments, naive = RunningMoments((2, 3)), RunningMoments((2, 3))
    for part, each in zip(values.split([1, 12, 0, 7]), counts.split([1, 12, 0, 7]), strict=True):
        moments.update(part, each)
    for value, count in zip(values, counts.tolist(), strict=True):
        for _ in range(count):
            naive.update(value[None])
    assert moments.count == naive.count
    np.testing.assert_allclose(moments.mean, naive.mean, rtol=1e-12)
    np.testing.assert_allclose(moments.std, naive.std, rtol=1e-9)
