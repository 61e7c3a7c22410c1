import pytest

from revd.analysis.reading.evaluations import Evaluation, last_evaluation

HEADER = "steps,return_mean,return_std,episodes\n"


def test_the_last_complete_row_counts(tmp_path):
    path = tmp_path / "evaluations.csv"
    path.write_text(HEADER + "100,1.5,0.5,10\n200,2.5,0.25,9\n300,nan,1,10\n400,3\n")
    assert last_evaluation(path) == Evaluation(steps=200, mean=2.5, std=0.25, episodes=9)


@pytest.mark.parametrize("text", ["", HEADER, HEADER + "a,b,c,d\n", "steps\n100\n"])
def test_there_is_none(text, tmp_path):
    path = tmp_path / "evaluations.csv"
    assert last_evaluation(path) is None
    path.write_text(text)
    assert last_evaluation(path) is None
