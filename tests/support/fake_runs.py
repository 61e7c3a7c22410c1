"""A launcher that trains nothing: its runs write what real ones would, with returns from a function."""

import csv
import json

from revd.runs.directory import RunDirectory, Status
from revd.storage.run_files import EPISODE_COLUMNS

PARTS = 10


class FakeLauncher:
    """
    Starts runs that advance by tenths whenever `advance` is called, or to their end at once.

    `earns(config, part)` is the return of the one episode that ends in a tenth, None for no episode. A run fails after
    three tenths if `breaks(config)` gives a message. Runs resume from their last checkpoint, which they write after
    every `checkpoints` tenths. Each session's returns are higher by `luck` than those of the session before.
    """

    def __init__(self, earns, *, breaks=lambda config: None, at_once=False, checkpoints=1, luck=0.0):
        self.earns = earns
        self.breaks = breaks
        self.at_once = at_once
        self.checkpoints = checkpoints
        self.luck = luck
        self.started = []
        self.attempts = []

    def start(self, config):
        self.started.append(config)
        attempt = FakeAttempt(self, config)
        self.attempts.append(attempt)
        if self.at_once:
            attempt.advance(PARTS)
        return attempt

    def advance(self, parts=1):
        for attempt in self.attempts:
            attempt.advance(parts)

    @property
    def running(self):
        return sum(attempt.running for attempt in self.attempts)


class FakeAttempt:
    queued = lost = False

    def __init__(self, launcher, config):
        self.launcher = launcher
        self.config = config
        self.directory = RunDirectory(config.directory)
        self.directory.check(config)
        earlier = self.directory.read_status()
        reached = 0 if earlier is None else earlier.steps * PARTS // config.steps
        self.done = reached // launcher.checkpoints * launcher.checkpoints
        self.returns = {part: value for part, value in self._read_episodes().items() if part <= self.done}
        self.directory.start(config, resolved={"method": config.method}, steps=self._steps)
        self.sessions = len(json.loads(self.directory.run.read_text()).get("resumed", []))
        self.running = True
        self._write_episodes()

    @property
    def _steps(self):
        return self.config.steps * self.done // PARTS

    def _read_episodes(self):
        if not self.directory.episodes.exists():
            return {}
        with self.directory.episodes.open(newline="") as file:
            rows = list(csv.reader(file))[1:]
        return {round(float(row[0]) * PARTS / self.config.steps): float(row[1]) for row in rows}

    def _write_episodes(self):
        with self.directory.episodes.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(EPISODE_COLUMNS)
            last = 0.0
            for part, earned in self.returns.items():
                ended = part * self.config.steps / PARTS
                rows.writerow([ended, earned, (ended - last) / self.config.n_envs, 0])
                last = ended

    def _play(self, until):
        for part in range(self.done + 1, until + 1):
            earned = self.launcher.earns(self.config, part)
            if earned is not None:
                self.returns[part] = earned + self.launcher.luck * self.sessions
        self.done = until
        self._write_episodes()

    def _say(self, state, error=None):
        status = Status(state=state, steps=self._steps, total_steps=self.config.steps, error=error)
        self.directory.write_status(status) if state == "running" else self.directory.finish(status)
        self.running = state == "running"

    def advance(self, parts):
        error = self.launcher.breaks(self.config)
        if not self.running:
            return
        self._play(max(min(self.done + parts, 3 if error else PARTS), self.done))
        if error and self.done >= 3:
            self._say("failed", error)
        else:
            self._say("finished" if self.done == PARTS else "running")

    def end_reason(self):
        return self.launcher.breaks(self.config) or "not a word"

    def ask_to_stop(self):
        if self.running:
            self._say("interrupted")

    def stop(self):
        assert not self.running
