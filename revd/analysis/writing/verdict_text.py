"""Verdicts as sentences."""

from collections.abc import Mapping, Sequence

from revd.analysis.statistics.aggregate import CONFIDENCE
from revd.analysis.statistics.scores import JUDGED_SEEDS
from revd.analysis.statistics.verdicts import CLEAR_SEEDS, Judgement, Verdict

#: What a method does, by judgement, for the steps to a threshold and for the final return.
_STEPS: Mapping[Judgement, str] = {
    "clearly better": "clearly reaches {threshold} earlier than",
    "probably better": "probably reaches {threshold} earlier than",
    "probably worse": "probably reaches {threshold} later than",
    "clearly worse": "clearly reaches {threshold} later than",
}
_FINAL: Mapping[Judgement, str] = {
    "clearly better": "clearly ends with a higher return than",
    "probably better": "probably ends with a higher return than",
    "probably worse": "probably ends with a lower return than",
    "clearly worse": "clearly ends with a lower return than",
}


def verdict_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """A line for each verdict, and one on what they are about."""
    if not verdicts:
        return ["Nothing can be compared: no run without a bonus, or none with one, has a final return."]
    few = any(min(verdict.seeds) < CLEAR_SEEDS for verdict in verdicts)
    more = f" With --seeds {CLEAR_SEEDS} or more, a difference can be clear." if few else ""
    return [
        # Without a judgement, all measures of a pair have the same sentence.
        *dict.fromkeys(verdict_sentence(verdict) for verdict in verdicts),
        f"This is about this task, these settings and these seeds; not told apart does not mean equal.{more}",
    ]


def verdict_sentence(verdict: Verdict) -> str:
    """The judgement in words, with the probability of improvement, its interval and the seeds."""
    method, base, judgement, seeds = verdict.method, verdict.base, verdict.judgement, _seeds(verdict)
    if verdict.chance is None or judgement == "too few seeds":
        return f"{method} and {base}: too few seeds to judge, {seeds}; it takes at least {JUDGED_SEEDS} of each"
    evidence = (
        f"probability of improvement {verdict.chance.value:.2f} ({CONFIDENCE:.0%} interval "
        f"{verdict.chance.low:.2f} to {verdict.chance.high:.2f}), {seeds}"
    )
    if judgement == "not told apart":
        nobody = "; no run reached it" if verdict.threshold is not None and verdict.reached == (0, 0) else ""
        return f"{method} and {base} are not told apart by {_measure(verdict)}: {evidence}{nobody}"
    few = "; too few to be sure" if min(verdict.seeds) < CLEAR_SEEDS else ""
    return f"{method} {_words(verdict)} {base}: {evidence}{few}"


def _words(verdict: Verdict) -> str:
    if verdict.threshold is None:
        return _FINAL[verdict.judgement]
    return _STEPS[verdict.judgement].format(threshold=f"{verdict.threshold:g}")


def _measure(verdict: Verdict) -> str:
    return "their final return" if verdict.threshold is None else f"their steps to {verdict.threshold:g}"


def _seeds(verdict: Verdict) -> str:
    own, others = verdict.seeds
    if own == others == 1:
        return "1 seed"
    return f"{own} seeds" if own == others else f"{own} and {others} seeds"
