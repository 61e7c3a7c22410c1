"""Directories of searches written by hand."""

import csv
import math

import numpy as np

from tests.analysis.support import write_json, write_run

SPACE = {
    "weight": "weight=0.001:10.0:log",
    "alpha": "alpha=0.1:0.9",
    "k": "k=1:15:log",
    "boundary": "boundary=rollout,episode",
}


def write_search(directory, *, trials, seeds=1, space=SPACE, steps=1000, earns=None, prune=True, names=None):
    """A search whose best weight is 0.1; some of its trials are pruned, and the last one has failed."""
    directory.mkdir(parents=True)
    write_json(directory / "study.json", {"training": {}, "search": space, "seeds": seeds, "metric": "final"})
    generator = np.random.default_rng(0)
    rows = []
    for number in range(trials):
        values = {name: _draw(words.partition("=")[2], generator) for name, words in space.items()}
        value = earns(values) if earns else -120 - 25 * abs(math.log10(values["weight"] / 0.1)) + 4 * generator.normal()
        pruned = prune and number > 4 and value < -150
        failed = prune and number == trials - 1
        for seed in range(seeds):
            episodes = 30 if pruned else 50 if failed else 100
            returns = np.linspace(-200, value, episodes)
            returns[-10:] = value
            state = "failed" if failed else "interrupted" if pruned else "finished"
            status = {"steps": steps * episodes // 100, "error": "ValueError: no" if failed else None}
            write_run(
                directory / "trials" / f"{number:04d}" / f"seed{seed}",
                method="PPO+REVD",
                seed=seed,
                steps=steps,
                returns=returns,
                spacing=steps // 100,
                state=state,
                status=status,
                weight=values.get("weight", 0.1),
                reward_params={name: value for name, value in values.items() if name != "weight"},
            )
        state = "failed" if failed else "pruned" if pruned else "finished"
        score = "" if failed else float(np.mean([value] * seeds))
        rows.append([number, state, score, steps * seeds, *values.values(), "ValueError: no" if failed else ""])
    with (directory / "results.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["rank", "trial", "state", "score", "steps", *space, "error"])
        writer.writerows([["", *row] for row in rows])
    return directory


def _draw(words, generator):
    if "," in words:
        return str(generator.choice(words.split(",")))
    low, high, *scale = words.split(":")
    whole = "." not in low
    low, high = float(low), float(high)
    drawn = math.exp(generator.uniform(math.log(low), math.log(high))) if scale else generator.uniform(low, high)
    return round(drawn) if whole else float(f"{drawn:.4g}")
