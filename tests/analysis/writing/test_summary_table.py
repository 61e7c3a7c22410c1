import io

from rich.console import Console

from revd.analysis.statistics.method_summary import summarize
from revd.analysis.writing.summary_table import summary_table
from revd.episodes import FINAL_RETURN
from tests.analysis.statistics.test_method_summary import make_summarized_runs


def test_the_table_explains_its_brackets(tmp_path):
    summaries = summarize(make_summarized_runs(tmp_path), threshold=-101, window=2)
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
