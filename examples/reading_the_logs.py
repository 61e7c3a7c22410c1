r"""Read the logs of a run: what to look at, and a picture of it.

Make a run first, from the root of the repository, then read it::

    pip install ".[cli,plots]"
    revd train --task MountainCar-v0 --reward revd --normalize observations --steps 80000 --n-envs 10 \
        --algo-params n_steps=128 --output runs/logs
    python examples/reading_the_logs.py runs/logs

It takes about 20 seconds on one core, most of it the run. The script reads two tables of the run's directory:
`episodes.csv` has a row for each episode, with the task's own return, and `progress.csv` a row for each rollout. It
prints what to look at, and draws `logs.png` in the directory of the run.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

#: Columns of progress.csv, and what they tell. Those that a run does not have are left out.
MEANINGS = {
    "exploration/bonus_share": "the bonus's part of what the policy learns from; near 1 it hides the task",
    "exploration/weight": "the factor of the bonus; with weight='auto' it follows from the data",
    "exploration/strength": "with 'auto': the part of the bonus that was asked for, less its decay",
    "exploration/task_speaks": "part of recent rollouts whose returns differed; 0 while the task says nothing",
    "exploration/reward_density": "part of steps whose reward differs from the one before; above 0.5 the bonus yields",
    "exploration/critic_explained_variance": "how much of the bonus still to come its critic predicts; often small",
    "exploration/bonus_mean": "the mean bonus, before its weight",
    "exploration/coverage": "how much of the task was visited so far",
}


def first_and_last_tenth(column: pd.Series) -> tuple[float, float]:
    """The means of both ends of a column. Some numbers are undefined, and missing, in some rollouts."""
    values = column.dropna()
    tenth = max(len(values) // 10, 1)
    return values.head(tenth).mean(), values.tail(tenth).mean()


def main(run: str | Path) -> None:
    """Print what the logs of a run say, and draw them."""
    run = Path(run)
    episodes = pd.read_csv(run / "episodes.csv")
    progress = pd.read_csv(run / "progress.csv")
    columns = [name for name in MEANINGS if name in progress]

    first, last = first_and_last_tenth(episodes["return"])
    print(f"{len(episodes)} episodes; mean return {first:.1f} in the first tenth of them, {last:.1f} in the last")
    for name in columns:
        first, last = first_and_last_tenth(progress[name])
        print(f"{name}: {first:.3g} early, {last:.3g} late: {MEANINGS[name]}")

    figure, panels = plt.subplots(1 + len(columns), 1, figsize=(7, 1.5 + 1.3 * len(columns)), sharex=True)
    figure.set_layout_engine("constrained")
    panels[0].plot(episodes["steps"], episodes["return"].rolling(50, min_periods=1).mean())
    panels[0].set_title("return, mean of 50 episodes", loc="left", fontsize="medium")
    for panel, name in zip(panels[1:], columns, strict=True):
        panel.plot(progress["time/total_timesteps"], progress[name])
        panel.axhline(0, color="0.8", linewidth=0.8, zorder=0)
        panel.set_title(name, loc="left", fontsize="medium")
    panels[-1].set_xlabel("environment steps")
    figure.savefig(run / "logs.png", dpi=100)
    plt.close(figure)
    print(f"drawn: {run / 'logs.png'}")


if __name__ == "__main__":
    main(sys.argv[1])
