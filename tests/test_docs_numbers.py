"""Numbers, lists and defaults that pages repeat are those of the code, of the suites and of the measured results."""

import ast
import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest

from revd.cli import COMMANDS
from revd.rewards import REWARDS
from revd.sb3 import IntrinsicRewardCallback
from revd.suites.grids import suite_runs
from revd.weighting import automatic, balance, balance_warnings, critic, weighting
from tests.support.pages import ROOT, python_blocks, table

README = ROOT / "README.md"
DOCS = ROOT / "docs"


def words(page: Path) -> str:
    """The text of a page with single spaces, as if it were one line."""
    return " ".join(page.read_text().split())


def test_the_readme_shows_the_callbacks_defaults() -> None:
    (shown,) = (block for block in python_blocks(README) if block.startswith("IntrinsicRewardCallback("))
    call = ast.parse(shown).body[0].value  # type: ignore[attr-defined]
    own = {name: each.default for name, each in inspect.signature(IntrinsicRewardCallback).parameters.items()}
    defaults = {field.name: field.default for field in fields(REWARDS["revd"].config_type)} | own
    values = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
    assert values == {name: defaults[name] for name in values} | {"decay": 1e-5}
    assert [ast.literal_eval(word) for word in call.args] == [own["reward"]]


def test_the_readme_lists_all_commands_and_rewards() -> None:
    text = README.read_text()
    listed = {name for first, *_ in table(text, "command") for name in re.findall(r"`revd ([a-z]+)`", first)}
    assert listed == set(COMMANDS)
    for header in ("pays for", "formula"):
        rows = [re.findall(r"`(\w+)`", first)[0] for first, *_ in table(text, "name", header)]
        assert rows == [name for name in REWARDS if name != "noise" or header == "pays for"]


def test_the_automatic_weight_is_described_with_its_constants() -> None:
    text = words(DOCS / "balance.md")
    assert f"gamma {automatic.GAMMA} and lambda {automatic.GAE_LAMBDA}" in text
    assert f"({critic.HIDDEN}-{critic.HIDDEN}, tanh)" in text
    assert f"fraction `strength` ({weighting.STRENGTH})" in text


def test_the_warnings_are_described_with_their_limits() -> None:
    rollouts, steps = balance_warnings.WARN_AFTER_ROLLOUTS, balance_warnings.WARN_AFTER_STEPS
    assert f"After {rollouts} rollouts or {steps:,} steps the callback warns" in words(README)
    text = words(DOCS / "methods" / "revd.md")
    low, high = balance.NEGLIGIBLE, balance.DROWNING_SHARE
    assert f"stays below {low:.0%} or above {high:.0%} for {rollouts} rollouts or {steps:,} steps" in text
    duplicates, eps = balance_warnings.MANY_DUPLICATES, balance_warnings.LARGE_EPS
    assert f"stays above {duplicates} with an `eps` below {eps}" in text


@pytest.mark.parametrize(
    ("suite", "said"),
    [
        ("smoke", "`revd suite smoke` shows that everything works: {runs} runs"),
        ("paper-atari", "`paper-atari` ({runs} runs)"),
        # Beside a number of core-hours for all six tasks.
        ("paper-bullet", "`paper-bullet` ({per_task} of those)"),
        ("paper-bullet-sparse", "`paper-bullet-sparse` ({per_task}) about"),
        ("re3-grid-bullet", "`re3-grid-bullet` ({per_task}) about"),
    ],
)
def test_suites_have_as_many_runs_as_the_page_says(suite: str, said: str) -> None:
    runs = suite_runs(suite)
    per_task = len(runs) // len({run.task for run in runs})
    assert said.format(runs=len(runs), per_task=per_task) in words(DOCS / "reproduction.md")


def test_the_front_pages_numbers_are_those_of_the_results() -> None:
    results = (ROOT / "results" / "balance" / "README.md").read_text()
    rows = table(results.partition("### minigrid/key-corridor-s3r3")[2].partition("###")[0], "method", "seeds")
    text = words(DOCS / "index.md").replace("95% interval ", "")
    assert len(rows) == 4
    assert all(f"at {mean} ({interval})" in text for _, _, mean, interval, *_ in rows)


def test_the_corridors_table_is_that_of_the_results() -> None:
    results = {row[0]: row[1:] for row in table((ROOT / "results" / "chain" / "README.md").read_text(), "method")}
    shown = {row[0]: row[1:] for row in table((DOCS / "methods" / "README.md").read_text(), "method", "found")}
    assert shown.keys() == {"none", *REWARDS}
    assert all(cells == results[name][: len(cells)] for name, cells in shown.items())
