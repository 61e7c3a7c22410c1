"""The logs of a run are read and drawn."""

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from revd import cli
from tests.examples.scripts import load


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "first"
    flags = ["--task", "CartPole-v1", "--steps", "512", "--n-envs", "2", "--algo-params", "n_steps=64"]
    cli.main(["train", *flags, "--reward", "revd", "--device", "cpu", "--no-progress", "--output", str(path)])
    return path


def test_it_says_what_to_look_at_and_draws_it(run, capsys):
    load("reading_the_logs").main(run)
    printed = capsys.readouterr().out
    episodes = pd.read_csv(run / "episodes.csv")
    tenth = max(len(episodes) // 10, 1)
    assert printed.startswith(f"{len(episodes)} episodes; mean return {episodes['return'][:tenth].mean():.1f} in the")
    for name in ("bonus_share", "weight", "strength", "task_speaks", "critic_explained_variance", "bonus_mean"):
        assert f"exploration/{name}: " in printed
    assert "exploration/strength: 0.1 early, 0.1 late" in printed
    assert "coverage" not in printed, "this run has no such column"
    assert plt.imread(run / "logs.png").std() > 0.1, "something is drawn"


def test_coverage_is_read_if_it_was_logged(run, tmp_path, capsys):
    for name in ("episodes.csv", "progress.csv"):
        table = pd.read_csv(run / name)
        if name == "progress.csv":
            table["exploration/coverage"] = [0.1 * row for row in range(len(table))]
        table.to_csv(tmp_path / name, index=False)
    load("reading_the_logs").main(tmp_path)
    assert "exploration/coverage: 0 early, 0.3 late" in capsys.readouterr().out
