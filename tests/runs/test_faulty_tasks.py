"""A training whose environment breaks keeps its last good state, reports the error, and can be resumed."""

from dataclasses import replace
from pathlib import Path

import gymnasium
import pytest
import torch

from revd import cli
from revd.runs import train as train_module
from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory
from revd.runs.parameters import Parameters
from revd.runs.train import RunFailedError, train
from revd.storage.tensor_file import read_tensors
from revd.suites.display import run_line
from revd.suites.scheduler import train_all
from tests.support.faulty import FaultyEnv

ROLLOUT = 32
TASK = "RevdTestFaulty-v0"
#: What each environment of this module's task does; tests change it.
PLAN = {"how": "fine", "at": 10**9}


def make_faulty(**options):
    return FaultyEnv(PLAN["how"], PLAN["at"])


@pytest.fixture(autouse=True)
def task():
    gymnasium.register(TASK, entry_point=make_faulty, disable_env_checker=True, order_enforce=False)
    yield
    del gymnasium.registry[TASK]
    PLAN.update(how="fine", at=10**9)


@pytest.fixture
def config(tmp_path):
    return TrainConfig(
        task=TASK,
        steps=8 * ROLLOUT,
        seed=5,
        n_envs=2,
        output=tmp_path / "run",
        normalize="both",
        decay=0.1,
        algo_params=Parameters(n_steps=ROLLOUT // 2, batch_size=ROLLOUT, n_epochs=1),
    )


def test_the_last_good_state_is_saved_and_the_run_resumes(config):
    PLAN.update(how="nan", at=3 * ROLLOUT // 2 + 7)
    said = rf"environment 0 of task '{TASK}' \(seed 5\) at step {3 * ROLLOUT + 14} gave an observation with 1 of 3"
    with pytest.raises(RunFailedError, match=rf"{said}.*after 96 steps, is kept"):
        train(config)
    directory = RunDirectory(config.directory)
    status = directory.read_status()
    assert (status.state, status.steps) == ("failed", 3 * ROLLOUT)
    assert status.error.startswith("EnvironmentFault: environment 0 of task")
    PLAN.update(how="fine")
    train(config)
    rows = (config.directory / "progress.csv").read_text().splitlines()[1:]
    assert [int(row.split(",")[0]) for row in rows] == list(range(ROLLOUT, config.steps + 1, ROLLOUT))
    assert directory.read_status().state == "finished"


def test_what_is_saved_is_what_a_checkpoint_at_that_moment_would_have_been(config, tmp_path):
    """Nothing of the broken rollout is in it: not its steps, its statistics, its draws, nor its episodes."""
    PLAN.update(how="raises", at=3 * ROLLOUT // 2 + 12)
    with pytest.raises(RunFailedError, match="ZeroDivisionError: out of the blue"):
        train(config)
    PLAN.update(how="fine")
    regular = replace(config, output=tmp_path / "regular", steps=4 * ROLLOUT, checkpoint_every=3 * ROLLOUT)
    train(regular)
    ours = RunDirectory(config.directory).checkpoints.newest()
    name = f"steps-{3 * ROLLOUT:012d}.safetensors"
    theirs = read_tensors(regular.directory / "checkpoints" / name)
    assert ours[0].keys() == theirs[0].keys()
    assert all(torch.equal(tensor, theirs[0][key]) for key, tensor in ours[0].items())
    volatile = {"t", "time/fps", "time/time_elapsed", "exploration/time_fraction"}
    assert plain(ours[1], volatile) == plain(theirs[1], volatile)


def plain(values, volatile):
    if isinstance(values, dict):
        return {key: plain(value, volatile) for key, value in values.items() if key not in volatile}
    return [plain(value, volatile) for value in values] if isinstance(values, list) else values


def test_a_fault_before_the_first_update_leaves_no_checkpoint(config):
    PLAN.update(how="inf", at=3)
    with pytest.raises(RunFailedError, match=r"at step 6 .*there is no checkpoint yet: the same command starts anew"):
        train(config)
    assert RunDirectory(config.directory).checkpoints.newest() is None


def test_a_fault_in_an_evaluation_comes_after_a_completed_update(config, monkeypatch):
    """Ten steps an episode: the evaluation's environment breaks in the second of its episodes, at 96 steps."""
    real = train_module.make_vec_env

    def make(*arguments, **options):
        PLAN.update(how="fine" if "n_envs" in options else "nan", at=15)
        return real(*arguments, **options)

    monkeypatch.setattr(train_module, "make_vec_env", make)
    said = r"\(seed 50026\) at step 15 gave an observation.*after 96 steps, is kept"
    with pytest.raises(RunFailedError, match=said):
        train(replace(config, eval_every=3 * ROLLOUT, eval_episodes=2))


def test_after_a_resume_steps_continue_and_seeds_are_new(config):
    PLAN.update(how="nan", at=3 * ROLLOUT // 2 + 7)
    for steps, seed in ((3 * ROLLOUT + 14, 5), (6 * ROLLOUT + 14, 5 + 100_003)):
        with pytest.raises(RunFailedError, match=rf"\(seed {seed}\) at step {steps} "):
            train(config)


def test_the_command_says_so_in_one_line(config, capsys):
    PLAN.update(how="raises", at=3)
    with pytest.raises(SystemExit) as error:
        cli.main([*config.command().split()[1:], "--no-progress"])
    assert error.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith(
        f"revd: EnvironmentFault: environment 0 of task '{TASK}' (seed 5) at step 6 raised in step()"
    )
    assert said.count("\n") == 1


def test_watching_a_broken_task_is_one_line_too(config, capsys):
    train(replace(config, steps=ROLLOUT))
    PLAN.update(how="reset-raises", at=0)
    with pytest.raises(SystemExit) as error:
        cli.main(["watch", str(config.directory)])
    assert error.value.code == 2
    assert "(seed 0) at step 0 raised in reset(): RuntimeError: cannot begin again" in capsys.readouterr().err


def test_in_a_suite_the_others_continue_and_the_table_has_the_reason(tmp_path, monkeypatch):
    # Workers do not look for packages in the current directory by themselves.
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    small = Parameters(n_steps=32, n_epochs=1)
    task = "tests.support.faulty_task:RevdBroken-v0"
    broken = TrainConfig(task=task, steps=64, n_envs=2, output=tmp_path / "broken", algo_params=small)
    fine = replace(broken, task="CartPole-v1", output=tmp_path / "fine")
    runs = train_all([broken, fine], jobs=1, watch=lambda runs: None)
    assert [train.status.state for train in runs] == ["failed", "finished"]
    assert "failed: EnvironmentFault: environment 0 of task 'tests.support.faulty_task:" in run_line(runs[0])
    assert "at step 10 gave an observation with 1 of 3 numbers not finite (nan)" in run_line(runs[0])
