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
    cli.main(
        [
            "train",
            *flags,
            "--reward",
            "revd",
            "--device",
            "cpu",
            "--no-progress",
            "--coverage",
            "none",
            "--output",
            str(path),
        ]
    )
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
    (tmp_path / "episodes.csv").write_bytes((run / "episodes.csv").read_bytes())
    progress = pd.concat([pd.read_csv(run / "progress.csv")] * 10)
    progress["exploration/coverage"] = [0.01 * row for row in range(len(progress))]
    progress.to_csv(tmp_path / "progress.csv", index=False)
    load("reading_the_logs").main(tmp_path)
    assert len(progress) == 40
    assert "exploration/coverage: 0.015 early, 0.375 late" in capsys.readouterr().out
