import copy

import numpy as np
import pytest
import torch

from revd.rewards.return_scale import ReturnScale
from tests.support.rollouts import Shape, changed, make_rollouts


def naive(bonuses: list[np.ndarray], lengths: list[list[int]], gamma: float) -> list[np.ndarray]:
    """Each rollout's bonus over the deviation of the sums so far: one loop over environments, one over steps."""
    n_envs = bonuses[0].shape[1]
    running, seen, scaled = [0.0] * n_envs, [], []
    for bonus, valid in zip(bonuses, lengths, strict=True):
        for env in range(n_envs):
            for t in range(valid[env]):
                running[env] = gamma * running[env] + float(bonus[t, env])
                seen.append(running[env])
        scaled.append(bonus / np.std(seen))
    return scaled


@pytest.mark.parametrize("gamma", [0.0, 0.9, 0.99])
@pytest.mark.parametrize("ragged", [False, True])
def test_equals_naive_loops(gamma: float, ragged: bool) -> None:
    rng = np.random.default_rng(0)
    scale = ReturnScale(3, gamma)
    rollouts = make_rollouts(1, 4, Shape(n_steps=9, n_envs=3, ragged=ragged))
    bonuses = [rng.random((9, 3)).astype(np.float32) for _ in rollouts]
    lengths = [[9] * 3 if rollout.lengths is None else rollout.lengths.tolist() for rollout in rollouts]
    for rollout, bonus, expected in zip(rollouts, bonuses, naive(bonuses, lengths, gamma), strict=True):
        np.testing.assert_allclose(scale(torch.as_tensor(bonus), rollout), expected, rtol=1e-5)


def test_the_sums_run_over_ends_of_rollouts_and_can_be_resumed() -> None:
    first, second = make_rollouts(0, 2)
    bonus = torch.rand(8, 2, generator=torch.Generator().manual_seed(0))
    scale = ReturnScale(2, 0.99)
    scale(bonus, first)
    resumed = ReturnScale(2, 0.99)
    resumed.load_state_dict(copy.deepcopy(scale.state_dict()))
    assert torch.equal(resumed(bonus, second), scale(bonus, second))
    assert not torch.allclose(ReturnScale(2, 0.99)(bonus, second), scale(bonus, second))


def test_the_mean_is_not_subtracted_and_a_constant_sum_is_no_divisor() -> None:
    scale = ReturnScale(2, 0.0)
    (rollout,) = make_rollouts(0, 1)
    assert torch.equal(scale(torch.full((8, 2), 0.1), rollout), torch.full((8, 2), 0.1))
    padded = changed(rollout, lengths=[0, 0])
    before = copy.deepcopy(scale.state_dict())
    scale(torch.zeros(8, 2), padded)
    assert all(torch.equal(value, before[name]) for name, value in scale.state_dict().items())
