import re

import pytest

from revd.analysis.drawing.styles import method_styles
from revd.analysis.reading.runs import load_runs
from revd.analysis.statistics.coverage import analyse_coverage
from revd.analysis.statistics.figure_data import analyse_runs
from revd.analysis.writing.coverage_files import write_coverage, write_heat_map
from revd.analysis.writing.page import write_page
from tests.analysis.coverage import write_counted_run
from tests.analysis.support import fake_save, write_run

VISITS = [(100, [(3, 1)], [4]), (200, [(3, 1), (2, 2)], [4, 1])]


@pytest.fixture
def runs(tmp_path, monkeypatch):
    for module in ("figure_files", "coverage_files"):
        monkeypatch.setattr(f"revd.analysis.writing.{module}.save_figure", fake_save)
    for seed in (1, 2):
        write_counted_run(tmp_path / "runs" / f"a{seed}", seed=seed, cells=(1, seed), share=seed / 10, visits=VISITS)
    write_counted_run(tmp_path / "runs" / "b", method="PPO+REVD", task="a/b", cells=(1, 4))
    return tmp_path / "runs"


def test_every_figure_has_its_numbers(runs, tmp_path):
    written = []
    data = analyse_coverage(load_runs(runs))
    styles = method_styles(["PPO", "PPO+REVD"])
    files = write_coverage(data, tmp_path / "figures", styles=styles, on_written=written.append)
    assert [path.name for path in written] == ["coverage.png", "coverage-MountainCar-v0.png"]
    assert [image.png for image in files.images] == written
    assert "MountainCar-v0,PPO,2,100,1,0,1,1\n" in files.curves.csv.read_text()
    lines = files.images[1].csv.read_text().splitlines()
    assert lines[0] == "method,steps,x,y,visits"
    assert lines[1:] == ["PPO,100,3,1,8", "PPO,200,2,2,2", "PPO,200,3,1,8"]


def test_nothing_is_written_for_runs_that_did_not_count(tmp_path):
    write_run(tmp_path / "run")
    data = analyse_coverage(load_runs(tmp_path))
    assert write_coverage(data, tmp_path / "figures", styles={}) is None
    assert not (tmp_path / "figures").exists()


def test_a_report_has_a_table_and_the_figures(runs, tmp_path):
    (runs / "a2" / "visits.safetensors").write_bytes(b"damaged")
    page = tmp_path / "page.md"
    files = write_page(analyse_runs(load_runs(runs)), page)
    assert files.n_images == 2
    section = page.read_text().partition("## Coverage")[2].partition("\n## ")[0]
    assert "| MountainCar-v0 | PPO | 2 | 2 | 1 to 2 | 15.0% |" in section
    assert "| a/b | PPO+REVD | 1 | 4 | — | — |" in section
    links = re.findall(r"\]\(([^)]+)\)", section)
    assert [name for name in links if name.endswith(".png")] == [
        "page-figures/coverage.png",
        "page-figures/coverage-MountainCar-v0.png",
    ]
    assert all((tmp_path / name).exists() for name in links)
    assert "- no map of PPO, seed 2: " in section


def test_a_report_of_other_runs_has_no_such_section(tmp_path):
    write_run(tmp_path / "runs" / "a")
    files = write_page(analyse_runs(load_runs(tmp_path / "runs")), tmp_path / "page.md")
    assert files.n_images == 0
    assert "Coverage" not in (tmp_path / "page.md").read_text()


def test_one_run_has_a_heat_map(runs, tmp_path):
    path = write_heat_map(runs / "a1", tmp_path / "map.png")
    assert "200 steps: 2 cells" in path.read_text()
    with pytest.raises(ValueError, match=r"b' has no visits to draw"):
        write_heat_map(runs / "b", tmp_path / "map.png")
