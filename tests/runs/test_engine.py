"""The engine of a run: chosen when it begins, and kept when it resumes."""

import json
from dataclasses import replace

import pytest
from stable_baselines3.common.vec_env import DummyVecEnv

pytest.importorskip("envpool", reason="EnvPool is not installed: pip install 'revd[envpool]'")

from revd.envs import envpool
from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory
from revd.runs.parameters import Parameters
from revd.runs.train import prepare, train
from revd.training.envpool_vec_env import EnvPoolVecEnv


@pytest.fixture
def config(tmp_path):
    return TrainConfig(
        task="classic/cart-pole",
        steps=64,
        n_envs=2,
        algo_params=Parameters(n_steps=16, batch_size=16, n_epochs=1),
        checkpoint_every=32,
        output=tmp_path / "run",
    )


def engine_of(training):
    """The vectorised environments below all wrappers."""
    return type(training.model.get_env().unwrapped)


def resolved_engine(config):
    return json.loads((config.directory / "config.json").read_text())["resolved"]["engine"]


@pytest.mark.parametrize(
    ("engine", "kind"), [("auto", EnvPoolVecEnv), ("envpool", EnvPoolVecEnv), ("gymnasium", DummyVecEnv)]
)
def test_the_engine_that_was_asked_for_steps_training_and_evaluation(config, engine, kind):
    training = prepare(replace(config, engine=engine, eval_every=32))
    assert engine_of(training) is kind
    assert type(training.evaluation_env.unwrapped) is kind
    training.close()


def test_a_run_keeps_its_engine_wherever_it_resumes(config, monkeypatch):
    train(config)
    assert resolved_engine(config) == "envpool"
    monkeypatch.setattr(envpool, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"needs EnvPool: pip install 'revd\[envpool\]'"):
        train(replace(config, steps=128))
    train(replace(config, steps=128, engine="gymnasium"))
    assert resolved_engine(config) == "gymnasium"
    monkeypatch.undo()
    train(replace(config, steps=192))
    assert resolved_engine(config) == "gymnasium", "that of its last session"


def test_a_run_from_before_there_was_a_choice_stays_with_gymnasium(config):
    train(replace(config, engine="gymnasium"))
    path = config.directory / "config.json"
    values = json.loads(path.read_text())
    del values["engine"], values["resolved"]["engine"]
    path.write_text(json.dumps(values))
    assert RunDirectory(config.directory).engine_of(config) == "gymnasium"
    train(replace(config, steps=128))
    assert resolved_engine(config) == "gymnasium"


def test_the_command_that_repeats_a_run_names_its_engine(config):
    train(config)
    run = json.loads((config.directory / "run.json").read_text())
    assert "--engine envpool" in run["repeat"]
    other = replace(config, task="CartPole-v1", output=config.directory.with_name("other"))
    train(other)
    assert "--engine" not in json.loads((other.directory / "run.json").read_text())["repeat"], "there is no choice"


@pytest.mark.parametrize("resolved", [[], "envpool", None, {"engine": 3}])
def test_a_damaged_engine_is_gymnasium(config, resolved):
    directory = RunDirectory(config.directory)
    directory.start(config, resolved={}, steps=0)
    directory.config.write_text(json.dumps({**config.to_dict(), "resolved": resolved}))
    assert directory.engine_of(config) == "gymnasium"


def test_rows_of_both_sessions_follow_each_other(config):
    """Environments start new episodes on resume, and rows of both sessions follow each other."""
    train(config)
    train(replace(config, steps=128))
    steps = [int(line.split(",")[0]) for line in (config.directory / "episodes.csv").read_text().splitlines()[1:]]
    assert steps == sorted(steps)
    assert RunDirectory(config.directory).read_status().steps == 128


def test_any_environment_of_envpool_can_be_trained_on(config):
    train(replace(config, task="envpool/Pendulum-v1", reward="re3", sparse=0.5))
    assert resolved_engine(config) == "envpool"
