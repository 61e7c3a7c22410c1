"""The committed pages of results/ say what their committed archives say, so `make results` would change no number."""

import csv
from pathlib import Path

import numpy as np
import pytest

from revd.analysis.reading.archive import read_archive
from revd.analysis.reading.runs import load_runs
from revd.analysis.reading.sources import find_runs
from revd.analysis.statistics.figure_data import analyse_runs
from revd.analysis.webpage.page import render_page
from revd.analysis.writing.archive import write_archive
from revd.analysis.writing.page import write_page
from tests.analysis.support import fake_save, write_run

ROOT = Path(__file__).parents[1]


def archives(root: Path) -> list[Path]:
    return sorted(path.relative_to(root) for path in root.glob("results/*/runs.csv.gz"))


@pytest.mark.parametrize("archive", archives(ROOT), ids=str)
def test_every_archive_is_an_html_page_too(archive: Path) -> None:
    data = analyse_runs(read_archive(ROOT / archive))
    page = render_page(data)
    # Followed by ", sparse …" where rewards are hidden.
    assert all(f">{task}<" in page or f">{task}, " in page for task in {run.task for run in data.runs})


def outdated(root: Path, archive: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files of a page that the archive would give other numbers; drawing is left out."""
    monkeypatch.chdir(root)
    monkeypatch.setattr("revd.analysis.writing.figure_files.save_figure", fake_save)
    page, committed = scratch / "README.md", root / archive.parent
    page.write_bytes((committed / "README.md").read_bytes())
    found = find_runs([archive])
    write_page(analyse_runs(found.runs), page, unreadable=found.unreadable)
    made = [page.relative_to(scratch), *sorted(path.relative_to(scratch) for path in scratch.rglob("*.csv"))]
    return [str(name) for name in made if not agree(scratch / name, committed / name)]


def agree(made: Path, committed: Path) -> bool:
    """Whether two tables are equal, up to the last digits of numbers, or two pages are equal."""
    if not committed.exists() or made.suffix != ".csv":
        return committed.exists() and made.read_text() == committed.read_text()
    rows, others = ([*csv.reader(path.read_text().splitlines())] for path in (made, committed))
    cells, other_cells = ([cell for row in each for cell in row] for each in (rows, others))
    return len(cells) == len(other_cells) and all(map(same, cells, other_cells))


def same(cell: str, other: str) -> bool:
    try:
        return bool(np.isclose(float(cell), float(other), rtol=1e-7))
    except ValueError:
        return cell == other


def test_every_page_agrees_with_its_archive(tmp_path, monkeypatch):
    wrong = {}
    for archive in archives(ROOT):
        scratch = tmp_path / archive.parent.name
        scratch.mkdir()
        wrong[str(archive.parent)] = outdated(ROOT, archive, scratch, monkeypatch)
    assert not any(wrong.values()), f"run `make results`: {wrong}"


def test_archives_are_of_finished_runs_and_small():
    for archive in archives(ROOT):
        runs = read_archive(ROOT / archive)
        assert not [str(run.directory) for run in runs if not run.is_comparable]
        assert (ROOT / archive).stat().st_size < 2**13 * len(runs)


@pytest.fixture
def small(tmp_path):
    """A repository with one archive of two methods on one task, and its page with real figures."""
    root = tmp_path / "root"
    for seed in (1, 2):
        for method in ("PPO", "PPO+REVD"):
            returns = np.linspace(0, seed, 100)
            write_run(tmp_path / f"{method}{seed}", method=method, seed=seed, returns=returns)
    archive = write_archive(load_runs(tmp_path), root / "results" / "small" / "runs.csv.gz")
    write_page(analyse_runs(find_runs([archive]).runs), archive.with_name("README.md"))
    return root


def test_an_outdated_page_is_found(small, tmp_path, monkeypatch):
    (archive,) = archives(small)
    folder = small / archive.parent
    assert len([*folder.glob("figures/*.png")]) == 2

    def found(name):
        (tmp_path / name).mkdir()
        return outdated(small, archive, tmp_path / name, monkeypatch)

    assert found("a") == []
    page, scores = folder / "README.md", folder / "figures" / "gymnasium-algorithms-scores.csv"
    page.write_text(page.read_text().replace("# Report", "# Other words of ours"))
    assert found("b") == []
    page.write_text(page.read_text().replace("4 runs", "5 runs"))
    scores.write_text(scores.read_text().replace("1.9", "1.8"))
    assert found("c") == ["README.md", "figures/gymnasium-algorithms-scores.csv"]
    scores.unlink()
    assert found("d") == ["README.md", "figures/gymnasium-algorithms-scores.csv"]
