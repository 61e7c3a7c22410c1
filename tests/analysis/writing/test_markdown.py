from pathlib import Path

import pytest

from revd.analysis.writing.markdown import escape, link, numbers, percent, table


def test_a_table_keeps_its_cells_apart():
    assert table(("a", "b"), [("x|y", 1), ("two\nlines", 2)], numbers=1) == [
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
    assert table(("a",), [(text,)])[2] == f"| {escaped} |"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((0.5, -0.123), ["0.50", "-0.12"]),
        ((93.51, 1.716), ["93.5", "1.7"]),
        ((12345.6, 7.8), ["12,346", "8"]),
    ],
)
def test_related_numbers_have_equal_decimals(values, text):
    assert numbers(*values) == text


def test_percent():
    assert percent(0.0456) == "4.6%"
    assert percent(float("nan")) == "—"


def test_links_are_relative_and_quoted():
    assert link(Path("out/r-figures/a b.png"), Path("out/r.md")) == "r-figures/a%20b.png"
    assert link(Path("figures/a.png"), Path("out/r.md")) == "../figures/a.png"
