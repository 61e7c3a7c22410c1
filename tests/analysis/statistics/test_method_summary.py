import io

from rich.console import Console

from revd.analysis.reading.runs import find_runs
from revd.analysis.statistics.curves import Interval
from revd.analysis.statistics.method_summary import summarize, summary_table
from revd.episodes import FINAL_RETURN
from tests.analysis.support import write_run


def make_runs(folder):
    write_run(folder / "a", seed=1, steps=40, returns=[-200] * 4)
    write_run(folder / "b", seed=2, steps=40, returns=[-200, -200, -100, -120])
    write_run(folder / "c", method="PPO+REVD", seed=1, steps=40, returns=[-140, -120, -100, -105])
    write_run(folder / "d", method="PPO+REVD", seed=2, returns=[])
    return find_runs(folder)


def test_summaries_are_by_method_over_seeds(tmp_path):
    plain, paid = summarize(make_runs(tmp_path), threshold=-150, window=2)
    assert (plain.method, plain.seeds, plain.reached) == ("PPO", 2, 1)
    assert plain.reached_by == Interval(mean=30, low=30, high=30)
    assert plain.final == Interval(mean=-160, low=-200, high=-120)
    assert (paid.method, paid.seeds, paid.reached) == ("PPO+REVD", 1, 1), "a run without episodes is left out"
    assert paid.final == Interval(mean=-105, low=-105, high=-105)


def test_the_table_says_what_its_brackets_are(tmp_path):
    summaries = summarize(make_runs(tmp_path), threshold=-101, window=2)
    console = Console(file=io.StringIO(), width=80)
    console.print(summary_table(summaries, threshold=-101, window=2))
    text = console.file.getvalue()
    assert "steps to reach -101" in text
    assert "never" in text
    assert "0 of 2" in text
    assert "-160.0 [-200.0, -120.0]" in text
    words = " ".join(text.split())
    assert f"Final return: {FINAL_RETURN}." in words
    assert "until the mean of the last 2 episodes reached it" in words
    assert "not a confidence interval" in " ".join(text.split())
    assert "…" not in text, "everything fits eighty columns"
