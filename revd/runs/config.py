"""What one training is, as data. Imports no framework, so that the command line answers at once."""

import json
import math
import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, Self, get_args

from revd.names import unknown_name

Normalize = Literal["none", "observations", "rewards", "both"]
NormalizeBonus = Literal["none", "rms"]
DecayPer = Literal["rollout", "step"]
Network = Literal["sb3", "paper"]
BatchNorm = Literal["train", "eval", "off"]
Trainer = Literal["auto", "fast", "sb3"]

NO_REWARD = "none"
RUNS = Path("runs")


class Parameters(dict[str, Any]):
    """Named values of JSON's types, written on the command line as KEY=VALUE."""

    @classmethod
    def parse(cls, words: Iterable[str]) -> Self:
        """`["k=5", "log=false"]` -> `{"k": 5, "log": False}`; what is not JSON is taken as text."""
        found = cls()
        for word in words:
            key, separator, value = word.partition("=")
            if not separator or not key.isidentifier():
                raise ValueError(f"expected KEY=VALUE, as in k=5, got {word!r}")
            if key in found:
                raise ValueError(f"{key!r} is given twice: {key}={found[key]!r} and {word!r}")
            found[key] = _parse_value(value)
        return found

    def words(self) -> list[str]:
        """The inverse of `parse`."""
        return [f"{key}={_write_value(value)}" for key, value in self.items()]


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """One training: a task, an algorithm, an exploration reward, and a seed."""

    task: str
    """A name of `revd tasks`, such as bullet/hopper, or any Gymnasium id; a package's own are named with it, as in
    ale_py:ALE/Pong-v5."""
    algo: str = "ppo"
    """Algorithm: ppo, a2c, trpo, recurrent-ppo or maskable-ppo (the last three need the extra contrib)."""
    reward: str = "revd"
    """Exploration reward, as listed by `revd rewards`, or none to train on the task's reward alone."""
    steps: int = 100_000
    """Environment steps, counted over all environments; the last rollout is completed."""
    seed: int = 0
    """Seed of the environments, the networks and the reward."""
    output: Path | None = None
    """Directory of the run; the same command goes on with a run that it finds there."""
    n_envs: int = 10
    """Copies of the environment that are stepped together."""
    normalize: Normalize = "none"
    """What of the task is scaled to unit variance while training: its observations, its rewards, or both."""
    sparse: float | None = None
    """Probability with which each step's reward is hidden from the agent; reported returns are untouched."""
    network: Network = "sb3"
    """Networks of the policy: SB3's own, or the paper's (separate for policy and value)."""
    batch_norm: BatchNorm = "off"
    """BatchNorm after the convolutions of the paper's network: trained, always in eval mode, or left out."""
    weight: float = 0.1
    """Weight of the bonus, before it shrinks."""
    decay: float = 1e-5
    """Fraction by which that weight shrinks, each rollout or each step."""
    decay_per: DecayPer = "rollout"
    """Whether the weight shrinks once a rollout or once an environment step."""
    extrinsic_weight: float = 1.0
    """Weight of the task's own reward; 0 trains on the bonus alone."""
    normalize_bonus: NormalizeBonus = "none"
    """rms divides the bonus by its running standard deviation."""
    reward_params: Parameters = field(default_factory=Parameters)
    """Parameters of the reward, such as k=5 alpha=0.3."""
    algo_params: Parameters = field(default_factory=Parameters)
    """Hyperparameters of the algorithm, such as n_steps=128 learning_rate=3e-4."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1, … With auto, only networks for images go to a GPU."""
    trainer: Trainer = "auto"
    """Who computes ppo and a2c: sb3 for Stable-Baselines3's own, fast for ours, which learn the same and sooner on a
    GPU; auto takes ours there and SB3's elsewhere."""
    checkpoint_every: int = 50_000
    """Steps between two checkpoints, from which the same command goes on after an interruption."""
    eval_every: int = 0
    """Steps between two evaluations with the deterministic policy on the untouched task; 0 for none."""
    eval_episodes: int = 10
    """Episodes of an evaluation."""
    init_from: Path | None = None
    """Run to take the initial policy from, such as one of `revd pretrain`."""
    init_value: bool = False
    """Take its value network too."""
    init_optimizer: bool = False
    """Take its optimiser's state too."""
    threads: int = 0
    """CPU threads of torch, and of the Atari emulators too; 0 for one. On the CPU, networks for images gain from more;
    small ones lose, on a busy machine very much."""
    emulator_threads: int = 0
    """CPU threads of the Atari emulators alone; 0 for as many as threads or, where that is 0 too and a GPU computes the
    policy, one for each game as far as there are cores."""

    def __post_init__(self) -> None:
        _check_types(self)
        for name in ("reward_params", "algo_params"):
            object.__setattr__(self, name, Parameters(getattr(self, name)))
        for name in ("task", "algo", "reward", "device"):
            if not getattr(self, name):
                raise ValueError(f"{name} must not be empty")
        _check_numbers(self)
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in get_args(choices):
                raise ValueError(unknown_name(f"value of {name}", getattr(self, name), get_args(choices)))
        if self.reward == NO_REWARD and self.reward_params:
            raise ValueError(f"reward_params are {self.reward_params.words()}, but reward 'none' takes none")
        if self.reward == NO_REWARD and self.extrinsic_weight != 1:
            raise ValueError(f"extrinsic_weight must be 1 with reward 'none', got {self.extrinsic_weight}")
        for name in OF_THE_BONUS if self.reward == NO_REWARD else ():
            value = getattr(self, name)
            if value != _DEFAULTS[name]:
                raise ValueError(f"{name} is {value!r}, but reward 'none' pays no bonus: leave one of them out")
        if self.batch_norm != "off" and self.network != "paper":
            raise ValueError(
                f"batch_norm is {self.batch_norm!r}, but network {self.network!r} has none; "
                "use network 'paper', or leave batch_norm 'off'"
            )
        if self.init_from is None and (self.init_value or self.init_optimizer):
            raise ValueError("init_value and init_optimizer say what to take from init_from, which is not given")

    @property
    def method(self) -> str:
        """How tables and figures call it: PPO, or PPO+REVD."""
        return self.algo.upper() + ("" if self.reward == NO_REWARD else f"+{self.reward.upper()}")

    @property
    def torch_threads(self) -> int:
        """CPU threads of torch. More than one would spin against the emulators, or against another run of a suite."""
        return self.threads or 1

    @property
    def directory(self) -> Path:
        """Where the run is kept: `output`, or a place under `runs` that says what it is."""
        if self.output is not None:
            return self.output
        return RUNS / file_name(self.task) / file_name(f"{self.algo}-{self.reward}-seed{self.seed}")

    def differences(self, other: "TrainConfig") -> list[str]:
        """What would make `other` another training than this one, in words; how it runs does not count."""
        names = [entry.name for entry in fields(TrainConfig) if entry.name not in _HOW_IT_RUNS]
        return [
            f"{name} is {_shown(getattr(self, name))} there and {_shown(getattr(other, name))} here"
            for name in names
            if getattr(self, name) != getattr(other, name)
        ]

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON's types."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(TrainConfig)}
        return values | {name: None if values[name] is None else str(values[name]) for name in _PATHS}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "TrainConfig":
        """The inverse of `to_dict`."""
        names = [entry.name for entry in fields(TrainConfig)]
        for name in values:
            if name not in names:
                raise ValueError(unknown_name("field of a training", str(name), names))
        if "task" not in values:
            raise ValueError("task must be given, such as CartPole-v1")
        paths = {name: Path(values[name]) for name in _PATHS if isinstance(values.get(name), str)}
        # Runs from before these were refused have them, without effect.
        idle = [*(OF_THE_BONUS if values.get("reward") == NO_REWARD else ())]
        idle += ["batch_norm"] if values.get("network", "sb3") == "sb3" else []
        return TrainConfig(**{**values, **paths, **{name: _DEFAULTS[name] for name in idle}})

    def to_json(self) -> str:
        """`to_dict` as one line of text."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> "TrainConfig":
        """The inverse of `to_json`."""
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the config of a training must be JSON: {error}") from error
        if not isinstance(values, dict):
            raise ValueError(f"the config of a training must be an object of JSON, got {type(values).__name__}")
        return cls.from_dict(values)

    def command(self) -> str:
        """The command line that repeats this training; what has its default is left out."""
        default = TrainConfig(task=self.task)
        words = ["revd", "train", "--task", self.task]
        for entry in fields(TrainConfig):
            value = getattr(self, entry.name)
            if value != getattr(default, entry.name):
                flag = "--" + entry.name.replace("_", "-")
                words += [flag] if value is True else [flag, *_words(value)]
        return shlex.join(words)


def file_name(text: str) -> str:
    """A text as the name of one file or directory: nothing in it leads to another place."""
    return re.sub(r"[^\w.+-]+", "-", text).strip(".-") or "unnamed"


_CHOICES = {
    "normalize": Normalize,
    "normalize_bonus": NormalizeBonus,
    "decay_per": DecayPer,
    "network": Network,
    "batch_norm": BatchNorm,
    "trainer": Trainer,
}
_PATHS = ("output", "init_from")
#: Means nothing without a bonus, besides `extrinsic_weight` and `reward_params`.
OF_THE_BONUS = ("weight", "decay", "decay_per", "normalize_bonus")
_DEFAULTS = {entry.name: entry.default for entry in fields(TrainConfig)}
#: May differ between the sessions of one run. More steps are a longer run of the same training.
_HOW_IT_RUNS = frozenset(
    {
        "output", "steps", "device", "trainer", "threads", "emulator_threads", "checkpoint_every", "eval_every",
        "eval_episodes",
    }
)  # fmt: skip


def _shown(value: object) -> str:
    return repr(str(value) if isinstance(value, Path) else value)


def _words(value: object) -> list[str]:
    return value.words() if isinstance(value, Parameters) else [str(value)]


_SMALLEST = {
    "steps": 1,
    "n_envs": 1,
    "threads": 0,
    "emulator_threads": 0,
    "seed": 0,
    "checkpoint_every": 1,
    "eval_every": 0,
    "eval_episodes": 1,
}


_TEXTS = ("task", "algo", "reward", "device", *_CHOICES)
_SWITCHES = ("init_value", "init_optimizer")
_NUMBERS = ("weight", "decay", "extrinsic_weight")


def _check_types(config: TrainConfig) -> None:
    """A config that comes from a file may hold anything in any field."""
    for names, right, valid in (
        (_TEXTS, _is_text, "text"),
        (_SWITCHES, lambda value: isinstance(value, bool), "true or false"),
        (_SMALLEST, _is_integer, "an integer"),
        (_NUMBERS, _is_number, "a number"),
        (("sparse",), lambda value: value is None or _is_number(value), "a number or nothing"),
        (_PATHS, lambda value: value is None or isinstance(value, Path), "a path or nothing"),
        (("reward_params", "algo_params"), _is_json_object, "named values of JSON's types"),
    ):
        for name in names:
            if not right(getattr(config, name)):
                raise ValueError(f"{name} must be {valid}, got {getattr(config, name)!r}")


def _is_text(value: object) -> bool:
    # Neither files nor environment ids have control characters in them.
    return isinstance(value, str) and (value.isprintable() or value == "")


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) <= sys.float_info.max
    return isinstance(value, float)


def _is_json_object(value: object) -> bool:
    if not isinstance(value, dict) or not all(isinstance(key, str) and key.isidentifier() for key in value):
        return False
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _check_numbers(config: TrainConfig) -> None:
    for name, smallest in _SMALLEST.items():
        if getattr(config, name) < smallest:
            raise ValueError(f"{name} must be at least {smallest}, got {getattr(config, name)}")
    if config.seed + config.n_envs > 2**32:
        raise ValueError(f"seed must lie below 2**32 - n_envs, got {config.seed}")
    for name in ("weight", "extrinsic_weight"):
        if not (math.isfinite(getattr(config, name)) and getattr(config, name) >= 0):
            raise ValueError(f"{name} must be a finite number of at least 0, got {getattr(config, name)}")
    if config.sparse is not None and not 0 <= config.sparse <= 1:
        raise ValueError(f"sparse is a probability, inside [0, 1], got {config.sparse}")
    if not 0 <= config.decay <= 1:
        raise ValueError(f"decay must lie in [0, 1], got {config.decay}")


def _parse_value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # no JSON, too many digits, too many brackets
        return text


def _write_value(value: Any) -> str:
    # Text goes bare where it reads back as itself, and quoted where it would read back as a number or a list.
    if isinstance(value, str) and _parse_value(value) == value:
        return value
    return json.dumps(value)
