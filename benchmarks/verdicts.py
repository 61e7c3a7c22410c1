"""How often `revd compare` finds a difference between two methods that are equal, or two standard deviations apart.

Final returns are drawn from normal distributions. Each comparison is judged by the code that judges real ones.

    python benchmarks/verdicts.py
"""

import argparse
from collections import Counter

import numpy as np

from revd.analysis.statistics.aggregate import probability_of_improvement
from revd.analysis.statistics.verdicts import judge

#: Columns of the table, and the judgements that they count.
COLUMNS = {
    "clearly better": ["clearly better"],
    "probably better": ["probably better"],
    "not told apart": ["not told apart"],
    "worse": ["probably worse", "clearly worse"],
}


def shares(*, seeds: int, apart: float, trials: int) -> dict[str, float]:
    """The share of each column among comparisons of methods that are `apart` standard deviations apart."""
    random = np.random.default_rng(seeds)
    counts: Counter[str] = Counter()
    for trial in range(trials):
        better, worse = random.normal(apart, size=(seeds, 1)), random.normal(size=(seeds, 1))
        counts[judge(probability_of_improvement(better, worse, seed=trial), seeds=seeds)] += 1
    return {column: sum(counts[word] for word in words) / trials for column, words in COLUMNS.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200, help="comparisons for each row")
    parser.add_argument("--seeds", type=int, nargs="+", default=[3, 5, 10], help="seeds of each method")
    given = parser.parse_args()
    print(f"| apart | seeds | {' | '.join(COLUMNS)} |")
    print("|---:" * (2 + len(COLUMNS)) + "|")
    for apart in (0.0, 2.0):
        for seeds in given.seeds:
            found = shares(seeds=seeds, apart=apart, trials=given.trials)
            print(f"| {apart:g} | {seeds} | {' | '.join(f'{share:.0%}' for share in found.values())} |", flush=True)


if __name__ == "__main__":
    main()
