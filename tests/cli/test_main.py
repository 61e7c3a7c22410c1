import json
import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import gymnasium
import pytest
import torch
from gymnasium.envs.registration import EnvSpec
from stable_baselines3 import PPO

import revd
from revd import cli
from revd.cli.shared import whole_number
from revd.cli.train import CONTENTS
from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory
from tests.runs.test_config import FULL
from tests.support.environments import CountingEnv

SHORT = ["--task", "CartPole-v1", "--steps", "128", "--n-envs", "2", "--algo-params", "n_steps=32"]
NO_CHECKPOINT = "revd: stopped by the user; there is no checkpoint yet: the same command starts anew\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Every command runs in a directory of its own, on a terminal of eighty columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.fixture
def trained(monkeypatch):
    """Configs that would have been trained."""
    configs = []

    def train(run, config, report=None, trust=False):
        configs.append(config)

    monkeypatch.setattr("revd.runs.train.train_in", train)
    return configs


def exit_code(arguments):
    with pytest.raises(SystemExit) as error:
        cli.main(arguments)
    return error.value.code


@pytest.mark.parametrize("arguments", [["--help"], *([command, "--help"] for command in cli.COMMANDS)])
def test_help_reads_well(arguments, capsys):
    assert exit_code(arguments) == 0
    text = capsys.readouterr().out
    assert text.startswith("usage: revd")
    for internal in ("Config", "Command", "Parameters(", "None", "Annotated"):
        assert internal not in text
    assert max(map(len, text.splitlines())) <= 120


def test_help_names_every_algorithm_and_default(capsys):
    from revd.training.algorithms import ALGORITHMS

    exit_code(["train", "--help"])
    text = capsys.readouterr().out
    assert all(algo in text for algo in ALGORITHMS)
    for words in (
        "--weight FLOAT|{auto}",
        "(default: auto)",
        "--strength FLOAT",
        "--yield-to-task, --no-yield-to-task",
        "(default: revd)",
        "runs/TASK/ALGO-REWARD-seedSEED",
        "KEY=VALUE",
    ):
        assert words in text


def test_help_loads_no_framework():
    code = (
        "import sys\nfrom revd.cli import main\n"
        "try:\n    main(['train', '--help'])\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('stable_baselines3', 'gymnasium', 'matplotlib') if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("config", [FULL, TrainConfig(task="CartPole-v1")])
def test_flags_become_the_config_and_a_config_its_flags(config, trained):
    cli.main(shlex.split(config.command())[1:])
    assert trained == [config]


def test_train_end_to_end(capsys):
    cli.main(["train", *SHORT, "--normalize", "observations", "--output", "here"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "PPO+REVD on CartPole-v1, 128 steps, into here"
    assert any(line.startswith("128 of 128 steps  return ") for line in lines)
    assert "Done. In here:" in lines
    assert re.search(r"^[\d,]+ steps/s: .*update \d+%", lines[lines.index("Done. In here:") - 1])
    listed = [line.split()[0] for line in lines[lines.index("Done. In here:") + 1 :] if line.strip()]
    assert listed == [name for name in CONTENTS if Path("here", name).exists()] == list(CONTENTS)
    assert PPO.load("here/model.zip", device="cpu").num_timesteps == 128


def test_train_without_progress(capsys):
    cli.main(["train", *SHORT, "--no-progress"])
    said = capsys.readouterr().out
    assert "128 of 128" not in said
    assert "vecnormalize.pkl" not in said, "nothing is normalised"
    status = RunDirectory(Path("runs/CartPole-v1/ppo-revd-seed0")).read_status()
    assert (status.state, status.steps) == ("finished", 128)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps", "0"], "revd: steps must be at least 1, got 0"),
        (["--task", "CartPol-v1"], "revd: unknown task 'CartPol-v1'; did you mean 'CartPole-v1'"),
        (["--algo", "ppoo"], "revd: unknown algo 'ppoo'; did you mean 'ppo'"),
        (["--reward", "rewd"], "revd: unknown reward 'rewd'; did you mean 'revd'"),
        (["--reward-params", "alhpa=1"], "did you mean 'alpha'"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_two(arguments, message, capsys):
    assert exit_code(["train", "--task", "CartPole-v1", *arguments]) == 2
    errors = capsys.readouterr().err
    assert message in errors
    assert errors.count("\n") == 1
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--algo", "sac"], "revd: algo 'sac' is off-policy"),
        (["--reward", "rewd"], "revd: unknown reward 'rewd'"),
        (
            ["--task", "revd_test_nowhere:X-v0"],
            "cannot be imported: ModuleNotFoundError: No module named",
        ),
        (["--weight", "0.5", "--strength", "0.2"], "revd: strength 0.2 belongs to weight auto, but weight is 0.5"),
        (["--weight", "-1"], "revd: weight must be a finite number of at least 0, got -1.0"),
        (["--strength", "0.5", "--reward", "none"], "revd: strength is 0.5, but reward 'none' pays no bonus"),
        (["--weight", "0.5", "--reward", "none"], "revd: weight is 0.5, but reward 'none' pays no bonus"),
        (["--batch-norm", "train"], "revd: batch_norm is 'train', but network 'sb3' has none"),
        (["--task", "Undrawn-v0", "--video"], "revd: task 'Undrawn-v0' cannot be drawn"),
    ],
)
def test_wrong_names_and_flags_are_reported_first(arguments, message, capsys, monkeypatch):
    monkeypatch.setitem(gymnasium.registry, "Undrawn-v0", EnvSpec("Undrawn-v0", entry_point=CountingEnv))
    assert exit_code(["train", "--task", "CartPole-v1", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == "", "no headline of a training that there will not be"
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert not Path("runs").exists()


def test_what_means_nothing_without_a_bonus_may_be_given_as_it_is(trained):
    cli.main([*["train", "--task", "CartPole-v1", "--reward", "none", "--weight", "auto", "--batch-norm", "off"]])
    assert (trained[0].reward, trained[0].weight) == ("none", "auto")


@pytest.mark.parametrize("command", ["train", "pretrain"])
def test_counts_may_be_written_with_an_exponent(command, trained):
    flags = {"--steps": "1e5", "--checkpoint-every": "2.5e3", "--eval-every": "1E+4", "--n-envs": "1_0", "--seed": "7"}
    cli.main([command, "--task", "CartPole-v1", *(word for pair in flags.items() for word in pair)])
    (config,) = trained
    assert (config.steps, config.checkpoint_every, config.eval_every) == (100_000, 2_500, 10_000)
    assert (config.n_envs, config.seed) == (10, 7)
    assert type(config.steps) is int


@pytest.mark.parametrize("text", ["1e-3", "1.5", "2.5e0", "1e999999999", "1e400", "e5", "five", "nan", "inf"])
def test_counts_that_are_none(text, trained, capsys):
    assert exit_code(["train", "--task", "CartPole-v1", "--steps", text]) == 2
    assert f"expected a whole number, as in 100000 or 1e5, got '{text}'" in " ".join(capsys.readouterr().err.split())
    assert not trained


@pytest.mark.parametrize(
    ("text", "number"), [("1e5", 100_000), ("12_000", 12_000), ("-1e2", -100), ("1.25e4", 12_500), ("300e-2", 3)]
)
def test_whole_numbers(text, number):
    assert whole_number(text) == number


@pytest.mark.parametrize("flag", ["--task", "--preset", "--algo", "--reward"])
def test_a_flag_without_its_value_is_explained_by_the_one_parser(flag, capsys):
    assert exit_code(["train", "--task", "CartPole-v1", flag]) == 2
    errors = capsys.readouterr().err
    assert "helptext" in errors
    assert "usage:" not in errors


def test_wrong_words_are_explained(capsys):
    assert exit_code(["train", "--task", "CartPole-v1", "--reward-params", "k"]) == 2
    captured = capsys.readouterr()
    assert "expected KEY=VALUE" in captured.out + captured.err


def test_another_run_is_not_overwritten(capsys):
    RunDirectory(Path("here")).start(TrainConfig(task="CartPole-v1"), resolved={}, steps=0)
    assert exit_code(["train", *SHORT, "--output", "here"]) == 2
    assert "already holds a run with other settings (n_envs is 10 there and 2 here" in capsys.readouterr().err


def test_the_same_command_finds_a_finished_run(capsys):
    cli.main(["train", *SHORT, "--output", "here"])
    before = Path("here/episodes.csv").read_text()
    cli.main(["train", *SHORT, "--output", "here"])
    assert "here is finished already; more --steps would resume it" in capsys.readouterr().out
    assert Path("here/episodes.csv").read_text() == before


def test_an_old_run_is_resumed_with_the_weight_that_was_its_default(capsys):
    cli.main(["train", *SHORT, "--weight", "0.1", "--output", "here"])
    values = json.loads(Path("here/config.json").read_text())
    del values["strength"]
    Path("here/config.json").write_text(json.dumps(values))
    longer = ["train", *SHORT, "--steps", "192", "--output", "here"]
    for given in ("auto", "0.5"):
        assert exit_code([*longer, "--weight", given]) == 2
        assert "weight is 0.1 there and" in capsys.readouterr().err
    assert exit_code([*longer, "--strength", "0.5"]) == 2
    assert "strength 0.5 belongs to weight auto" in capsys.readouterr().err
    cli.main(longer)
    assert json.loads(Path("here/config.json").read_text())["weight"] == 0.1
    assert RunDirectory(Path("here")).read_status().steps == 192


def test_a_finished_run_of_something_else_is_not_taken_for_this_one(capsys):
    cli.main(["train", *SHORT, "--output", "here"])
    assert exit_code(["train", *SHORT, "--seed", "7", "--output", "here"]) == 2
    assert "seed is 0 there and 7 here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sparse"),
    [([], None), (["--sparse"], 0.9), (["--sparse", "0.5"], 0.5), (["--sparse", "--seed", "3"], 0.9)],
)
def test_sparse_alone_means_the_papers_setting(words, sparse, trained):
    cli.main(["train", "--task", "CartPole-v1", *words])
    assert trained[0].sparse == sparse


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--task", "Blackjack-v1"], "Tuple"),
        (["--task", "CartPole-v1", "--output", "/proc/nowhere/run"], "No such file"),
        (["--task", "CartPole-v1", "--algo-params", "gamma=none"], "gamma of ppo must be a number"),
        (["--task", "CartPole-v1", "--algo", "recurrent-ppo", "--network", "paper"], "network 'paper' is made for"),
    ],
)
def test_other_mistakes_are_one_line_too(words, message, capsys):
    assert exit_code(["train", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_a_preset_gives_the_defaults_and_flags_go_over_it(trained):
    cli.main(shlex.split("train --preset paper --task bullet/hopper --steps 5 --algo-params n_steps=64 --sparse 0.9"))
    (config,) = trained
    assert (config.steps, config.n_envs, config.normalize, config.network) == (5, 10, "both", "paper")
    assert (config.algo_params["n_steps"], config.algo_params["n_epochs"]) == (64, 5)
    assert (config.reward_params["embedding_size"], config.sparse) == (64, 0.9)


@pytest.mark.parametrize(
    ("flags", "weight", "strength"),
    [
        ("", "auto", 0.1),
        ("--weight auto --strength 0.3", "auto", 0.3),
        ("--strength 0", "auto", 0.0),
        ("--weight 0.3", 0.3, 0.1),
        ("--preset paper", 0.1, 0.1),
        ("--preset paper --reward re3", 0.05, 0.1),
        ("--preset paper --weight 0.7", 0.7, 0.1),
        ("--preset paper --weight auto --strength 0.3", "auto", 0.3),
    ],
)
@pytest.mark.parametrize("command", ["train", "pretrain"])
def test_the_weight_is_automatic_or_a_number(command, flags, weight, strength, trained):
    cli.main(shlex.split(f"{command} --task bullet/hopper {flags}"))
    (config,) = trained
    assert (config.weight, config.strength) == (weight, strength)
    assert TrainConfig.from_json(config.to_json()) == config


def test_a_weight_that_is_neither(capsys):
    assert exit_code(["train", "--task", "CartPole-v1", "--weight", "aut"]) == 2
    captured = capsys.readouterr()
    assert "--weight FLOAT|{auto}" in captured.out + captured.err


def test_the_papers_weight_has_no_strength(capsys):
    assert exit_code(shlex.split("train --preset paper --task bullet/hopper --strength 0.3")) == 2
    assert "strength 0.3 belongs to weight auto, but weight is 0.1" in capsys.readouterr().err


def test_a_preset_that_does_not_fit_is_one_line(capsys):
    assert exit_code(["train", "--preset", "paper", "--task", "CartPole-v1"]) == 2
    assert capsys.readouterr().err.startswith("revd: preset 'paper' covers the tasks")


def test_pretraining_leaves_the_tasks_reward_out(trained, capsys):
    cli.main(["pretrain", "--task", "CartPole-v1"])
    (config,) = trained
    assert config.extrinsic_weight == 0.0
    assert config.directory == Path("runs/CartPole-v1/pretrain-ppo-revd-seed0")
    assert exit_code(["pretrain", "--task", "CartPole-v1", "--reward", "none"]) == 2
    assert exit_code(["pretrain", "--task", "CartPole-v1", "--extrinsic-weight", "1"]) == 2
    assert "it trains on the bonus alone" in capsys.readouterr().err


def test_an_interrupt_is_no_traceback(monkeypatch, capsys):
    def interrupt(run, config, report=None, trust=False):
        raise KeyboardInterrupt

    monkeypatch.setattr("revd.runs.train.train_in", interrupt)
    assert exit_code(["train", *SHORT]) == 130
    assert capsys.readouterr().err == NO_CHECKPOINT


def test_an_interrupt_says_from_where_the_same_command_resumes(monkeypatch, capsys):
    def interrupt(run, config, report=None, trust=False):
        run.checkpoints.write(1_024, ({"weights": torch.zeros(1)}, {}))
        raise KeyboardInterrupt

    monkeypatch.setattr("revd.runs.train.train_in", interrupt)
    assert exit_code(["train", *SHORT]) == 130
    assert (
        "the last checkpoint, after 1,024 steps, is kept: the same command resumes from it" in capsys.readouterr().err
    )


def test_the_version(capsys):
    cli.main(["--version"])
    assert capsys.readouterr().out == f"revd {revd.__version__}\n"


def test_termination_is_an_interrupt(monkeypatch, capsys):
    before = signal.getsignal(signal.SIGTERM)

    def terminate(run, config, report=None, trust=False):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)

    # A SIGTERM without a handler would end this process.
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    monkeypatch.setattr("revd.runs.train.train_in", terminate)
    try:
        assert exit_code(["train", *SHORT]) == 130
    finally:
        signal.signal(signal.SIGTERM, before)
    assert capsys.readouterr().err == NO_CHECKPOINT


def test_warnings_are_lines_of_ours(monkeypatch, capsys):
    def warn(run, config, report=None, trust=False):
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("a checkpoint cannot be used", stacklevel=1)
            warnings.warn("too old", DeprecationWarning, stacklevel=1)

    before = warnings.formatwarning
    # Pytest has changed this to catch warnings.
    monkeypatch.setattr(
        "warnings._showwarnmsg_impl", lambda said: print(warnings._formatwarnmsg(said), file=sys.stderr)
    )
    monkeypatch.setattr("revd.runs.train.train_in", warn)
    cli.main(["train", *SHORT, "--no-progress"])
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "revd: a checkpoint cannot be used"
    assert "DeprecationWarning: too old" in "".join(said[1:])
    assert warnings.formatwarning is before


def test_other_errors_keep_their_traceback(monkeypatch):
    def fail(run, config, report=None, trust=False):
        raise RuntimeError("a bug")

    monkeypatch.setattr("revd.runs.train.train_in", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        cli.main(["train", *SHORT])


def test_python_m_revd_is_the_command(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["revd", "rewards", "revd"])
    runpy.run_module("revd", run_name="__main__")
    assert "alpha" in capsys.readouterr().out


def test_the_list_of_tasks_names_the_command_for_envpool(capsys):
    cli.main(["tasks"])
    assert "pip install 'revd[envpool]'" in " ".join(capsys.readouterr().out.split())
