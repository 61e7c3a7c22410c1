"""Configs from files, scripts and command lines: what cannot be a training is refused by name."""

import json
import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from revd.runs.config import TrainConfig
from revd.runs.parameters import Parameters
from revd.runs.presets import preset_config
from revd.suites.catalog import SUITES
from revd.suites.grids import suite_runs
from tests.fuzz.support import JSON, JUNK, documented, fuzz, sometimes

NAMES = [entry.name for entry in fields(TrainConfig)]
WORDS = st.text("abk5=[]{}\"',.:-+ e\\Ø\n\0", max_size=8)
IDENTIFIERS = st.sampled_from(["k", "alpha", "log", "n_steps", "Ø"])
PATHS = st.none() | st.builds(Path, st.sampled_from(["runs/a", "a b/c", "Ø", "."]))
GOOD: dict[str, st.SearchStrategy[Any]] = {
    "task": st.sampled_from(["CartPole-v1", "bullet/hopper", "ale_py:ALE/Pong-v5", "../../x", "-", "Ø y"]),
    "algo": st.sampled_from(["ppo", "a2c", "trpo", "x/y"]),
    "reward": st.sampled_from(["revd", "re3", "ride", "none"]),
    "steps": st.integers(1, 10**12),
    "seed": st.integers(0, 2**31),
    "output": PATHS,
    "n_envs": st.integers(1, 100),
    "normalize": st.sampled_from(["none", "observations", "rewards", "both"]),
    "sparse": st.none() | st.floats(0, 1),
    "network": st.sampled_from(["sb3", "paper"]),
    "batch_norm": st.sampled_from(["train", "eval", "off"]),
    "weight": st.floats(0, 1e9) | st.just("auto"),
    "strength": st.just(0.1) | st.floats(0, 1e9),
    "yield_to_task": st.booleans(),
    "decay": st.floats(0, 1),
    "decay_per": st.sampled_from(["rollout", "step"]),
    "extrinsic_weight": st.floats(0, 1e9),
    "normalize_bonus": st.sampled_from(["none", "rms"]),
    "reward_params": st.dictionaries(IDENTIFIERS, JSON, max_size=2),
    "algo_params": st.dictionaries(IDENTIFIERS, JSON, max_size=2),
    "coverage": st.sampled_from(["auto", "none", "x.y:z"]),
    "engine": st.sampled_from(["auto", "gymnasium", "envpool"]),
    "device": st.sampled_from(["auto", "cpu", "cuda:1"]),
    "trainer": st.sampled_from(["auto", "fast", "sb3"]),
    "checkpoint_every": st.integers(1, 10**9),
    "eval_every": st.integers(0, 10**9),
    "eval_episodes": st.integers(1, 100),
    "init_from": PATHS,
    "init_value": st.booleans(),
    "init_optimizer": st.booleans(),
    "threads": st.integers(0, 64),
    "emulator_threads": st.integers(0, 64),
}
ANY = st.fixed_dictionaries({}, optional={name: sometimes(values) for name, values in GOOD.items()})


def test_every_field_has_good_values() -> None:
    assert list(GOOD) == NAMES


def survives(config: TrainConfig) -> None:
    """What every config that was made can do."""
    assert config.method
    assert isinstance(config.directory, Path)
    written = config.to_json()
    again = TrainConfig.from_json(written)
    assert again.to_json() == written
    if "NaN" not in written:
        assert again == config
        assert again.differences(config) == []
    assert shlex.split(config.command())[:2] == ["revd", "train"]


@fuzz(values=ANY, task=GOOD["task"])
def test_any_values(values: dict[str, Any], task: str) -> None:
    with documented(NAMES, (ValueError,)):
        survives(TrainConfig(**{"task": task, **values}))


@fuzz(values=sometimes(ANY, st.dictionaries(st.text(max_size=8) | st.integers(), JUNK, max_size=3)))
def test_any_dict(values: Any) -> None:
    with documented([*NAMES, "field of a training"], (ValueError,)):
        survives(TrainConfig.from_dict(values))


def as_file(values: Any) -> str:
    return json.dumps(values, default=str)


@fuzz(
    text=st.one_of(
        ANY.map(as_file), JSON.map(as_file), st.text(max_size=30), st.sampled_from(["[" * 99_999, "9" * 5_000])
    )
)
def test_any_file(text: str) -> None:
    with documented([*NAMES, "config of a training", "field of a training"], (ValueError,)):
        survives(TrainConfig.from_json(text))


@fuzz(
    words=st.lists(
        st.one_of(WORDS, st.builds(lambda key, value: f"{key}={value}", IDENTIFIERS, WORDS | JSON.map(as_file))),
        max_size=4,
    )
)
def test_any_words_as_parameters(words: list[str]) -> None:
    with documented(["KEY=VALUE", "is given twice"], (ValueError,)):
        parameters = Parameters.parse(words)
        again = Parameters.parse(parameters.words())
        assert json.dumps(again) == json.dumps(parameters)


def some(words: Any) -> Any:
    return st.lists(sometimes(st.sampled_from(list(words)), st.text(max_size=6)), max_size=2)


@fuzz(data=st.data(), name=sometimes(st.sampled_from(list(SUITES)), st.text(max_size=6)))
def test_any_selection_of_a_suite(data: Any, name: str) -> None:
    suite = SUITES.get(name, SUITES["smoke"])
    selection = {
        "tasks": data.draw(some(suite.tasks)),
        "methods": data.draw(some(["ppo", "ppo+revd", "ppo+re3", "a2c", "a2c+revd"])),
        "seeds": data.draw(st.lists(st.integers(-1, 2**33), max_size=2)),
        "steps": data.draw(st.none() | st.integers(-1, 10**12)),
        "shard": data.draw(st.tuples(st.integers(-1, 4), st.integers(-1, 4))),
        "output": data.draw(PATHS),
    }
    with documented(["suite", "task", "method", "seed", "steps", "shard"], (ValueError,)):
        for config in suite_runs(name, **selection):
            survives(config)


@fuzz(preset=sometimes(st.sampled_from(["none", "paper"]), st.text(max_size=5)), values=ANY, task=GOOD["task"])
def test_any_preset(preset: str, values: dict[str, Any], task: str) -> None:
    named = {"task": task, "algo": "ppo", "reward": "revd"}
    # Parameters are merged one by one, so they must be mappings here already.
    taken = {name: value for name, value in values.items() if not name.endswith("_params") or isinstance(value, dict)}
    merged = {**taken, **named}
    with documented([*NAMES, "preset"], (ValueError,)):
        survives(preset_config(preset, **merged))
