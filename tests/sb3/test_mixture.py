"""The callback with a list of rewards."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from revd import MixedReward
from revd.sb3 import IntrinsicRewardCallback
from tests.support.environments import counting_envs
from tests.support.sb3 import trained

PAGE = Path(__file__).parents[2] / "docs" / "mixing.md"


def test_a_list_trains_on_all_of_them_and_logs_each_by_its_name() -> None:
    callback = IntrinsicRewardCallback(["re3", "ride", "re3"], weights=[1, 1, 0], re3={"k": 2}, re3_2={"k": 4})
    trained(callback, env=counting_envs(2))
    assert isinstance(callback.reward, MixedReward)
    assert list(callback.reward.named_members) == ["re3", "ride", "re3_2"]
    assert {"re3/distance", "re3_2/distance", "ride/forward_loss", "bonus_mean"} <= set(callback.latest)
    assert callback.latest["re3/distance"] < callback.latest["re3_2/distance"], "the fourth neighbour is farther"
    assert callback.latest["bonus_share"] > 0


def test_the_models_seed_is_that_of_all_members() -> None:
    callback = IntrinsicRewardCallback("re3+ride", ride={"seed": 8})
    trained(callback, env=counting_envs(2), seed=5)
    assert isinstance(callback.reward, MixedReward)
    assert [member.config.seed for member in callback.reward.named_members.values()] == [5, 8]


@pytest.mark.parametrize(
    ("reward", "parameters", "message"),
    [
        (["revd", "rn3"], {}, "unknown reward 'rn3'"),
        (["revd", "re3"], {"dekay": 0.1}, "'dekay'; did you mean 'decay'"),
        (["revd", "re3"], {"revd": {"kk": 1}}, "member 'revd' of the mixture: unknown parameter of REVD 'kk'"),
    ],
)
def test_mistakes_are_found_before_the_training(reward: Any, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        IntrinsicRewardCallback(reward, **parameters)


def test_too_many_neighbours_of_a_member_are_refused_before_the_first_step() -> None:
    env = counting_envs(2)
    with pytest.raises(ValueError, match="k"):
        trained(IntrinsicRewardCallback(["ride", "re3"], re3={"k": 500}), env=env)
    assert env.get_attr("steps_taken") == [0, 0]


def test_a_file_of_other_members_is_refused(tmp_path: Path) -> None:
    callback = IntrinsicRewardCallback(["re3", "ride"], re3={"k": 2})
    trained(callback, env=counting_envs(2))
    callback.save(tmp_path / "bonus.safetensors")
    for reward, parameters, message in (
        (["re3", "ride"], {"re3": {"k": 3}}, r"members\.re3\.k was 2, here it is 3"),
        (["re3", "revd"], {"re3": {"k": 2}}, r"members\.revd\.\w+ was None"),
        (["re3", "ride"], {"re3": {"k": 2}, "weights": [1, 2]}, r"weights\.ride was 1\.0, here it is 2"),
        ("re3", {}, "holds the state of MixedReward, this callback's reward is RE3"),
    ):
        other = IntrinsicRewardCallback(reward, **parameters)
        other.load(tmp_path / "bonus.safetensors")
        with pytest.raises(ValueError, match=message):
            trained(other, env=counting_envs(2))
    same = IntrinsicRewardCallback("re3+ride", re3={"k": 2})
    trained(same, env=counting_envs(2))
    same.load(tmp_path / "bonus.safetensors")
    assert isinstance(same.reward, MixedReward)
    assert isinstance(callback.reward, MixedReward)
    saved = callback.reward.state_dict()
    assert all(torch.equal(value, saved[name]) for name, value in same.reward.state_dict().items())


def test_the_page_on_mixing_runs() -> None:
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    assert names["reward"].config.weights == {"near": 1.0, "far": 0.5}
    assert names["callback"]._params["re3"] == {"log": False}
