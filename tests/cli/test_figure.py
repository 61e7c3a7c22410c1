import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from revd import cli
from tests.analysis.support import fake_save, write_run

RUN_FILES = ("config.json", "status.json", "run.json", "episodes.csv")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Every command runs in a directory of its own, on a terminal of eighty columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


def exit_code(arguments):
    with pytest.raises(SystemExit) as error:
        cli.main(arguments)
    return error.value.code


def write_runs():
    for seed in (1, 2):
        write_run(Path(f"runs/a{seed}"), seed=seed, returns=[seed] * 20)
        write_run(Path(f"more/b{seed}"), method="PPO+REVD", seed=seed, returns=[seed + 5] * 20)


def test_figure_end_to_end(capsys):
    write_runs()
    write_run(Path("runs/late"), seed=3, returns=[1] * 9, state="running")
    Path("runs/odd").mkdir()
    shutil.copy("runs/a1/status.json", "runs/odd/config.json")
    cli.main(["figure", "runs", "more", "--output", "out"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "out/gymnasium-algorithms.png (and .pdf, .csv)"
    assert lines[1] == "out/gymnasium-algorithms-comparison.png (and .pdf, .csv)"
    note = "PPO on MountainCar-v0, seed 3, is unfinished (running), at 90 of 1,000 steps"
    assert f"note: gymnasium-algorithms: {note}" in lines
    assert "note: 'runs/odd' is not a run directory: 'task' is missing" in lines
    assert sorted(path.name for path in Path("out").iterdir()) == [
        "gymnasium-algorithms-comparison.csv",
        "gymnasium-algorithms-comparison.pdf",
        "gymnasium-algorithms-comparison.png",
        "gymnasium-algorithms-scores.csv",
        "gymnasium-algorithms.csv",
        "gymnasium-algorithms.pdf",
        "gymnasium-algorithms.png",
    ]


def test_report_end_to_end(capsys, monkeypatch):
    monkeypatch.setattr("revd.analysis.writing.figure_files.save_figure", fake_save)
    write_runs()
    cli.main(["report", "runs", "--output", "new/here.md"])
    assert capsys.readouterr().out == "new/here.md: 2 runs, 1 figure in new/here-figures\n"
    assert Path("new/here.md").read_text().startswith("<!-- written by hand: introduction -->\n# Report")
    assert Path("new/here.md").read_text().count("](here-figures/gymnasium-algorithms.png)") == 1
    drawn = Path("new/here-figures/gymnasium-algorithms.png").read_text().split("\n")
    assert {"PPO", "MountainCar-v0", "environment steps"} <= set(drawn)


@pytest.mark.parametrize("command", ["figure", "report"])
def test_no_runs_is_one_line(command, capsys):
    Path("empty").mkdir()
    assert exit_code([command, "empty", "absent"]) == 2
    assert capsys.readouterr().err == (
        "revd: no runs found: 'empty' holds no config.json at any depth, 'absent' does not exist\n"
    )


def test_nothing_to_draw_is_one_line(capsys):
    write_run(Path("runs/a"), state="failed")
    assert exit_code(["figure", "runs"]) == 2
    assert (
        capsys.readouterr().err == "revd: nothing to draw: all runs failed, are damaged, or have no finished episode\n"
    )
    assert not Path("figures").exists()


def test_a_report_without_figures_is_still_a_report():
    write_run(Path("runs/a"), state="failed", status={"error": "OutOfMemory"})
    cli.main(["report", "runs"])
    assert "OutOfMemory" in Path("report.md").read_text()


def test_a_report_is_a_file(capsys):
    write_run(Path("runs/a"))
    assert exit_code(["report", "runs", "--output", "."]) == 2
    assert "is a directory; it must be a file" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["x", "x.pdf", "md"])
def test_a_report_is_a_page_of_markdown_or_html(name, capsys, tmp_path):
    write_run(Path("runs/a"))
    assert exit_code(["report", "runs", "--output", name]) == 2
    said = capsys.readouterr().err
    endings = ".md or .markdown or .html or .htm"
    assert said == f"revd: output {name!r} must end in {endings}: reports are Markdown or HTML pages\n"
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_an_html_report_is_no_page_of_markdown(capsys, tmp_path):
    write_run(Path("runs/a"))
    assert exit_code(["report", "runs", "--html", "--output", "x.md"]) == 2
    said = capsys.readouterr().err
    assert said == "revd: output 'x.md' must end in .html or .htm: with --html, a report is an HTML page\n"
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


@pytest.mark.parametrize(
    ("flags", "page"),
    [
        (["--html"], "report.html"),
        (["--output", "new/x.HTML"], "new/x.HTML"),
        (["--html", "--output", "x.htm"], "x.htm"),
    ],
)
def test_an_html_report_is_one_file(flags, page, capsys, tmp_path):
    write_run(Path("runs/a"), state="failed")
    cli.main(["report", "runs", *flags])
    assert capsys.readouterr().out == f"{page}: 1 run, 0.0 MiB\n"
    assert Path(page).read_text().startswith("<!doctype html>")
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} - set(RUN_FILES) == {Path(page).name}


def test_an_html_report_says_what_it_only_links(capsys, monkeypatch):
    monkeypatch.setattr("revd.analysis.webpage.media.MAX_BYTES", 3)
    (write_run(Path("runs/a"), state="failed") / "film.gif").write_bytes(b"GIF89a")
    Path("runs/odd").mkdir()
    shutil.copy("runs/a/status.json", "runs/odd/config.json")
    cli.main(["report", "runs", "--html"])
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "report.html: 1 run, 0.0 MiB, 1 large file linked"
    assert said[1].startswith("left out: 'runs/odd' is not a run directory")


def test_a_report_is_not_written_into_a_fifo(capsys):
    write_run(Path("runs/a"))
    os.mkfifo("page.md")
    assert exit_code(["report", "runs", "--output", "page.md"]) == 2
    assert capsys.readouterr().err == "revd: output 'page.md' is no file\n"


def test_runs_that_cannot_be_read_are_reported(capsys, monkeypatch):
    monkeypatch.setattr("revd.analysis.writing.figure_files.save_figure", fake_save)
    write_runs()
    Path("runs/a2/config.json").write_text("oops")
    cli.main(["report", "runs"])
    assert "left out: 'runs/a2' is not a run directory" in capsys.readouterr().out


def test_damaged_runs_are_reported(capsys, monkeypatch):
    monkeypatch.setattr("revd.analysis.writing.figure_files.save_figure", fake_save)
    write_runs()
    with Path("runs/a2/episodes.csv").open("a") as file:
        file.write("oops\n")
    cli.main(["report", "runs"])
    wrong = "episodes.csv: line 22 is not a row of 4 values"
    assert f"\nleft out: 'runs/a2' is damaged: {wrong}\n" in capsys.readouterr().out
    page = Path("report.md").read_text()
    assert "2 runs, 2 of them finished, 1 damaged: 1 task, 1 method." in page
    assert f"| MountainCar-v0 | PPO | 2 | finished | {wrong} | runs/a2 |" in page
    assert "| PPO | 1 | 1.00 | — | 0 of 1 | more than 1,000 |" in page, "the number of the other one alone"
    cli.main(["figure", "runs"])
    said = capsys.readouterr().out
    assert f"note: gymnasium-algorithms: PPO on MountainCar-v0, seed 2, is damaged and left out: {wrong}\n" in said


def test_a_figure_of_damaged_runs_only_is_an_error(capsys):
    path = write_run(Path("runs/a"), returns=[1] * 20)
    (path / "episodes.csv").unlink()
    assert exit_code(["figure", "runs"]) == 2
    assert capsys.readouterr().err.endswith("; 'runs/a' is damaged: episodes.csv is missing\n")


def test_missing_packages_are_reported(monkeypatch, capsys):
    monkeypatch.setattr("revd.cli.figure.find_spec", lambda name: None)
    assert exit_code(["figure", "runs"]) == 2
    assert capsys.readouterr().err == "revd: figures and reports need matplotlib: pip install 'revd[plots]'\n"


@pytest.mark.parametrize("command", ["figure", "report"])
def test_help_reads_well(command, capsys):
    assert exit_code([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert "RUNS..." in text
    for internal in ("Config", "Command", "None", "Annotated", "PosixPath"):
        assert internal not in text


def test_parsing_loads_no_drawing_library():
    code = (
        "import sys\nfrom revd.cli import main\n"
        "try:\n    main(['figure', '--help'])\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('matplotlib', 'rliable', 'pandas', 'torch') if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[-1] == "[]"
