"""The model card of a run: README.md of a repository on the Hugging Face hub.

Everything from the run is untrusted. In the front matter and in code it is quoted as JSON, in the text it is escaped.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from revd.analysis.reading.commands import repeat_command
from revd.analysis.reading.evaluations import Evaluation
from revd.analysis.reading.runs import RecordedRun
from revd.analysis.statistics.grouping import task_family
from revd.analysis.writing.markdown import escape
from revd.episodes import FINAL_RETURN, returns_of_last_part

#: In every card, so that a folder is recognised as an earlier export.
MARK = "<!-- written by revd export -->"
#: The names of the zoo's repositories, for which its tools look.
NORMALIZATION = "vec_normalize.pkl"
#: By algorithm: the package and the class that load its models.
_CLASSES: Mapping[str, tuple[str, str]] = {
    "ppo": ("stable_baselines3", "PPO"),
    "a2c": ("stable_baselines3", "A2C"),
    "trpo": ("sb3_contrib", "TRPO"),
    "recurrent-ppo": ("sb3_contrib", "RecurrentPPO"),
    "maskable-ppo": ("sb3_contrib", "MaskablePPO"),
}


@dataclass(frozen=True, kw_only=True)
class Result:
    """What the card reports about the return."""

    mean: float
    std: float
    episodes: int
    description: str
    deterministic: bool


def model_name(run: RecordedRun) -> str:
    """`ALGO-TASK`, as the tools of the hub name models; without characters that a file name must not have."""
    return _model_name(_algo(run), run.task)


def exported_model_name(config: Mapping[str, Any]) -> str:
    """The same of the `config.json` of an export; a ValueError if it has no algorithm or no task."""
    algo, task = config.get("algo"), config.get("task")
    if algo not in tuple(_CLASSES) or not isinstance(task, str):
        raise ValueError(f"algo must be one of {', '.join(_CLASSES)} and task a name, got {algo!r} and {task!r}")
    return _model_name(algo, task)


def _model_name(algo: str, task: str) -> str:
    return re.sub(r"[^\w.+-]+", "-", f"{algo}-{task}").strip(".-")


def card_result(run: RecordedRun, evaluation: Evaluation | None) -> Result:
    """The last evaluation, if there was one, else the final return. A ValueError if no episode has ended."""
    if evaluation is not None:
        return Result(
            mean=evaluation.mean,
            std=evaluation.std,
            episodes=evaluation.episodes,
            description=f"an evaluation of the deterministic policy after {evaluation.steps:,} steps",
            deterministic=True,
        )
    returns = returns_of_last_part(run.episodes, run.total_steps)
    if not len(returns):
        raise ValueError(f"the run in {str(run.directory)!r} has no return: no episode ended within its steps")
    return Result(
        mean=float(np.mean(returns)),
        std=float(np.std(returns)),
        episodes=len(returns),
        description=f"the training itself, {FINAL_RETURN}",
        deterministic=False,
    )


def model_card(run: RecordedRun, result: Result, *, normalized: bool, film: str | None) -> str:
    """The card.

    Args:
        run: The run.
        result: Its return.
        normalized: Whether `NORMALIZATION` lies beside the model.
        film: The file name of a replay beside it, or None.
    """
    method, task = escape(run.method), escape(run.task)
    repeat = repeat_command(run.origin.get("repeat"))
    # A run that started from another one cannot be repeated elsewhere, and its command has a path of this machine.
    repeatable = repeat is not None and "--init-from" not in repeat
    lines = [
        *_front_matter(run, result),
        f"# {method} on {task}",
        "",
        f"An agent trained with {method} on {task} for {run.total_steps:,} steps, with revd and Stable-Baselines3.",
        "",
        f"Mean return {result.mean:.2f}, standard deviation {result.std:.2f}, over {result.episodes} episodes: "
        f"{result.description}.",
        "",
        *([f"![A replay]({film})", ""] if film is not None and film.endswith(".gif") else []),
        "## Use it",
        "",
        _requirements(run),
        "",
        "```python",
        *_code(run, normalized),
        "```",
        "",
        "The model and its statistics are pickles, which can execute code: load only files that you trust.",
        "",
        *(["## Train it again", "", "```bash", str(repeat), "```", ""] if repeatable else []),
        "All settings are in `config.json`.",
    ]
    return "\n".join(lines) + "\n"


def _front_matter(run: RecordedRun, result: Result) -> list[str]:
    """JSON is YAML, so quoted values cannot end the block or add keys."""
    dataset = {"name": run.task, "type": run.task}
    metric = {"type": "mean_reward", "name": "mean_reward", "value": f"{result.mean:.2f} +/- {result.std:.2f}"}
    task = {"type": "reinforcement-learning", "name": "reinforcement-learning"}
    entry = {"name": run.method, "results": [{"task": task, "dataset": dataset, "metrics": [metric]}]}
    tags = [run.task, "deep-reinforcement-learning", "reinforcement-learning", "stable-baselines3", "revd"]
    values: dict[str, Any] = {"library_name": "stable-baselines3", "tags": tags, "model-index": [entry]}
    return ["---", *(f"{name}: {json.dumps(value)}" for name, value in values.items()), "---", MARK, ""]


def _requirements(run: RecordedRun) -> str:
    package = _CLASSES[_algo(run)][0]
    needed = {"stable_baselines3": "Stable-Baselines3", "sb3_contrib": "sb3-contrib"}[package]
    return f"This needs {needed}{' and revd' if _needs_revd(run) else ''}. `folder` is where this repository lies."


def _code(run: RecordedRun, normalized: bool) -> list[str]:
    algo = _algo(run)
    package, name = _CLASSES[algo]
    evaluation = f"{package}.common.maskable" if algo == "maskable-ppo" else "stable_baselines3.common"
    environments = "revd.training.vec_env" if _needs_revd(run) else "stable_baselines3.common.env_util"
    restored = [
        f'env = VecNormalize.load(f"{{folder}}/{NORMALIZATION}", env)',
        "env.training = env.norm_reward = False",
    ]
    return [
        f"from {package} import {name}",
        f"from {environments} import make_vec_env",
        f"from {evaluation}.evaluation import evaluate_policy",
        *(["from stable_baselines3.common.vec_env import VecNormalize"] if normalized else []),
        "",
        'folder = "."  # or huggingface_hub.snapshot_download("USER/REPOSITORY")',
        f"env = make_vec_env({json.dumps(run.task)})",
        *(restored if normalized else []),
        f'model = {name}.load(f"{{folder}}/{model_name(run)}.zip")',
        "print(evaluate_policy(model, env, n_eval_episodes=10))  # mean and standard deviation of the return",
    ]


def _needs_revd(run: RecordedRun) -> bool:
    """Whether its environment or its policy's networks are ours."""
    named = task_family(run.task) != "gymnasium" or run.task.startswith("envpool/") or ":" in run.task
    return named or run.settings.get("network", "sb3") != "sb3"


def _algo(run: RecordedRun) -> str:
    algo = run.settings.get("algo")
    if algo not in _CLASSES:
        raise ValueError(f"algo of {str(run.directory)!r} must be one of {', '.join(_CLASSES)}, got {algo!r}")
    return str(algo)
