import csv
import json
import zipfile
from dataclasses import replace

import pytest
from safetensors.torch import load_file
from stable_baselines3 import PPO

from revd.runs import cpu_threads, writer
from revd.runs import train as train_module
from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory, Status
from revd.runs.parameters import Parameters
from revd.runs.train import one_line, prepare, train
from revd.sb3 import IntrinsicRewardCallback
from revd.training.session import SEED_STRIDE, Training

SMALL = Parameters(n_steps=32, n_epochs=1)


@pytest.fixture
def config(tmp_path):
    return TrainConfig(
        task="CartPole-v1",
        steps=192,
        n_envs=2,
        output=tmp_path / "run",
        normalize="observations",
        algo_params=SMALL,
    )


def read_rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_training_leaves_everything_behind(config):
    seen = []
    directory = train(config, report=seen.append)
    assert directory == config.directory
    assert [progress.steps for progress in seen] == [64, 128, 192]
    assert seen[0].bonus_share == 0.0, "REVD pays nothing in its first rollout"
    assert seen[1].bonus_share > 0
    names = {path.name.split(".")[0] for path in directory.iterdir() if path.name != ".lease-1-free"}
    assert names == {
        "config", "run", "status", "episodes", "progress", "events", "model", "normalization", "vecnormalize", "bonus",
        "visits", "checkpoints",
    }  # fmt: skip
    status = RunDirectory(directory).read_status()
    assert (status.state, status.steps, status.bonus_share) == ("finished", 192, seen[-1].bonus_share)
    assert json.loads((directory / "run.json").read_text())["state"] == "finished"


def test_what_is_saved_can_be_loaded(config):
    directory = train(config)
    assert PPO.load(directory / "model.zip", device="cpu").num_timesteps == 192
    assert float(load_file(directory / "normalization.safetensors")["observations.count"]) > 190
    callback = IntrinsicRewardCallback("revd")
    callback.load(directory / "bonus.safetensors")
    PPO.load(directory / "model.zip", env=prepare(config).model.get_env(), device="cpu").learn(64, callback=callback)
    assert callback.rollouts == 4, "three of the run, one since"


def test_logs_hold_the_bonus_and_the_tasks_own_returns(config):
    seen = []
    directory = train(replace(config, normalize="both"), report=seen.append)
    progress = read_rows(directory / "progress.csv")
    assert [int(row["time/total_timesteps"]) for row in progress] == [64, 128, 192]
    assert [float(row["exploration/bonus_share"]) for row in progress] == [report.bonus_share for report in seen]
    assert [float(row["exploration/bonus_mean"]) > 0 for row in progress] == [False, True, True]
    episodes = read_rows(directory / "episodes.csv")
    assert all(float(row["return"]) == int(row["length"]) for row in episodes), "CartPole pays 1 a step"
    returns = [float(row["return"]) for row in episodes]
    assert float(progress[-1]["rollout/ep_rew_mean"]) == pytest.approx(sum(returns) / len(returns))


def test_the_config_is_resolved(config):
    directory = train(replace(config, seed=7, normalize_bonus="rms", reward_params=Parameters(k=4)))
    resolved = json.loads((directory / "config.json").read_text())["resolved"]
    assert resolved["method"] == "PPO+REVD"
    assert resolved["algorithm"] == "FastPPO"
    assert (resolved["torch_threads"], resolved["emulator_threads"]) == (1, 1)
    assert resolved["algo_params"]["n_steps"] == 32
    assert resolved["algo_params"]["policy"] == "MlpPolicy"
    assert resolved["algo_params"]["gae_lambda"] == 0.95
    reward = resolved["reward_params"]
    assert (reward["k"], reward["alpha"], reward["seed"], reward["normalize"]) == (4, 0.5, 7, "rms")


def test_settings_reach_the_callback_and_the_environment(config):
    changed = replace(
        config,
        weight=0.7,
        decay=0.2,
        decay_per="step",
        extrinsic_weight=0.5,
        normalize="rewards",
        algo_params=Parameters(gamma=0.9),
    )
    training = prepare(changed)
    callback = training.intrinsic
    assert (callback.weight, callback.decay, callback.decay_per) == (0.7, 0.2, "step")
    assert callback.extrinsic_weight == 0.5
    automatic = prepare(replace(config, weight="auto", strength=0.4)).intrinsic
    assert (automatic.weight, automatic.strength) == ("auto", 0.4)
    env = training.model.get_env()
    assert (env.norm_reward, env.norm_obs, env.gamma) == (True, False, 0.9)


@pytest.mark.parametrize("sessions", [0, 1, 3])
def test_evaluations_begin_where_no_training_episode_does(config, sessions):
    training = prepare(replace(config, n_envs=10, normalize="none", eval_every=64, seed=7))
    env = training.model.get_env()
    if sessions:
        env.seed(7 + SEED_STRIDE * sessions)
    evaluated, trained = training.evaluation_env.reset(), env.reset()
    assert (evaluated.shape, trained.shape) == ((1, 4), (10, 4))
    assert not (trained == evaluated).all(axis=1).any()
    training.evaluation_env.seed(7 + 3)
    env.seed(7)
    assert (env.reset() == training.evaluation_env.reset()).all(axis=1).tolist() == [index == 3 for index in range(10)]
    training.close()


def test_the_old_model_stays_whole_while_the_new_one_is_written(config, monkeypatch):
    train(replace(config, steps=64))
    model = config.directory / "model.zip"
    before = model.read_bytes()

    def killed_half_way(training, path):
        path.write_bytes(before[:100])
        assert model.read_bytes() == before
        raise KeyboardInterrupt

    monkeypatch.setattr(Training, "save_model", killed_half_way)
    with pytest.raises(KeyboardInterrupt):
        train(config)
    assert model.read_bytes() == before
    assert [path.name for path in config.directory.glob("*model.zip")] == ["model.zip"]


def test_warnings_advise_flags_of_the_command_line(config):
    with pytest.warns(UserWarning, match="under 1% of the reward .* Raise --weight, .* --normalize-bonus rms"):
        train(replace(config, steps=64 * 22, weight=1e-6))


def test_without_a_bonus_nothing_of_one_is_kept(config):
    directory = train(replace(config, reward="none", normalize="none"))
    names = {path.name for path in directory.iterdir()}
    assert not names & {"bonus.safetensors", "normalization.safetensors", "vecnormalize.pkl"}
    assert "exploration/bonus_mean" not in read_rows(directory / "progress.csv")[0]
    assert json.loads((directory / "config.json").read_text())["resolved"]["reward_params"] == {}


def test_equal_configs_give_equal_runs(config, tmp_path):
    def episodes(name, **changes):
        return (train(replace(config, output=tmp_path / name, **changes)) / "episodes.csv").read_text()

    first = episodes("first")
    assert episodes("again") == first
    assert episodes("other", seed=1) != first
    strong = Parameters(n_steps=32, learning_rate=0.01)
    paid = episodes("paid", weight=100.0, steps=320, algo_params=strong)
    assert episodes("unpaid", reward="none", steps=320, algo_params=strong) != paid


@pytest.mark.parametrize("algo", ["a2c", "trpo", "recurrent-ppo", "maskable-ppo"])
def test_every_algorithm_trains(config, algo):
    parameters = Parameters(n_steps=16) if algo == "a2c" else Parameters(n_steps=16, batch_size=32)
    directory = train(replace(config, algo=algo, steps=96, algo_params=parameters))
    with zipfile.ZipFile(directory / "model.zip") as model:
        assert "policy.pth" in model.namelist()
    assert RunDirectory(directory).read_status().state == "finished"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": "CartPol-v1"}, "did you mean 'CartPole-v1'"),
        ({"algo": "ppoo"}, "did you mean 'ppo'"),
        ({"algo_params": {"n_step": 3}}, "did you mean 'n_steps'"),
        ({"reward": "rewd"}, "did you mean 'revd'"),
        ({"reward_params": {"alhpa": 0.3}}, "did you mean 'alpha'"),
        ({"reward_params": {"n_envs": 3}}, "n_envs"),
        ({"reward_params": {"alpha": 2}}, "alpha"),
        ({"reward_params": {"k": 32}}, "k"),
    ],
)
def test_errors_are_raised_before_anything_is_written(config, change, message):
    with pytest.raises(ValueError, match=message):
        train(replace(config, **change))
    assert not config.directory.exists()


def test_a_second_training_leaves_the_first_alone(config):
    train(config)
    before = (config.directory / "episodes.csv").read_text()
    with pytest.raises(FileExistsError, match=r"already holds a run with other settings .*with --output$"):
        train(replace(config, seed=9))
    assert (config.directory / "episodes.csv").read_text() == before


@pytest.mark.parametrize(
    ("state", "steps", "removable"),
    [("failed", 0, True), ("interrupted", 0, True), ("interrupted", 32, False), ("running", 0, False)],
)
def test_what_ended_before_it_learnt_anything_may_be_removed(config, state, steps, removable):
    directory = RunDirectory(config.directory)
    directory.start(config, resolved={}, steps=0)
    directory.write_status(Status(state=state, steps=steps, total_steps=config.steps))
    source = config.directory / "other"
    with pytest.raises(FileExistsError, match=f"init_from is None there and '{source}' here") as error:
        directory.check(replace(config, init_from=source))
    assert str(error.value).endswith("nothing has been learnt yet") == removable


@pytest.mark.parametrize(
    ("raised", "state", "said"),
    [
        (RuntimeError("out of\nmemory"), "failed", "RuntimeError: out of"),
        (KeyboardInterrupt(), "interrupted", "stopped by the user"),
    ],
)
def test_a_failed_training_is_reported_and_the_error_is_raised(config, raised, state, said):
    def report(progress):
        if progress.steps == 128:
            raise raised

    with pytest.raises(type(raised)):
        train(config, report=report)
    status = RunDirectory(config.directory).read_status()
    assert (status.state, status.error, status.steps) == (state, said, 128)
    assert not (config.directory / "model.zip").exists()
    steps = [int(row["steps"]) for row in read_rows(config.directory / "episodes.csv")]
    assert steps == sorted(steps)
    assert 64 < steps[-1] <= 128
    described = json.loads((config.directory / "run.json").read_text())
    assert any(line.strip() == "raise raised" for line in described["traceback"])


def test_the_status_is_written_now_and_then_only(config, monkeypatch):
    written = []
    monkeypatch.setattr(writer, "SECONDS_BETWEEN_STATUSES", 1e9)
    monkeypatch.setattr(RunDirectory, "write_status", lambda self, status: written.append(status))
    train(config)
    assert [(status.state, status.steps) for status in written] == [
        ("running", 0), ("running", 64), ("finished", 192)
    ]  # fmt: skip


def test_errors_in_one_line():
    assert one_line(ValueError("a\nb")) == "ValueError: a"
    assert one_line(SystemExit()) == "SystemExit"


@pytest.mark.parametrize(("threads", "expected"), [(0, 1), (3, 3)])
def test_threads_are_set(config, monkeypatch, threads, expected):
    asked = []
    monkeypatch.setattr("torch.set_num_threads", asked.append)
    train(replace(config, threads=threads))
    assert asked == [expected]


@pytest.mark.parametrize(
    ("device", "gpus", "threads"), [("auto", False, 1), ("auto", True, 2), ("cuda:1", True, 2), ("cpu", True, 1)]
)
def test_games_get_threads_where_a_gpu_waits_for_them(config, monkeypatch, device, gpus, threads):
    class Asked(Exception):  # noqa: N818 - only carries what was asked
        pass

    def make(*arguments, **options):
        raise Asked(options["threads"])

    monkeypatch.setattr("torch.cuda.is_available", lambda: gpus)
    monkeypatch.setattr(cpu_threads, "available_cores", lambda: 16)
    monkeypatch.setattr(train_module, "make_vec_env", make)
    with pytest.raises(Asked) as asked:
        prepare(replace(config, task="atari/assault", normalize="none", device=device))
    assert asked.value.args == (threads,)
    with pytest.raises(Asked) as asked:
        prepare(replace(config, device=device))
    assert asked.value.args == (1,), "small networks stay on the CPU"


def test_the_end_says_how_fast_it_was_and_where_the_time_went(config):
    directory = RunDirectory(train(config))
    status = directory.read_status()
    assert list(status.seconds) == ["environment", "acting", "bonus", "update", "other"]
    assert all(value > 0 for value in status.seconds.values())
    assert status.steps_per_second == pytest.approx(192 / sum(status.seconds.values()))
    row = read_rows(directory.progress)[-1]
    assert all(float(row[f"time/{name}"]) > 0 for name in ("environment", "acting", "bonus", "update"))


def test_a_session_that_finds_all_steps_done_has_no_speed(config, monkeypatch):
    def fail(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(train_module, "export", fail)
        with pytest.raises(KeyboardInterrupt):
            train(config)
    status = RunDirectory(train(config)).read_status()
    assert (status.state, status.steps, status.seconds, status.steps_per_second) == ("finished", 192, None, None)


@pytest.mark.parametrize(("weight", "advised"), [("auto", "--strength"), (0.5, "--weight")])
def test_warnings_advise_flags(weight, advised, tmp_path):
    config = TrainConfig(task="CartPole-v1", reward="revd", weight=weight, steps=64, output=tmp_path)
    training = prepare(config)
    assert training.intrinsic is not None
    assert training.intrinsic.weighting.warnings.remedies.weight == advised
