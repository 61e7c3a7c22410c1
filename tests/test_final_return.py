"""The tables of the demo, of a suite and of a search, and a report have the same final return of a run."""

import io

import pytest
from rich.console import Console

from revd import cli
from revd.analysis.reading.runs import load_runs
from revd.analysis.statistics.method_summary import summarize
from revd.analysis.writing.summary_table import summary_table
from revd.episodes import FINAL_RETURN
from revd.runs.directory import RunDirectory
from revd.suites.demo import THRESHOLD
from revd.suites.display import run_line, runs_table
from revd.suites.scheduler import train_all
from tests.analysis.support import fake_save

STEPS = 1000
#: Steps at which each episode ended, and its return. The means over all and over the last rollout differ from FINAL.
EPISODES = [(100 + 10 * index, -200.0) for index in range(79)] + [(920, -100.0), (1000, -131.5), (1100, -1e6)]
FINAL = -115.75


class FinishedAttempt:
    """A run that ends at once, a little beyond its steps; its live mean differs from its final return."""

    queued = lost = running = False

    def __init__(self, config):
        directory = RunDirectory(config.directory)
        directory.start(config, resolved={"method": config.method}, steps=0)
        last, rows = 0, []
        for end, value in EPISODES:
            rows.append(f"{end},{value},{(end - last) // config.n_envs},0\n")
            last = end
        directory.episodes.write_text("steps,return,length,env\n" + "".join(rows))
        mean = sum(value for _, value in EPISODES) / len(EPISODES)
        status = directory.read_status()
        directory.finish(type(status)(state="finished", steps=1100, total_steps=STEPS, episode_return=mean))

    def ask_to_stop(self): ...

    def stop(self): ...


class Launcher:
    start = staticmethod(FinishedAttempt)


def text_of(renderable):
    console = Console(file=io.StringIO(), width=120)
    console.print(renderable)
    return " ".join(console.file.getvalue().split())


def test_all_agree(tmp_path, monkeypatch, capsys):
    pytest.importorskip("optuna", reason="searches come with an extra")
    from revd.runs.config import TrainConfig
    from revd.tuning.config import TuneConfig
    from revd.tuning.display import trials_table
    from revd.tuning.driver import tune
    from revd.tuning.parameters import make_space

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("revd.analysis.writing.figure_files.save_figure", fake_save)
    shown = {}

    config = TrainConfig(task="CartPole-v1", steps=STEPS, n_envs=2, output=tmp_path / "suite" / "run")
    (run,) = train_all([config], jobs=1, watch=lambda runs: None, interval=0, launcher=Launcher())
    table = text_of(runs_table([run], elapsed=0))
    assert f"Return of a finished run: {FINAL_RETURN}" in table
    shown["the suite's table"] = run.final
    assert "-115.8" in table
    assert "final return -115.8" in run_line(run)

    summaries = summarize(load_runs(tmp_path / "suite"), threshold=THRESHOLD)
    assert f"Final return: {FINAL_RETURN}" in text_of(summary_table(summaries, threshold=THRESHOLD))
    shown["the demo's table"] = summaries[0].final.mean

    training = TrainConfig(task="CartPole-v1", steps=STEPS, n_envs=2, output=tmp_path / "tune")
    search = TuneConfig(training=training, space=make_space(training, ["k=3,5"]), trials=1)
    (record,) = tune(search, watch=lambda _: None, launcher=Launcher())
    shown["the search's table"] = record.score
    assert "-115.75" in text_of(trials_table([record]))

    for folder in ("suite", "tune"):
        cli.main(["report", folder, "--output", f"{folder}.md"])
    page = (tmp_path / "suite.md").read_text()
    assert FINAL_RETURN in page
    assert "| PPO+REVD | 1 | -115.8 | — |" in page
    assert "| 1 | 0 | 3 | -115.8 | -115.8 |" in (tmp_path / "tune.md").read_text()
    scores = (tmp_path / "suite-figures" / "gymnasium-algorithms-scores.csv").read_text().splitlines()
    shown["the report's numbers"] = float(scores[1].split(",")[4])

    assert shown == dict.fromkeys(shown, FINAL)
