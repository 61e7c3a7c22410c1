import csv
from contextlib import closing, suppress
from types import SimpleNamespace

import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnvWrapper

from revd.sb3 import IntrinsicRewardCallback
from revd.storage.csv_file import CsvFile
from revd.training import timing
from revd.training.algorithms import make_algorithm
from revd.training.checked_vec_env import CheckedVecEnv
from revd.training.session import Training
from revd.training.timing import Stopwatch, TimeBreakdown
from tests.support.environments import CountingEnv
from tests.training.test_session import listeners

N_STEPS = 8
ROLLOUT = 2 * N_STEPS


class Clock:
    """A clock that the test moves."""

    def __init__(self):
        self.now = 1000.0

    def takes(self, seconds, function=None):
        """The function, made to take the given seconds on the test's clock."""

        def slow(*arguments, **keywords):
            self.now += seconds
            return None if function is None else function(*arguments, **keywords)

        return slow


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    return clock


def slow_environments(clock, *, seconds):
    class Slow(VecEnvWrapper):
        def reset(self):
            return self.venv.reset()

        def step_wait(self):
            clock.now += seconds
            return self.venv.step_wait()

    return Slow(DummyVecEnv([CountingEnv, CountingEnv]))


def learn(training, steps, tmp_path, **changes):
    with closing(CsvFile(tmp_path / "progress.csv")) as progress:
        training.learn(steps, progress=progress, events=tmp_path, listeners=listeners(**changes))
    with (tmp_path / "progress.csv").open(newline="") as file:
        return [{name: cell for name, cell in row.items() if name.startswith("time/")} for row in csv.DictReader(file)]


@pytest.mark.parametrize(
    ("algo", "trainer"),
    [("ppo", "sb3"), ("ppo", "fast"), ("a2c", "sb3"), ("a2c", "fast"), ("trpo", "auto"), ("recurrent-ppo", "auto")],
)
def test_every_second_is_found_where_it_was_spent(algo, trainer, clock, monkeypatch, tmp_path):
    env = CheckedVecEnv(slow_environments(clock, seconds=1), "Counting")
    parameters = {"n_steps": N_STEPS} if algo == "a2c" else {"n_steps": N_STEPS, "batch_size": N_STEPS}
    model = make_algorithm(algo, env, seed=0, trainer=trainer, parameters=parameters)
    monkeypatch.setattr(type(model), "train", clock.takes(50, type(model).train))
    training = Training(model=model, intrinsic=IntrinsicRewardCallback("re3", k=2))
    training.check()
    training.intrinsic.reward.compute = clock.takes(20, training.intrinsic.reward.compute)
    slow = {
        "on_rollout": clock.takes(3),
        "on_checkpoint": clock.takes(100),
        "checkpoint_every": 2 * ROLLOUT,
    }
    rows = learn(training, 3 * ROLLOUT, tmp_path, **slow)
    assert training.seconds == TimeBreakdown(environment=3 * N_STEPS, acting=9, bonus=60, update=150, other=100)
    assert training.seconds.total == 3 * N_STEPS + 319
    for row in rows:
        assert float(row["time/environment"]) == N_STEPS
        assert float(row["time/acting"]) == 3
        assert float(row["time/bonus"]) == 20
    assert [row["time/update"] for row in rows] == ["", "50.0", "50.0"], "that of the rollout before, as train/loss"
    assert "train" not in vars(model)
    assert "on_rollout_end" not in vars(training.intrinsic)


def test_a_second_learn_counts_from_its_own_start(clock, tmp_path):
    env = CheckedVecEnv(slow_environments(clock, seconds=1), "Counting")
    training = Training(model=make_algorithm("a2c", env, seed=0, parameters={"n_steps": N_STEPS}))
    for rollouts in (1, 3):
        learn(training, rollouts * ROLLOUT, tmp_path)
    assert training.seconds == TimeBreakdown(environment=2 * N_STEPS)


def test_unmeasured_environments_count_as_acting(clock, tmp_path):
    model = PPO("MlpPolicy", slow_environments(clock, seconds=1), n_steps=N_STEPS, batch_size=N_STEPS, device="cpu")
    training = Training(model=model)
    rows = learn(training, ROLLOUT, tmp_path)
    assert training.seconds == TimeBreakdown(acting=N_STEPS)
    assert float(rows[0]["time/acting"]) == N_STEPS
    assert float(rows[0]["time/environment"]) == float(rows[0]["time/bonus"]) == 0


def test_a_broken_training_gets_its_methods_back(tmp_path):
    env = CheckedVecEnv(DummyVecEnv([CountingEnv]), "Counting")
    training = Training(model=make_algorithm("a2c", env, seed=0, parameters={"n_steps": N_STEPS}))

    def fail(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn(training, ROLLOUT, tmp_path, on_rollout=fail)
    assert "train" not in vars(training.model)
    assert training.seconds == TimeBreakdown()


def test_a_stopwatch_adds_up_whatever_happens_inside(clock):
    watch = Stopwatch()
    with watch:
        clock.now += 2
    with suppress(ValueError), watch:
        clock.now += 3
        raise ValueError("broke")
    clock.now += 10
    assert watch.seconds == 5


def test_a_method_of_the_instance_itself_is_given_back(clock):
    owner = SimpleNamespace(work=clock.takes(4, lambda value: value + 1))
    original, watch = owner.work, Stopwatch()
    with watch.around(owner, "work"):
        assert owner.work(1) == 2
    assert owner.work is original
    assert watch.seconds == 4
