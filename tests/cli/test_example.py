import re
import subprocess
import sys
from pathlib import Path

import pytest

from revd import cli

DOCS = Path(__file__, "../../../docs/methods/revd.md").resolve().read_text()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def undrawn(monkeypatch):
    """Without the figure, which takes most of the command's time."""
    monkeypatch.setattr("revd.analysis.drawing.worked_example.example_figure", lambda reference, scored: None)
    monkeypatch.setattr("revd.analysis.writing.image_files.save_example", lambda figure, directory: [])


def run(*arguments, capsys):
    cli.main(["example", *arguments])
    return capsys.readouterr().out


def row(text, name):
    """Numbers of a row of the table."""
    (line,) = [line for line in text.splitlines() if line.startswith(f"│ {name}")]
    return [float(cell) for cell in line.strip("│ ").split("│")[1:]]


def test_the_table_shows_that_spreading_wins_with_spread_only(capsys):
    text = run(capsys=capsys)
    spreading, lingering = row(text, "spreading"), row(text, "lingering")
    assert spreading[0] > lingering[0]
    assert spreading[1] < lingering[1]
    assert "Paid more with L: spreading. Paid more without L: lingering." in text
    assert "k = 3, eps = 0.0001, alpha = 0.5" in text
    for suffix, start in (("png", b"\x89PNG"), ("pdf", b"%PDF")):
        assert f"Figure: runs/example/example.{suffix}" in text
        assert Path(f"runs/example/example.{suffix}").read_bytes().startswith(start)


def test_flags_reach_the_figure(capsys):
    run(capsys=capsys)
    run("--radius", "0.01", "--output", "here", capsys=capsys)
    assert Path("here/example.png").read_bytes() != Path("runs/example/example.png").read_bytes()


def test_flags_reach_the_table(capsys, undrawn):
    plain = run(capsys=capsys)
    text = run("--radius", "0.01", capsys=capsys)
    assert "Paid more with L: lingering. Paid more without L: lingering." in text
    assert row(text, "spreading") == row(plain, "spreading")
    assert row(run("--seed", "1", capsys=capsys), "spreading") != row(plain, "spreading")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--radius", "-1"], "revd: radius must be a number of at least 0, got -1.0\n"),
        (["--seed", "-1"], "revd: seed must be at least 0, got -1\n"),
    ],
)
def test_wrong_use_is_one_line(arguments, message, capsys):
    with pytest.raises(SystemExit) as error:
        cli.main(["example", *arguments])
    assert error.value.code == 2
    assert capsys.readouterr().err == message
    assert not Path("runs").exists()


def test_the_docs_show_what_the_command_prints(capsys, undrawn):
    text = run(capsys=capsys)
    for name in ("spreading", "lingering"):
        assert f"| {name} | {' | '.join(f'{number:.2f}' for number in row(text, name))} |" in DOCS
    for radius in re.findall(r"revd example --radius (\S+)`", DOCS):
        lingering = row(run("--radius", radius, capsys=capsys), "lingering")[:3]
        assert f"--radius {radius}` | {' | '.join(f'{number:.2f}' for number in lingering)} |" in DOCS


def test_without_matplotlib_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr("revd.cli.example.find_spec", lambda name: None)
    with pytest.raises(SystemExit) as error:
        cli.main(["example"])
    assert error.value.code == 2
    assert capsys.readouterr().err == (
        "revd: the example draws a figure and needs matplotlib: pip install 'revd[plots]'\n"
    )


def test_help_reads_well_and_loads_nothing_heavy():
    code = (
        "import sys\nfrom revd.cli import main\n"
        "try:\n    main(['example', '--help'])\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('torch', 'matplotlib') if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *text, loaded = answer.stdout.splitlines()
    assert loaded == "[]"
    assert "(default: runs/example)" in "\n".join(text)
