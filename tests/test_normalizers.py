import copy

import numpy as np
import pytest
import torch
from gymnasium import spaces

from revd import Rollout, encoders, make_reward
from revd.encoders import SpaceEncoder, make_encoder
from revd.normalizers import FrozenNormalizer, RunningNormalizer

IMAGE = spaces.Box(0, 255, (2, 36, 36), np.uint8)
VECTOR = spaces.Box(-np.inf, np.inf, (3,), np.float32)
BOTH = spaces.Dict({"image": IMAGE, "state": VECTOR})


def batch(seed: int, n: int = 40) -> dict[str, torch.Tensor]:
    rng = torch.Generator().manual_seed(seed)
    return {
        "image": torch.randint(256, (n, 2, 36, 36), generator=rng, dtype=torch.uint8),
        "state": torch.randn(n, 3, generator=rng) * torch.tensor([1.0, 10.0, 0.0]) + 5 * seed,
    }


def test_running_statistics_follow_all_values_and_the_output_is_clipped() -> None:
    normalizer = RunningNormalizer((3,), warmup=40)
    seen = [batch(seed)["state"] for seed in range(3)]
    assert not normalizer.ready
    for values in seen:
        assert normalizer.learning
        normalizer.moments.update(values)
    assert normalizer.ready
    joined = torch.cat(seen).double()
    expected = ((seen[0] - joined.mean(0)) / joined.std(0, unbiased=False)).float()
    torch.testing.assert_close(normalizer(seen[0]), expected)
    far = torch.tensor([[1e6, -1e6, 5.0]])
    assert normalizer(far)[0, :2].tolist() == [5, -5]


def test_a_constant_feature_is_only_centred() -> None:
    normalizer = RunningNormalizer((1,), warmup=2)
    normalizer.moments.update(torch.full((4, 1), 3.0))
    assert normalizer(torch.tensor([[3.0], [4.0], [30.0]])).flatten().tolist() == [0, 1, 5]


def test_frozen_statistics_stop_learning() -> None:
    normalizer = FrozenNormalizer((1,), warmup=4)
    assert normalizer.learning
    normalizer.moments.update(torch.arange(4.0)[:, None])
    assert not normalizer.learning
    assert float(normalizer(torch.tensor([[100.0]]))) > 50


@pytest.mark.parametrize(("space", "part"), [(IMAGE, "image"), (VECTOR, "state"), (BOTH, None)])
def test_an_encoder_with_running_statistics(space: spaces.Space, part: str | None) -> None:
    def observations(seed: int) -> torch.Tensor | dict[str, torch.Tensor]:
        return batch(seed) if part is None else batch(seed)[part]

    encoder = make_encoder(space, embedding_size=4, normalize=True, warmup=50, running=True)
    for seed in range(3):
        encoder.warm_up(observations(seed))
        assert encoder.ready == (seed > 0)
    moments = [module for module in encoder.modules() if isinstance(module, RunningNormalizer)]
    assert [int(normalizer.moments.count) for normalizer in moments] == [120] * (2 if part is None else 1)
    before = encoder(observations(0))
    encoder.warm_up(observations(9))
    assert not torch.allclose(encoder(observations(0)), before)


@pytest.mark.parametrize(("space", "part"), [(IMAGE, "image"), (VECTOR, "state"), (BOTH, None)])
def test_one_encoder_looks_through_the_statistics_of_another(space: spaces.Space, part: str | None) -> None:
    observations = batch(0) if part is None else batch(0)[part]
    owner = make_encoder(space, embedding_size=4, seed=1, normalize=True, warmup=1, running=True)
    owner.warm_up(observations)
    borrower = make_encoder(space, embedding_size=4, seed=2)
    own = copy.deepcopy(owner)
    missing = own.load_state_dict(borrower.state_dict(), strict=False)
    assert not missing.unexpected_keys
    torch.testing.assert_close(borrower(observations, normalized_by=owner), own(observations))
    assert not torch.allclose(borrower(observations), own(observations))


def test_statistics_are_gathered_in_parts_that_fit_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "NUMBERS_PER_UPDATE", 21)
    encoder = make_encoder(VECTOR, embedding_size=4, normalize=True, warmup=8)
    assert isinstance(encoder, SpaceEncoder)
    moments = encoder.normalizer.moments  # type: ignore[union-attr]
    sizes: list[int] = []
    update = moments.update

    def noted(values: torch.Tensor, counts: torch.Tensor | None = None) -> None:
        sizes.append(len(values))
        update(values, counts)

    moments.update = noted  # type: ignore[method-assign]
    values, counts = batch(1, 40)["state"], torch.arange(40) % 3 + 1
    encoder.warm_up(values, counts)
    assert sizes == [7] * 5 + [5], "also after the warm-up has ended within the batch"
    every = values.double().repeat_interleave(counts, dim=0)
    torch.testing.assert_close(moments.mean, every.mean(dim=0))
    torch.testing.assert_close(moments.std, every.std(dim=0, unbiased=False))


@pytest.mark.parametrize("name", ["rnd", "ngu"])
def test_rewards_whiten_by_all_observations_also_where_they_repeat(name: str) -> None:
    states = (
        torch.randint(0, 3, (40, 2, 3), generator=torch.Generator().manual_seed(0)).float()[:, :, :1].repeat(1, 1, 3)
    )
    rollout = Rollout(
        observations=states, actions=torch.zeros(40, 2, 3), next_observations=states, dones=states[..., 0] > 5
    )
    reward = make_reward(name, VECTOR, spaces.Box(-1, 1, (3,)), n_envs=2, embedding_size=4)
    reward.compute(rollout)
    found = next(module for module in reward.modules() if isinstance(module, RunningNormalizer)).moments
    assert found.count == 80
    torch.testing.assert_close(found.mean, states.flatten(0, 1).double().mean(dim=0))
    torch.testing.assert_close(found.std, states.flatten(0, 1).double().std(dim=0, unbiased=False))


@pytest.mark.parametrize(("space", "part"), [(IMAGE, "image"), (VECTOR, "state"), (BOTH, None)])
@pytest.mark.parametrize("normalize", [False, True])
def test_encoders_that_share_inputs_embed_as_each_alone(space: spaces.Space, part: str | None, normalize: bool) -> None:
    observations = batch(0) if part is None else batch(0)[part]
    owner = make_encoder(space, embedding_size=4, seed=1, normalize=normalize, warmup=1, running=True)
    owner.warm_up(observations)
    several = [make_encoder(space, embedding_size=4, seed=seed, trainable=seed == 3) for seed in (2, 3)]
    together = owner.embed_by_each([owner, *several], observations)
    for encoder, found in zip([owner, *several], together, strict=True):
        assert torch.equal(found, encoder(observations, normalized_by=owner))
        assert found.requires_grad == (encoder is several[1])


def test_encoders_that_share_inputs_normalise_them_once(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = make_encoder(VECTOR, embedding_size=4, normalize=True, warmup=1)
    owner.warm_up(batch(0)["state"])
    calls: list[int] = []
    forward = FrozenNormalizer.forward
    monkeypatch.setattr(FrozenNormalizer, "forward", lambda self, x: (calls.append(len(x)), forward(self, x))[1])  # type: ignore[func-returns-value]
    owner.embed_by_each([owner, owner, owner], batch(0, 16)["state"])
    assert calls == [16]


def test_normalising_leaves_the_values_alone() -> None:
    normalizer = RunningNormalizer((3,), warmup=1)
    values = batch(0)["state"]
    before = values.clone()
    normalizer.moments.update(values)
    normalizer(values)
    assert torch.equal(values, before)
