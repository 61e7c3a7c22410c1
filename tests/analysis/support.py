"""Run directories written by hand, so that the analysis is tested against the format and not against the writer."""

import json

import numpy as np
from matplotlib.legend import Legend

from revd.analysis.reading.runs import load_runs
from revd.episodes import Episodes

ORIGIN = {
    "python": "3.11.7",
    "platform": "Linux",
    "versions": {"revd": "0.1.0", "torch": "2.13.0"},
    "git": {"commit": "abc123"},
}


def write_run(
    directory,
    *,
    method="PPO",
    seed=1,
    task="MountainCar-v0",
    steps=1000,
    returns=(),
    spacing=10,
    state="finished",
    status=None,
    **settings,
):
    """A run whose episodes ended `spacing` steps apart."""
    directory.mkdir(parents=True)
    algo, _, reward = method.lower().partition("+")
    config = {
        "task": task,
        "algo": algo,
        "reward": reward or "none",
        "seed": seed,
        "steps": steps,
        "n_envs": 1,
        "sparse": None,
    }
    config |= {"output": str(directory), "weight": 0.1, "reward_params": {}, "algo_params": {}} | settings
    repeat = f"revd train --task {task} --reward {config['reward']} --output {directory} --seed {seed}"
    write_json(directory / "config.json", config | {"resolved": {"method": method}})
    write_json(directory / "status.json", {"state": state, "steps": 0, "error": None} | (status or {}))
    write_json(directory / "run.json", ORIGIN | {"repeat": repeat})
    lines = [f"{spacing * (index + 1)},{value},{spacing},0" for index, value in enumerate(returns)]
    (directory / "episodes.csv").write_text("\n".join(["steps,return,length,env", *lines]) + "\n")
    return directory


def make_runs(folder, *runs):
    for index, run in enumerate(runs):
        write_run(folder / str(index), **run)
    return load_runs(folder)


def fake_save(figure, path):
    """Instead of `save_figure`, for drawing takes seconds: writes what the figure's legends and axes are called."""
    names = [text.get_text() for legend in figure.findobj(Legend) for text in legend.get_texts()]
    for axes in figure.axes:
        names += [axes.get_title(), axes.get_title(loc="left"), axes.get_xlabel(), axes.get_ylabel()]
    path.write_text("\n".join(filter(None, names)))
    return path


def write_json(path, values):
    path.write_text(json.dumps(values))


def episodes(*returns):
    """Episodes that ended ten steps apart."""
    return Episodes(steps=10.0 * np.arange(1, len(returns) + 1), returns=np.array(returns, dtype=float))
