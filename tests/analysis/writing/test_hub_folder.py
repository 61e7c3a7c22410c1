import json
import re
import subprocess
import sys

import pytest
import yaml

from revd import cli
from revd.analysis.writing.hub_folder import write_hub_folder
from revd.runs.config import TrainConfig
from revd.runs.parameters import Parameters
from revd.runs.train import train
from tests.analysis.support import write_run


def finished_run(folder, **settings):
    """A run by hand, with a file in the place of its model."""
    directory = write_run(folder, **{"returns": [-2.0] * 90 + [1.0, 4.0] * 5, "network": "sb3"} | settings)
    (directory / "model.zip").write_bytes(b"model")
    return directory


def front_matter(folder):
    _, block, card = (folder / "README.md").read_text().split("---\n", 2)
    return yaml.safe_load(block), card


def code_of(folder):
    (block,) = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    return block


def test_the_code_of_the_card_plays_the_agent(tmp_path, capsys):
    config = TrainConfig(
        task="Pendulum-v1",
        steps=256,
        n_envs=2,
        output=tmp_path / "run",
        normalize="both",
        eval_every=256,
        eval_episodes=2,
        algo_params=Parameters(n_steps=128, n_epochs=1),
    )
    cli.main(["export", str(train(config)), "--output", str(tmp_path / "hub")])
    printed = capsys.readouterr().out
    assert f"To upload it: hf upload USER/REPOSITORY {tmp_path / 'hub'}" in printed
    names = {path.name for path in (tmp_path / "hub").iterdir()}
    assert names == {"README.md", "ppo-Pendulum-v1.zip", "vec_normalize.pkl", "config.json", "results.json"}
    assert all(name in printed for name in names)
    code = code_of(tmp_path / "hub").replace("n_eval_episodes=10", "n_eval_episodes=1")
    code += "\nimport sys\nassert not [name for name in sys.modules if name.partition('.')[0] == 'revd']"
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "hub", capture_output=True, text=True, check=True
    )
    mean, std = (float(number) for number in re.findall(r"-?\d+\.\d+", answer.stdout))
    assert -2000 < mean < 0
    assert std == 0
    results = json.loads((tmp_path / "hub" / "results.json").read_text())
    assert (results["is_deterministic"], results["n_eval_episodes"]) == (True, 2)
    (entry,) = front_matter(tmp_path / "hub")[0]["model-index"]
    (metric,) = entry["results"][0]["metrics"]
    assert metric["value"] == f"{results['mean_reward']:.2f} +/- {results['std_reward']:.2f}"


def test_the_front_matter_and_the_final_return(tmp_path):
    write_hub_folder(finished_run(tmp_path / "run", method="PPO+REVD"), tmp_path / "hub")
    values, card = front_matter(tmp_path / "hub")
    assert values["library_name"] == "stable-baselines3"
    assert {"MountainCar-v0", "reinforcement-learning", "stable-baselines3"} <= set(values["tags"])
    (entry,) = values["model-index"]
    (result,) = entry["results"]
    assert entry["name"] == "PPO+REVD"
    assert result["dataset"] == {"name": "MountainCar-v0", "type": "MountainCar-v0"}
    assert result["metrics"] == [{"type": "mean_reward", "name": "mean_reward", "value": "2.50 +/- 1.50"}]
    assert "Mean return 2.50, standard deviation 1.50, over 10 episodes: the training itself" in card
    assert "revd train --task MountainCar-v0 --reward revd --seed 1" in card
    assert "replay" not in card


def test_no_path_of_this_machine_is_published(tmp_path):
    directory = finished_run(tmp_path / "run", init_from="/home/me/secret")
    origin = json.loads((directory / "run.json").read_text())
    repeat = f"{origin['repeat']} --init-from /home/me/secret"
    (directory / "run.json").write_text(json.dumps(origin | {"repeat": repeat}))
    write_hub_folder(directory, tmp_path / "hub")
    assert json.loads((tmp_path / "hub" / "config.json").read_text())["task"] == "MountainCar-v0"
    for name in ("README.md", "config.json", "results.json"):
        text = (tmp_path / "hub" / name).read_text()
        assert "secret" not in text
        assert str(tmp_path) not in text


def test_untrusted_text_stays_text(tmp_path):
    task = "A\"]---`x`<b>|[y](z)'\\-v0: #"
    directory = finished_run(tmp_path / "run", task=task, method='PPO+<script>"')
    origin = json.loads((directory / "run.json").read_text())
    (directory / "run.json").write_text(json.dumps(origin | {"repeat": "rm -rf ~"}))
    write_hub_folder(directory, tmp_path / "hub")
    values, card = front_matter(tmp_path / "hub")
    assert values["tags"][0] == task
    assert values["model-index"][0]["name"] == 'PPO+<script>"'
    assert set(values) == {"library_name", "tags", "model-index"}
    text = re.sub(r"```python.*?```", "", card, flags=re.DOTALL)
    assert "<script>" not in text
    assert "[y](z)" not in text
    assert "rm -rf" not in card
    (argument,) = re.findall(r"env = make_vec_env\((.*)\)", code_of(tmp_path / "hub"))
    assert json.loads(argument) == task
    compile(code_of(tmp_path / "hub"), "card", "exec")
    (model,) = (tmp_path / "hub").glob("*.zip")
    assert re.fullmatch(r"ppo-[\w.-]+\.zip", model.name)


@pytest.mark.parametrize(
    ("settings", "imported", "needs"),
    [
        ({}, "from stable_baselines3.common.env_util import make_vec_env", "needs Stable-Baselines3."),
        ({"task": "minigrid/door-key-5x5"}, "from revd.training.vec_env import make_vec_env", "Baselines3 and revd."),
        ({"task": "mine:Room-v0"}, "from revd.training.vec_env import make_vec_env", "Baselines3 and revd."),
        ({"network": "paper"}, "from revd.training.vec_env import make_vec_env", "Baselines3 and revd."),
        ({"algo": "trpo"}, "from sb3_contrib import TRPO", "needs sb3-contrib."),
        ({"algo": "maskable-ppo"}, "from sb3_contrib.common.maskable.evaluation import evaluate_policy", "contrib."),
    ],
)
def test_what_the_code_imports(settings, imported, needs, tmp_path):
    write_hub_folder(finished_run(tmp_path / "run", **settings), tmp_path / "hub")
    assert imported in code_of(tmp_path / "hub")
    assert needs in (tmp_path / "hub" / "README.md").read_text()


@pytest.mark.parametrize(
    ("films", "copied", "shown"),
    [(["watch.gif"], "replay.gif", True), (["watch.mp4", "watch.gif"], "replay.mp4", False)],
)
def test_a_film_becomes_the_replay(films, copied, shown, tmp_path):
    directory = finished_run(tmp_path / "run")
    for film in films:
        (directory / film).write_text(film)
    write_hub_folder(directory, tmp_path / "hub")
    assert [path.read_text() for path in (tmp_path / "hub").glob("replay.*")] == films[:1]
    assert ("![A replay](replay.gif)" in (tmp_path / "hub" / "README.md").read_text()) == shown
    assert (tmp_path / "hub" / copied).exists()


def test_an_earlier_export_is_replaced_and_other_files_are_kept(tmp_path):
    directory = finished_run(tmp_path / "run")
    (directory / "vecnormalize.pkl").write_bytes(b"statistics")
    write_hub_folder(directory, tmp_path / "hub")
    assert (tmp_path / "hub" / "vec_normalize.pkl").read_bytes() == b"statistics"
    (tmp_path / "hub" / ".gitattributes").write_text("kept")
    (directory / "vecnormalize.pkl").unlink()
    write_hub_folder(directory, tmp_path / "hub")
    assert not (tmp_path / "hub" / "vec_normalize.pkl").exists(), "the statistics of another model"
    assert "VecNormalize" not in code_of(tmp_path / "hub")
    assert (tmp_path / "hub" / ".gitattributes").read_text() == "kept"


def test_the_model_of_another_task_is_not_published_too(tmp_path):
    hub = tmp_path / "hub"
    write_hub_folder(finished_run(tmp_path / "first", task="CartPole-v1"), hub)
    assert (hub / "ppo-CartPole-v1.zip").exists()
    (hub / "ppo-CartPole-v0.zip").write_text("mine")
    write_hub_folder(finished_run(tmp_path / "second", algo="a2c", task="A/B"), hub)
    assert {path.name for path in hub.glob("*.zip")} == {"ppo-CartPole-v0.zip", "a2c-A-B.zip"}
    write_hub_folder(finished_run(tmp_path / "third"), hub)
    assert {path.name for path in hub.glob("*.zip")} == {"ppo-CartPole-v0.zip", "ppo-MountainCar-v0.zip"}


def test_a_killed_export_leaves_no_model_that_the_next_one_does_not_know(tmp_path, monkeypatch):
    hub = tmp_path / "hub"
    write_hub_folder(finished_run(tmp_path / "first", task="CartPole-v1"), hub)
    with monkeypatch.context() as patch:
        patch.setattr("revd.analysis.writing.hub_folder._results", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            write_hub_folder(finished_run(tmp_path / "second", task="Acrobot-v1"), hub)
    assert (hub / "ppo-Acrobot-v1.zip").exists()
    write_hub_folder(finished_run(tmp_path / "third"), hub)
    assert [path.name for path in hub.glob("*.zip")] == ["ppo-MountainCar-v0.zip"]


@pytest.mark.parametrize(
    "config", [None, "", "[]", "{}", '{"algo": "ppo"}', '{"algo": ["ppo"], "task": "x"}', '{"algo": "ppo", "task": 3}']
)
def test_an_export_that_does_not_tell_its_model_is_refused(config, tmp_path):
    hub = tmp_path / "hub"
    write_hub_folder(finished_run(tmp_path / "first", task="CartPole-v1"), hub)
    (hub / "config.json").unlink()
    if config is not None:
        (hub / "config.json").write_text(config)
    with pytest.raises(FileExistsError, match=r"config\.json does not tell its model .*; choose another directory"):
        write_hub_folder(finished_run(tmp_path / "second"), hub)
    assert [path.name for path in hub.glob("*.zip")] == ["ppo-CartPole-v1.zip"]


@pytest.mark.parametrize("kind", ["file", "foreign"])
def test_another_directory_is_refused(kind, tmp_path, capsys):
    hub = tmp_path / "hub"
    if kind == "file":
        hub.write_text("mine")
    else:
        hub.mkdir()
        (hub / "README.md").write_text("mine")
    with pytest.raises(SystemExit) as error:
        cli.main(["export", str(finished_run(tmp_path / "run")), "--output", str(hub)])
    assert error.value.code == 2
    assert str(hub) in capsys.readouterr().err
    assert (hub if kind == "file" else hub / "README.md").read_text() == "mine"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"state": "running"}, "has not finished (it is running)"),
        ({"returns": []}, "has no return: no episode ended within its steps"),
        ({"algo": "sac"}, "must be one of ppo, a2c, trpo, recurrent-ppo, maskable-ppo, got 'sac'"),
    ],
)
def test_what_cannot_be_shared(settings, message, tmp_path):
    with pytest.raises(ValueError, match=re.escape(message)):
        write_hub_folder(finished_run(tmp_path / "run", **settings), tmp_path / "hub")
    assert not (tmp_path / "hub").exists()


def test_a_run_without_a_model_or_with_a_link_is_refused(tmp_path):
    directory = finished_run(tmp_path / "run")
    (directory / "model.zip").unlink()
    with pytest.raises(ValueError, match=r"has no model\.zip"):
        write_hub_folder(directory, tmp_path / "hub")
    (tmp_path / "secret").write_text("secret")
    (directory / "model.zip").symlink_to(tmp_path / "secret")
    with pytest.raises(ValueError, match="is a symbolic link: a file from elsewhere must not be published"):
        write_hub_folder(directory, tmp_path / "hub")
    assert not (tmp_path / "hub").exists()
