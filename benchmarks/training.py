"""The speed of SB3's PPO and A2C against ours.

    python benchmarks/training.py [--device cpu|cuda] [--task atari/space-invaders]

SB3's algorithm without and with the bonus, and ours with the bonus, train on the same task with the same settings:
those of the paper, where it has some. They take turns, rollout by rollout, each in its own environments: SB3's in those
that the task's package registers in Gymnasium, the last row in what `revd train` uses (EnvPool for classic/… and
minigrid/…, robots with few calls for bullet/…). `--engine gymnasium` gives the last row Gymnasium's, too. `--cleanrl`
adds PPO as CleanRL's users run it (`single_file_ppo.py`), without a bonus, for vectors. The first rollouts, in which
CUDA graphs are captured, do not count. `--clock cpu` measures the seconds of the processor, for one thread on a machine
that is busy with other work. Steps are those of all environments together. The time of a
rollout is split into `environment` (stepping and waiting), `bonus` (the exploration reward), `update` (train()), and
`acting` (the rest: the policy, copies, the buffer, GAE).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from measure import machine, markdown_table
from single_file_ppo import SingleFilePPO
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.callbacks import BaseCallback

from revd.envs.tasks import find_task
from revd.runs.presets import PAPER_ALGORITHMS, PAPER_REWARDS, PAPER_TRAINING
from revd.sb3 import FastA2C, FastPPO, IntrinsicRewardCallback
from revd.training.policies import paper_policy, policy_class
from revd.training.vec_env import make_vec_env
from revd.weighting.weighting import Weight

ALGORITHM_PAIRS: dict[str, tuple[Any, Any]] = {"ppo": (PPO, FastPPO), "a2c": (A2C, FastA2C)}
PHASES = ("environment", "acting", "bonus", "update")
#: Settings for families of tasks that the paper does not have.
PPO_SETTINGS: dict[str, dict[str, Any]] = {
    "classic": {"n_steps": 128, "batch_size": 64, "n_epochs": 10},
    "minigrid": {"n_steps": 128, "batch_size": 512, "n_epochs": 4, "ent_coef": 0.01},
}
WARM_UP_ROLLOUTS = 3
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--task", default="atari/space-invaders")
    parser.add_argument("--algo", choices=ALGORITHM_PAIRS, default="ppo")
    parser.add_argument("--reward", default="revd", help="or none")
    parser.add_argument("--weight", default="auto", help="of the bonus: auto or a number")
    parser.add_argument("--n-envs", type=int, default=10)
    parser.add_argument("--engine", default="auto", choices=("auto", "gymnasium", "envpool"), help="of the last row")
    parser.add_argument("--threads", type=int, default=1, help="emulator threads for Atari; torch has one")
    parser.add_argument("--rollouts", type=int, default=5, help="measured rollouts of each")
    parser.add_argument("--tf32", action="store_true", help="for ours")
    parser.add_argument("--cleanrl", action="store_true", help="add CleanRL's PPO")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="what is measured")
    parser.add_argument(
        "--ours-first", action="store_true", help="create ours before SB3's, and let it begin each turn"
    )
    arguments = parser.parse_args()
    # More threads of torch would compete with those of the emulators.
    torch.set_num_threads(1)
    theirs, ours = ALGORITHM_PAIRS[arguments.algo]
    tf32 = {"tf32": True} if arguments.tf32 else {}
    bonus = "" if arguments.reward == "none" else f"+{arguments.reward.upper()}"
    plans: dict[str, Callable[[], Rollouts]] = {
        theirs.__name__: lambda: Training(theirs, arguments, "none", packaged=True)
    }
    if bonus:
        plans[theirs.__name__ + bonus] = lambda: Training(theirs, arguments, arguments.reward, packaged=True)
    if arguments.cleanrl:
        plans["CleanRL's PPO"] = lambda: CleanRL(arguments)
    plans[ours.__name__ + bonus] = lambda: Training(ours, arguments, arguments.reward, **tf32)
    names = list(reversed(plans)) if arguments.ours_first else list(plans)
    cases = {name: plans[name]() for name in names}
    for turn in range(WARM_UP_ROLLOUTS + arguments.rollouts):
        for training in cases.values():
            training.rollout(counts=turn >= WARM_UP_ROLLOUTS)
    print(f"{machine(arguments.device)}; {arguments.task}, {arguments.n_envs} environments\n")
    reference = cases[theirs.__name__].speed
    header = ("", "steps/s", "against SB3", *(f"{phase} ms" for phase in PHASES))
    rows = [
        [name, f"{training.speed:,.0f}", f"{training.speed / reference:.2f}", *training.breakdown()]
        for name, training in cases.items()
    ]
    print(markdown_table(header, rows))


def packaged_task(name: str) -> str:
    """The task as its package registers it, where revd has a faster class of its own."""
    task = find_task(name)
    return name if task.entry_point is None else f"{task.module}:{task.gymnasium_id}"


def training_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """The algorithm's settings: the paper's, where it has some."""
    family = find_task(arguments.task).family
    own = PPO_SETTINGS.get(family, {}) if arguments.algo == "ppo" else {}
    return dict(PAPER_ALGORITHMS.get((family, arguments.algo), {"n_steps": 256, **own}))


class Rollouts:
    """Something that learns one rollout at a time, and the time of each phase."""

    def __init__(self, arguments: argparse.Namespace, steps: int) -> None:
        self._device = torch.device(arguments.device)
        self._clock = CLOCKS[arguments.clock]
        self._steps = steps
        self._spent = dict.fromkeys(PHASES, 0.0)
        self._rollouts: list[dict[str, float]] = []

    def learn(self) -> None:
        """Collect a rollout and learn from it."""
        raise NotImplementedError

    def rollout(self, *, counts: bool) -> None:
        """Learn from one rollout and measure it."""
        self._spent = dict.fromkeys(PHASES, 0.0)
        began = self._clock()
        self.learn()
        self._spent["acting"] = self._clock() - began - sum(self._spent.values())
        if counts:
            self._rollouts.append(self._spent)

    @property
    def speed(self) -> float:
        """Steps per second of the median rollout."""
        return self._steps / median(sum(spent.values()) for spent in self._rollouts)

    def breakdown(self) -> list[str]:
        """Median milliseconds of each phase."""
        return [f"{1e3 * median(spent[phase] for spent in self._rollouts):.0f}" for phase in PHASES]

    def time(self, owner: Any, method: str, phase: str, *, waits: bool = True) -> None:
        """Measure the time of a method; with `waits`, until the GPU has finished its work."""
        call: Callable[..., Any] = getattr(owner, method)

        def timed(*arguments: Any, **keywords: Any) -> Any:
            began = self._clock()
            result = call(*arguments, **keywords)
            if waits and self._device.type == "cuda":
                torch.cuda.synchronize()
            self._spent[phase] += self._clock() - began
            return result

        setattr(owner, method, timed)


class Training(Rollouts):
    """A model of SB3 or of ours."""

    def __init__(
        self, kind: Any, arguments: argparse.Namespace, reward: str, *, packaged: bool = False, **options: Any
    ) -> None:
        family = find_task(arguments.task).family
        env = make_vec_env(
            packaged_task(arguments.task) if packaged else arguments.task,
            n_envs=arguments.n_envs,
            seed=0,
            normalize=PAPER_TRAINING[family]["normalize"] if family in PAPER_TRAINING else "none",
            threads=arguments.threads,
            engine="gymnasium" if packaged else arguments.engine,
        )
        name, parameters = paper_policy(env.observation_space)
        settings = {**training_settings(arguments), **options, "device": arguments.device}
        self._model = kind(policy_class(name), env, policy_kwargs=parameters, seed=0, **settings)
        super().__init__(arguments, self._model.n_steps * self._model.n_envs)
        self._callback: BaseCallback | None = None
        if reward != "none":
            preset = PAPER_REWARDS.get((family, reward), {})
            weight: Weight = "auto" if arguments.weight == "auto" else float(arguments.weight)
            self._callback = IntrinsicRewardCallback(reward, weight=weight, **preset.get("reward_params", {}))
            self.time(self._callback, "_on_rollout_end", "bonus")
        for method in ("step", "receive", "step_results"):
            if hasattr(env, method):
                self.time(env, method, "environment", waits=False)
        self.time(self._model, "train", "update")

    def learn(self) -> None:
        self._model.learn(self._steps, callback=self._callback, reset_num_timesteps=False)


class CleanRL(Rollouts):
    """CleanRL's PPO with the sizes of the other rows."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        settings = training_settings(arguments)
        sizes = {name: settings[name] for name in ("n_steps", "batch_size", "n_epochs")}
        super().__init__(arguments, settings["n_steps"] * arguments.n_envs)
        self._ppo = SingleFilePPO(find_task(arguments.task), n_envs=arguments.n_envs, **sizes)
        self.time(self._ppo.envs, "step", "environment")
        self.time(self._ppo, "update", "update")

    def learn(self) -> None:
        self._ppo.collect()
        self._ppo.update()


if __name__ == "__main__":
    main()
