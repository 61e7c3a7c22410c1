import pytest

from revd.analysis.reading.commands import repeat_command


def test_a_command_is_quoted_anew_and_writes_to_its_default_place():
    command = "revd train --task 'a b' --output /tmp/x --algo-params 'n=$(rm x)'"
    assert repeat_command(command) == "revd train --task 'a b' --algo-params 'n=$(rm x)'"
    for output in ("--output=/tmp/x", "--output=", "--output /a --output=/b", "--output '/tmp/a b'"):
        assert repeat_command(f"revd train --task a {output} --seed 1") == "revd train --task a --seed 1"
    assert repeat_command("revd train --task a --output") == "revd train --task a"
    assert repeat_command("revd train --task x; rm -rf / && true") == "revd train --task 'x;' rm -rf / '&&' true"


@pytest.mark.parametrize(
    "text",
    [
        None, 3, ["revd", "train"], "", "rm -rf /", "revd watch run", "revd train --task 'open",
        "revd train --task 'x\n```\n<script>'", "revd train --task x --trust --init-from evil.zip",
        "revd train --task '\x1b[2J'",
    ],
)  # fmt: skip
def test_anything_else_is_left_out(text):
    assert repeat_command(text) is None
