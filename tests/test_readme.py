"""The README's Python runs as it stands, only shorter."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_python_blocks_run_in_order(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    # The lines that load a run are in experiments/test_exported.py, where there is one.
    blocks = [block for block in blocks if "VecNormalize.load" not in block]
    assert len(blocks) == 3
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block.replace("100_000", "2_048"), str(README), "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    assert printed[-2].startswith("tensor(0.)"), "REVD pays nothing for the first rollout"
    assert "divergence" in printed[-1]


def test_what_the_readme_links_to_is_there():
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README.read_text()):
        assert (README.parent / target).exists(), target
