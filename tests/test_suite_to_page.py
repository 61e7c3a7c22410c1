"""From a suite to its page and the front page, with trainings that are only pretended."""

import re

import pytest

from revd.analysis.reading.archive import read_archive
from revd.analysis.reading.runs import load_runs
from revd.analysis.reading.sources import find_runs
from revd.analysis.statistics.figure_data import analyse_runs
from revd.analysis.writing.archive import write_archive
from revd.analysis.writing.page import write_page
from revd.suites.grids import suite_runs
from revd.suites.scheduler import train_all
from tests.analysis.support import fake_save
from tests.support.fake_runs import FakeLauncher

results_page = pytest.importorskip("tools.results_page", reason="tools are not part of an installed package")

TASKS = ("classic/mountain-car", "minigrid/door-key-8x8", "minigrid/obstructed-maze-1dl", "bullet/hopper")
METHODS = ("ppo", "ppo+revd", "ppo+revd-paper-weight", "ppo+re3", "ppo+re3-own-weight")


def pretend(runs):
    """Every run finishes at once; REVD with the automatic weight is better than all others, which differ by seed."""

    def earns(config, part):
        return config.seed / 10 + part / 100 + (1 if (config.reward, config.weight) == ("revd", "auto") else 0)

    train_all(runs, jobs=len(runs), watch=lambda runs: None, interval=0, launcher=FakeLauncher(earns, at_once=True))


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A repository with an archive of three seeds of a part of `exploration`, made on three machines, and its page."""
    tmp_path = tmp_path_factory.mktemp("exploration")
    root = tmp_path / "root"
    folder = root / "results" / "exploration"
    archive = folder / "runs.csv.gz"
    (root / "docs").mkdir(parents=True)
    (root / "README.md").write_text("<!-- results: exploration final: PPO+RE3 -->\n<!-- end of results -->\n")
    for seed in (1, 2, 3):
        machine = tmp_path / f"machine-{seed}"
        pretend(suite_runs("exploration", tasks=TASKS, methods=METHODS, seeds=[seed], output=machine))
        write_archive(find_runs([archive, machine] if seed > 1 else [machine]).runs, archive)
    folder.joinpath("README.md").write_text(
        "<!-- written by hand: introduction -->\n# Which bonus where?\n<!-- end -->\n"
        "<!-- written by hand: findings -->\n## What this shows\n<!-- end -->\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("revd.analysis.writing.figure_files.save_figure", fake_save)
        write_page(analyse_runs(read_archive(archive)), folder / "README.md")
    results_page.main(root)
    return root


def test_a_suite_becomes_a_page_and_a_part_of_the_front_page(root):
    page = (root / "results" / "exploration" / "README.md").read_text()
    headings = re.findall(r"^##? (.*)$", page, re.MULTILINE)
    assert headings == [
        "Which bonus where?",
        "What was run",
        "Final returns",
        "Figures",
        "What this shows",
        "Failed and unfinished runs",
        "Machine, hours and software",
        "Commands to repeat it",
    ]
    assert "60 runs, 60 of them finished: 4 tasks, 5 methods." in page
    front = (root / "results" / "README.md").read_text()
    assert "[Which bonus where?](exploration/README.md) 60 runs" in front
    table = page[page.index("### All tasks") : page.index("###", page.index("### All tasks") + 3)]
    rows = re.findall(r"^\| (PPO.*?) \| 3 \| (.*) \|$", table, re.MULTILINE)
    assert [method for method, _ in rows] == [
        "PPO", "PPO+REVD (weight=0.1)", "PPO+REVD (weight=auto)", "PPO+RE3 (weight=0.05)", "PPO+RE3 (weight=auto)"
    ]  # fmt: skip
    assert [cells.count("**") for _, cells in rows] == [0, 0, 2 * 4, 0, 0], "ahead on all four tasks"
    assert table.split("\n", 2)[2].strip() in front
    assert page.count("Ahead of PPO: PPO+REVD (weight=auto). Not ahead of PPO") == 4
    assert "PPO+RE3 (weight=0.05)" in (root / "README.md").read_text()


def test_the_figures_of_a_page_are_curves_and_comparisons(root):
    figures = {path.stem for path in (root / "results" / "exploration" / "figures").glob("*.png")}
    assert {"overall-comparison", "minigrid-rewards", "minigrid-rewards-comparison", "classic-rewards"} <= figures
    assert "bullet-sparse-0.9-comparison" in figures
    panels = (root / "results" / "exploration" / "figures" / "overall-comparison.png").read_text()
    for title in ("Interquartile mean", "Performance profile", "Probability of improvement"):
        assert title in panels


def test_the_halved_paper_suite_tells_the_automatic_weight_from_the_papers(tmp_path):
    pretend(
        suite_runs(
            "paper-bullet",
            tasks=["bullet/hopper"],
            methods=["ppo", "ppo+revd", "ppo+revd-auto"],
            seeds=[1, 2],
            steps=1_000_000,
            output=tmp_path,
        )
    )
    labels = {run.label for run in analyse_runs(load_runs(tmp_path)).runs}
    assert labels == {"PPO", "PPO+REVD (weight=0.1)", "PPO+REVD (weight=auto)"}
