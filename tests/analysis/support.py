"""Run directories written by hand, so that the analysis is tested against the format and not against the writer."""

import json

import numpy as np

from revd.analysis.runs import Episodes


def write_run(directory, *, method="PPO", seed=1, task="MountainCar-v0", steps=1000, returns=(), state="finished"):
    """A run whose episodes ended ten steps apart."""
    directory.mkdir(parents=True)
    config = {"task": task, "seed": seed, "steps": steps, "resolved": {"method": method}}
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "status.json").write_text(json.dumps({"state": state}))
    lines = [f"{10 * (index + 1)},{value},5,0" for index, value in enumerate(returns)]
    (directory / "episodes.csv").write_text("\n".join(["steps,return,length,env", *lines]) + "\n")
    return directory


def episodes(*returns):
    """Episodes that ended ten steps apart."""
    return Episodes(steps=10.0 * np.arange(1, len(returns) + 1), returns=np.array(returns, dtype=float))
