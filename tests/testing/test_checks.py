"""Every check catches the rewards that break its contract, and lets a sound one pass."""

from typing import Any

import pytest
import torch
from gymnasium import spaces

from revd import REVD
from revd.testing import check_reward, reward_checks
from revd.testing.state import _check_against_cpu
from revd.testing.subject import Subject, differences
from tests.support.rollouts import BOX, DISCRETE
from tests.testing import broken

CHECKS = dict(reward_checks())

#: Of a reward that looks at successors, these ask for an error or for nothing.
REFUSING = ("bad rollout", "successors")
#: Contract, a reward that breaks it, and a part of what is then said.
CAUGHT = [
    ("shape", broken.WrongShape, r"n_steps = 12, n_envs = 2 was paid \(12, 1\); expected \(n_steps, n_envs\)"),
    ("shape", broken.NoTensor, "compute returned a ndarray; expected a tensor"),
    ("dtype", broken.DoublePrecision, r"paid in torch\.float64; expected float32"),
    ("dtype", broken.FollowsTheInputsPrecision, "RuntimeError was raised"),
    ("dtype", broken.KeepsTheGradient, "the bonus has a gradient"),
    ("finite", broken.DividesByTheSpread, "bonus of DividesByTheSpread is not a finite number"),
    ("finite", broken.InfiniteLoss, "ordinary rollouts gave a bonus or loss that is NaN or infinite"),
    ("finite", broken.SquaresWhatIsHuge, r"observations of 1e\+30 times their size gave a bonus or loss that is NaN"),
    ("finite", broken.SpreadOverTime, "ValueError was raised: the bonus of SpreadOverTime is not a finite number"),
    ("metrics", broken.MetricsOfTheFirstCall, r"metrics\(\)\['bonus_mean'\] is .* expected the mean"),
    ("metrics", broken.MetricsInADictOfItsOwn, "expected a copy"),
    ("metrics", broken.MetricsAreTensors, r"is tensor\(.*expected a finite float"),
    ("metrics", broken.MetricsBeforeTheFirstCall, "a fresh reward has the metrics"),
    (
        "determinism",
        broken.WeightsFromTheGlobalGenerator,
        r"paid differently, and started with different random\.weight",
    ),
    ("determinism", broken.SeedsTheGlobalGenerator, "making the reward seeds torch's global generator"),
    ("determinism", broken.NoiseFromTheGlobalGenerator, "torch's global generator was used"),
    ("determinism", broken.NoiseFromNumPy, "NumPy's global generator was used"),
    ("determinism", broken.NoiseFromPython, "Python's global generator was used"),
    ("determinism", broken.SharesAGenerator, "two rewards with equal parameters paid differently"),
    ("counting", broken.CountsUpdates, "calls is 2 after 1 compute"),
    ("input untouched", broken.WritesIntoTheRollout, "the rollout's observations were written to"),
    ("no aliasing", broken.KeepsAViewOfTheRollout, "expected a memory that holds copies"),
    ("successors", broken.HidesThatItLooksAhead, "ValueError was raised: the rollout has no next_observations"),
    ("successors", broken.HidesThatItPeeks, "without next_observations the bonus or a loss is different"),
    ("padding", broken.ReadsPaddedSteps, "values of padded steps changed the bonus"),
    ("padding", broken.TrainsOnPaddedSteps, "values of padded steps changed the losses"),
    ("padding", broken.PaysPaddedSteps, "a padded step was paid"),
    ("empty rollout", broken.PaysPaddedSteps, "without a valid step was paid"),
    ("empty rollout", broken.TrainsOnNothing, "without a valid step was trained on"),
    ("empty rollout", broken.RemembersEmptyRollouts, "changed later bonuses or losses"),
    ("bad rollout", broken.PaysForNaN, "was paid without an error"),
    ("bad rollout", broken.PaysWithoutSuccessors, "a rollout without next_observations was paid without an error"),
    ("bad rollout", broken.ChangesBeforeItChecks, "was an error, but changed mean"),
    ("state", broken.ForgetsItsMean, "loaded into a fresh reward, later results differ"),
    ("state", broken.ForgetsItsMetrics, r"metrics\(\) differ"),
    ("state", broken.CannotBeLoadedWhenUsed, "RuntimeError was raised: .*memory"),
    ("state", broken.LoadsOnlyAPart, "just loaded into a fresh reward, mean differ"),
    ("end of episodes", broken.EndsEpisodesTwice, r"end_episodes\(\) with no episode running changed mean"),
    ("frozen parameters", broken.TrainsInCompute, r"compute changed the parameters model\.weight"),
    ("frozen parameters", broken.ChangesFrozenParameters, r"update changed random\.weight, which are frozen"),
    ("frozen parameters", broken.FrozenBatchNorm, r"random\.1\.running_mean"),
    ("device", broken.CachesItsDevice, "place is not moved by"),
    ("device", broken.CachesItsDevicesName, "place is not moved by"),
    ("device", broken.KeepsTensorsInAList, r"history\['paid'\]\[0\], .* is not moved by"),
    ("device", broken.SaysAnotherDevice, r"after \.to\('meta'\) the device is cpu"),
    ("normalize", broken.IgnoresNormalize, "did not divide by the running standard deviation"),
    ("parameters", broken.IgnoresAParameter, r"scale = 1\.0 could be changed without any effect"),
    *((name, broken.Breaks, "RuntimeError was raised: out of order") for name in CHECKS if name not in REFUSING),
]


@pytest.mark.parametrize(("name", "check"), reward_checks())
def test_a_sound_reward_passes(name: str, check: Any) -> None:
    check(broken.Sound)


@pytest.mark.parametrize(("name", "reward", "message"), CAUGHT)
def test_a_broken_reward_is_caught_by_its_check(name: str, reward: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=rf"(?s)^{name}: .*{message}"):
        CHECKS[name](reward)


def test_every_check_is_seen_to_fail() -> None:
    assert {name for name, _, _ in CAUGHT} == set(CHECKS)


def test_all_broken_contracts_are_listed_at_once() -> None:
    with pytest.raises(AssertionError) as raised:
        check_reward(broken.PaysPaddedSteps)
    lines = str(raised.value).splitlines()
    assert lines[0].endswith(f"of {len(CHECKS)} contracts are broken:")
    assert [line.split(":")[0] for line in lines[1:]].count("- padding") == 1
    assert len(lines) - 1 == int(lines[0].split()[0])


@pytest.mark.parametrize(
    "reward", [broken.WeightsFromTheGlobalGenerator, broken.SharesAGenerator, broken.NoiseFromNumPy]
)
def test_rewards_that_are_never_alike_break_one_contract(reward: Any) -> None:
    with pytest.raises(AssertionError) as raised:
        check_reward(reward)
    first, determinism, unjudged = str(raised.value).splitlines()
    assert first == f"1 of {len(CHECKS)} contracts is broken:"
    assert determinism.startswith("- determinism: ")
    said, _, names = unjudged.partition(": ")
    assert said == "Not judged before determinism holds, since they compare two rewards"
    assert {"no aliasing", "padding", "empty rollout", "normalize"} <= set(names.split(", ")) <= set(CHECKS)


def test_other_broken_contracts_are_reported_too() -> None:
    class Both(broken.WeightsFromTheGlobalGenerator):
        def compute(self, rollout: Any) -> torch.Tensor:
            return super().compute(rollout).double()

    with pytest.raises(AssertionError, match=r"(?s)^2 of .*- dtype: .*- determinism: .*Not judged"):
        check_reward(Both)


def test_names_are_those_of_pytest() -> None:
    assert all(check.__name__.startswith("check_") and check.__doc__ for check in CHECKS.values())


def test_the_global_generator_is_given_back() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    with pytest.raises(AssertionError):
        CHECKS["determinism"](broken.WeightsFromTheGlobalGenerator)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_factory_must_make_a_reward() -> None:
    with pytest.raises(AssertionError, match="shape: the factory returned a int; expected an IntrinsicReward"):
        CHECKS["shape"](lambda *_: 3)


class TestParameters:
    def test_a_seed_is_checked_where_it_is_named(self) -> None:
        seed = {"seed": {"seed": 1}}
        CHECKS["parameters"](broken.Sound, parameters=seed)
        CHECKS["parameters"](broken.IgnoresItsSeed)
        with pytest.raises(AssertionError, match="seed = 0 could be changed without any effect"):
            CHECKS["parameters"](broken.IgnoresItsSeed, parameters=seed)

    def test_values_that_show_an_effect_can_be_given(self) -> None:
        CHECKS["parameters"](REVD, parameters={"memory_size": {"memory_size": 4, "boundary": "episode"}})
        with pytest.raises(AssertionError, match="memory_size = 10000 could be changed"):
            CHECKS["parameters"](REVD, parameters={"memory_size": {"memory_size": 4}})

    def test_names_must_be_fields(self) -> None:
        with pytest.raises(AssertionError, match=r"parameters names \['size'\]; expected fields of SoundConfig"):
            CHECKS["parameters"](broken.Sound, parameters={"size": {"size": 3}})
        with pytest.raises(AssertionError, match=r"parameters\['scale'\] is {}; expected a value of scale"):
            CHECKS["parameters"](broken.Sound, parameters={"scale": {}})

    def test_values_out_of_range_show_nothing(self) -> None:
        with pytest.raises(AssertionError, match="k = 3 could be changed without any effect"):
            CHECKS["parameters"](REVD, parameters={"k": {"k": 2, "alpha": 2.0}})

    def test_a_type_without_known_values_needs_one(self) -> None:
        with pytest.raises(AssertionError, match="prefix = 'a' could be changed"):
            CHECKS["parameters"](broken.Named)
        CHECKS["parameters"](broken.Named, parameters={"prefix": {"prefix": "other"}})


def test_states_differ_by_name_shape_type_and_value_but_not_by_nan() -> None:
    state = {"a": torch.tensor([1.0, torch.nan])}
    assert differences(state, {"a": state["a"].clone()}) == []
    for other in (torch.tensor([1.0]), torch.tensor([1, 0]), torch.tensor([2.0, torch.nan])):
        assert differences(state, {"a": other}) == ["a"]
    assert differences(state, {"b": state["a"]}) == ["a", "b"]


class TestOnADevice:
    """What runs where there is a GPU, run on the CPU."""

    def check(self, reward: Any) -> None:
        subject = Subject(factory=reward, observation_space=BOX, action_space=DISCRETE)
        _check_against_cpu(subject, torch.device("cpu"))

    def test_a_sound_reward_passes(self) -> None:
        self.check(broken.Sound)

    def test_another_device_or_another_bonus_is_caught(self) -> None:
        class Elsewhere(broken.Sound):
            @property
            def device(self) -> torch.device:
                return torch.device("meta") if int(self.calls) else super().device

        with pytest.raises(AssertionError, match=r"the bonus is on cpu; expected reward\.device, meta"):
            self.check(Elsewhere)
        with pytest.raises(AssertionError, match="the bonus on cpu differs from that on the CPU"):
            self.check(broken.SharesAGenerator)


@pytest.mark.parametrize(
    "space",
    [spaces.Discrete(6), spaces.MultiBinary(5), spaces.Dict({"a": BOX, "b": spaces.Box(0, 255, (4, 4), "uint8")})],
    ids=lambda space: type(space).__name__,
)
def test_other_spaces_can_be_given(space: Any) -> None:
    check_reward(lambda *arguments: REVD(*arguments, embedding_size=8), observation_space=space, action_space=BOX)


def test_rewards_that_need_long_rollouts_get_them() -> None:
    check_reward(lambda *arguments: REVD(*arguments, embedding_size=8, k=20))


def test_a_reward_that_accepts_no_length_is_asked_with_the_longest() -> None:
    with pytest.raises(AssertionError, match="ValueError was raised: k = 1000 neighbours"):
        CHECKS["shape"](lambda *arguments: REVD(*arguments, embedding_size=8, k=1_000))
