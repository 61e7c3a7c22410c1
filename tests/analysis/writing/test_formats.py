import pytest

from revd.analysis.writing.formats import numbers, percent


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
