"""The settings of one training. Imports no framework, so that the command line starts quickly."""

import json
import math
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from revd.envs.tasks import Engine
from revd.former_defaults import with_former_yielding
from revd.names import unknown_name
from revd.runs.parameters import Parameters

NormalizeTask = Literal["none", "observations", "rewards", "both"]
NormalizeBonus = Literal["none", "rms", "standard"]
DecayPer = Literal["rollout", "step"]
Network = Literal["sb3", "paper"]
BatchNorm = Literal["train", "eval", "off"]
Trainer = Literal["auto", "fast", "sb3"]

NO_REWARD = "none"
#: Visited states are not counted.
NO_COVERAGE = "none"
#: The weight that follows from the data.
AUTO = "auto"
RUNS = Path("runs")


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """One training: a task, an algorithm, an exploration reward, and a seed."""

    task: str
    """A name that `revd tasks` lists, such as bullet/hopper, or any Gymnasium id. PACKAGE:ID imports the package that
    registers the id, as in ale_py:ALE/Pong-v5; MODULE:CLASS is an environment of your own."""
    algo: str = "ppo"
    """Algorithm: ppo, a2c, trpo, recurrent-ppo or maskable-ppo. The last three need the extra contrib."""
    reward: str = "revd"
    """Exploration reward, as listed by `revd rewards`, or none to train on the task's reward alone. MODULE:CLASS is one
    of your own, NAME+NAME a mixture."""
    steps: int = 100_000
    """Environment steps over all environments. The last rollout is completed."""
    seed: int = 0
    """Seed of environments, networks and reward."""
    output: Path | None = None
    """Directory of the run. The same command resumes a run that is already there."""
    n_envs: int = 10
    """Number of environments that are stepped together."""
    normalize: NormalizeTask = "none"
    """Scale the task's observations, its rewards, or both to unit variance while training."""
    sparse: float | None = None
    """Probability that a step's reward is hidden from the agent. Reported returns are not affected."""
    network: Network = "sb3"
    """Networks of the policy: SB3's defaults, or the paper's, which are separate for policy and value."""
    batch_norm: BatchNorm = "off"
    """BatchNorm after the convolutions of the paper's network: trained, always in eval mode, or none."""
    weight: float | Literal["auto"] = "auto"
    """Weight of the bonus. With auto it follows from the data, and the bonus joins the policy's advantages; a number is
    the initial weight of the bonus in the rewards, as in the paper."""
    strength: float = 0.1
    """With weight auto, how strong the bonus is in the policy's advantages, relative to the task."""
    yield_to_task: bool = True
    """With weight auto, leave the policy to a task whose reward is dense: one that differs at most steps from the step
    before. The bonus then has strength 0."""
    decay: float = 1e-5
    """Fraction by which weight or strength decays, each rollout or each step."""
    decay_per: DecayPer = "rollout"
    """Whether the weight decays once a rollout or once an environment step."""
    extrinsic_weight: float = 1.0
    """Weight of the task's reward; 0 trains on the bonus alone."""
    normalize_bonus: NormalizeBonus = "none"
    """With rms, the bonus is divided by its running standard deviation. With standard, its running mean is subtracted
    first, so that states less novel than usual are paid less than nothing."""
    reward_params: Parameters = field(default_factory=Parameters)
    """Parameters of the reward, such as k=5 alpha=0.3. Those of a mixture's member carry its name: revd.k=5."""
    algo_params: Parameters = field(default_factory=Parameters)
    """Hyperparameters of the algorithm, such as n_steps=128 learning_rate=3e-4."""
    coverage: str = "auto"
    """What is counted as visited: with auto, cells of classic control and MiniGrid; MODULE:NAME is a grid or a
    function of one's own; none counts nothing. A resumed run keeps it."""
    engine: Engine = "auto"
    """What steps the environments: gymnasium, or envpool, which is faster and has the classic/… and minigrid/… tasks.
    With auto, envpool if it is installed, and a resumed run keeps its engine."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1, … With auto, only networks for images use a GPU."""
    trainer: Trainer = "auto"
    """Implementation of ppo and a2c: sb3 for Stable-Baselines3's, fast for ours, which learns the same in less time.
    With auto, ours for ppo and a2c."""
    checkpoint_every: int = 50_000
    """Steps between two checkpoints. The same command resumes from the last one."""
    eval_every: int = 0
    """Steps between two evaluations of the deterministic policy on the unchanged task; 0 for none."""
    eval_episodes: int = 10
    """Episodes of each evaluation."""
    init_from: Path | None = None
    """Run whose policy is the initial one, such as one of `revd pretrain`."""
    init_value: bool = False
    """Copy its value network too."""
    init_optimizer: bool = False
    """Copy its optimiser's state too."""
    threads: int = 0
    """CPU threads of torch, the Atari emulators and EnvPool; 0 for one. On a CPU, more threads make networks for images
    faster and small networks slower, much slower on a busy machine."""
    emulator_threads: int = 0
    """CPU threads of the Atari emulators or of EnvPool alone. With 0 it is the number of threads. If that is 0 too, it
    is one for each game with the policy on a GPU, at most one for each core, and one in all without a GPU."""

    def __post_init__(self) -> None:
        _check_types(self)
        for name in ("reward_params", "algo_params"):
            object.__setattr__(self, name, Parameters(getattr(self, name)))
        for name in ("task", "algo", "reward", "coverage", "device"):
            if not getattr(self, name):
                raise ValueError(f"{name} must not be empty")
        _check_numbers(self)
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in get_args(choices):
                raise ValueError(unknown_name(f"value of {name}", getattr(self, name), get_args(choices)))
        if self.reward == NO_REWARD:
            _check_no_bonus(self)
        if self.batch_norm != "off" and self.network != "paper":
            raise ValueError(
                f"batch_norm is {self.batch_norm!r}, but network {self.network!r} has none; "
                "use network 'paper', or leave batch_norm 'off'"
            )
        if self.init_from is None and (self.init_value or self.init_optimizer):
            raise ValueError("init_value and init_optimizer need init_from, which is not given")

    @property
    def method(self) -> str:
        """Its name in tables and figures: PPO, PPO+REVD, PPO+REVD+RND, or PPO+MyReward for mypkg.rewards:MyReward."""
        names = [] if self.reward == NO_REWARD else self.reward.split("+")
        return "+".join(
            [self.algo.upper(), *(name.rpartition(":")[2] if ":" in name else name.upper() for name in names)]
        )

    @property
    def torch_threads(self) -> int:
        """CPU threads of torch. By default one: more would compete with the emulators and other runs of a suite."""
        return self.threads or 1

    @property
    def directory(self) -> Path:
        """Directory of the run: `output`, or one under `runs` that is named after the training."""
        if self.output is not None:
            return self.output
        return RUNS / file_name(self.task) / file_name(f"{self.algo}-{self.reward}-seed{self.seed}")

    def differences(self, other: "TrainConfig") -> list[str]:
        """Describe the fields that make `other` a different training; fields that may change on resume do not count."""
        names = [entry.name for entry in fields(TrainConfig) if entry.name not in _SESSION_FIELDS]
        return [
            f"{name} is {_quoted(getattr(self, name))} there and {_quoted(getattr(other, name))} here"
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
        # Old runs may have these fields set. They had no effect then, and are refused now.
        unused = [*(BONUS_FIELDS if values.get("reward") == NO_REWARD else ())]
        values = with_former_yielding(values)
        unused += ["batch_norm"] if values.get("network", "sb3") == "sb3" else []
        return TrainConfig(**{**values, **paths, **{name: _DEFAULTS[name] for name in unused}})

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
        """The command line that repeats this training, without flags that have their default."""
        default = TrainConfig(task=self.task)
        words = ["revd", "train", "--task", self.task]
        for entry in fields(TrainConfig):
            value = getattr(self, entry.name)
            if value != getattr(default, entry.name):
                flag = "--" + entry.name.replace("_", "-")
                if isinstance(value, bool):
                    words.append(flag if value else "--no-" + flag[2:])
                else:
                    words += [flag, *_value_words(value)]
        return shlex.join(words)


def file_name(text: str) -> str:
    """Turn a text into the name of one file or directory, without path separators."""
    return re.sub(r"[^\w.+-]+", "-", text).strip(".-") or "unnamed"


_CHOICES = {
    "normalize": NormalizeTask,
    "normalize_bonus": NormalizeBonus,
    "decay_per": DecayPer,
    "network": Network,
    "batch_norm": BatchNorm,
    "trainer": Trainer,
    "engine": Engine,
}
_PATHS = ("output", "init_from")
#: Fields that have no effect without a bonus, besides `extrinsic_weight` and `reward_params`.
BONUS_FIELDS = ("weight", "strength", "yield_to_task", "decay", "decay_per", "normalize_bonus")
_DEFAULTS = {entry.name: entry.default for entry in fields(TrainConfig)}
#: Fields that may differ between the sessions of one run. More steps make a longer run of the same training.
_SESSION_FIELDS = frozenset(
    {
        "output", "steps", "engine", "device", "trainer", "threads", "emulator_threads", "checkpoint_every",
        "eval_every", "eval_episodes",
    }
)  # fmt: skip


def _quoted(value: object) -> str:
    return repr(str(value) if isinstance(value, Path) else value)


def _value_words(value: object) -> list[str]:
    return value.words() if isinstance(value, Parameters) else [str(value)]


_MINIMUMS = {
    "steps": 1,
    "n_envs": 1,
    "threads": 0,
    "emulator_threads": 0,
    "seed": 0,
    "checkpoint_every": 1,
    "eval_every": 0,
    "eval_episodes": 1,
}


_TEXTS = ("task", "algo", "reward", "coverage", "device", *_CHOICES)
_SWITCHES = ("yield_to_task", "init_value", "init_optimizer")
_NUMBERS = ("strength", "decay", "extrinsic_weight")


def _check_types(config: TrainConfig) -> None:
    """Raise a ValueError for a field of a wrong type: a config from a file may hold any value."""
    for names, is_valid, expected in (
        (_TEXTS, _is_text, "text"),
        (_SWITCHES, lambda value: isinstance(value, bool), "true or false"),
        (_MINIMUMS, _is_integer, "an integer"),
        (("weight",), lambda value: value == AUTO or _is_number(value), "a number or 'auto'"),
        (_NUMBERS, _is_number, "a number"),
        (("sparse",), lambda value: value is None or _is_number(value), "a number or nothing"),
        (_PATHS, lambda value: value is None or isinstance(value, Path), "a path or nothing"),
        (("reward_params", "algo_params"), _is_json_object, "named values of JSON's types"),
    ):
        for name in names:
            if not is_valid(getattr(config, name)):
                raise ValueError(f"{name} must be {expected}, got {getattr(config, name)!r}")


def _is_text(value: object) -> bool:
    # Names of files and environments contain no control characters.
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


def _check_no_bonus(config: TrainConfig) -> None:
    """Raise a ValueError for a field that has no effect with reward none."""
    if config.reward_params:
        raise ValueError(f"reward_params are {config.reward_params.words()}, but reward 'none' takes none")
    if config.extrinsic_weight != 1:
        raise ValueError(f"extrinsic_weight must be 1 with reward 'none', got {config.extrinsic_weight}")
    for name in BONUS_FIELDS:
        value = getattr(config, name)
        if value != _DEFAULTS[name]:
            raise ValueError(f"{name} is {value!r}, but reward 'none' pays no bonus: leave one of them out")


def _check_numbers(config: TrainConfig) -> None:
    for name, smallest in _MINIMUMS.items():
        if getattr(config, name) < smallest:
            raise ValueError(f"{name} must be at least {smallest}, got {getattr(config, name)}")
    if config.seed + config.n_envs > 2**32:
        raise ValueError(f"seed must lie below 2**32 - n_envs, got {config.seed}")
    for name in ("strength", "extrinsic_weight", *(["weight"] if config.weight != AUTO else [])):
        if not (math.isfinite(getattr(config, name)) and getattr(config, name) >= 0):
            raise ValueError(f"{name} must be a finite number of at least 0, got {getattr(config, name)}")
    if config.weight != AUTO and config.strength != _DEFAULTS["strength"]:
        raise ValueError(
            f"strength {config.strength} belongs to weight auto, but weight is {config.weight}: leave one of them out"
        )
    if config.weight != AUTO and not config.yield_to_task:
        raise ValueError(f"yield_to_task belongs to weight auto, but weight is {config.weight}: leave one of them out")
    if config.sparse is not None and not 0 <= config.sparse <= 1:
        raise ValueError(f"sparse is a probability, inside [0, 1], got {config.sparse}")
    if not 0 <= config.decay <= 1:
        raise ValueError(f"decay must lie in [0, 1], got {config.decay}")
