import re
from dataclasses import replace
from pathlib import Path

import pytest

from revd.runs import cpu_threads
from revd.runs.config import TrainConfig
from revd.runs.cpu_threads import available_cores, describe_processor, emulator_threads, with_emulator_threads

CONFIG = TrainConfig(task="atari/space-invaders", n_envs=10)


@pytest.fixture
def sixteen_cores(monkeypatch):
    monkeypatch.setattr(cpu_threads, "available_cores", lambda: 16)


def test_the_processor_is_named_with_its_cores(monkeypatch, sixteen_cores):
    text = "processor\t: 0\nmodel\t\t: 2\nmodel name\t: AMD EPYC 7B13\n\nprocessor\t: 1\nmodel name\t: AMD EPYC 7B13\n"
    monkeypatch.setattr(Path, "read_text", lambda path: text)
    assert describe_processor() == "AMD EPYC 7B13, 16 cores"


def test_a_processor_without_a_name_has_its_architecture(monkeypatch):
    def refuse(path):
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", refuse)
    monkeypatch.setattr(cpu_threads, "available_cores", lambda: 1)
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    assert describe_processor() == "arm64, 1 core"


def test_the_cores_are_those_that_the_system_lets_us_use():
    status = Path("/proc/self/status").read_text()
    mask = re.search(r"^Cpus_allowed:\s*([0-9a-f,]+)$", status, re.MULTILINE)[1]
    assert available_cores() == int(mask.replace(",", ""), 16).bit_count()


def test_without_affinities_all_cores_count(monkeypatch):
    monkeypatch.delattr(cpu_threads.os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(cpu_threads.os, "cpu_count", lambda: 7)
    assert available_cores() == 7


@pytest.mark.usefixtures("sixteen_cores")
@pytest.mark.parametrize(
    ("changes", "on_gpu", "expected"),
    [
        ({}, False, 1),
        ({}, True, 10),
        ({"n_envs": 64}, True, 16),
        ({"threads": 3}, False, 3),
        ({"threads": 3}, True, 3),
        ({"emulator_threads": 5}, False, 5),
        ({"threads": 1, "emulator_threads": 5}, True, 5),
    ],
)
def test_threads_of_the_emulators(changes, on_gpu, expected):
    assert emulator_threads(replace(CONFIG, **changes), on_gpu=on_gpu) == expected


@pytest.mark.parametrize(("threads", "expected"), [(0, 1), (1, 1), (4, 4)])
def test_threads_of_torch(threads, expected):
    assert replace(CONFIG, threads=threads, emulator_threads=9).torch_threads == expected


@pytest.mark.usefixtures("sixteen_cores")
@pytest.mark.parametrize(("cores", "expected"), [(16, 10), (8, 8), (1, 1), (0, 1)])
def test_runs_side_by_side_share_the_cores(cores, expected):
    shared = with_emulator_threads(CONFIG, cores)
    assert emulator_threads(shared, on_gpu=True) == expected
    assert shared.torch_threads == 1
    assert CONFIG.differences(shared) == []


@pytest.mark.parametrize("given", [{"threads": 12}, {"emulator_threads": 12}])
def test_what_was_asked_for_is_not_shared(given):
    config = replace(CONFIG, **given)
    assert with_emulator_threads(config, 2) is config
