"""The corridor of benchmarks/chain.py, and how it counts the steps until the first reward."""

import csv
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from revd.rewards import REWARDS

ROOT = Path(__file__).parents[1]
LEFT, RIGHT, STAY = -1, 1, 0


@pytest.fixture
def chain(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return pytest.importorskip("chain", reason="benchmarks are not part of an installed package")


def walk(env, moves: list[int]) -> list[tuple[int, float, bool, dict]]:
    """Room, reward, end and info of each step of the only corridor."""
    steps = []
    room = int(env.reset().argmax())
    for move in moves:
        (action,) = np.flatnonzero(env.moves[room] == move)[:1]
        observations, rewards, dones, infos = env.step(np.array([action]))
        room = int(observations[0].argmax())
        assert observations[0].sum() == 1
        steps.append((room, float(rewards[0]), bool(dones[0]), infos[0]))
    return steps


def test_the_end_pays_once_and_starts_anew(chain: ModuleType) -> None:
    steps = walk(chain.ChainVecEnv(1, rooms=10, start=5), [RIGHT] * 5)
    assert [room for room, *_ in steps] == [6, 7, 8, 5, 6]
    assert [reward for _, reward, *_ in steps] == [0, 0, 0, 1, 0]
    assert [done for *_, done, _ in steps] == [False, False, False, True, False]
    info = steps[3][3]
    assert (info["terminal_observation"].argmax(), bool(info["TimeLimit.truncated"])) == (9, False)


def test_the_decoy_pays_once_an_episode(chain: ModuleType) -> None:
    steps = walk(chain.ChainVecEnv(1, start=1, limit=4, decoy=0.25), [LEFT, LEFT, RIGHT, LEFT] * 2)
    assert [reward for _, reward, *_ in steps] == [0.25, 0, 0, 0] * 2
    assert [room for room, *_ in steps] == [0, 0, 1, 1] * 2, "there is no room left of room 0"
    assert [done for *_, done, _ in steps] == [False, False, False, True] * 2
    assert bool(steps[3][3]["TimeLimit.truncated"])
    assert steps[3][3]["terminal_observation"].argmax() == 0


def test_actions_differ_from_room_to_room_and_one_stays(chain: ModuleType) -> None:
    env = chain.ChainVecEnv(1)
    assert env.moves.shape == (40, 3)
    assert (np.sort(env.moves, axis=1) == [LEFT, STAY, RIGHT]).all()
    assert (env.moves != env.moves[0]).any()
    assert (env.moves == chain.ChainVecEnv(2).moves).all()
    assert [room for room, *_ in walk(env, [STAY, RIGHT, STAY])] == [5, 6, 6]


def test_corridors_are_separate(chain: ModuleType) -> None:
    env = chain.ChainVecEnv(2, start=1, decoy=0.5)
    env.reset()
    left, right = (np.flatnonzero(env.moves[1] == move)[0] for move in (LEFT, RIGHT))
    observations, rewards, dones, _ = env.step(np.array([left, right]))
    assert observations.argmax(axis=1).tolist() == [0, 2]
    assert rewards.tolist() == [0.5, 0]
    assert not dones.any()


def test_a_run_ends_with_the_first_reward(chain: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "N_ENVS", 4)
    corridor = chain.ChainVecEnv
    # From room 2 of 4 the end is one step away. From room 1 of 40 nobody reaches it in 30 steps.
    monkeypatch.setattr(chain, "ChainVecEnv", lambda n_envs: corridor(n_envs, rooms=4, start=2))
    found = chain.run("counts", 1, budget=4096)["steps"]
    assert found is not None
    assert found % 4 == 0
    assert 4 <= found < 400
    monkeypatch.setattr(chain, "ChainVecEnv", lambda n_envs: corridor(n_envs, start=1, limit=30))
    assert chain.run("none", 1, budget=256)["steps"] is None, "the decoy is not the reward"


def test_runs_are_kept_and_not_repeated(chain: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []
    path = tmp_path / "new" / "chain.csv"

    def run(method: str, seed: int, *, budget: int) -> dict[str, object]:
        asked.append((method, seed))
        return {"method": method, "seed": seed, "steps": None if seed == 2 else 10, "cpu_seconds": 1.0}

    monkeypatch.setattr(chain, "run", run)
    chain.measure(["none"], [1], path, budget=100)
    chain.measure(["none", "revd"], [1, 2], path, budget=100)
    assert asked == [("none", 1), ("revd", 1), ("none", 2), ("revd", 2)]
    runs = chain.read(path)
    assert [run["steps"] for run in runs] == ["10", "10", "", ""]


def test_a_run_that_found_nothing_counts_as_the_slowest(chain: ModuleType) -> None:
    runs = [{"method": "revd", "steps": steps, "cpu_seconds": "0.5"} for steps in ["", "1000", "3000", "2000", "4000"]]
    assert chain.row("revd", runs, 8_000) == ["revd", "4 of 5", "3,000", "1,000 to > 8,000", "0.5"]


def test_the_results_have_ten_seeds_of_every_method(chain: ModuleType) -> None:
    with (ROOT / "results" / "chain" / "chain.csv").open(newline="") as file:
        runs = list(csv.DictReader(file))
    assert sorted((run["method"], int(run["seed"])) for run in runs) == sorted(
        (method, seed) for method in ("none", *REWARDS) for seed in range(1, 11)
    )


def test_the_table_of_the_results_is_that_of_the_file(chain: ModuleType) -> None:
    runs = chain.read(ROOT / "results" / "chain" / "chain.csv")
    page = (ROOT / "results" / "chain" / "README.md").read_text()
    for method in chain.METHODS:
        assert f"| {' | '.join(chain.row(method, runs, chain.BUDGET))} |" in page
