"""What each bonus costs: its share of the CPU seconds of a training with it.

    python benchmarks/bonus_cost.py [--tasks minigrid/door-key-8x8] [--rewards rnd icm] [--engine gymnasium]

PPO trains without a bonus, at the settings of `training.py`, with as many environments as the suite `balance` has for
the task, or 10. All bonuses watch its rollouts and take turns, each with
its defaults, as the callback computes, weighs (`weight="auto"`) and trains it. Its share is s / (p + s), with s the
seconds of the bonus and p those of PPO with its environments. Seconds are the processor's, for one thread, so that
other work on the machine matters little. The numbers are medians over rollouts, without the first ones, from which PPO
does not learn.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from statistics import median
from typing import Any

import torch
from measure import machine, markdown_table
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from training import Training

from revd.rewards import REWARDS
from revd.sb3 import FastPPO, IntrinsicRewardCallback
from revd.suites.catalog import SUITES

TASKS = ("atari/space-invaders", "minigrid/door-key-8x8", "bullet/hopper")


def callback(name: str) -> IntrinsicRewardCallback:
    """The callback of NAME, with its defaults, or of NAME@WEIGHT, with that fixed weight."""
    reward, _, weight = name.partition("@")
    return IntrinsicRewardCallback(reward, weight=float(weight)) if weight else IntrinsicRewardCallback(reward)


class Watchers(BaseCallback):
    """Lets several bonuses look at the same rollouts; the policy learns without them."""

    def __init__(self, rewards: list[str]) -> None:
        super().__init__()
        self.children = {name: callback(name) for name in rewards}
        self.seconds: dict[str, list[float]] = defaultdict(list)

    def _init_callback(self) -> None:
        for child in self.children.values():
            child.init_callback(self.model)

    def _on_rollout_start(self) -> None:
        for child in self.children.values():
            child._on_rollout_start()

    def _on_step(self) -> bool:
        for child in self.children.values():
            child.locals = self.locals
            child._on_step()
        return True

    def _on_rollout_end(self) -> None:
        advantages = self.model.rollout_buffer.advantages  # type: ignore[attr-defined]
        saved = advantages.copy()
        for name, child in self.children.items():
            began = time.process_time()
            child._on_rollout_end()
            self.seconds[name].append(time.process_time() - began)
            advantages[:] = saved


class Watched(Training):
    """A training without a bonus whose rollouts the bonuses watch."""

    def __init__(self, kind: Any, arguments: argparse.Namespace) -> None:
        super().__init__(kind, arguments, "none")
        self.watchers = self._callback = Watchers(arguments.rewards)
        for method in ("_on_step", "_on_rollout_end"):
            self.time(self.watchers, method, "bonus")

    def warm_up(self) -> None:
        """A rollout that does not count and from which PPO does not learn."""
        learn, self._model.train = self._model.train, lambda: None
        self.rollout(counts=False)
        self._model.train = learn
        self.watchers.seconds.clear()

    @property
    def own_seconds(self) -> float:
        """Median CPU seconds of a rollout and its update, without the bonuses."""
        return median(sum(spent.values()) - spent["bonus"] for spent in self._rollouts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--rewards", nargs="+", default=list(REWARDS), help="NAME, or NAME@WEIGHT")
    parser.add_argument("--trainer", choices=("fast", "sb3"), default="fast")
    parser.add_argument("--engine", default="auto", choices=("auto", "gymnasium", "envpool"))
    parser.add_argument("--warm-up", type=int, default=2, help="first rollouts, which do not count")
    parser.add_argument("--rollouts", type=int, default=3, help="measured rollouts")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    # What Training asks for besides.
    settings = {"algo": "ppo", "device": "cpu", "threads": 1, "clock": "cpu"}
    costs = {}
    for task in arguments.tasks:
        n_envs = SUITES["balance"].task_settings.get(task, {}).get("n_envs", 10)
        costs[task] = measure(argparse.Namespace(**{**vars(arguments), **settings}, task=task, n_envs=n_envs))
    print(f"{machine('cpu')}; {arguments.trainer}, engine {arguments.engine}\n")
    print(markdown_table(("reward", *arguments.tasks), [row(name, costs) for name in arguments.rewards]))


def measure(arguments: argparse.Namespace) -> dict[str, tuple[float, float]]:
    """Seconds of a rollout of each bonus, and of PPO."""
    training = Watched({"fast": FastPPO, "sb3": PPO}[arguments.trainer], arguments)
    for _ in range(arguments.warm_up):
        training.warm_up()
    for _ in range(arguments.rollouts):
        training.rollout(counts=True)
    return {name: (median(spent), training.own_seconds) for name, spent in training.watchers.seconds.items()}


def row(name: str, costs: dict[str, dict[str, tuple[float, float]]]) -> list[str]:
    """The shares of a bonus, and its milliseconds for a rollout."""
    pairs = [cost[name] for cost in costs.values()]
    return [name, *(f"{bonus / (own + bonus):.1%} ({1e3 * bonus:.0f} ms)" for bonus, own in pairs)]


if __name__ == "__main__":
    main()
