"""The fault campaign in short; `make faults` is the long form."""

from tests.faults.campaign import campaign
from tests.faults.records import Findings, _compare


def test_killed_commands_resume_and_lose_nothing(tmp_path):
    counts = campaign(tmp_path / "faults", train_kills=4, aimed=3, suite_kills=1, width=256)
    assert (counts.train_kills, counts.suite_kills) == (4, 1)
    assert counts.findings.runs == 2
    assert counts.findings.resumes == 5
    assert counts.findings.clean, "\n".join(counts.lines())


def test_the_campaign_sees_gaps_and_repeats():
    found = Findings()
    _compare("x", [1, 2, 2, 4], [1, 2, 3, 4], found)
    assert found.repeats == ["x: 2 is there 2 times"]
    assert found.gaps == ["x: 3 is missing"]
    swapped = Findings()
    _compare("x", [2, 1], [1, 2], swapped)
    assert not swapped.clean
