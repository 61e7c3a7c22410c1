"""Kills trainings and suites at random moments, repeats the command each time, and counts the results.

`make faults` runs all of it, `test_campaign.py` a short form. No hook in the killed processes is used. A
kill counts as "while a checkpoint was being written" if the process left an unfinished file. The first process of a
training is the command itself. The others are the same command in a process forked from one that has loaded torch,
because loading it takes longer than everything that is tested here.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path

from tests.faults.commands import Forked, Process, start
from tests.faults.records import Findings, examine, newest_checkpoint, rows, temporary_files

#: Steps of a rollout: two environments and 32 steps each; the suite's ten environments and 256.
TRAIN_ROLLOUT, SUITE_ROLLOUT = 64, 2_560
TRAIN = (
    "train --task CartPole-v1 --n-envs 2 --decay 0.01 --normalize both --checkpoint-every 64 --no-progress "
    '--algo-params n_steps=32 n_epochs=1 policy_kwargs={{"net_arch":[{width},{width}]}}'
)
SUITE = "suite smoke --tasks classic/cart-pole --methods ppo+revd --jobs 1 --steps 20000 --seeds {seeds}"
#: Longest wait for a sign of life of a process that should work, in seconds.
PATIENCE = 300.0


@dataclass
class Counts:
    """What was done."""

    train_kills: int = 0
    suite_kills: int = 0
    writing: int = 0
    findings: Findings = field(default_factory=Findings)

    @property
    def kills(self) -> int:
        return self.train_kills + self.suite_kills

    def lines(self) -> list[str]:
        found = self.findings
        return [
            f"kills of trainings         {self.train_kills:5}",
            f"kills in suites            {self.suite_kills:5}",
            f"of all, while writing a checkpoint {self.writing:5}",
            f"runs, all finished         {found.runs:5}",
            f"resumes                    {found.resumes:5}",
            f"lost checkpoints           {len(found.lost):5}",
            f"gaps in the CSVs           {len(found.gaps):5}",
            f"repeats in the CSVs        {len(found.repeats):5}",
            f"temporary files left       {len(found.leftovers):5}",
            *(f"! {line}" for line in (*found.lost, *found.gaps, *found.repeats, *found.leftovers)),
        ]


class Lane:
    """One command that is killed and repeated, in its own directory."""

    def __init__(self, root: Path, counts: Counts, draw: random.Random) -> None:
        self.root = root
        self.counts = counts
        self.draw = draw

    def await_that(self, happened: Callable[[], bool], process: Process, *, pause: float = 0.02) -> bool:
        """Whether it happened before the process ended."""
        deadline = time.monotonic() + PATIENCE
        while not happened():
            if process.poll() is not None:
                return happened()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{process.args} showed no sign of life; see {self.root / 'said.txt'}")
            time.sleep(pause)
        return True

    def note(self, run: Path, before: int) -> None:
        """After a kill: whether it came while a checkpoint was being written; the ones before must all be there."""
        writing = any(path.parent.name == "checkpoints" for path in temporary_files(run))
        newest = newest_checkpoint(run)
        self.counts.writing += writing
        if newest < before:
            self.counts.findings.lost.append(f"{run}: {before} was there, {newest} is")

    def await_success(self, process: Process) -> None:
        if process.wait(timeout=PATIENCE) != 0:
            raise RuntimeError(f"{process.args} did not end well; see {self.root / 'said.txt'}")


class TrainLane(Lane):
    """`revd train` with a policy so large that writing it takes a while."""

    def run(self, kills: int, *, aimed: int, width: int) -> None:
        """Kill `kills` times, the last `aimed` times while a checkpoint is being written."""
        words = [*TRAIN.format(width=width).split(), "--output", "run"]
        run = self.root / "run"
        kept = []
        for number in range(kills):
            process = self._start_or_fork([*words, "--steps", "100000000"], fork=number > 0)
            before = self._await_first_step(run, process)
            if number < kills - aimed:
                time.sleep(self.draw.uniform(0, 1))
            else:
                self._await_a_write(run, process)
            before = max(before, _named(run))
            process.kill()
            process.wait()
            self.counts.train_kills += 1
            self.note(run, before)
            kept.append(newest_checkpoint(run))
        steps = rows(run / "progress.csv")[-1]["time/total_timesteps"]
        process = self._start_or_fork([*words, "--steps", str(int(steps) + 2 * TRAIN_ROLLOUT)], fork=True)
        self.await_success(process)
        examine(run, TRAIN_ROLLOUT, self.counts.findings)
        resumed = [session["steps"] for session in json.loads((run / "run.json").read_text())["resumed"]]
        if resumed != kept:
            self.counts.findings.lost.append(f"{run}: {kept} were there, {resumed} were resumed from")

    def _start_or_fork(self, words: list[str], *, fork: bool) -> Process:
        return Forked(words, self.root) if fork else start(words, self.root)

    def _await_a_write(self, run: Path, process: Process) -> None:
        """Wait for a few checkpoints, then for some moment in the writing of the next."""
        enough = _named(run) + TRAIN_ROLLOUT * self.draw.randrange(4)
        self.await_that(lambda: _named(run) >= enough, process)
        self.await_that(lambda: _is_writing(run), process, pause=0.0005)
        time.sleep(self.draw.uniform(0, 0.005))

    def _await_first_step(self, run: Path, process: Process) -> int:
        """Wait for a row that this session has logged; return the checkpoint that it resumed from."""
        self.await_that(lambda: _is_running(run, process.pid), process)
        began = _named(run)
        self.await_that(lambda: _has_logged(run, began), process)
        return began


class SuiteLane(Lane):
    """`revd suite`, of which the worker, the launcher, or both are killed."""

    def run(self, kills: int, *, seeds: list[int]) -> None:
        words = [*SUITE.format(seeds=" ".join(map(str, seeds))).split(), "--output", "suite"]
        done = 0
        process = start(words, self.root)
        while done < kills:
            if process.poll() is not None:
                # Ended by itself: all is finished, or a run was killed more often than it is retried.
                process = start(words, self.root)
            victim = self._await_worker(process)
            if victim is None:
                if process.returncode == 0:
                    break
                continue
            run, worker, began = victim
            self.await_that(lambda run=run, began=began: _has_logged(run, began), process)  # type: ignore[misc]
            time.sleep(self.draw.uniform(0, 4))
            if not _is_running(run, worker):
                continue
            before = max(began, _named(run))
            how = self.draw.choice(("worker", "launcher", "both"))
            if how != "launcher":
                with suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
            if how != "worker":
                process.kill()
            _await_end(worker)
            if how != "worker":
                process.wait()
            done += 1
            self.counts.suite_kills += 1
            self.note(run, before)
        # A launcher may have stopped retrying a run that was killed too often: the same command resumes it.
        if process.poll() is not None or process.wait(timeout=PATIENCE) != 0:
            self.await_success(start(words, self.root))
        self._examine(seeds)

    def _await_worker(self, process: subprocess.Popen[bytes]) -> tuple[Path, int, int] | None:
        """The run in training, its process and the step it began at; None if the launcher ended first."""
        found: list[tuple[Path, int, int]] = []

        def look() -> bool:
            for run in self._runs():
                worker = _holder(run)
                if worker is not None and _is_running(run, worker) and _parent(worker) == process.pid:
                    found.append((run, worker, _named(run)))
                    return True
            return False

        return found[0] if self.await_that(look, process) else None

    def _runs(self) -> list[Path]:
        return sorted((self.root / "suite").glob("*/*"))

    def _examine(self, seeds: list[int]) -> None:
        assert len(self._runs()) == len(seeds)
        for run in self._runs():
            examine(run, SUITE_ROLLOUT, self.counts.findings)


def campaign(root: Path, *, train_kills: int, aimed: int, suite_kills: int, width: int, seed: int = 0) -> Counts:
    """Trainings and suites of at most ten kills each, two at a time; `aimed` of the trainings' wait for a write."""
    counts = Counts()
    jobs: list[Callable[[], None]] = []
    for number, (kills, at_writes) in enumerate(
        zip(_parts(train_kills), _shares(aimed, _parts(train_kills)), strict=True)
    ):
        lane = TrainLane(_made(root / f"train-{number}"), counts, random.Random(f"train {seed} {number}"))
        jobs.append(partial(lane.run, kills, aimed=at_writes, width=width))
    for number, kills in enumerate(_parts(suite_kills)):
        suite = SuiteLane(_made(root / f"suite-{number}"), counts, random.Random(f"suite {seed} {number}"))
        # A second run for many kills: each of them leaves some work done.
        jobs.append(partial(suite.run, kills, seeds=[10 * number + index for index in range(1 + kills // 5)]))
    random.Random(seed).shuffle(jobs)
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(job) for job in jobs]:
            done.result()
    return counts


def _parts(total: int, size: int = 10) -> list[int]:
    """So many as parts of at most ten."""
    return [min(size, total - start) for start in range(0, total, size)]


def _shares(total: int, parts: list[int]) -> list[int]:
    """So many spread over parts in proportion to their size, exactly."""
    ends = [round(total * sum(parts[: index + 1]) / sum(parts)) for index in range(len(parts))]
    return [end - start for start, end in pairwise([0, *ends])]


def _made(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


def _holder(run: Path) -> int | None:
    """The process that says it writes the run."""
    leases = sorted(run.glob(".lease-*"), key=lambda path: int(path.name.split("-")[1]))
    with suppress(IndexError, OSError, ValueError):
        return None if leases[-1].name.endswith("free") else int(json.loads(leases[-1].read_text())["pid"])
    return None


def _is_running(run: Path, pid: int) -> bool:
    """Whether the session of that process has begun: it holds the run, and has written down that it is there."""
    with suppress(OSError, ValueError):
        said = json.loads((run / "status.json").read_text())["state"] == "running"
        return said and _holder(run) == pid and (run / "run.json").stat().st_mtime > _start_of(pid)
    return False


def _has_logged(run: Path, began: int) -> bool:
    """Whether the session that began after these steps has logged; rows before may be of another session."""
    with suppress(OSError, ValueError):
        status = run / "status.json"
        is_new = status.stat().st_mtime_ns > (run / "run.json").stat().st_mtime_ns
        return is_new and json.loads(status.read_text())["steps"] > began and _logged(run) > began
    return False


def _start_of(pid: int) -> float:
    """When a process started, in seconds since 1970."""
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK")


def _is_writing(run: Path) -> bool:
    with suppress(FileNotFoundError):
        return any(re.match(r"\.\d+\.steps-", name) for name in os.listdir(run / "checkpoints"))
    return False


def _logged(run: Path) -> int:
    with suppress(OSError, IndexError, KeyError, ValueError, TypeError):
        return int(rows(run / "progress.csv")[-1]["time/total_timesteps"])
    return 0


def _named(run: Path) -> int:
    """The steps in the name of the newest checkpoint."""
    names = sorted(path.name for path in (run / "checkpoints").glob("steps-*.safetensors"))
    return int(names[-1].partition("-")[2].partition(".")[0]) if names else 0


def _parent(pid: int) -> int | None:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return None


def _await_end(pid: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state == "Z":
            return
        time.sleep(0.01)
    raise TimeoutError(f"process {pid} does not end")
