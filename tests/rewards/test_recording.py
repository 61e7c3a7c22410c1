import torch

from revd.rewards.recording import Mean, read_means, total


def test_means_of_batches_add_up_to_one() -> None:
    first, second = torch.tensor([1.0, 2.0]), torch.tensor([6.0])
    added = Mean(total(first), 2) + Mean(total(second), torch.tensor(1))
    assert read_means({"mean": added}) == {"mean": 3.0}


def test_a_mean_of_nothing_is_left_out() -> None:
    means = {"none": Mean(torch.tensor(0.0), torch.tensor(0)), "one": Mean(2, 1), "absent": Mean(0.0, 0)}
    assert read_means(means) == {"one": 2.0}
    assert read_means({}) == {}


def test_numbers_of_any_type_keep_their_order() -> None:
    values = [torch.tensor([3], dtype=torch.int64), 0.5, torch.tensor(0.25), torch.tensor(True)]
    means = {str(i): Mean(value, 1) for i, value in enumerate(values)}
    assert read_means(means) == {"0": 3.0, "1": 0.5, "2": 0.25, "3": 1.0}


def test_totals_are_exact_where_float32_would_not_be() -> None:
    assert float(total(torch.tensor([2.0**24, 1.0, 1.0]))) == 2**24 + 2
    assert float(total(torch.tensor([True, False, True]))) == 2
