"""The README's Python runs as it stands, only shorter."""

import re
from pathlib import Path

from tests.support.installs import EXTRAS, pins

README = Path(__file__).parents[1] / "README.md"


def test_the_python_blocks_run_in_order(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    # The lines that load a run are run by tests/runs/test_exported.py, where there is one.
    blocks = [block for block in blocks if "VecNormalize.load" not in block]
    assert len(blocks) == 3
    names: dict[str, object] = {}
    outputs = []
    for block in blocks:
        exec(compile(block.replace("100_000", "2_048"), str(README), "exec"), names)
        outputs.append(capsys.readouterr().out)
    assert {"bonus_share", "ep_rew_mean"} <= set(outputs[0].split()), "the one line shows what it does"
    printed = outputs[-1].splitlines()
    assert printed[-2].startswith("tensor(0.)"), "REVD pays nothing for the first rollout"
    assert "divergence" in printed[-1]


def test_how_to_install_stands_before_anything_that_needs_it():
    text = README.read_text()
    assert text.index("pip install") < min(text.index("```python"), text.index("make demo"), text.index("bin/revd"))


def test_the_readme_lists_the_extras():
    (table,) = re.findall(r"\| extra \| for \|\n\|.*\n((?:\|.*\n)+)", README.read_text())
    listed = {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert listed == EXTRAS.keys() - {"bench", "dev", "docs", "release"}, "those are for developers"


def test_the_readme_installs_the_tested_torch():
    assert re.findall(r"torch==(\S+) --index-url", README.read_text()) == [pins()["torch"]]


def test_what_the_readme_links_to_is_there():
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README.read_text()):
        assert (README.parent / target).exists(), target
