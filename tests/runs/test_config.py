import json
import shlex
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path

import pytest

from revd.runs.config import TrainConfig
from revd.runs.parameters import Parameters

FULL = TrainConfig(
    coverage="none",
    task="ale_py:ALE/Pong-v5",
    algo="a2c",
    reward="ride",
    steps=7,
    seed=3,
    output=Path("some where/run"),
    n_envs=2,
    normalize="both",
    sparse=0.5,
    network="paper",
    batch_norm="train",
    weight=0.5,
    decay=0.01,
    decay_per="step",
    extrinsic_weight=0.0,
    normalize_bonus="rms",
    reward_params=Parameters(k=5, log=False, boundary="episode", name="5"),
    algo_params=Parameters(policy_kwargs={"net_arch": [8]}, learning_rate=3e-4),
    engine="gymnasium",
    device="cpu",
    checkpoint_every=11,
    eval_every=13,
    eval_episodes=3,
    init_from=Path("an other/run"),
    init_value=True,
    init_optimizer=True,
    trainer="fast",
    threads=2,
    emulator_threads=3,
)


#: A training whose weight follows from the data.
AUTOMATIC = TrainConfig(task="CartPole-v1", weight="auto", strength=0.3, yield_to_task=False)

#: Changes of FULL to a training without a bonus, which the defaults fit.
UNPAID = {
    "reward": "none",
    "reward_params": {},
    "extrinsic_weight": 1.0,
    "weight": "auto",
    "decay": 1e-5,
    "decay_per": "rollout",
    "normalize_bonus": "none",
}


def test_the_full_config_leaves_nothing_at_its_default():
    default = TrainConfig(task="CartPole-v1")
    changed = {entry.name for entry in fields(TrainConfig) if getattr(FULL, entry.name) != getattr(default, entry.name)}
    # A fixed weight has no strength, and does not yield.
    assert changed == {entry.name for entry in fields(TrainConfig)} - {"strength", "yield_to_task"}


@pytest.mark.parametrize("config", [FULL, AUTOMATIC, TrainConfig(task="CartPole-v1")])
def test_json_round_trips(config):
    assert TrainConfig.from_json(config.to_json()) == config
    assert json.loads(config.to_json())["task"] == config.task


def test_json_with_an_unknown_field_is_refused():
    with pytest.raises(ValueError, match="unknown field of a training 'seeds'; did you mean 'seed'"):
        TrainConfig.from_dict({"task": "CartPole-v1", "seeds": 3})


def test_a_file_from_before_a_field_was_there_means_its_default():
    values = FULL.to_dict()
    for name in ("trainer", "emulator_threads", "strength", "yield_to_task"):
        del values[name]
    assert TrainConfig.from_dict(values).weight == 0.5
    assert TrainConfig.from_dict(values) == replace(FULL, trainer="auto", emulator_threads=0)


def test_a_file_from_before_settings_without_effect_were_refused_can_be_read():
    plain = TrainConfig(task="CartPole-v1", reward="none")
    idle = {"weight": 1.0, "decay": 0.5, "decay_per": "step", "normalize_bonus": "rms", "batch_norm": "train"}
    assert TrainConfig.from_dict({**plain.to_dict(), **idle}) == plain
    assert TrainConfig.from_dict({**FULL.to_dict(), "weight": 1.0}).weight == 1.0
    assert TrainConfig.from_dict(replace(FULL, **UNPAID).to_dict()).batch_norm == "train"


def test_configs_cannot_be_changed_and_copy_their_parameters():
    given = Parameters(k=5)
    config = TrainConfig(task="CartPole-v1", reward_params=given)
    given["k"] = 6
    assert config.reward_params == {"k": 5}
    with pytest.raises(FrozenInstanceError):
        config.seed = 1


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("k=5", 5),
        ("x=3e-4", 3e-4),
        ("x=true", True),
        ("x=null", None),
        ("x=[1, 2]", [1, 2]),
        ("x=episode", "episode"),
        ('x="5"', "5"),
        ("x=a=b", "a=b"),
        ("x=", ""),
        ("x=__import__('os')", "__import__('os')"),
    ],
)
def test_values_are_json_or_else_text(word, value):
    parsed = Parameters.parse([word])
    assert list(parsed.values()) == [value]
    assert Parameters.parse(parsed.words()) == parsed


@pytest.mark.parametrize("word", ["k", "=5", "a b=3", "--k=3"])
def test_words_that_are_no_assignment_are_refused(word):
    with pytest.raises(ValueError, match="expected KEY=VALUE"):
        Parameters.parse([word])


def test_a_parameter_given_twice_is_refused():
    with pytest.raises(ValueError, match="'k' is given twice"):
        Parameters.parse(["k=5", "k=6"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": ""}, "task must not be empty"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"n_envs": 0}, "n_envs must be at least 1, got 0"),
        ({"threads": -1}, "threads must be at least 0, got -1"),
        ({"emulator_threads": -1}, "emulator_threads must be at least 0, got -1"),
        ({"trainer": "slow"}, r"unknown value of trainer 'slow' .*auto, fast, sb3"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"seed": 2**32}, r"seed must lie below 2\*\*32"),
        ({"weight": -0.1}, "weight must be a finite number of at least 0, got -0.1"),
        ({"weight": float("nan")}, "weight must be a finite number"),
        ({"weight": "auto", "strength": -1.0}, "strength must be a finite number of at least 0, got -1.0"),
        ({"strength": 0.3}, "strength 0.3 belongs to weight auto, but weight is 0.5: leave one of them out"),
        ({"yield_to_task": False}, "yield_to_task belongs to weight auto, but weight is 0.5: leave one of them out"),
        ({"extrinsic_weight": float("inf")}, "extrinsic_weight must be a finite number"),
        ({"decay": 1.5}, r"decay must lie in \[0, 1\], got 1.5"),
        ({"normalize": "reward"}, "unknown value of normalize 'reward'; did you mean 'rewards'"),
        ({"normalize_bonus": "rmsd"}, "unknown value of normalize_bonus 'rmsd'; did you mean 'rms'"),
        ({"decay_per": "episode"}, r"unknown value of decay_per 'episode' .*rollout, step"),
        ({"reward": "none"}, "reward 'none' takes none"),
        ({"reward": "none", "reward_params": {}}, "extrinsic_weight must be 1 with reward 'none', got 0"),
        ({**UNPAID, "weight": 0.5}, "weight is 0.5, but reward 'none' pays no bonus"),
        ({**UNPAID, "strength": 0.5}, "strength is 0.5, but reward 'none' pays no bonus"),
        ({**UNPAID, "yield_to_task": False}, "yield_to_task is False, but reward 'none' pays no bonus"),
        ({**UNPAID, "decay": 0.5}, "decay is 0.5, but reward 'none' pays no bonus"),
        ({**UNPAID, "decay_per": "step"}, "decay_per is 'step', but reward 'none' pays no bonus"),
        ({**UNPAID, "normalize_bonus": "rms"}, "normalize_bonus is 'rms', but reward 'none' pays no bonus"),
        ({"network": "sb3"}, "batch_norm is 'train', but network 'sb3' has none; use network 'paper'"),
    ],
)
def test_errors_name_argument_value_and_what_is_valid(change, message):
    with pytest.raises(ValueError, match=message):
        replace(FULL, **change)


@pytest.mark.parametrize(
    ("task", "folder"),
    [("CartPole-v1", "CartPole-v1"), ("ALE/Pong-v5", "ALE-Pong-v5"), ("../../x y", "x-y"), ("/", "unnamed")],
)
def test_default_directories_are_safe_names(task, folder):
    config = TrainConfig(task=task, seed=4)
    assert config.directory == Path("runs") / folder / "ppo-revd-seed4"


def test_an_output_is_taken_as_it_is():
    assert FULL.directory == Path("some where/run")


def test_methods_are_named_as_in_papers():
    assert FULL.method == "A2C+RIDE"
    assert TrainConfig(task="CartPole-v1", reward="none").method == "PPO"


def test_the_command_leaves_out_defaults():
    assert TrainConfig(task="CartPole-v1", seed=3).command() == "revd train --task CartPole-v1 --seed 3"
    assert AUTOMATIC.command() == "revd train --task CartPole-v1 --strength 0.3 --no-yield-to-task"
    words = shlex.split(FULL.command())
    assert words[words.index("--output") + 1] == "some where/run"


def test_what_init_from_gives_needs_an_init_from():
    with pytest.raises(ValueError, match="init_from, which is not given"):
        TrainConfig(task="CartPole-v1", init_value=True)


def test_sparse_is_a_probability():
    with pytest.raises(ValueError, match=r"sparse is a probability, inside \[0, 1\], got 1.5"):
        TrainConfig(task="CartPole-v1", sparse=1.5)


@pytest.mark.parametrize(
    ("name", "values", "valid"),
    [
        ("task", [None, 5, ["CartPole-v1"], "a\0b", "a\nb"], "text"),
        ("normalize", [None, True, {}], "text"),
        ("steps", ["10", 1.5, True, None, [1]], "an integer"),
        ("seed", [0.0, "0"], "an integer"),
        ("weight", ["1", "aut", "", None, True, 10**400, [0.1]], "a number or 'auto', got"),
        ("strength", ["auto", "1", None, True, 10**400, [0.1]], "a number, got"),
        ("sparse", ["0.5", True], "a number or nothing"),
        ("output", ["runs", 5], "a path or nothing"),
        ("init_value", [1, "yes", None], "true or false"),
        ("yield_to_task", [1, "yes", None], "true or false"),
        (
            "reward_params",
            [5, None, ["k=5"], {1: 2}, {"a b": 1}, {"k": {1, 2}}, {"k": object()}],
            "named values of JSON's",
        ),
        ("algo_params", ["k=5"], "named values of JSON's types"),
    ],
)
def test_values_of_a_wrong_type_are_named(name, values, valid):
    for value in values:
        with pytest.raises(ValueError, match=rf"^{name} must be {valid}"):
            replace(FULL, **{name: value})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the config of a training must be JSON"),
        ("[" * 99_999, "the config of a training must be JSON"),
        ("[]", "must be an object of JSON, got list"),
        ("{}", "task must be given"),
        ('{"task": 5}', "task must be text, got 5"),
        ('{"task": "x", "output": 5}', "output must be a path or nothing, got 5"),
    ],
)
def test_files_that_are_no_config_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        TrainConfig.from_json(text)


@pytest.mark.parametrize("value", ["[" * 99_999, "9" * 5_000])
def test_what_json_cannot_read_is_text(value):
    assert Parameters.parse([f"k={value}"]) == {"k": value}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["k=5", "log=false"], {"k": 5, "log": False}),
        (["revd.k=5", "re3.log=false", "revd.alpha=0.3"], {"revd": {"k": 5, "alpha": 0.3}, "re3": {"log": False}}),
        (['revd={"k": 5}', "revd.alpha=0.3"], {"revd": {"k": 5, "alpha": 0.3}}),
        (
            ['a={"b": {"c": 1}}', "empty={}", 'odd={"not a name": 1}'],
            {"a": {"b": {"c": 1}}, "empty": {}, "odd": {"not a name": 1}},
        ),
    ],
)
def test_parameters_of_a_group_carry_its_name(words, expected):
    parameters = Parameters.parse(words)
    assert parameters == expected
    assert Parameters.parse(parameters.words()) == expected


@pytest.mark.parametrize("words", [["a.b.c=1"], ["a.=1"], [".b=1"], ["a.b"]])
def test_words_that_are_no_parameters(words):
    with pytest.raises(ValueError, match="expected KEY=VALUE"):
        Parameters.parse(words)


@pytest.mark.parametrize("words", [["a=1", "a.b=2"], ["a.b=1", "a.b=2"], ["a.b=1", "a=2"], ['a={"b": 1}', "a.b=2"]])
def test_parameters_given_twice(words):
    with pytest.raises(ValueError, match="is given twice"):
        Parameters.parse(words)


@pytest.mark.parametrize(
    ("reward", "method", "directory"),
    [
        ("none", "PPO", "ppo-none-seed0"),
        ("revd", "PPO+REVD", "ppo-revd-seed0"),
        ("revd+re3", "PPO+REVD+RE3", "ppo-revd+re3-seed0"),
        ("mypkg.rewards:MyReward", "PPO+MyReward", "ppo-mypkg.rewards-MyReward-seed0"),
        ("revd+mypkg:Mine", "PPO+REVD+Mine", "ppo-revd+mypkg-Mine-seed0"),
    ],
)
def test_names_of_methods_and_directories(reward, method, directory):
    config = TrainConfig(task="CartPole-v1", reward=reward)
    assert (config.method, config.directory.name) == (method, directory)
