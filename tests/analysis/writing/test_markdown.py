from pathlib import Path

import pytest

from revd.analysis.writing.markdown import escape, link, table
from revd.analysis.writing.tables import Table


def test_a_table_keeps_its_cells_apart():
    assert table(Table.of(("a", "b"), [("x|y", 1), ("two\nlines", 2)], numbers=1)) == [
        "| a | b |", "| --- | ---: |", "| x\\|y | 1 |", "| two lines | 2 |", ""
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("a\\|b", "a\\\\\\|b"),
        ("`rm`\n\n# x", "\\`rm\\` # x"),
        ("![x](http://y)", "!\\[x\\](http://y)"),
    ],
)
def test_untrusted_text_is_escaped(text, escaped):
    assert escape(text) == escaped
    assert table(Table.of(("a",), [(text,)]))[2] == f"| {escaped} |"


def test_links_are_relative_and_quoted():
    assert link(Path("out/r-figures/a b.png"), Path("out/r.md")) == "r-figures/a%20b.png"
    assert link(Path("figures/a.png"), Path("out/r.md")) == "../figures/a.png"
