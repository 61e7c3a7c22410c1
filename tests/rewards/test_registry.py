from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import revd
from revd import RE3, REVD, RIDE, IntrinsicReward, MixedReward, make_reward
from revd.rewards import REGISTRY, REWARDS, check_parameters
from revd.rewards.registry import RewardRegistry, when_to_use
from tests.support.rollouts import BOX, DISCRETE


@pytest.mark.parametrize(("name", "method"), [("revd", REVD), ("re3", RE3), ("ride", RIDE)])
def test_methods_by_name(name: str, method: type[IntrinsicReward]) -> None:
    reward = make_reward(name, BOX, DISCRETE, n_envs=3, k=2, embedding_size=7)
    assert type(reward) is method
    assert (reward.n_envs, reward.config.k, reward.config.embedding_size) == (3, 2, 7)
    assert (reward.observation_space, reward.action_space) == (BOX, DISCRETE)


def test_every_registered_method_is_covered_here() -> None:
    assert set(REWARDS) == {
        "revd",
        "re3",
        "ride",
        "rise",
        "counts",
        "rnd",
        "icm",
        "disagreement",
        "ngu",
        "e3b",
        "noveld",
        "drnd",
        "noise",
    }


def test_public_names() -> None:
    assert set(revd.__all__) <= set(dir(revd))
    for name in revd.__all__:
        public = getattr(revd, name)
        assert (public.__name__, public.__module__.split(".")[0]) == (name, "revd")
    with pytest.raises(AttributeError, match="module 'revd' has no attribute 'RND'"):
        _ = revd.RND


def test_an_instance_passes_through() -> None:
    reward = REVD(BOX, DISCRETE, 2)
    assert make_reward(reward, BOX, DISCRETE, n_envs=2) is reward


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((spaces.Box(-1, 1, (4,)), DISCRETE, 2), "the REVD instance was made for observation_space Box"),
        ((BOX, spaces.Discrete(5), 2), r"made for action_space Discrete\(4\), not Discrete\(5\)"),
        ((BOX, DISCRETE, 3), "made for n_envs 2, not 3"),
    ],
)
def test_an_instance_must_fit(arguments: tuple[Any, Any, int], message: str) -> None:
    observation_space, action_space, n_envs = arguments
    with pytest.raises(ValueError, match=message):
        make_reward(REVD(BOX, DISCRETE, 2), observation_space, action_space, n_envs=n_envs)


def test_an_instance_takes_no_parameters() -> None:
    with pytest.raises(ValueError, match=r"parameters \(k, eps\) cannot change the REVD instance"):
        make_reward(REVD(BOX, DISCRETE, 2), BOX, DISCRETE, n_envs=2, k=3, eps=0.1)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("rvd", {}, r"unknown reward 'rvd'; did you mean 'revd'.*valid: .*re3, revd, ride"),
        ("REVD", {}, r"did you mean 'revd'"),
        ("fabric", {}, r"unknown reward 'fabric'"),
        (None, {}, r"reward must be a name, a list of names or an IntrinsicReward, got None"),
        (["rvd", "re3"], {}, r"unknown reward 'rvd'; did you mean 'revd'"),
        ("revd", {"alfa": 0.5}, r"unknown parameter of REVD 'alfa'; did you mean 'alpha'"),
        ("revd", {"log": True}, r"unknown parameter of REVD 'log'"),
        ("re3", {"logs": True}, r"unknown parameter of RE3 'logs'; did you mean 'log'"),
        ("ride", {"learningrate": 1}, r"unknown parameter of RIDE 'learningrate'; did you mean 'learning_rate'"),
        ("ride", {"boundary": "episode"}, r"unknown parameter of RIDE 'boundary'"),
    ],
)
def test_misspelt_names_get_the_nearest_valid_ones(name: Any, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_reward(name, BOX, DISCRETE, n_envs=2, **parameters)
    with pytest.raises(ValueError, match=message):
        check_parameters(name, parameters)


BAD = {
    "revd": {
        "alpha": [0, 1, 1.0, 1.5, -0.5, np.nan, "0,5", None],
        "eps": [0, -1e-4, np.inf, np.nan],
        "k": [0, -1, 1.5, True, "3"],
        "boundary": ["episodes", None],
        "memory_size": [0, 3, 10.0],
        "embedding_size": [0, 2.0],
        "warmup": [0],
        "scale_by_spread": ["no", 0],
        "normalize_observations": ["false"],
        "normalize": ["std", None, True],
        "seed": [-1, 0.5],
    },
    "re3": {"log": ["off"], "k": [0], "boundary": ["step"], "memory_size": [3], "normalize": ["rsm"], "seed": [None]},
    "rise": {"alpha": [0, 1, -0.5, np.nan, "0,5"], "k": [0]},
    "counts": {
        "mode": ["hashed", None],
        "scope": ["rollout", True],
        "hash_bits": [0, 64, 8.0],
        "memory_size": [0],
    },
    "ride": {
        "k": [0],
        "inverse": [None],
        "batch_size": [0],
        "memory_size": [0],
        "learning_rate": [0, -1, np.inf, np.nan],
        "kernel_eps": [0],
        "s_max": [0],
        "cluster_distance": [-0.1, np.nan],
        "c": [-1],
        "momentum": [1, -0.1, np.nan],
        "embedding_size": [-1],
    },
}


@pytest.mark.parametrize(
    ("method", "name", "value"),
    [(method, name, value) for method, names in BAD.items() for name, values in names.items() for value in values],
)
def test_values_out_of_range_name_the_parameter_and_what_is_valid(method: str, name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^{name} must be .+, got "):
        make_reward(method, BOX, DISCRETE, n_envs=2, **{name: value})
    with pytest.raises(ValueError, match=rf"^{name} must be "):
        check_parameters(method, {name: value})


def test_good_parameters_pass_before_spaces_are_known() -> None:
    check_parameters("revd", {"k": 5, "alpha": 0.3})
    check_parameters(REVD(BOX, DISCRETE, 1), {})


@pytest.mark.parametrize("method", REWARDS)
@pytest.mark.parametrize(
    ("observation_space", "action_space", "n_envs", "message"),
    [
        (spaces.Tuple([BOX]), DISCRETE, 2, "observation_space is a Tuple space"),
        (BOX, spaces.Tuple([DISCRETE]), 2, "action_space is a Tuple space"),
        (spaces.Text(3), DISCRETE, 2, "observation_space is a Text space"),
        (BOX, spaces.Dict({"a": DISCRETE}), 2, "action_space is a Dict space"),
        (BOX, DISCRETE, 0, "n_envs must be an integer of at least 1, got 0"),
        (BOX, DISCRETE, 2.0, "n_envs must be an integer of at least 1, got 2.0"),
    ],
)
def test_spaces_and_numbers_that_no_method_supports(
    method: str, observation_space: Any, action_space: Any, n_envs: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        make_reward(method, observation_space, action_space, n_envs=n_envs)


def test_numpy_scalars_are_numbers_too():
    box, actions = spaces.Box(-1, 1, (2,)), spaces.Discrete(2)
    config = make_reward("revd", box, actions, n_envs=1, k=np.int64(2), alpha=np.float32(0.25)).config
    assert (type(config.k), config.k, type(config.alpha), config.alpha) == (int, 2, float, 0.25)


@pytest.fixture
def registry() -> RewardRegistry:
    return RewardRegistry(REWARDS)


class Mine(RE3):
    """Pays like RE3.

    And says more about it.
    """


class Unfinished(IntrinsicReward):
    pass


def test_a_registered_reward_has_a_name_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REGISTRY, "_registered", {})
    assert revd.register_reward("mine", Mine) is Mine
    assert type(make_reward("mine", BOX, DISCRETE, n_envs=2, k=2)) is Mine
    mixture = make_reward(["mine", "revd"], BOX, DISCRETE, n_envs=2, mine={"k": 2})
    assert isinstance(mixture, MixedReward)
    assert [type(member) for member in mixture.named_members.values()] == [Mine, REVD]
    with pytest.raises(ValueError, match=r"unknown reward 'mien'; did you mean 'mine'"):
        make_reward("mien", BOX, DISCRETE, n_envs=2)


def test_registering_is_a_decorator_too(registry: RewardRegistry) -> None:
    @registry.register_reward("decorated")
    class Decorated(RE3):
        pass

    assert registry.find("decorated") is Decorated
    assert Decorated.__name__ == "Decorated"


@pytest.mark.parametrize("name", ["revd", "none", "", "my-reward", "a+b", "a:B", "a b", "1st", None, Mine])
def test_names_that_cannot_be_registered(registry: RewardRegistry, name: Any) -> None:
    with pytest.raises(ValueError, match=r"^name "):
        registry.register_reward(name, Mine)
    if name != "revd":
        with pytest.raises(ValueError, match=r"^name must be an identifier such as my_reward"):
            registry.register_reward(name)


def test_a_name_is_taken_once_but_a_class_may_be_defined_again(registry: RewardRegistry) -> None:
    registry.register_reward("mine", Mine)
    registry.register_reward("mine", Mine)
    again = type("Mine", (RE3,), {"__module__": Mine.__module__})
    registry.register_reward("mine", again)
    assert registry.find("mine") is again
    with pytest.raises(ValueError, match=r"name 'mine' is registered for .*\.Mine already"):
        registry.register_reward("mine", RIDE)
    assert registry.find("mine") is again


@pytest.mark.parametrize(
    ("cls", "message"),
    [(int, "it is int"), ("RE3", "it is 'RE3'"), (Unfinished, "Unfinished does not implement bonus")],
)
def test_only_classes_of_rewards_can_be_registered(registry: RewardRegistry, cls: Any, message: str) -> None:
    with pytest.raises(TypeError, match=f"cls must be a subclass of IntrinsicReward .*: {message}"):
        registry.register_reward("mine", cls)
    with pytest.raises(ValueError, match="unknown reward 'mine'"):
        registry.find("mine")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            "no_such_package.rewards:Mine",
            r"module 'no_such_package.rewards' cannot be imported: ModuleNotFound.*PYTHONPATH",
        ),
        ("revd.rewards:Ridde", r"unknown class of the module 'revd.rewards' 'Ridde'; did you mean 'RIDE'"),
        ("revd.rewards:REWARDS", r"must be a subclass of IntrinsicReward: it is \{"),
        ("revd.rewards:IntrinsicReward", r"IntrinsicReward does not implement bonus"),
        *((path, "is written MODULE:CLASS") for path in ("a:", ":B", ".a:B", "a.:B", "a:b:c", "a/b:C", "a:B.C")),
    ],
)
def test_import_paths_that_lead_nowhere(registry: RewardRegistry, path: str, message: str) -> None:
    with pytest.raises(ValueError, match=rf"^reward {path!r}.*{message}"):
        registry.find(path)


def test_an_import_path_is_a_name(registry: RewardRegistry) -> None:
    assert registry.find("revd.rewards.ride:RIDE") is RIDE
    mixture = make_reward("revd.rewards.ride:RIDE+re3", BOX, DISCRETE, n_envs=1, ride={"k": 2})
    assert isinstance(mixture, MixedReward)
    assert {name: type(member) for name, member in mixture.named_members.items()} == {"ride": RIDE, "re3": RE3}


def test_a_module_that_fails_is_named(
    registry: RewardRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "exits.py").write_text("raise SystemExit('no')")
    (tmp_path / "lacks.py").write_text("import not_there_at_all")
    with pytest.raises(ValueError, match=r"module 'exits' cannot be imported: SystemExit: no$"):
        registry.find("exits:Mine")
    with pytest.raises(
        ValueError, match=r"module 'lacks' cannot be imported: ModuleNotFoundError.*'not_there_at_all'$"
    ):
        registry.find("lacks:Mine")


def install(directory: Path, distribution: str, *lines: str, **modules: str) -> None:
    """What pip leaves of a package that names rewards: its modules, metadata, and entry points."""
    info = directory / f"{distribution}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("\n".join(["[revd.rewards]", *lines]))
    for name, text in modules.items():
        (directory / f"{name}.py").write_text(text)


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    mark = f"import os; os.mkdir({str(tmp_path / 'imported')!r})\n"
    good = "from revd import RE3\nclass Good(RE3):\n    '''Pays well.'''\n    advice = 'For tests.'\n"
    install(tmp_path, "good-plugin", "good = good_plugin:Good", "re3 = good_plugin:Good", good_plugin=mark + good)
    install(
        tmp_path,
        "bad-plugin",
        "broken = bad_plugin:Bad",
        "number = numbers_plugin:NUMBER",
        bad_plugin="1 / 0",
        numbers_plugin="NUMBER = 3",
    )
    return tmp_path


def test_a_plug_in_is_imported_when_its_reward_is_asked_for(registry: RewardRegistry, plugins: Path) -> None:
    assert registry.find("revd") is REVD
    with pytest.raises(ValueError, match=r"unknown reward 'goood'; did you mean 'good'.*broken"):
        registry.find("goood")
    assert not (plugins / "imported").exists()
    assert registry.find("good").__name__ == "Good"
    assert (plugins / "imported").exists()
    assert registry.find("re3") is RE3, "ours wins"


def test_a_broken_plug_in_is_named_and_disturbs_no_other(registry: RewardRegistry, plugins: Path) -> None:
    with pytest.raises(
        ValueError, match=r"'broken' of the plug-in bad-plugin 1\.2 .* cannot be loaded: ZeroDivisionErr"
    ):
        registry.find("broken")
    with pytest.raises(ValueError, match=r"'number' of the plug-in bad-plugin 1\.2 .* must be a subclass .*: it is 3"):
        registry.find("number")
    registry.register_reward("mine", Mine)
    listed = {(one.name, one.source): one for one in registry.listing()}
    assert [name for name, _ in listed] == [*REWARDS, "mine", "broken", "good", "number", "re3"]
    assert listed["re3", "built-in"].cls is RE3
    assert listed["mine", "registered"].cls is Mine
    good = listed["good", "good-plugin 1.2"].cls
    assert good is not None
    assert when_to_use(good) == "For tests."
    assert "ZeroDivisionError" in listed["broken", "bad-plugin 1.2"].problem
    assert "a name that is taken: 're3'" in listed["re3", "good-plugin 1.2"].problem


def test_two_plug_ins_of_one_name_are_both_named(registry: RewardRegistry, plugins: Path) -> None:
    install(plugins, "other-plugin", "good = revd.rewards:RE3")
    with pytest.raises(
        ValueError, match=r"have a reward 'good': good-plugin 1\.2, other-plugin 1\.2; write MODULE:CLASS"
    ):
        registry.find("good")


def test_when_to_use_is_the_advice_or_the_docstrings_first_line() -> None:
    class Advised(Mine):
        advice = "When it rains."

    class Described(Advised):
        """Pays more."""

    assert [when_to_use(cls) for cls in (Mine, Advised, Described)] == [
        "Pays like RE3.",
        "When it rains.",
        "Pays more.",
    ]


@pytest.mark.parametrize("name", REWARDS)
def test_every_reward_says_when_to_use_it(name: str) -> None:
    assert 10 < len(when_to_use(REWARDS[name])) <= 120
