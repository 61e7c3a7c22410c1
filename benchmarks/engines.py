"""Is the same learnt on EnvPool's environments as on Gymnasium's?

    python benchmarks/engines.py --output runs/engines [--seeds 5]

PPO+REVD with its defaults trains on both engines with the same seeds and settings: those of `revd suite balance`. The
engines draw other levels and starts from a seed, so single runs differ; their distributions should not. Prints a row
for each engine, and the probability of such a difference of the final returns by chance (Mann-Whitney). Runs are kept
under --output: the same command resumes.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from statistics import mean

import torch
from measure import machine, markdown_table
from scipy.stats import mannwhitneyu

from revd.analysis.reading.runs import load_runs
from revd.analysis.statistics.curves import steps_to_reach
from revd.analysis.statistics.scores import final_score
from revd.envs.tasks import Engine
from revd.runs.train import train
from revd.suites.grids import suite_runs

#: Steps of each task, and the return that counts as learnt.
TASKS = {"classic/mountain-car": (120_000, -150.0), "minigrid/door-key-8x8": (500_000, 0.9)}
ENGINES: tuple[Engine, ...] = ("gymnasium", "envpool")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    seeds = list(range(1, arguments.seeds + 1))
    for seed in seeds:
        for task, (steps, _) in TASKS.items():
            for engine in ENGINES:
                output = arguments.output / engine
                (config,) = suite_runs(
                    "balance", tasks=[task], methods=["ppo+revd"], seeds=[seed], steps=steps, output=output
                )
                train(replace(config, engine=engine))
    print(f"{machine('cpu')}; PPO+REVD, seeds 1 to {arguments.seeds}\n")
    for task, (steps, threshold) in TASKS.items():
        print(f"{task}, {steps:,} steps\n\n{_table(arguments.output, task, threshold)}\n")


def _table(directory: Path, task: str, threshold: float) -> str:
    rows, finals = [], []
    for engine in ENGINES:
        runs = sorted((run for run in load_runs(directory / engine) if run.task == task), key=lambda run: run.seed)
        reached = [steps_to_reach(run.episodes, threshold) for run in runs]
        finals.append([final_score(run) for run in runs])
        words = ", ".join("never" if steps is None else f"{steps:,.0f}" for steps in reached)
        rows.append([engine, words, ", ".join(f"{final:.2f}" for final in finals[-1]), f"{mean(finals[-1]):.2f}"])
    chance = mannwhitneyu(*finals).pvalue
    header = ("engine", f"steps to {threshold:g}, by seed", "final returns", "mean")
    return f"{markdown_table(header, rows)}\n\nFinal returns differ so much by chance with probability {chance:.2f}."


if __name__ == "__main__":
    main()
