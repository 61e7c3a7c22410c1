"""Every reward has a page in docs/methods, a row in its tables, and a line that says when to use it."""

import re
from pathlib import Path

import pytest

from revd.rewards import REWARDS
from revd.rewards.trained import TrainedReward

METHODS = Path(__file__).parents[1] / "docs" / "methods"
OVERVIEW = METHODS / "README.md"


def rows(heading: str) -> dict[str, list[str]]:
    """The cells of the table under a heading, by the reward that the first cell names."""
    section = OVERVIEW.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if "|" in line]
    named = [(re.fullmatch(r"\[`(\w+)`\]\((\w+)\.md\)|`(\w+)`", first), cells) for first, *cells in lines]
    return {match[1] or match[3]: cells for match, cells in named if match}


def test_every_reward_has_a_page_and_every_page_a_reward() -> None:
    assert {page.stem for page in METHODS.glob("*.md")} - {"README"} == set(REWARDS)


@pytest.mark.parametrize("heading", ["What each needs", "When to use it", "What each costs"])
def test_the_tables_have_all_rewards_in_their_order(heading: str) -> None:
    assert list(rows(heading)) == list(REWARDS)


@pytest.mark.parametrize("name", REWARDS)
def test_the_advice_is_the_classs_own(name: str) -> None:
    advice = vars(REWARDS[name])["advice"]
    assert rows("When to use it")[name] == [advice.removesuffix(".")]
    assert len(advice) < 80, "one line of `revd rewards`"


@pytest.mark.parametrize("name", REWARDS)
def test_what_a_reward_needs_is_what_its_class_says(name: str) -> None:
    _, models, successors, _ = rows("What each needs")[name]
    assert (models != "none") == issubclass(REWARDS[name], TrainedReward), "models"
    assert successors in ("", "to train", "yes")
    assert (successors != "") == REWARDS[name].uses_successors, "successors"


def test_costs_are_shares() -> None:
    for cells in rows("What each costs").values():
        assert len(cells) == 4
        assert all(re.fullmatch(r"\d+\.\d%", cell) for cell in cells)
