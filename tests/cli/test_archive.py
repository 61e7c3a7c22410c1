from pathlib import Path

import pytest

from revd import cli
from tests.analysis.support import fake_save, write_run


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


def test_from_runs_to_an_archive_to_a_page(capsys, monkeypatch):
    monkeypatch.setattr("revd.analysis.writing.figure_files.save_figure", fake_save)
    for seed in (1, 2):
        write_run(Path(f"runs/a{seed}"), seed=seed, returns=[seed] * 100)
    write_run(Path("runs/late"), seed=3, returns=[1] * 9, state="running")
    Path("runs/odd").mkdir()
    Path("runs/odd/config.json").write_text("{}")
    cli.main(["archive", "runs", "--output", "results/x/runs.csv.gz"])
    first, *others = capsys.readouterr().out.splitlines()
    assert first == f"results/x/runs.csv.gz: 3 runs, {Path('results/x/runs.csv.gz').stat().st_size:,} bytes"
    assert others == [
        "not finished: 'runs/late' (running, 90 of 1,000 steps)",
        "left out: 'runs/odd' is not a run directory: 'task' is missing",
    ]
    cli.main(["report", "results/x/runs.csv.gz", "--output", "results/x/README.md"])
    assert capsys.readouterr().out == "results/x/README.md: 3 runs, 1 figure in results/x/figures\n"
    page = Path("results/x/README.md")
    page.write_text(page.read_text().replace("# Report", "# Our title"))
    cli.main(["report", "runs/a1", "runs/a2", "--output", "results/x/README.md"])
    assert "# Our title" in page.read_text(), "what people wrote is kept"
    assert "late" not in page.read_text()


def test_an_archive_is_named_like_one(capsys):
    write_run(Path("runs/a"))
    with pytest.raises(SystemExit) as error:
        cli.main(["archive", "runs", "--output", "runs.csv"])
    assert error.value.code == 2
    said = "output 'runs.csv' must end in .csv.gz: an archive is a compressed CSV file"
    assert capsys.readouterr().err == f"revd: {said}\n"


def test_runs_are_added_to_an_archive(capsys):
    write_run(Path("runs/a1"), seed=1, returns=[1] * 100)
    cli.main(["archive", "runs", "--output", "x.csv.gz"])
    write_run(Path("other/a2"), seed=2, returns=[2] * 100)
    capsys.readouterr()
    cli.main(["archive", "x.csv.gz", "other", "runs", "--output", "x.csv.gz"])
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith("x.csv.gz: 2 runs, ")
    assert others == ["left out: 'runs/a1' is there twice"], "the archived run keeps its name"
