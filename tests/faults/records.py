"""What a run directory must look like after any number of kills: every step once, in every file."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory
from revd.storage.tensor_file import read_tensors


@dataclass
class Findings:
    """What is wrong with runs, each as a line of text; and how often they were resumed."""

    runs: int = 0
    resumes: int = 0
    gaps: list[str] = field(default_factory=list)
    repeats: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not (self.gaps or self.repeats or self.lost or self.leftovers)


def examine(path: Path, rollout: int, findings: Findings) -> None:
    """Check a finished run, given the steps of its rollouts, and add the findings."""
    directory = RunDirectory(path)
    config = directory.read_config()
    assert config is not None
    resumed = [session["steps"] for session in json.loads(directory.run.read_text()).get("resumed", [])]
    findings.runs += 1
    findings.resumes += len(resumed)
    if any(later < earlier for earlier, later in pairwise(resumed)):
        findings.lost.append(f"{path}: resumed from {resumed}")
    _examine_progress(path, config, rollout, findings)
    _examine_episodes(path, config, {0, *resumed}, findings)
    findings.leftovers += [str(entry) for entry in temporary_files(path)]


def newest_checkpoint(path: Path) -> int:
    """The steps of the newest checkpoint, which must be readable; 0 if there is none."""
    checkpoints = sorted((path / "checkpoints").glob("steps-*.safetensors"))
    if not checkpoints:
        return 0
    _, values = read_tensors(checkpoints[-1])
    return int(values["counters"]["num_timesteps"])


def temporary_files(path: Path) -> list[Path]:
    """Files that were being written when their process was killed."""
    return [entry for entry in path.rglob(".*") if entry.name.split(".")[1].isdigit()]


def rows(path: Path) -> list[dict[str, str]]:
    """The complete rows of a CSV file, of which a killed process may have left a part of the last."""
    text = path.read_text() if path.exists() else ""
    return list(csv.DictReader(text[: text.rfind("\n") + 1].splitlines()))


def _examine_progress(path: Path, config: TrainConfig, rollout: int, findings: Findings) -> None:
    """Every rollout once, with the weight of its number, and trained on once."""
    progress = rows(path / "progress.csv")
    steps = [int(row["time/total_timesteps"]) for row in progress]
    expected = list(range(rollout, steps[-1] + 1, rollout))
    _compare(f"{path}/progress.csv", steps, expected, findings)
    if steps[-1] < config.steps:
        findings.gaps.append(f"{path}/progress.csv ends at {steps[-1]} of {config.steps}")
    updates = [float(row["train/n_updates"]) for row in progress[1:]]
    each = updates[0] if updates else 1.0
    _compare(f"{path}/progress.csv n_updates", updates, [each * (index + 1) for index in range(len(updates))], findings)
    if config.reward != "none":
        name = "strength" if config.weight == "auto" else "weight"
        found = [round(float(row[f"exploration/{name}"]), 12) for row in progress]
        first = getattr(config, name)
        schedule = [round(first * (1 - config.decay) ** (index + 1), 12) for index in range(len(expected))]
        _compare(f"{path}/progress.csv {name}", found, schedule, findings)


def _examine_episodes(path: Path, config: TrainConfig, starts: set[int], findings: Findings) -> None:
    """Every episode begins where its environment's last one ended, or where a session began."""
    ends = dict.fromkeys(range(config.n_envs), 0)
    for row in rows(path / "episodes.csv"):
        env, end = int(row["env"]), int(row["steps"])
        start = end - int(row["length"]) * config.n_envs
        if start < ends[env]:
            findings.repeats.append(f"{path}/episodes.csv: environment {env}, {start} … {end} after {ends[env]}")
        elif start not in {ends[env], *starts}:
            findings.gaps.append(f"{path}/episodes.csv: environment {env}, {ends[env]} to {start}")
        ends[env] = end


def _compare(name: str, found: list[Any], expected: list[Any], findings: Findings) -> None:
    findings.repeats += [f"{name}: {value} is there {found.count(value)} times" for value in _twice(found)]
    findings.gaps += [f"{name}: {value} is missing" for value in expected if value not in set(found)]
    if found != expected and not (set(_twice(found)) or set(expected) - set(found)):
        findings.gaps.append(f"{name}: {found} instead of {expected}")


def _twice(values: list[Any]) -> list[Any]:
    seen: set[Any] = set()
    return [value for value in values if value in seen or seen.add(value)]  # type: ignore[func-returns-value]
