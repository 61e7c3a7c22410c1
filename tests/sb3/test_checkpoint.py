"""The file that a callback saves, and the errors for wrong files."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from safetensors import safe_open
from safetensors.torch import save_file

from revd import Rollout, make_reward
from revd.rewards import IntrinsicReward
from revd.sb3.checkpoint import Checkpoint
from revd.storage.tensor_file import write_tensors

BOX, ACTIONS = spaces.Box(-1, 1, (3,)), spaces.Discrete(2)


def reward_with_a_past(name: str = "revd", n_envs: int = 2, embedding_size: int = 4, seed: int = 1) -> IntrinsicReward:
    reward = make_reward(name, BOX, ACTIONS, n_envs=n_envs, embedding_size=embedding_size, seed=seed, normalize="rms")
    for number in range(2):
        step(reward, number)
    return reward


def step(reward: IntrinsicReward, number: int) -> torch.Tensor:
    rng = np.random.default_rng(number)
    shape = (6, reward.n_envs)
    rollout = Rollout(
        observations=rng.normal(size=(*shape, 3)).astype(np.float32),
        next_observations=rng.normal(size=(*shape, 3)).astype(np.float32),
        actions=rng.integers(0, 2, shape),
        dones=rng.random(shape) < 0.2,
    )
    bonus = reward.compute(rollout)
    reward.update(rollout)
    return bonus


def checkpoint_of(reward: IntrinsicReward) -> Checkpoint:
    return Checkpoint(
        method=type(reward).__name__,
        parameters=asdict(reward.config),
        rollouts=2,
        steps=24,
        state=reward.state_dict(),
        n_envs=reward.n_envs,
    )


@pytest.mark.parametrize("name", ["revd", "re3", "ride"])
def test_round_trip_resumes_bit_by_bit(name: str, tmp_path: Path) -> None:
    reward = reward_with_a_past(name)
    checkpoint_of(reward).write(tmp_path / "state")
    read = Checkpoint.read(tmp_path / "state")
    assert (read.method, read.rollouts, read.steps) == (type(reward).__name__, 2, 24)
    fresh = make_reward(name, BOX, ACTIONS, n_envs=2, embedding_size=4, seed=1, normalize="rms")
    read.load_into(fresh)
    for number in range(2, 5):
        torch.testing.assert_close(step(fresh, number), step(reward, number), rtol=0, atol=0)


def test_the_file_holds_tensors_and_json_only(tmp_path: Path) -> None:
    checkpoint_of(reward_with_a_past()).write(tmp_path / "state")
    with safe_open(tmp_path / "state", framework="pt") as file:
        counts = json.loads(file.metadata()["revd"])
    assert counts.pop("parameters")["normalize"] == "rms"
    assert counts == {
        "format": "revd-callback-1",
        "method": "REVD",
        "rollouts": 2,
        "steps": 24,
        "n_envs": 2,
        "warnings": None,
    }
    with pytest.raises(Exception, match=r"(?i)pickle|legacy|invalid|unpickl"):
        torch.load(tmp_path / "state", weights_only=False)


def test_writing_leaves_no_other_file_and_replaces_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_text("old")
    checkpoint_of(reward_with_a_past()).write(str(path))
    assert [entry.name for entry in tmp_path.iterdir()] == ["state"]
    assert Checkpoint.read(str(path)).rollouts == 2


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state"
    checkpoint_of(reward_with_a_past()).write(path)
    before = path.read_bytes()

    def full_disk(descriptor: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="no space left"):
        checkpoint_of(reward_with_a_past()).write(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["state"]


@pytest.mark.parametrize("content", [b"", b"hello", bytes(1000)], ids=["empty", "text", "zeros"])
def test_a_file_of_another_kind_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"other is not a file that IntrinsicRewardCallback\.save wrote"):
        Checkpoint.read(path)


@pytest.mark.parametrize("metadata", [None, {"revd": '{"format": "revd-callback-0"}'}, {"revd": "[1]"}, {"revd": "{"}])
def test_other_safetensors_are_refused(metadata: dict[str, str] | None, tmp_path: Path) -> None:
    save_file({"weight": torch.zeros(3)}, tmp_path / "other", metadata=metadata)
    with pytest.raises(ValueError, match=r"other is not a file that IntrinsicRewardCallback\.save wrote"):
        Checkpoint.read(tmp_path / "other")


def test_files_of_another_format_are_refused(tmp_path: Path) -> None:
    write_tensors(tmp_path / "other", {"weight": torch.zeros(3)}, {"format": "revd-callback-0"})
    with pytest.raises(ValueError, match=r"other is not a file that IntrinsicRewardCallback\.save wrote$"):
        Checkpoint.read(tmp_path / "other")


def test_a_missing_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Checkpoint.read(tmp_path / "nowhere")


def test_another_method_is_refused() -> None:
    checkpoint = checkpoint_of(reward_with_a_past("revd"))
    with pytest.raises(ValueError, match="holds the state of REVD, this callback's reward is RE3"):
        checkpoint.load_into(reward_with_a_past("re3"))


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("revd", {"n_envs": 3}),
        ("revd", {"embedding_size": 5}),
        ("ride", {"n_envs": 3}),
        ("ride", {"embedding_size": 5}),
    ],
)
def test_other_sizes_are_refused_and_change_nothing(name: str, other: dict[str, int]) -> None:
    checkpoint = checkpoint_of(reward_with_a_past(name, seed=7))
    reward = reward_with_a_past(name, **other)
    before = {key: value.clone() for key, value in reward.state_dict().items()}
    with pytest.raises(ValueError, match="does not fit this reward's parameters"):
        checkpoint.load_into(reward)
    after = reward.state_dict()
    assert all(torch.equal(after[key], value) for key, value in before.items())


@pytest.mark.parametrize("name", ["revd", "re3", "ride"])
def test_another_number_of_environments_is_refused_by_name(name: str) -> None:
    checkpoint, reward = checkpoint_of(reward_with_a_past(name)), reward_with_a_past(name, n_envs=3)
    with pytest.raises(ValueError, match=r"n_envs was 2, here it is 3; use 2 environments") as raised:
        checkpoint.load_into(reward)
    assert "size mismatch" not in str(raised.value)


def test_files_from_before_the_number_was_saved_are_read(tmp_path: Path) -> None:
    reward = reward_with_a_past()
    replace(checkpoint_of(reward), n_envs=None).write(tmp_path / "old")
    with safe_open(tmp_path / "old", framework="pt") as file:
        metadata = json.loads(file.metadata()["revd"])
    del metadata["n_envs"]
    write_tensors(tmp_path / "old", reward.state_dict(), metadata)
    fresh = reward_with_a_past(seed=9)
    Checkpoint.read(tmp_path / "old").load_into(fresh)
    assert torch.equal(step(fresh, 2), step(reward, 2))


def test_a_state_from_before_duplicates_were_merged_is_one_without() -> None:
    old = checkpoint_of(reward_with_a_past())
    old = replace(old, parameters={name: value for name, value in old.parameters.items() if name != "merge_duplicates"})
    with pytest.raises(ValueError, match="merge_duplicates was False, here it is True"):
        old.load_into(reward_with_a_past())
    other = make_reward("revd", BOX, ACTIONS, n_envs=2, embedding_size=4, normalize="rms", merge_duplicates=False)
    old.load_into(other)
    assert torch.equal(other.memory.previous, reward_with_a_past().memory.previous)


def test_other_parameters_are_refused_by_name() -> None:
    checkpoint = checkpoint_of(reward_with_a_past())
    other = make_reward("revd", BOX, ACTIONS, n_envs=2, embedding_size=4, normalize="rms", k=2)
    with pytest.raises(ValueError, match="REVD does not fit this reward's parameters: k was 3, here it is 2"):
        checkpoint.load_into(other)


def test_spaces_are_part_of_the_fit() -> None:
    checkpoint = checkpoint_of(reward_with_a_past())
    wide = make_reward("revd", spaces.Box(-1, 1, (4,)), ACTIONS, n_envs=2, embedding_size=4, normalize="rms")
    with pytest.raises(ValueError, match="does not fit"):
        checkpoint.load_into(wide)
    assert isinstance(wide.observation_space, gym.Space)
