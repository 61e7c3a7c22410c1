from revd.analysis.reading.runs import load_runs
from revd.analysis.statistics.curves import SeedRange
from revd.analysis.statistics.method_summary import summarize
from tests.analysis.support import write_run


def make_summarized_runs(folder):
    write_run(folder / "a", seed=1, steps=40, returns=[-200] * 4)
    write_run(folder / "b", seed=2, steps=40, returns=[-200, -200, -100, -120])
    write_run(folder / "c", method="PPO+REVD", seed=1, steps=40, returns=[-140, -120, -100, -105])
    write_run(folder / "d", method="PPO+REVD", seed=2, returns=[])
    return load_runs(folder)


def test_summaries_are_by_method_over_seeds(tmp_path):
    plain, paid = summarize(make_summarized_runs(tmp_path), threshold=-150, window=2)
    assert (plain.method, plain.seeds, plain.reached) == ("PPO", 2, 1)
    assert plain.reached_by == SeedRange(mean=30, low=30, high=30)
    assert plain.final == SeedRange(mean=-160, low=-200, high=-120)
    assert (paid.method, paid.seeds, paid.reached) == ("PPO+REVD", 1, 1), "a run without episodes is left out"
    assert paid.final == SeedRange(mean=-105, low=-105, high=-105)
