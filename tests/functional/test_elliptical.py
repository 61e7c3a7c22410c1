import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from revd.functional import elliptical_bonuses
from tests.support import naive


def eye(n_envs: int, size: int, ridge: float) -> torch.Tensor:
    return torch.eye(size, dtype=torch.float64).expand(n_envs, size, size) / ridge


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    n_steps=st.integers(1, 9),
    n_envs=st.integers(1, 3),
    size=st.integers(1, 4),
    ridge=st.sampled_from([0.1, 5.0]),
    done_rate=st.sampled_from([0.0, 0.3, 1.0]),
    block=st.sampled_from([1, 3, 64]),
    seed=st.integers(0, 10_000),
)
def test_equals_rank_one_updates_over_several_calls(
    n_steps: int, n_envs: int, size: int, ridge: float, done_rate: float, block: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    inverse = eye(n_envs, size, ridge)
    covariances = [ridge * np.eye(size) for _ in range(n_envs)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("revd.functional.elliptical.BLOCK", block)
        for _ in range(3):
            phi = rng.normal(size=(n_steps, n_envs, size)) * (rng.random((n_steps, n_envs, 1)) < 0.8)
            ended = rng.random((n_steps, n_envs)) < done_rate
            bonus, inverse = elliptical_bonuses(torch.tensor(phi), torch.tensor(ended), inverse, ridge=ridge)
            for env in range(n_envs):
                expected, covariances[env] = naive.elliptical(phi[:, env], ended[:, env], covariances[env], ridge)
                np.testing.assert_allclose(bonus[:, env], expected, rtol=1e-9, atol=1e-12)
                np.testing.assert_allclose(inverse[env], np.linalg.inv(covariances[env]), rtol=1e-9, atol=1e-12)


def test_a_direction_is_paid_like_one_over_its_count() -> None:
    bonus, _ = elliptical_bonuses(torch.ones(4, 1, 1), torch.zeros(4, 1, dtype=torch.bool), eye(1, 1, 0.5), ridge=0.5)
    np.testing.assert_allclose(bonus[:, 0], [1 / (0.5 + visits) for visits in range(4)])


def test_embeddings_of_any_size_keep_the_inverse_positive() -> None:
    phi = 1e15 * torch.randn(300, 2, 3, generator=torch.Generator().manual_seed(0))
    phi[100:] = phi[0]
    inverse = eye(2, 3, 0.1)
    for _ in range(3):
        bonus, inverse = elliptical_bonuses(phi, torch.zeros(300, 2, dtype=torch.bool), inverse, ridge=0.1)
        assert ((bonus >= 0) & (bonus <= 1e8 * (1 + 1e-9))).all()
        assert (torch.linalg.eigvalsh(inverse) > 0).all()
