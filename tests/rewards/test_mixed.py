"""A mixture pays the weighted sum of standardised bonuses, and keeps every contract of a reward."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from revd import RE3, REVD, RIDE, IntrinsicReward, MixedReward, Rollout, make_reward
from revd.rewards import check_parameters
from revd.rewards.saved_state import check_saved_parameters
from revd.testing import reward_checks
from revd.testing.subject import equal, outputs
from tests.support.rollouts import BOX, DISCRETE, Shape, make_rollout, make_rollouts, shapes
from tests.weighting.naive import recent_moments

SMALL: dict[str, Any] = {"embedding_size": 4, "k": 2}


class Scripted(IntrinsicReward):
    """Pays the first number of each observation, times a factor."""

    uses_successors = False

    def bonus(self, rollout: Rollout) -> Tensor:
        observations = rollout.observations
        assert isinstance(observations, Tensor)
        return observations[..., 0] * 3.0


class Silent(Scripted):
    """Pays nothing."""

    def bonus(self, rollout: Rollout) -> Tensor:
        return 0 * super().bonus(rollout)


class Constant(Scripted):
    """Pays the same everywhere."""

    def bonus(self, rollout: Rollout) -> Tensor:
        return 0 * super().bonus(rollout) + 0.1


def mixture(*names: str, n_envs: int = 2, **parameters: Any) -> MixedReward:
    members = dict.fromkeys(names, SMALL) | parameters
    made = make_reward(list(names), BOX, DISCRETE, n_envs=n_envs, **members)
    assert isinstance(made, MixedReward)
    return made


def naive_mixture(members: list[IntrinsicReward], weights: list[float], rollouts: list[Rollout]) -> list[Any]:
    """The equation, number by number in float64, with the bonuses of all rollouts so far in a list."""
    seen: list[list[list[float]]] = [[] for _ in members]
    sums = []
    for rollout in rollouts:
        total = np.zeros((rollout.n_steps, rollout.n_envs))
        for member, weight, earlier in zip(members, weights, seen, strict=True):
            bonus = member.compute(rollout).numpy().astype(np.float64)
            member.update(rollout)
            # REVD's first segment, and steps with too few neighbours, are paid exactly 0; these states all differ. RIDE
            # may truly pay 0.
            valid = rollout.valid.numpy()
            paid = np.argwhere(valid if isinstance(member, RIDE) else valid & (bonus != 0))
            if len(paid) == 0:
                continue
            earlier.append([bonus[t, env] for t, env in paid])
            mean, std = recent_moments(earlier)
            for t, env in paid:
                total[t, env] += weight * (bonus[t, env] - mean) / std if std > 0 else 0.0
        sums.append(total)
    return sums


@settings(max_examples=15, deadline=None)
@given(shape=shapes(min_steps=6), weights=st.lists(st.sampled_from([0.0, 0.5, 2.0]), min_size=3, max_size=3))
def test_a_mixture_is_the_weighted_sum_of_standardised_bonuses(shape: Shape, weights: list[float]) -> None:
    rollouts = make_rollouts(3, 4, shape)

    def members() -> list[IntrinsicReward]:
        arguments = (BOX, DISCRETE, shape.n_envs)
        return [REVD(*arguments, **SMALL), RIDE(*arguments, **SMALL), RE3(*arguments, seed=5, **SMALL)]

    mixed = MixedReward(members(), weights=weights)
    expected = naive_mixture(members(), weights, rollouts)
    for rollout, sums in zip(rollouts, expected, strict=True):
        np.testing.assert_allclose(mixed.compute(rollout).numpy(), sums, rtol=1e-3, atol=1e-3)
        mixed.update(rollout)


def test_ragged_columns_count_their_valid_steps_only() -> None:
    rollouts = make_rollouts(1, 4, Shape(n_steps=9, n_envs=3, ragged=True))
    arguments = (BOX, DISCRETE, 3)

    def members() -> list[IntrinsicReward]:
        return [RIDE(*arguments, **SMALL), RE3(*arguments, boundary="episode", **SMALL)]

    mixed = MixedReward(members())
    for rollout, sums in zip(rollouts, naive_mixture(members(), [1.0, 1.0], rollouts), strict=True):
        np.testing.assert_allclose(mixed.compute(rollout).numpy(), sums, rtol=1e-3, atol=1e-3)
        mixed.update(rollout)


def test_the_scale_of_a_member_does_not_matter() -> None:
    class Larger(Scripted):
        def bonus(self, rollout: Rollout) -> Tensor:
            return 1000 * super().bonus(rollout) + 7

    arguments = (BOX, DISCRETE, 2)
    one, other = (MixedReward([cls(*arguments), RE3(*arguments, **SMALL)]) for cls in (Scripted, Larger))
    for rollout in make_rollouts(0, 3):
        torch.testing.assert_close(one.compute(rollout), other.compute(rollout), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("quiet", [Silent, Constant])
def test_a_member_that_has_not_paid_or_pays_the_same_everywhere_adds_nothing(quiet: type[Scripted]) -> None:
    arguments = (BOX, DISCRETE, 2)
    mixed = MixedReward({"loud": Scripted(*arguments), "quiet": quiet(*arguments)}, weights={"quiet": 5.0})
    alone = MixedReward([Scripted(*arguments), Silent(*arguments)])
    for rollout in make_rollouts(0, 3):
        paid = mixed.compute(rollout)
        assert torch.equal(paid, alone.compute(rollout))
        assert paid.any()


def test_zeros_before_the_first_bonus_are_forgotten() -> None:
    """REVD's first segment is paid 0, which says nothing about the size of its bonus."""
    first, *later = make_rollouts(0, 3)
    mixed = mixture("revd", "re3")
    mixed.compute(first)
    totals = {name: moments.total for name, moments in mixed.member_moments.items()}
    assert (float(totals["revd"]), float(totals["re3"])) == (0, 1)
    mixed.compute(later[0])
    assert (float(totals["revd"]), float(totals["re3"])) == (1, 1.9)


def test_metrics_and_losses_carry_the_members_names() -> None:
    mixed = mixture("revd", "ride", "revd")
    for rollout in make_rollouts(0, 2):
        mixed.compute(rollout)
        losses = mixed.update(rollout)
    assert {"revd/divergence", "revd_2/divergence", "ride/impact", "revd/bonus_mean", "bonus_mean"} <= set(
        mixed.metrics()
    )
    assert set(losses) == {"ride/forward_loss", "ride/inverse_loss"}
    single = REVD(BOX, DISCRETE, 2, **SMALL)
    outputs(single, make_rollouts(0, 2))
    assert {f"revd/{name}": value for name, value in single.metrics().items()}.items() <= mixed.metrics().items()


def test_parameters_are_given_under_the_members_name_and_the_seed_to_all() -> None:
    made = make_reward(
        "revd+re3+revd",
        BOX,
        DISCRETE,
        n_envs=2,
        seed=7,
        revd={"k": 4},
        revd_2={"alpha": 0.3, "seed": 8},
        weights=[1, 2, 3],
    )
    assert isinstance(made, MixedReward)
    one, two, three = (member.config for member in made.named_members.values())
    assert (one.k, one.seed, two.seed, three.alpha, three.k, three.seed) == (4, 7, 7, 0.3, 3, 8)  # type: ignore[attr-defined]
    assert made.config.weights == {"revd": 1, "re3": 2, "revd_2": 3}
    assert made.settings == {"normalize": "none", "weights": made.config.weights, **made.config.members}
    again = make_reward("revd+re3+revd", BOX, DISCRETE, n_envs=2, **made.settings)
    assert again.config == made.config


@pytest.mark.parametrize(
    ("reward", "parameters", "message"),
    [
        ("revd+ree3", {}, r"unknown reward 'ree3'; did you mean 're3'"),
        ("revd+", {}, r"unknown reward ''"),
        (["revd", REVD], {}, r"reward must be a name, a list of names or an IntrinsicReward"),
        (["revd"], {}, r"a mixture needs two rewards or more, got \['revd'\]"),
        ([], {}, r"a mixture needs two rewards or more, got \[\]"),
        (
            "revd+re3",
            {"k": 3},
            r"parameter of the mixture revd\+re3 'k'.* revd=\{'k': …\}, on the command line revd\.k=…",
        ),
        ("revd+re3", {"wieghts": [1, 2]}, r"'wieghts'; did you mean 'weights'"),
        ("revd+re3", {"rvd": {}}, r"'rvd'; did you mean 'revd'"),
        ("revd+re3", {"revd": {"alfa": 1}}, r"member 'revd' of the mixture: unknown parameter of REVD 'alfa'.*'alpha'"),
        ("revd+re3", {"re3": {"k": 0}}, r"member 're3' of the mixture: k must be"),
        ("revd+re3", {"revd": 3}, r"revd must be a dict of that member's parameters.*got 3"),
        ("revd+re3", {"weights": [1]}, r"weights must be one number for each of revd, re3, got \[1\]"),
        ("revd+re3", {"weights": "12"}, r"weights must be one number for each of revd, re3, got '12'"),
        ("revd+re3", {"weights": {"rev3": 1}}, r"weights: unknown member 'rev3'; did you mean"),
        ("revd+re3", {"weights": [1, -1]}, r"weights: that of 're3' must be a number of at least 0, got -1"),
        ("revd+re3", {"weights": [1, "x"]}, r"weights: that of 're3' must be a number of at least 0, got 'x'"),
        ("revd+re3", {"normalize": "rsm"}, r"normalize must be 'none' or 'rms'"),
        ("revd+re3", {"seed": -1}, r"seed must be"),
    ],
)
def test_mistakes_name_the_member_and_what_is_valid(reward: Any, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_reward(reward, BOX, DISCRETE, n_envs=2, **parameters)
    with pytest.raises(ValueError, match=message):
        check_parameters(reward, parameters)


def test_members_must_fit_each_other() -> None:
    reward = REVD(BOX, DISCRETE, 2)
    with pytest.raises(ValueError, match="the same instance is given twice"):
        MixedReward([reward, reward])
    with pytest.raises(ValueError, match="n_envs of 're3' is 3, that of the first one 2"):
        MixedReward([reward, RE3(BOX, DISCRETE, 3)])
    with pytest.raises(ValueError, match="observation_space of 're3' is Box"):
        MixedReward([reward, RE3(spaces.Box(-1, 1, (5,)), DISCRETE, 2)])
    with pytest.raises(ValueError, match=r"a name must be an identifier such as my_reward, got 'a\.b'"):
        MixedReward({"a.b": reward, "c": RE3(BOX, DISCRETE, 2)})
    with pytest.raises(TypeError, match="members must be instances of IntrinsicReward, got 're3'"):
        MixedReward({"revd": reward, "re3": "re3"})  # type: ignore[dict-item]


@pytest.mark.parametrize(("names", "expected"), [(("revd", "re3"), False), (("revd", "ride"), True)])
def test_successors_are_used_if_a_member_uses_them(names: tuple[str, ...], expected: bool) -> None:
    assert mixture(*names).uses_successors is expected


def test_the_encoder_is_the_first_members_that_has_one() -> None:
    arguments = (BOX, DISCRETE, 2)
    member = RE3(*arguments)
    mixed = MixedReward([Scripted(*arguments), member, REVD(*arguments)])
    assert mixed.embedding_member is member
    assert mixed.encoder is member.encoder
    without = MixedReward([Scripted(*arguments), Silent(*arguments)])
    assert without.embedding_member is None
    assert not hasattr(without, "encoder")


def test_short_rollouts_and_ends_of_episodes_reach_all_members() -> None:
    mixed = mixture("ride", "re3", re3={"k": 9})
    with pytest.raises(ValueError, match="k"):
        mixed.check_rollout_length(9)
    mixed.check_rollout_length(10)
    mixed = mixture("re3", "ride", re3={"boundary": "episode", **SMALL})
    mixed.compute(make_rollout(0, Shape(done_rate=0.0)))
    before = copy.deepcopy(mixed.state_dict())
    mixed.end_episodes()
    ended = {name.split(".")[1] for name, value in mixed.state_dict().items() if not torch.equal(value, before[name])}
    assert ended == {"re3", "ride"}


def factory(*arguments: Any) -> MixedReward:
    return MixedReward([REVD(*arguments, boundary="episode", **SMALL), RIDE(*arguments, **SMALL)], weights=[1, 0.5])


@pytest.mark.parametrize(("name", "check"), reward_checks())
def test_every_contract_is_kept(name: str, check: Any) -> None:
    check(factory)


def test_saved_in_the_middle_of_a_warm_up_it_continues_exactly() -> None:
    rollouts = make_rollouts(2, 6)
    warm = {"normalize_observations": True, "warmup": 40, **SMALL}
    mixed, copied = (mixture("revd", "ride", revd=warm, seed=4) for _ in range(2))
    outputs(mixed, rollouts[:2])
    assert not mixed.encoder.ready
    copied.load_state_dict(copy.deepcopy(mixed.state_dict()))
    assert equal(outputs(mixed, rollouts[2:]), outputs(copied, rollouts[2:]))
    assert mixed.encoder.ready


def test_saved_parameters_are_compared_member_by_member() -> None:
    mixed = mixture("revd", "re3", seed=1)
    saved = {"members": {**mixed.config.members, "re3": {**mixed.config.members["re3"], "seed": 9}}}
    check_saved_parameters("MixedReward", mixed.config, {**vars(mixed.config), **saved})
    saved["members"]["re3"]["k"] = 7
    with pytest.raises(ValueError, match=r"members\.re3\.k was 7, here it is 2"):
        check_saved_parameters("MixedReward", mixed.config, {**vars(mixed.config), **saved})
    with pytest.raises(ValueError, match=r"weights\.re3 was 0\.5, here it is 1\.0"):
        check_saved_parameters("MixedReward", mixed.config, {**vars(mixed.config), "weights": {"revd": 1, "re3": 0.5}})


def test_saved_members_from_before_a_default_changed_used_the_old_one() -> None:
    rides = [RIDE(BOX, DISCRETE, 2, update_fraction=1.0) for _ in range(2)]
    mixed = MixedReward([*rides, REVD(BOX, DISCRETE, 2, k=2)])
    members = {name: dict(values) for name, values in mixed.config.members.items()}
    for name, missing in (("ride", "update_fraction"), ("ride_2", "update_fraction"), ("revd", "merge_duplicates")):
        del members[name][missing]
    with pytest.raises(ValueError, match=r"members\.revd\.merge_duplicates was False, here it is True"):
        check_saved_parameters("MixedReward", mixed.config, {**vars(mixed.config), "members": members})
    members["revd"]["merge_duplicates"] = True
    check_saved_parameters("MixedReward", mixed.config, {**vars(mixed.config), "members": members})
    members["ride_2"]["update_fraction"] = 0.25
    with pytest.raises(ValueError, match=r"members\.ride_2\.update_fraction was 0\.25, here it is 1\.0"):
        check_saved_parameters("MixedReward", mixed.config, {**vars(mixed.config), "members": members})


def test_a_fresh_one_has_the_same_parameters_and_no_memory() -> None:
    mixed = mixture("revd", "ride", seed=3, weights=[1, 2])
    start = copy.deepcopy(mixed.state_dict())
    outputs(mixed, make_rollouts(0, 2))
    fresh = mixed.fresh()
    assert fresh.config == mixed.config
    assert all(torch.equal(value, start[name]) for name, value in fresh.state_dict().items() if "memory" in name)
    assert (mixed.fresh(5).n_envs, mixed.fresh(5).named_members["ride"].n_envs) == (5, 5)
    assert mixed.fresh(members={"revd": {"k": 5}}).config.members["revd"]["k"] == 5
