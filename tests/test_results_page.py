"""results/README.md, the tables that README.md and docs quote, and all intervals there say what the archives say."""

import re
from pathlib import Path

import numpy as np
import pytest

from revd.analysis.reading.runs import load_runs
from revd.analysis.writing.archive import write_archive
from revd.analysis.writing.method_tables import task_columns
from tests.analysis.support import write_run

page = pytest.importorskip("tools.results_page", reason="tools are not part of an installed package")

ROOT = Path(__file__).parents[1]
#: A final return and its interval, as in the tables: 0.89 (0.85 to 0.91), also with the interval's level.
INTERVAL = re.compile(r"(-?[\d,]+\.?\d*)\s+\((?:95% interval )?(-?[\d,.]+) to (-?[\d,.]+)\)")


def pages(root: Path) -> list[Path]:
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def suites(root: Path) -> dict[str, list]:
    return {name: task_columns(runs) for name, runs in page.archived_runs(root).items()}


@pytest.fixture(scope="module")
def committed():
    return suites(ROOT)


def test_the_front_page_is_that_of_the_archives(committed):
    text = (ROOT / "results" / "README.md").read_text()
    assert page.front_page(ROOT, committed) == text, "run `make results`"


def test_quoted_tables_are_those_of_the_archives(committed):
    for path in pages(ROOT):
        text = path.read_text()
        assert page.fill_copies(page.fill_quotes(text, committed), ROOT) == text, f"{path}: run `make results`"


def test_the_readme_quotes_them():
    assert "<!-- results: balance final" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("name", ["README.md", "docs/which-bonus.md", "docs/balance.md"])
def test_every_interval_is_in_the_tables(name):
    """So a sentence cannot keep a number that a longer or newer experiment has changed."""
    known = set(INTERVAL.findall((ROOT / "results" / "README.md").read_text()))
    assert len(known) > 10
    assert set(INTERVAL.findall((ROOT / name).read_text())) <= known


@pytest.mark.parametrize("said", ["0.89 (0.85 to 0.91)", "at\n-145.2 (95% interval -181.7 to\n-114.9)"])
def test_intervals_are_recognised(said):
    assert len(INTERVAL.findall(said.replace("to\n", "to "))) == 1


@pytest.fixture
def root(tmp_path):
    """A repository with two suites, of which one has two weights, and a page without an archive."""
    root = tmp_path / "root"
    for suite, weights in (("small", [0.1]), ("wide", [0.1, "auto"])):
        runs = tmp_path / suite
        for seed in (1, 2, 3):
            for task in ("bullet/hopper", "minigrid/door-key-8x8"):
                write_run(runs / task / f"none{seed}", task=task, seed=seed, returns=np.linspace(0, seed, 100))
                for weight in weights:
                    path = runs / task / f"revd-{weight}-{seed}"
                    write_run(path, task=task, method="PPO+REVD", seed=seed, returns=[9 + seed] * 100, weight=weight)
        write_archive(load_runs(runs), root / "results" / suite / "runs.csv.gz")
        (root / "results" / suite / "README.md").write_text(f"# Question {suite}?\n")
    (root / "results" / "old").mkdir()
    (root / "results" / "old" / "README.md").write_text("<!-- x -->\n# Old data\n")
    (root / "docs").mkdir()
    (root / "README.md").write_text(
        "# Project\n\n<!-- results: small final: PPO+REVD -->\n<!-- end of results -->\nmore\n"
    )
    return root


def test_the_front_page_has_all_methods_and_tasks(root):
    page.main(root)
    text = (root / "results" / "README.md").read_text()
    assert text.startswith("<!-- written by hand: introduction -->\n# Results\n<!-- end -->\n")
    small = text[text.index("## small") : text.index("## wide")]
    assert "[Question small?](small/README.md) 12 runs, " in small
    assert "| method | seeds | Hopper, 1,000 steps | Door Key 8x8, 1,000 steps |" in small
    assert "| PPO | 3 | 1.91 (0.95 to 2.86) | 1.91 (0.95 to 2.86) |" in small
    assert "| PPO+REVD | 3 | **11.0 (10.0 to 12.0)** | **11.0 (10.0 to 12.0)** |" in small
    # The mean of the last hundred episodes: PPO's is 1.5 at most.
    assert "| method | seeds | Door Key 8x8 to 0.9 |" in small
    assert "| PPO | 3 | 1,000 (2 of 3) |" in small
    assert "| PPO+REVD (weight=auto) | 3 | " in text[text.index("## wide") :]
    assert text.endswith("## Pages with other data\n\n- [Old data](old/README.md)\n")


def test_what_people_wrote_on_the_front_page_is_kept(root):
    page.main(root)
    path = root / "results" / "README.md"
    path.write_text(path.read_text().replace("# Results", "# Our own words"))
    page.main(root)
    assert "# Our own words" in path.read_text()


def test_quotes_are_filled_and_only_they(root):
    page.main(root)
    before, table, after = re.split(r"<!--.*?-->", (root / "README.md").read_text())
    assert (before, after) == ("# Project\n\n", "\nmore\n")
    assert "| PPO+REVD | 3 | **11.0 (10.0 to 12.0)** |" in table
    assert "| PPO |" not in table
    text = (root / "README.md").read_text()
    page.main(root)
    assert (root / "README.md").read_text() == text


def test_a_method_is_quoted_with_its_variants(root):
    text = "<!-- results: wide steps: PPO+REVD; PPO -->\n<!-- end of results -->"
    table = page.fill_quotes(text, suites(root))
    assert re.findall(r"^\| (PPO.*?) \|", table, re.MULTILINE) == [
        "PPO",
        "PPO+REVD (weight=0.1)",
        "PPO+REVD (weight=auto)",
    ]


@pytest.mark.parametrize(
    ("quote", "said"),
    [
        ("small final: PPO+RND", "no method PPO.RND in the results; there are PPO, PPO.REVD"),
        ("smal final", "results/smal has no archive; there are small, wide"),
    ],
)
def test_quotes_of_what_is_not_there_are_refused(root, quote, said):
    with pytest.raises(ValueError, match=said):
        page.fill_quotes(f"<!-- results: {quote} -->\n<!-- end of results -->", suites(root))


def test_tables_are_copied_from_other_pages_without_links(tmp_path):
    (tmp_path / "a.md").write_text(
        "# A\n\n| x |\n|---|\n| 1 |\n\n## Costs\n\nText.\n\n| y |\n|---|\n| [`b`](b.md) |\n\n| z |\n"
    )
    first, second = (
        page.fill_copies(f"<!-- table: a.md{heading} -->\nold\n<!-- end of table -->", tmp_path)
        for heading in ("", ", Costs")
    )
    assert first == "<!-- table: a.md -->\n\n| x |\n|---|\n| 1 |\n\n<!-- end of table -->"
    assert second == "<!-- table: a.md, Costs -->\n\n| y |\n|---|\n| `b` |\n\n<!-- end of table -->"
    with pytest.raises(ValueError, match="there is no such table"):
        page.fill_copies("<!-- table: a.md, Prices -->\n<!-- end of table -->", tmp_path)
