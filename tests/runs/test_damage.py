"""Damaged checkpoints: the damage is detected or harmless, and no run resumes from a damaged one."""

import os
import random
from dataclasses import replace

import pytest
import torch

from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory
from revd.runs.parameters import Parameters
from revd.runs.train import train
from revd.storage.tensor_file import read_tensors

ROLLOUT = 32


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    config = TrainConfig(
        task="CartPole-v1",
        steps=2 * ROLLOUT,
        n_envs=2,
        output=tmp_path_factory.mktemp("damage") / "run",
        reward_params=Parameters(embedding_size=2),
        checkpoint_every=ROLLOUT,
        algo_params=Parameters(n_steps=ROLLOUT // 2, batch_size=ROLLOUT, n_epochs=1, policy_kwargs={"net_arch": [2]}),
    )
    train(config)
    return config


@pytest.fixture
def newest(config, tmp_path):
    """A copy of the newest checkpoint of a small policy, to be damaged."""
    copy = tmp_path / "copy"
    copy.write_bytes(max((config.directory / "checkpoints").iterdir()).read_bytes())
    return copy


def test_every_truncation_of_a_checkpoint_is_noticed(newest):
    size = newest.stat().st_size
    for length in reversed(range(size)):
        os.truncate(newest, length)
        with pytest.raises(ValueError, match="damaged"):
            read_tensors(newest)


def test_500_flipped_bits_are_noticed_or_harmless(newest):
    tensors, values = read_tensors(newest)
    whole = newest.read_bytes()
    draw = random.Random(0)
    noticed = 0
    for place in draw.sample(range(8 * len(whole)), 500):
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        newest.write_bytes(damaged)
        try:
            read, read_values = read_tensors(newest)
        except ValueError:
            noticed += 1
            continue
        assert read_values == values
        assert read.keys() == tensors.keys()
        assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())
    assert noticed >= 490


@pytest.fixture
def broken(config, tmp_path):
    """The run again, with its newest checkpoint damaged."""
    copied = replace(config, output=tmp_path / "run")
    train(copied)
    path = max((copied.directory / "checkpoints").iterdir())
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    return copied


def test_a_run_resumes_from_the_checkpoint_before(broken):
    longer = replace(broken, steps=4 * ROLLOUT)
    with pytest.warns(UserWarning, match="does not match its checksum"):
        train(longer)
    steps = [line.split(",")[0] for line in (longer.directory / "progress.csv").read_text().splitlines()]
    assert steps == ["time/total_timesteps", "32", "64", "96", "128"]
    names = sorted(path.name for path in (longer.directory / "checkpoints").iterdir())
    assert names == [
        "damaged.steps-000000000064.safetensors",
        "steps-000000000096.safetensors",
        "steps-000000000128.safetensors",
    ]


def test_without_a_good_checkpoint_nothing_is_thrown_away(broken):
    longer = replace(broken, steps=4 * ROLLOUT)
    for path in (longer.directory / "checkpoints").iterdir():
        path.write_bytes(path.read_bytes()[:100])
    before = (longer.directory / "progress.csv").read_text()
    with pytest.raises(ValueError, match=r"no checkpoint in .* can be used .*put back a good copy"):
        train(longer)
    assert (longer.directory / "progress.csv").read_text() == before


@pytest.mark.parametrize("text", ["", "{", "[]", '{"state": "finished"', '{"state": "odd"}', '{"steps": 1}'])
def test_a_damaged_status_is_no_status_and_the_run_resumes(broken, text):
    directory = RunDirectory(broken.directory)
    directory.status.write_text(text)
    directory.run.write_text(text)
    assert directory.read_status() is None
    with pytest.warns(UserWarning, match="the one before it is restored"):
        train(broken)
    assert directory.read_status().state == "finished"


@pytest.mark.parametrize("text", ["", "{", "3", '{"task": 3, "steps": "x"}', '{"no": "task"}'])
def test_a_damaged_config_is_refused_with_its_name(broken, text):
    RunDirectory(broken.directory).config.write_text(text)
    with pytest.raises(ValueError, match=r"config\.json' is damaged or describes no training"):
        train(broken)


def test_unfinished_files_of_killed_processes_are_cleared_away(broken):
    left = [".1.status.json", ".1.progress.csv", ".1.model.zip", "checkpoints/.1.steps-000000000128.safetensors"]
    others = [".1.watch.gif", ".notes"]
    for name in left + others:
        (broken.directory / name).write_text("half")
    with pytest.warns(UserWarning, match="the one before it is restored"):
        train(replace(broken, steps=3 * ROLLOUT))
    assert not any((broken.directory / name).exists() for name in left)
    assert all((broken.directory / name).exists() for name in others), "not ours to clear away"
