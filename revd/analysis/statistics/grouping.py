"""Grouping and ordering runs, and telling apart runs of one method that had different settings."""

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from revd.analysis.reading.runs import RecordedRun

Key = TypeVar("Key", bound=Hashable)


FAMILY_TITLES: Mapping[str, str] = {
    "atari": "Atari",
    "bullet": "PyBullet",
    "classic": "Classic control",
    "minigrid": "MiniGrid",
    "gymnasium": "Gymnasium",
}

#: Tables and legends list these methods first, in this order, then all others by name.
METHOD_ORDER = ("PPO", "PPO+REVD", "PPO+RE3", "PPO+RIDE", "A2C", "A2C+REVD")

#: Settings that name variants if they tell them apart; else all that differ do.
_TELLING = ({"weight"}, {"weight", "yield_to_task"})
#: What goes without saying.
_UNSAID = {"yield_to_task": "true"}
# These settings may differ between runs of one method: they do not change what the agent learns from.
_IGNORED_SETTINGS = frozenset(
    {
        "task", "algo", "sparse", "seed", "steps", "output", "coverage", "engine", "device", "trainer",
        "threads", "emulator_threads", "checkpoint_every", "eval_every", "eval_episodes", "reward_params.seed",
    }
)  # fmt: skip


def group_by(runs: Iterable[RecordedRun], key: Callable[[RecordedRun], Key]) -> dict[Key, list[RecordedRun]]:
    """Group runs by a key; groups are in the order in which their keys first appear."""
    groups: dict[Key, list[RecordedRun]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return groups


def setting(run: RecordedRun) -> str:
    """The task of a run, and its probability of hidden rewards, if they were sparse."""
    return run.task if run.sparse is None else f"{run.task}, sparse {run.sparse:g}"


def label_variant(label: str) -> str:
    """The part of a label in brackets, which describes the variant; empty without brackets."""
    return label.partition(" (")[2]


def task_family(task: str) -> str:
    """The family of a task: "bullet" for `bullet/hopper`, "gymnasium" for a plain Gymnasium id."""
    prefix, separator, _ = task.partition("/")
    return prefix if separator and prefix in FAMILY_TITLES else "gymnasium"


def name_variants(runs: Sequence[RecordedRun]) -> list[RecordedRun]:
    """Set `variant` of runs whose method was run with several settings, so that they are never pooled.

    A variant is described by the settings that differ between runs of the same method on the same task, or by its
    weight alone if no two variants have the same one, or by its weight and whether the bonus yields.
    """
    flat = {run.directory: _flatten(run.settings) for run in runs}
    varying: dict[tuple[str, float | None, str], set[str]] = {}
    for (task, sparse, method), group in group_by(runs, lambda run: (run.task, run.sparse, run.method)).items():
        settings = [flat[run.directory] for run in group]
        varying.setdefault((task_family(task), sparse, method), set()).update(_telling_names(settings))
    return [
        replace(
            run, variant=_describe_variant(flat[run.directory], varying[task_family(run.task), run.sparse, run.method])
        )
        for run in runs
    ]


def other_settings(runs: Sequence[RecordedRun]) -> dict[str, str]:
    """By label, the settings that differ between variants but are not in their labels; only labels that have some."""
    flat = {run.directory: _flatten(run.settings) for run in runs}
    found: dict[str, dict[str, None]] = {}
    for group in group_by(runs, lambda run: (run.task, run.sparse, run.method)).values():
        names = _varying_names([flat[run.directory] for run in group])
        for run in group:
            shown = {part.partition("=")[0] for part in run.variant.split(", ")}
            hidden = {name for name in names if name.rpartition(".")[2] not in shown}
            if text := _describe_variant(flat[run.directory], hidden):
                found.setdefault(run.label, {})[text] = None
    return {label: " or ".join(texts) for label, texts in found.items()}


def differing_settings(run: RecordedRun, other: RecordedRun) -> list[str]:
    """Describe the settings in which two runs differ, besides task, method, seed, steps and how they were run."""
    settings = [_flatten(each.settings) for each in (run, other)]
    found = []
    for name in sorted(_varying_names(settings)):
        first, second = (values.get(name, _default_value(name)) for values in settings)
        found.append(f"{name} is {first} in the first and {second} in the second")
    return found


def sort_runs(runs: Iterable[RecordedRun]) -> list[RecordedRun]:
    """Sort runs for tables: by family, sparseness, task, method, variant and seed."""
    return sorted(
        runs, key=lambda run: (*setting_order(task_family(run.task), run.sparse), run.task, *_method_order(run))
    )


def setting_order(family: str, sparse: float | None) -> tuple[int, float]:
    """Sort key of a family and a probability of hidden rewards; dense rewards come first."""
    return list(FAMILY_TITLES).index(family), -1.0 if sparse is None else sparse


def _method_order(run: RecordedRun) -> tuple[int, str, str, int, str]:
    place = METHOD_ORDER.index(run.method) if run.method in METHOD_ORDER else len(METHOD_ORDER)
    return place, run.method, run.variant, run.seed, str(run.directory)


def _flatten(settings: Mapping[str, Any]) -> dict[str, str]:
    """Settings as JSON text by dotted name, without those that may differ between runs of one method."""
    values: dict[str, Any] = {}
    for name, value in settings.items():
        values |= {f"{name}.{key}": entry for key, entry in value.items()} if isinstance(value, dict) else {name: value}
    if "init_from" in values:
        # Each seed starts from another pre-trained run, so only whether it is pre-trained matters.
        values["init_from"] = values["init_from"] is not None
    return {name: json.dumps(value) for name, value in values.items() if name not in _IGNORED_SETTINGS}


def _varying_names(settings: Sequence[Mapping[str, str]]) -> set[str]:
    """Names of settings that are not equal in all runs."""
    names = {name for values in settings for name in values}
    return {name for name in names if len({values.get(name, _default_value(name)) for values in settings} - {None}) > 1}


def _telling_names(settings: Sequence[Mapping[str, str]]) -> set[str]:
    """Names of settings that tell all variants apart: a few, if they do, else all that differ."""
    names = _varying_names(settings)

    def number_of_variants(told_by: set[str]) -> int:
        return len({tuple(values.get(name, _default_value(name)) for name in sorted(told_by)) for values in settings})

    return next(
        (few for few in _TELLING if few <= names and number_of_variants(few) == number_of_variants(names)), names
    )


def _default_value(name: str) -> str | None:
    """The value of a missing setting: a parameter has its default; a config field is newer than the run."""
    return "default" if "." in name else None


def _describe_variant(values: Mapping[str, str], names: Iterable[str]) -> str:
    found = {name.rpartition(".")[2]: values.get(name, _default_value(name)) for name in sorted(names)}
    shown = {name: value.strip('"') for name, value in found.items() if value not in (None, _UNSAID.get(name))}
    return ", ".join(f"{name}={value}" for name, value in shown.items())
