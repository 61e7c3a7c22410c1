"""Numbers at the edge: finite bonuses or a clear error, never NaN."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from revd import IntrinsicReward, Rollout, make_reward
from tests.rewards.test_contract import MODES
from tests.support.rollouts import BOX, DISCRETE, Shape, changed, make_rollout, make_rollouts

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "rms": {"normalize": "rms"},
    "normalised observations": {"normalize_observations": True, "warmup": 16},
}
EVERYWHERE = [pytest.mark.parametrize("mode", MODES), pytest.mark.parametrize("settings", SETTINGS)]


def everywhere(test: Any) -> Any:
    """In every mode of every method, with every normalisation."""
    for mark in EVERYWHERE:
        test = mark(test)
    return test


class Returning(IntrinsicReward):
    """Pays whatever it was given."""

    uses_successors = False

    def __init__(self, returned: Any) -> None:
        super().__init__(BOX, DISCRETE, 2)
        self.returned = returned

    def bonus(self, rollout: Rollout) -> torch.Tensor:
        return self.returned  # type: ignore[no-any-return]


SIX_STEPS = make_rollout(0, Shape(6, 2))


def make(mode: str, n_envs: int = 2, **parameters: Any) -> IntrinsicReward:
    return make_reward(
        mode.split()[0], BOX, DISCRETE, n_envs=n_envs, **{"embedding_size": 4} | MODES.get(mode, {}) | parameters
    )


def pay(reward: IntrinsicReward, rollouts: list[Rollout]) -> torch.Tensor:
    """The last bonus of a training in which everything stays finite."""
    for rollout in rollouts:
        bonus = reward.compute(rollout)
        numbers = [*reward.metrics().values(), *reward.update(rollout).values()]
        assert bonus.isfinite().all()
        assert all(map(math.isfinite, numbers)), numbers
        for name, value in reward.state_dict().items():
            # A state that is alone in its episode has its nearest neighbour at infinity.
            assert not value.isnan().any(), name
    return bonus


def still(rollout: Rollout, value: float = 0.5) -> Rollout:
    """Every observation is the same."""
    constant = torch.full_like(rollout.observations, value)  # type: ignore[arg-type]
    return changed(rollout, observations=constant, next_observations=constant.clone())


@everywhere
@pytest.mark.parametrize("value", [0.0, 0.5, 1e10])
def test_observations_that_never_vary(mode: str, settings: str, value: float) -> None:
    pay(make(mode, **SETTINGS[settings]), [still(rollout, value) for rollout in make_rollouts(0, 4)])


@everywhere
def test_one_feature_that_never_varies(mode: str, settings: str) -> None:
    rollouts = make_rollouts(0, 4)
    for rollout in rollouts:
        for values in (rollout.observations, rollout.next_observations):
            values[..., 1] = 3.0  # type: ignore[index, call-overload]
    assert pay(make(mode, **SETTINGS[settings]), rollouts).any()


@everywhere
@pytest.mark.parametrize("done_rate", [0.0, 0.3])
def test_episodes_of_nothing_but_duplicates(mode: str, settings: str, done_rate: float) -> None:
    shape = Shape(duplicate_rate=1.0, done_rate=done_rate, n_steps=10)
    pay(make(mode, **SETTINGS[settings]), make_rollouts(0, 4, shape))


@pytest.mark.parametrize("name", ["revd", "re3"])
def test_duplicates_are_at_distance_zero_and_paid_accordingly(name: str) -> None:
    reward = make(name, merge_duplicates=False)
    first, second = (still(rollout, value) for rollout, value in zip(make_rollouts(0, 2), (0.5, 2.0), strict=True))
    assert not pay(reward, [first, second]).any(), "L = 0 for REVD, log(0 + 1) for RE3"


def test_without_the_spread_only_eps_bounds_the_bonus_of_duplicates() -> None:
    reward = make("revd", scale_by_spread=False, merge_duplicates=False)
    first, second = (still(rollout, value) for rollout, value in zip(make_rollouts(0, 2), (0.5, 2.0), strict=True))
    reward.compute(first)
    observations = [rollout.observations[0, :1] for rollout in (first, second)]  # type: ignore[index]
    distance = (reward.encoder(observations[0]) - reward.encoder(observations[1])).norm()  # type: ignore[operator]
    torch.testing.assert_close(reward.compute(second), ((distance / 1e-4) ** 0.5).expand(8, 2))


@everywhere
@pytest.mark.parametrize("n_steps", [1, 2, 3, 4])
def test_episodes_shorter_than_k(mode: str, settings: str, n_steps: int) -> None:
    reward = make(mode, **SETTINGS[settings])
    rollouts = make_rollouts(0, 6, Shape(n_steps=n_steps, done_rate=0.7))
    k, needs_more = 3, mode in ("revd", "re3", "rise")
    if needs_more and n_steps < k + 1:
        with pytest.raises(ValueError, match=rf"k = 3 neighbours .* n_steps = {n_steps}: .* boundary='episode'"):
            reward.compute(rollouts[0])
    else:
        pay(reward, rollouts)


@pytest.mark.parametrize("name", ["revd", "re3"])
@pytest.mark.parametrize("boundary", ["rollout", "episode"])
def test_one_state_alone_is_paid_nothing_and_counted(name: str, boundary: str) -> None:
    """A rollout of A2C may hold one state only. Leaving it is paid, since it is all there was before."""
    reward = make(name, boundary=boundary)
    moving, *others = make_rollouts(9, 3, Shape(n_steps=5, done_rate=0.0))
    pay(reward, [moving])
    reward.end_episodes()
    assert not pay(reward, [still(others[0])]).any()
    assert reward.metrics()["unpaid"] == 1
    reward.end_episodes()
    assert pay(reward, [others[1]]).all()


@pytest.mark.parametrize("name", ["revd", "re3"])
def test_a_world_of_fewer_states_than_k_is_paid(name: str) -> None:
    """The farthest state stands for the k-th neighbour."""
    space = spaces.Discrete(2)
    reward = make_reward(name, space, DISCRETE, n_envs=1, k=5, embedding_size=4)
    for flips in (1, 2):
        states = np.arange(8)[:, None] // flips % 2
        rollout = changed(make_rollout(0, Shape(8, 1)), observations=states, next_observations=states)
        bonus = reward.compute(rollout)
    assert reward.metrics()["unpaid"] == 0
    # Both have been in the previous rollout too, so that the farthest of them is the other.
    distance = (reward.encoder(torch.tensor([0])) - reward.encoder(torch.tensor([1]))).norm()  # type: ignore[operator]
    paid = distance.tanh() * (distance / (distance + 1e-4)).sqrt() if name == "revd" else distance.log1p()
    torch.testing.assert_close(bonus, (paid / 2).expand(8, 1), rtol=1e-4, atol=0)


@pytest.mark.parametrize("name", ["revd", "re3"])
def test_steps_without_enough_neighbours_are_paid_nothing_and_counted(name: str) -> None:
    reward = make(name, boundary="episode", k=5)
    bonus = pay(reward, make_rollouts(0, 3, Shape(n_steps=5, done_rate=1.0)))
    assert not bonus.any()
    assert reward.metrics()["unpaid"] == 1


@everywhere
@pytest.mark.parametrize("scale", [1e-45, 1e-38, 1e-30, 1e-20, 1e-10, 1e10, 1e13])
def test_tiny_and_huge_magnitudes(mode: str, settings: str, scale: float) -> None:
    pay(make(mode, **SETTINGS[settings]), make_rollouts(0, 5, Shape(scale=scale, duplicate_rate=0.2, n_steps=10)))


@pytest.mark.parametrize("mode", [mode for mode in MODES if "warmup" not in MODES[mode]])
@pytest.mark.parametrize("scale", [1e16, 3e37])
def test_magnitudes_beyond_distances_are_an_error(mode: str, scale: float) -> None:
    with pytest.raises(ValueError, match=r"embedding at step \d of environment \d is too large .* normalise"):
        make(mode).compute(make_rollout(0, Shape(scale=scale)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("scale", [1e13, 1e30, 1e37])
def test_huge_magnitudes_are_paid_once_normalised(mode: str, scale: float) -> None:
    reward = make(mode, normalize_observations=True, warmup=16)
    assert pay(reward, make_rollouts(0, 5, Shape(scale=scale))).any()


@pytest.mark.parametrize("mode", MODES)
def test_a_bonus_that_float32_can_hardly_hold_is_not_divided_by_its_spread(mode: str) -> None:
    """The standard deviation of denormal numbers is 0 in float32."""

    class Tiny(type(make(mode))):  # type: ignore[misc]
        def bonus(self, rollout: Rollout) -> torch.Tensor:
            paid = super().bonus(rollout)
            return torch.where(torch.arange(paid.numel()).reshape(paid.shape) == 3, 1e-45, 0.0)

    reward = Tiny(BOX, DISCRETE, 2, normalize="rms", embedding_size=4, **MODES[mode])
    assert pay(reward, make_rollouts(0, 3)).max() <= 1e-44


@pytest.mark.parametrize("mode", MODES)
def test_one_environment(mode: str) -> None:
    assert pay(make(mode, n_envs=1), make_rollouts(0, 4, Shape(n_envs=1, n_steps=10))).any()


@pytest.mark.parametrize("mode", MODES)
def test_thousands_of_environments(mode: str) -> None:
    shape = Shape(n_envs=4_096, n_steps=5)
    reward = make(mode, n_envs=4_096)
    bonus = pay(reward, make_rollouts(0, 2, shape))
    assert bonus.shape == (5, 4_096)
    assert (bonus > 0).float().mean() > 0.01


@pytest.mark.parametrize("alpha", [1e-15, 1e-6, 1 - 1e-6, 1 - 2e-16])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("boundary", ["rollout", "episode"])
def test_alpha_near_its_ends(alpha: float, k: int, boundary: str) -> None:
    reward = make("revd", alpha=alpha, k=k, boundary=boundary, scale_by_spread=False, merge_duplicates=False)
    bonus = pay(reward, make_rollouts(0, 4, Shape(duplicate_rate=0.3, done_rate=0.05, n_steps=10)))
    assert bonus.any()
    if alpha > 0.9:
        # (nu / mu)^0 is 1 wherever nu is not 0.
        torch.testing.assert_close(bonus[bonus > 0], torch.ones(int((bonus > 0).sum())), atol=1e-4, rtol=0)


@pytest.mark.parametrize("alpha", [0.0, 5e-324, 1e-17, 1.0, 1 - 1e-17])
def test_alpha_that_rounding_takes_to_its_ends(alpha: float) -> None:
    with pytest.raises(ValueError, match=r"alpha must be (inside \(0, 1\)|at least 1e-16), got "):
        make("revd", alpha=alpha)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("revd", {"eps": 1e-15}),
        ("revd", {"eps": 1e15}),
        ("revd", {"eps": 1e-15, "alpha": 1e-15, "scale_by_spread": False}),
        ("ride", {"kernel_eps": 1e-15, "cluster_distance": 0.0}),
        ("ride", {"kernel_eps": 1e15}),
        ("ride", {"cluster_distance": 1e15}),
        ("ride", {"c": 1e15, "s_max": 1e-15}),
        ("ride", {"c": 0.0, "s_max": 1e15}),
        ("ride", {"momentum": 0.0}),
        ("ride", {"momentum": 1 - 1e-16}),
        ("ride", {"learning_rate": 1e-15}),
        ("ride", {"batch_size": 1}),
        ("re3", {"embedding_size": 1, "k": 7}),
        ("re3", {"seed": 2**62}),
        ("ride", {"seed": 2**62, "memory_size": 2**31 - 1, "batch_size": 2**31 - 1}),
    ],
)
@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e13])
def test_the_extremes_of_parameters(name: str, parameters: dict[str, Any], scale: float) -> None:
    pay(make(name, **parameters), make_rollouts(0, 4, Shape(scale=scale, duplicate_rate=0.5)))


@pytest.mark.parametrize(
    ("name", "parameter", "values"),
    [
        ("revd", "eps", [1e-16, 1e16, 10**400, -(10**400), np.inf]),
        ("revd", "alpha", [10**400, 1j]),
        ("revd", "k", [2**16 + 1, 10**400]),
        ("revd", "embedding_size", [2**16 + 1]),
        ("revd", "memory_size", [2**31, 10**30]),
        ("revd", "warmup", [2**31]),
        ("revd", "seed", [2**62 + 1, 2**64]),
        ("revd", "normalize", [["rms"], np.array(["rms", "none"])]),
        ("ride", "kernel_eps", [1e-300, 1e300]),
        ("ride", "cluster_distance", [1e300]),
        ("ride", "c", [1e16]),
        ("ride", "learning_rate", [1e300]),
        ("ride", "batch_size", [2**31]),
        ("ride", "k", [2**16 + 1]),
    ],
)
def test_beyond_the_extremes_is_an_error(name: str, parameter: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(ValueError, match=rf"^{parameter} must be .+, got "):
            make(name, **{parameter: value})


def test_too_many_environments_are_an_error() -> None:
    with pytest.raises(ValueError, match="n_envs must be an integer of at most 1048576, got 1048577"):
        make("revd", n_envs=2**20 + 1)


def test_training_that_diverges_is_an_error() -> None:
    reward = make("ride", learning_rate=1e3)
    with pytest.raises(ValueError, match="forward_loss of RIDE is inf: its models diverge; lower learning_rate"):
        pay(reward, make_rollouts(0, 4))


def test_actions_too_large_to_be_learnt_are_an_error() -> None:
    actions = spaces.Box(-np.inf, np.inf, (1,))
    rollout = changed(make_rollout(0), actions=np.full((8, 2, 1), 3e38, np.float32))
    reward = make_reward("ride", BOX, actions, n_envs=2, embedding_size=4)
    assert reward.compute(rollout).isfinite().all()
    with pytest.raises(ValueError, match=r"_loss of RIDE is (inf|nan): .* normalise observations and actions"):
        reward.update(rollout)


def test_the_mean_of_the_largest_squares_stays_finite() -> None:
    """In float32 their sum is infinite."""
    reward = make("ride", n_envs=64)
    reward._update_mean_square(torch.full((64, 1_000), 3e37).sqrt())  # type: ignore[operator]
    torch.testing.assert_close(reward.mean_square, torch.tensor(3e37))


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (torch.zeros(2), r"must return a tensor of shape \(n_steps, n_envs\), here \(6, 2\), got one of \(2,\)"),
        (torch.zeros(6, 2, 1), r"here \(6, 2\), got one of \(6, 2, 1\)"),
        (np.zeros((6, 2)), "got a ndarray"),
        (None, "got a NoneType"),
    ],
)
def test_a_bonus_of_another_shape_is_refused(returned: Any, message: str) -> None:
    reward = Returning(returned)
    with pytest.raises(ValueError, match=message) as refused:
        reward.compute(SIX_STEPS)
    assert str(refused.value).startswith("bonus() of Returning")


def test_a_bonus_in_another_precision_becomes_float32() -> None:
    found = Returning(torch.full((6, 2), 0.1, dtype=torch.float64)).compute(SIX_STEPS)
    assert found.dtype == torch.float32
    assert (found == 0.1).all()
