import hashlib
import json
import os

import pytest
import torch
from safetensors.torch import save_file

from revd.storage.tensor_file import read_tensors, write_tensors


def test_tensors_and_values_come_back(tmp_path):
    shared = torch.arange(6.0).reshape(2, 3)
    tensors = {
        "a": shared,
        "the same": shared,
        "transposed": shared.T,
        "empty": torch.zeros(0, 4),
        "n": torch.tensor(7),
    }
    write_tensors(tmp_path / "x", tensors, {"steps": 3, "names": ["a"]})
    read, values = read_tensors(tmp_path / "x")
    assert values == {"steps": 3, "names": ["a"]}
    assert read.keys() == tensors.keys()
    assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    write_tensors(tmp_path / "x", {"a": torch.ones(1)}, {"version": 1})

    def full_disk(descriptor):
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="no space left"):
        write_tensors(tmp_path / "x", {"a": torch.zeros(1)}, {"version": 2})
    assert read_tensors(tmp_path / "x")[1] == {"version": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


def test_every_truncation_is_noticed(tmp_path):
    write_tensors(tmp_path / "x", {"a": torch.ones(3)}, {"steps": 1})
    whole = (tmp_path / "x").read_bytes()
    for length in range(len(whole)):
        (tmp_path / "x").write_bytes(whole[:length])
        with pytest.raises(ValueError, match="damaged or not a safetensors file"):
            read_tensors(tmp_path / "x")


def test_every_flipped_bit_is_noticed_or_harmless(tmp_path):
    tensors = {"a": torch.tensor([1.0, float("nan")]), "b": torch.arange(3), "c": torch.tensor(True)}
    write_tensors(tmp_path / "x", tensors, {"steps": 1})
    whole = (tmp_path / "x").read_bytes()
    harmless = 0
    for place in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        (tmp_path / "x").write_bytes(damaged)
        try:
            read, values = read_tensors(tmp_path / "x")
        except ValueError:
            continue
        harmless += 1
        assert values == {"steps": 1}
        assert read.keys() == tensors.keys()
        for name, tensor in tensors.items():
            assert (read[name].dtype, read[name].shape) == (tensor.dtype, tensor.shape)
            assert torch.equal(read[name].view(torch.uint8), tensor.view(torch.uint8))
    assert harmless < 0.05 * 8 * len(whole), "some of the padding and of the spelling of the header"


@pytest.mark.parametrize("metadata", [None, {"other": "{}"}, {"revd": "{}"}, {"sha256": "0"}])
def test_other_files_are_refused(tmp_path, metadata):
    save_file({"a": torch.ones(1)}, tmp_path / "x", metadata=metadata)
    with pytest.raises(ValueError, match="was not written by revd, or by a version before checksums"):
        read_tensors(tmp_path / "x")


@pytest.mark.parametrize("text", ["no json", "3"])
def test_invalid_values_are_refused_even_with_a_checksum(tmp_path, text):
    checksum = hashlib.sha256(text.encode()).hexdigest()
    save_file({}, tmp_path / "x", metadata={"revd": text, "sha256": checksum})
    with pytest.raises(ValueError, match="was not written by revd: its values are"):
        read_tensors(tmp_path / "x")


def test_a_missing_file_is_missing_and_not_damaged(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_tensors(tmp_path / "x")


def test_values_are_strict_json(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_tensors(tmp_path / "x", {}, {"a": float("nan")})
    write_tensors(tmp_path / "x", {}, {"a": None})
    assert json.dumps(read_tensors(tmp_path / "x")[1]) == '{"a": null}'
