"""docs/adding-a-reward.md runs as it stands, only shorter."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from revd.rewards import REGISTRY, make_reward
from revd.testing import check_reward, reward_checks
from tests.support.rollouts import BOX, DISCRETE, changed, make_rollout

GUIDE = Path(__file__).parents[2] / "docs" / "adding-a-reward.md"
REWARD, CHECK, SINGLY, TRAINING, MODEL, NAMING = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)


def run(block: str, names: dict[str, Any]) -> None:
    exec(compile(block.replace("100_000", "2_048"), str(GUIDE), "exec"), names)


@pytest.fixture
def names() -> dict[str, Any]:
    """What the page's reward defines."""
    found: dict[str, Any] = {"__name__": "guide"}
    run(REWARD, found)
    return found


def test_the_reward_is_as_long_as_the_page_says() -> None:
    assert f"in {len(REWARD.splitlines())} lines" in GUIDE.read_text()


def test_the_reward_keeps_every_contract(names: dict[str, Any]) -> None:
    run(CHECK, names)


def test_its_tests_are_the_checks(names: dict[str, Any]) -> None:
    run(SINGLY, names)
    (mark,) = names["test_hash_count"].pytestmark
    arguments, checks = mark.args
    assert arguments == ("name", "check")
    assert [name for name, _ in checks] == [name for name, _ in reward_checks()]
    names["test_hash_count"](*checks[0])


def test_it_pays_by_the_square_root_of_the_count(names: dict[str, Any]) -> None:
    reward = names["HashCount"](BOX, DISCRETE, 2)
    rollout = make_rollout(0)
    still = changed(rollout, observations=rollout.observations[:1, :1].expand(8, 2, 3).clone())
    for count in (16, 32):
        assert torch.allclose(reward.compute(still), torch.tensor(count**-0.5))
    assert reward.metrics()["hashes_seen"] == 1


def test_the_training_runs(names: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    run(TRAINING, names)
    share, hashes = map(float, capsys.readouterr().out.split())
    assert 0 < share < 1
    assert hashes > 1


def test_the_reward_with_a_model_keeps_every_contract_and_learns() -> None:
    names: dict[str, Any] = {"__name__": "guide"}
    run(MODEL, names)
    check_reward(names["Surprise"])
    reward, rollout = names["Surprise"](BOX, DISCRETE, 2, learning_rate=3e-3), make_rollout(0)
    paid = [float(reward.compute(rollout).mean()) for _ in range(60) if reward.update(rollout)["model_loss"] > 0]
    assert paid[-1] < 0.5 * paid[0]


def test_what_the_page_links_to_is_there() -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", GUIDE.read_text()):
        assert (GUIDE.parent / target).exists(), target


def test_it_gets_a_name(names: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REGISTRY, "_registered", {})
    run("from revd.sb3 import IntrinsicRewardCallback", names)
    run(NAMING, names)
    assert type(make_reward("hash_count", BOX, DISCRETE, n_envs=2, bits=3)) is names["HashCount"]
