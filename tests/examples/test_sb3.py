"""The examples with Stable-Baselines3 run, and print what their docstrings say to look at."""

import math
import re
from collections import Counter

import gymnasium as gym
import numpy as np
import pytest

from revd.sb3 import IntrinsicRewardCallback
from tests.examples.scripts import load
from tests.support.rollouts import BOX, DISCRETE, make_rollout


@pytest.fixture
def paid(monkeypatch):
    """The callbacks that paid, one entry for each rollout."""
    callbacks: list[IntrinsicRewardCallback] = []
    pay = IntrinsicRewardCallback._on_rollout_end

    def noting(self):
        pay(self)
        callbacks.append(self)

    monkeypatch.setattr(IntrinsicRewardCallback, "_on_rollout_end", noting)
    return callbacks


def logged(printed: str, name: str) -> list[float]:
    """The values of a number in the log of Stable-Baselines3."""
    return [float(value) for value in re.findall(rf"\| +{name} +\| (\S+)", printed)]


def test_the_one_line_logs_the_share(paid, capsys):
    load("sb3_one_line").main(steps=2_560)
    shares = logged(capsys.readouterr().out, "bonus_share")
    assert shares[0] == 0, "REVD pays nothing for the first rollout"
    assert 0 < shares[1] < 1
    assert len(paid) == 2


@pytest.mark.parametrize(
    ("name", "steps", "what", "taken"),
    [("images", 2_048, "goals", 2_048), ("own_environment", 4_096, "the bell rang", 4_096)],
)
def test_two_trainings_are_compared_and_one_has_the_bonus(name, steps, what, taken, paid, capsys):
    load(name).main(steps=steps)
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["PPO", "PPO+REVD"]
    assert all(what in line and line.endswith(f"in {taken:,} steps") for line in lines)
    assert len(paid) == 2, "two rollouts of the second training"
    assert paid[-1].latest["bonus_mean"] > 0


def test_the_maze_can_be_solved():
    env = gym.make(load("images").gym.spec("Maze-v0")).unwrapped
    env.reset(seed=0)
    assert reach(env) < 60, "the limit of an episode"


def reach(env) -> int:
    """Steps of the shortest way to the goal, by breadth-first search."""
    waiting, seen = [(tuple(env.place), 0)], {tuple(env.place)}
    for place, steps in waiting:
        for action in range(4):
            env.place = np.array(place)
            _, reward, *_ = env.step(action)
            if reward:
                return steps + 1
            if tuple(env.place) not in seen:
                seen.add(tuple(env.place))
                waiting.append((tuple(env.place), steps + 1))
    raise AssertionError("there is no way to the goal")


def test_the_maze_shows_walls_and_agent():
    module = load("images")
    env = gym.make("Maze-v0")
    image, _ = env.reset(seed=0)
    assert env.observation_space.contains(image)
    assert (image == 255).sum() == module.PIXELS**2
    assert (image == 100).sum() == module.PIXELS**2 * sum(row.count("#") for row in module.MAZE)


def test_pumping_rings_the_bell_and_sitting_still_does_not():
    load("own_environment")
    assert rings(lambda speed: 2 if speed > 0 else 0)
    assert not rings(lambda speed: 1)


def rings(policy) -> bool:
    env = gym.make("Swing-v0")
    (_, speed), _ = env.reset(seed=0)
    over = False
    while not over:
        (_, speed), reward, terminated, truncated, _ = env.step(policy(speed))
        over = terminated or truncated
    return reward == 1


def test_the_recurrent_policy_trains_with_the_bonus(paid, capsys):
    load("minigrid_recurrent").main(steps=2_048)
    shares = logged(capsys.readouterr().out, "bonus_share")
    assert shares[0] == 0
    assert 0 < shares[1] < 1
    assert type(paid[-1].model).__name__ == "RecurrentPPO"


def test_pretraining_has_the_bonus_alone_and_fine_tuning_has_none(paid, capsys):
    load("pretrain_then_finetune").main(steps=2_560)
    printed = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in printed] == [
        "pre-training on the bonus alone",
        "fine-tuning on the reward",
        "PPO from scratch",
    ]
    assert [callback.extrinsic_weight for callback in paid] == [0, 0]
    assert paid[-1].model.num_timesteps == 2 * 2_560, "fine-tuning continues the same model"


def test_flags_are_episodes_that_ended_early():
    module = load("pretrain_then_finetune")
    model = module.make_model()
    for monitor, returns in zip(model.get_env().unwrapped.envs, ([-200, -150], [-200], *[[]] * 8), strict=True):
        monitor.get_wrapper_attr("episode_returns").extend(returns)
    assert module.flags(model) == 1


def test_the_reward_of_ones_own_is_checked_and_trains(paid, capsys):
    load("own_reward").main(steps=2_560)
    cells = logged(capsys.readouterr().out, "cells")
    assert 1 < cells[0] <= cells[1] <= 900
    assert type(paid[-1].reward).__name__ == "CellCounts"


def test_the_reward_of_ones_own_pays_by_the_square_root_of_the_count():
    reward = load("own_reward").CellCounts(BOX, DISCRETE, 2, bins=3)
    rollout = make_rollout(0)
    states = rollout.observations.reshape(-1, 3)
    # Three cells from -3 to 3 along each number, the outer ones without an end.
    cells = [tuple(-1 if value < -1 else int(value >= 1) for value in state) for state in states.tolist()]
    counts = Counter(cells)
    assert len(counts) > 1
    expected = [1 / math.sqrt(counts[cell]) for cell in cells]
    assert reward.compute(rollout).flatten().tolist() == pytest.approx(expected)
    assert reward.metrics()["cells"] == len(counts)
