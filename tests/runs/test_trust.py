"""Reading a file executes nothing, unless the user trusts it."""

import json
import os
import pickle
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from revd import cli
from revd.runs.config import TrainConfig, file_name
from revd.runs.directory import RunDirectory
from revd.runs.parameters import Parameters
from revd.runs.train import train
from revd.runs.watch import watch
from revd.suites.catalog import SUITES
from revd.suites.grids import suite_runs
from revd.suites.suite import Method, Suite

ROLLOUT = 32


class Bomb:
    """Unpickling it leaves a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (str(self.path),))


@pytest.fixture
def config(tmp_path):
    config = TrainConfig(
        task="CartPole-v1",
        steps=2 * ROLLOUT,
        n_envs=2,
        output=tmp_path / "run",
        normalize="observations",
        checkpoint_every=ROLLOUT,
        algo_params=Parameters(n_steps=ROLLOUT // 2, batch_size=ROLLOUT, n_epochs=1),
    )
    train(config)
    return config


@pytest.fixture
def mined(config, tmp_path):
    """A run in which every file that could be a pickle is a malicious one, except the older checkpoint."""
    bomb = pickle.dumps(Bomb(tmp_path / "exploded"))
    directory = RunDirectory(config.directory)
    with zipfile.ZipFile(directory.model, "w") as model:
        for name in ("data", "policy.pth", "policy.optimizer.pth", "pytorch_variables.pth"):
            model.writestr(name, bomb)
    for name in ("vecnormalize.pkl", "model.pkl", "bonus.safetensors", "normalization.safetensors", "replay.pkl"):
        (directory.path / name).write_bytes(bomb)
    max(directory.checkpoints.path.iterdir()).write_bytes(bomb)
    torch.save({"policy": Bomb(tmp_path / "exploded")}, directory.checkpoints.path / "steps-000000000999.safetensors")
    return config


def test_the_bomb_is_one(mined, tmp_path):
    pickle.loads((mined.directory / "model.pkl").read_bytes())
    assert (tmp_path / "exploded").exists()


def test_resuming_and_watching_and_reporting_execute_nothing(mined, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.warns(UserWarning, match="damaged or not a safetensors file"):
        cli.main(["watch", "run", "--steps", "2"])
    cli.main(["report", "run"])
    cli.main(["figure", "run"])
    with pytest.warns(UserWarning, match="damaged or not a safetensors file"):
        cli.main([*replace(mined, steps=3 * ROLLOUT).command().split()[1:], "--no-progress"])
    assert not (tmp_path / "exploded").exists()
    assert RunDirectory(mined.directory).read_status().steps == 3 * ROLLOUT


def test_starting_from_a_mined_run_executes_nothing(mined, tmp_path):
    tuned = replace(mined, output=tmp_path / "tuned", init_from=mined.directory)
    with pytest.warns(UserWarning, match="damaged or not a safetensors file"):
        train(tuned)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize(
    "command",
    [
        ["train", "--task", "CartPole-v1", "--init-from", "run/model.zip", "--output", "new"],
        ["watch", "run/model.zip", "--task", "CartPole-v1"],
    ],
)
def test_sb3s_files_need_trust_and_the_error_says_why(mined, tmp_path, monkeypatch, command, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as error:
        cli.main(command)
    assert error.value.code == 2
    said = capsys.readouterr().err
    assert "'run/model.zip' is not a run directory but a file" in said
    assert "it holds pickles, and reading one can execute any code" in said
    assert "add --trust" in said
    assert not (tmp_path / "exploded").exists()
    assert not Path("new").exists()


def test_a_trusted_model_gives_its_policy(config, tmp_path, monkeypatch, capsys):
    plain = replace(config, output=tmp_path / "plain", normalize="none")
    train(plain)
    monkeypatch.chdir(tmp_path)
    tuned = replace(plain, output=Path("tuned"), steps=ROLLOUT, init_from=Path("plain/model.zip"))
    learnt = replace(tuned, init_value=True, init_optimizer=True, algo_params=Parameters(**plain.algo_params))
    source = RunDirectory(plain.directory).checkpoints.newest()[0]
    taken = {}

    def keep(training, snapshot, **options):
        taken.update(snapshot[0], **options)

    monkeypatch.setattr("revd.training.session.Training.start_from", keep)
    train(learnt, trust=True)
    assert (taken.pop("value"), taken.pop("optimizer")) == (True, True)
    assert {name.partition("/")[0] for name in taken} == {"policy", "optimizer"}
    assert all(torch.equal(tensor, source[name]) for name, tensor in taken.items())
    capsys.readouterr()
    cli.main(["watch", "plain/model.zip", "--trust", "--task", "CartPole-v1", "--steps", "3", "--output", "x.gif"])
    assert "Film: x.gif (3 steps, task reward 3.00" in capsys.readouterr().out


def test_a_zip_of_something_else_and_no_task(config, tmp_path):
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as other:
        other.writestr("readme", "hello")
    with pytest.raises(ValueError, match=r"other\.zip' holds no policy"):
        train(replace(config, output=tmp_path / "new", init_from=tmp_path / "other.zip"), trust=True)
    with pytest.raises(SystemExit):
        cli.main(["watch", str(tmp_path / "other.zip"), "--trust"])


@pytest.mark.parametrize("reward", ["planted_reward:Mine", "revd+planted_reward:Mine"])
def test_a_run_cannot_have_its_reward_imported(config, tmp_path, monkeypatch, capsys, reward):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "planted_reward", raising=False)
    mark = tmp_path / "imported"
    (tmp_path / "planted_reward.py").write_text(f"import os; os.mkdir({str(mark)!r})")
    path = config.directory / "config.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, "reward": reward, "resolved": {**values["resolved"], "method": "PPO+Mine"}}))
    with pytest.raises(
        ValueError, match=r"has the reward 'planted_reward:Mine'.* import 'planted_reward' .* add --trust"
    ):
        watch(config.directory)
    monkeypatch.chdir(tmp_path)
    cli.main(["report", "run"])
    cli.main(["figure", "run"])
    assert "PPO+Mine" in Path("report.md").read_text()
    with pytest.raises(SystemExit):
        cli.main([*config.command().split()[1:], "--no-progress"])
    assert "already holds a run with other settings (reward is" in capsys.readouterr().err
    assert not mark.exists()
    with pytest.raises(ValueError, match="unknown class of the module 'planted_reward' 'Mine'"):
        watch(config.directory, trust=True)
    assert mark.exists(), "asked for"


def test_a_run_cannot_have_a_package_imported_by_being_watched(config, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    mark = tmp_path / "imported"
    (tmp_path / "planted_task.py").write_text(f"import os; os.mkdir({str(mark)!r})")
    path = config.directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "task": "planted_task:X-v0"}))
    with pytest.raises(ValueError, match=r"would import 'planted_task' and so execute it; .* add --trust"):
        watch(config.directory)
    assert not mark.exists()
    with pytest.raises(ValueError, match="unknown task"):
        watch(config.directory, trust=True)
    assert mark.exists(), "asked for"


@pytest.mark.parametrize("trust", [False, True])
def test_a_run_cannot_have_its_cells_imported_by_being_watched(config, tmp_path, monkeypatch, trust):
    monkeypatch.syspath_prepend(tmp_path)
    mark = tmp_path / "imported"
    (tmp_path / "planted_cells.py").write_text(f"import os; os.mkdir({str(mark)!r})")
    path = config.directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "coverage": "planted_cells:rooms"}))
    assert len(watch(config.directory, max_steps=2, trust=trust).frames) == 2
    monkeypatch.chdir(tmp_path)
    cli.main(["report", "run"])
    cli.main(["figure", "run"])
    train(replace(config, output=tmp_path / "tuned", init_from=config.directory))
    with pytest.raises(FileExistsError, match="coverage is 'planted_cells:rooms' there and 'auto' here"):
        train(replace(config, steps=3 * ROLLOUT))
    assert not mark.exists()


@pytest.mark.parametrize("name", ["checkpoints", "status.json", "progress.csv", "log.txt", ".lease-9"])
def test_links_in_a_run_lead_nowhere(config, tmp_path, name):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine")
    path = config.directory / name
    if path.is_dir():
        path.rename(tmp_path / "moved")
    path.unlink(missing_ok=True)
    path.symlink_to(outside if name == "checkpoints" else outside / "file")
    with pytest.raises(ValueError, match="is a symbolic link"):
        train(replace(config, steps=3 * ROLLOUT))
    assert [(entry.name, entry.read_text()) for entry in outside.iterdir()] == [("file", "mine")]


WILD = ("../../up", "/etc/passwd", "a/../../b", "..", ".", "~root", "-")


@pytest.mark.parametrize("name", WILD)
def test_names_of_a_suite_stay_inside_its_directory(tmp_path, monkeypatch, name):
    wild = Suite(description="", tasks=(name,), methods=(Method(name, "none"),), preset="none", variants={name: {}})
    monkeypatch.setitem(SUITES, "wild", wild)
    (config,) = suite_runs("wild", seeds=[0], output=tmp_path)
    assert config.directory.parent.parent == tmp_path
    assert config.directory.resolve().is_relative_to(tmp_path)


@pytest.mark.parametrize("name", [*WILD, "nul\0l", "a\nb", ""])
def test_any_text_becomes_the_name_of_one_file(name):
    found = file_name(name)
    assert found == Path(found).name
    assert found.isprintable()


def test_default_directories_stay_inside_theirs():
    config = TrainConfig(task="../x", algo="../../y", reward="/etc/z")
    assert config.directory == Path("runs/x/y--etc-z-seed0")


def test_links_in_a_suites_directory_do_not_lead_out_of_it(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    real, linked = tmp_path / "suite", tmp_path / "by-link"
    real.mkdir()
    linked.symlink_to(real)
    assert suite_runs("smoke", output=linked), "the directory itself may be a link"
    (real / "classic-mountain-car").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=r"a symbolic link leads the run .* out of"):
        suite_runs("smoke", output=linked)


def test_no_eval_and_no_shell_anywhere():
    """Pickles are read in one place only, which asks for trust."""
    root = Path(cli.__file__).parents[1]
    sources = {path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*.py")}
    for words in ("torch.load(", "pickle.load", "yaml.load", " eval(", " exec(", "shell=True", "os.system("):
        assert [name for name, text in sources.items() if words in text] == [], words
    readers = [name for name, text in sources.items() if "load_from_zip_file" in text or "load_saved_model(" in text]
    assert sorted(readers) == ["runs/watch.py", "training/initial_policy.py"]
