import pytest

from revd.analysis.statistics.aggregate import Estimate
from revd.analysis.statistics.verdicts import Verdict
from revd.analysis.writing.verdict_text import verdict_lines, verdict_sentence


def verdict(value, low, high, *, seeds=(3, 3), **measure):
    chance = Estimate(value=value, low=low, high=high)
    return Verdict(method="PPO+REVD", base="PPO", seeds=seeds, chance=chance, **measure)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (
            verdict(0.889, 0.556, 1, threshold=-150.0),
            "PPO+REVD probably reaches -150 earlier than PPO: probability of improvement 0.89 (95% interval 0.56 to "
            "1.00), 3 seeds; too few to be sure",
        ),
        (
            verdict(1, 1, 1, seeds=(6, 5), threshold=0.9),
            "PPO+REVD clearly reaches 0.9 earlier than PPO: probability of improvement 1.00 (95% interval 1.00 to "
            "1.00), 6 and 5 seeds",
        ),
        (
            verdict(0.3, 0.1, 0.45, seeds=(9, 9), threshold=1.0),
            "PPO+REVD probably reaches 1 later than PPO: probability of improvement 0.30 (95% interval 0.10 to 0.45), "
            "9 seeds",
        ),
        (
            verdict(0, 0, 0, seeds=(5, 5), threshold=1.0),
            "PPO+REVD clearly reaches 1 later than PPO: probability of improvement 0.00 (95% interval 0.00 to 0.00), "
            "5 seeds",
        ),
        (
            verdict(0.5, 0.5, 0.5, threshold=1.0),
            "PPO+REVD and PPO are not told apart by their steps to 1: probability of improvement 0.50 (95% interval "
            "0.50 to 0.50), 3 seeds; no run reached it",
        ),
        (
            verdict(0.5, 0.2, 0.8, threshold=1.0, reached=(0, 1)),
            "PPO+REVD and PPO are not told apart by their steps to 1: probability of improvement 0.50 (95% interval "
            "0.20 to 0.80), 3 seeds",
        ),
        (verdict(1, 1, 1, seeds=(5, 5)), "PPO+REVD clearly ends with a higher return than PPO: "),
        (verdict(0.8, 0.6, 1, seeds=(5, 5)), "PPO+REVD probably ends with a higher return than PPO: "),
        (verdict(0.2, 0, 0.4, seeds=(5, 5)), "PPO+REVD probably ends with a lower return than PPO: "),
        (verdict(0, 0, 0, seeds=(5, 5)), "PPO+REVD clearly ends with a lower return than PPO: "),
        (verdict(0.5, 0, 1), "PPO+REVD and PPO are not told apart by their final return: "),
    ],
)
def test_sentences(found, text):
    assert verdict_sentence(found).startswith(text)
    if not text.endswith(": "):
        assert verdict_sentence(found) == text


def test_too_few_seeds_are_said_once_for_all_measures():
    one = Verdict(method="PPO+REVD", base="PPO", seeds=(1, 1), chance=None, threshold=1.0)
    two = Verdict(method="PPO+REVD", base="PPO", seeds=(1, 1), chance=None)
    first, last = verdict_lines([one, two])
    assert first == "PPO+REVD and PPO: too few seeds to judge, 1 seed; it takes at least 3 of each"
    assert verdict_sentence(verdict(1, 1, 1, seeds=(2, 4))) == (
        "PPO+REVD and PPO: too few seeds to judge, 2 and 4 seeds; it takes at least 3 of each"
    )
    assert last.endswith("With --seeds 5 or more, a difference can be clear.")


def test_the_last_line_says_what_it_is_about():
    *_, last = verdict_lines([verdict(1, 1, 1, seeds=(5, 5))])
    assert last == "This is about this task, these settings and these seeds; not told apart does not mean equal."
    (nothing,) = verdict_lines([])
    assert nothing.startswith("Nothing can be compared")
