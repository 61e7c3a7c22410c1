import re
import shutil
import subprocess
import sys
from pathlib import Path

import imageio_ffmpeg
import pytest
from PIL import Image

from revd import cli

SHORT = ["--task", "CartPole-v1", "--steps", "64", "--n-envs", "2", "--algo-params", "n_steps=32", "--no-progress"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    run = tmp_path_factory.mktemp("cli") / "run"
    cli.main(["train", *SHORT, "--output", str(run)])
    return run


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, trained):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    shutil.copytree(trained, "run")


def frames(path):
    with Image.open(path) as gif:
        return gif.n_frames


def names():
    return {str(path) for path in Path("run").rglob("*")}


def test_watch_end_to_end(capsys):
    before = names()
    cli.main(["watch", "run"])
    said = re.fullmatch(
        r"Film: run/watch\.gif \((\d+) steps, task reward (\d+)\.00, mean bonus [\d.e-]+\)\n", capsys.readouterr().out
    )
    assert said is not None
    assert int(said[1]) == int(said[2]) == frames("run/watch.gif")
    assert names() - before == {"run/watch.gif"}


def test_flags_reach_the_film(capsys):
    cli.main(["watch", "run", "--output", "new/film.gif", "--steps", "4", "--fps", "10", "--seed", "3"])
    cli.main(["watch", "run", "--output", "film.mp4", "--steps", "4", "--stochastic"])
    assert "Film: new/film.gif (4 steps" in capsys.readouterr().out
    assert imageio_ffmpeg.count_frames_and_secs("film.mp4")[0] == 4
    with Image.open("new/film.gif") as gif:
        assert (gif.n_frames, gif.info["duration"]) == (4, 100)
    assert not Path("run/watch.gif").exists()


def test_train_with_video_and_without_reward(capsys):
    command = ["train", *SHORT, "--output", "plain", "--reward", "none", "--video"]
    cli.main(command)
    assert "no bonus, since the run has reward none" in capsys.readouterr().out
    assert frames("plain/watch.gif") > 1
    assert "video" not in Path("plain/config.json").read_text()
    drawn = Path("plain/watch.gif").read_bytes()
    Path("plain/watch.gif").unlink()
    cli.main(command)
    assert "is finished already" in capsys.readouterr().out
    assert Path("plain/watch.gif").read_bytes() == drawn


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "revd: there is no run in 'nowhere': it holds no config.json\n"),
        (["run", "--output", "x.avi"], "revd: output must be a file whose name ends in .gif or .mp4, got 'x.avi'\n"),
        (["run", "--fps", "99"], "revd: fps must lie in 1 … 50, got 99\n"),
        (["run", "--steps", "0e3"], "revd: steps must be at least 1, got 0\n"),
    ],
)
def test_wrong_use_is_one_line(arguments, message, capsys):
    before = names()
    with pytest.raises(SystemExit) as error:
        cli.main(["watch", *arguments])
    assert error.value.code == 2
    assert capsys.readouterr().err == message
    assert names() == before
    assert not Path("nowhere").exists()


def test_a_model_alone_says_what_it_does_without(capsys):
    Path("run/normalization.safetensors").touch()
    cli.main(["watch", "run/model.zip", "--trust", "--task", "CartPole-v1", "--steps", "2", "--output", "w.gif"])
    said = " ".join(capsys.readouterr().out.split())
    assert "watch the run: revd watch run" in said
    assert "no bonus, which a model.zip does not contain" in said


def test_a_run_without_a_checkpoint(capsys):
    shutil.rmtree("run/checkpoints")
    with pytest.raises(SystemExit):
        cli.main(["watch", "run"])
    assert "revd: the run in 'run' has no checkpoint yet" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["watch", "run"], ["train", *SHORT, "--output", "new", "--video"]])
def test_without_matplotlib_it_says_what_to_install(command, monkeypatch, capsys):
    monkeypatch.setattr("revd.cli.watch.find_spec", lambda name: None)
    with pytest.raises(SystemExit) as error:
        cli.main(command)
    assert error.value.code == 2
    assert capsys.readouterr().err == "revd: films are drawn with matplotlib: pip install 'revd[video]'\n"
    assert not Path("new").exists()


def test_native_libraries_keep_quiet():
    words = [sys.executable, "-m", "revd", "watch", "run", "--steps", "2"]
    answer = subprocess.run(words, capture_output=True, text=True, check=True)
    assert answer.stderr == ""
    assert answer.stdout.startswith("Film: run/watch.gif (2 steps")
    assert answer.stdout.count("\n") == 1
