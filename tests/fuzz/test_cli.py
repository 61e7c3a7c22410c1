"""The command line: exit code 0, or another one with a word on what is wrong; never a traceback, and nothing outside.

Everything that would take long is cut off: no training starts, no figure is drawn.
"""

import io
import os
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import strategies as st

from revd import cli
from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory
from tests.fuzz.support import fuzz, sometimes

FLAGS = {
    "train": [
        *("--task", "--algo", "--reward", "--steps", "--seed", "--output", "--n-envs", "--normalize", "--sparse"),
        *(
            "--network",
            "--weight",
            "--decay",
            "--decay-per",
            "--reward-params",
            "--algo-params",
            "--preset",
            "--device",
        ),
        *(
            "--init-from",
            "--init-value",
            "--no-progress",
            "--eval-every",
            "--threads",
            "--trainer",
            "--engine",
            "--normalize-bonus",
            "--video",
        ),
    ],
    "suite": ["--tasks", "--methods", "--seeds", "--steps", "--jobs", "--shard", "--output", "--retries"],
    "tune": ["--task", "--search", "--trials", "--seeds", "--metric", "--steps", "--jobs", "--output", "--preset"],
    "demo": ["--seeds", "--steps", "--jobs", "--output"],
    "compare": ["--task", "--rewards", "--algos", "--seeds", "--steps", "--threshold", "--weight", "--output"],
    "example": ["--radius", "--seed", "--output"],
    "figure": ["--output"],
    "report": ["--output"],
    "watch": ["--output", "--seed", "--steps", "--fps", "--stochastic"],
    "rewards": [],
    "export": ["--output"],
    "pretrain": ["--task", "--reward", "--steps", "--output"],
}
VALUES = [
    *(
        "CartPole-v1",
        "bullet/hopper",
        "atari/pong",
        "ppo",
        "a2c",
        "revd",
        "re3",
        "revd@0.1",
        "none",
        "paper",
        "both",
        "rms",
        "cpu",
    ),
    *("0", "1", "-1", "3", "0.5", "1e400", "nan", "inf", "10000000000000000000000", "1/2", "0/0", "²/²", "x", ""),
    *(
        "k=5",
        "k=",
        "k",
        "alpha=2",
        "boundary=episode",
        "k=" + "[" * 9_999,
        "here",
        "here/there",
        "file",
        "-h",
        "--",
        "=",
    ),
    *("smoke", "paper-atari", "ppo+revd", "revd@0.1", "classic/cart-pole", "\0", "Ø", "a\nb", "~", "x" * 300),
]
WORDS = sometimes(st.sampled_from(VALUES), st.text(max_size=6))


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    command = draw(sometimes(st.sampled_from(list(FLAGS)), WORDS))
    words = [command]
    if "--task" in FLAGS.get(command, []):
        words += draw(sometimes(st.just(["--task", "CartPole-v1"]), st.just([])))
    for _ in range(draw(st.integers(0, 4))):
        flags = FLAGS.get(command, [])
        if flags:
            words.append(draw(sometimes(st.sampled_from(flags), WORDS)))
        words += draw(st.lists(WORDS, max_size=1))
    # Without this they would start their runs.
    return [*words, "--dry-run"] if command in ("suite", "tune") else words


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home of its own; `file` is a file."""
    path = tmp_path_factory.mktemp("fuzz") / "inside"
    path.mkdir()
    (path / "file").write_text("no run")
    with patch.dict(os.environ, {"HOME": str(path), "COLUMNS": "80"}), chdir(path):
        yield path


def run(words: list[str]) -> tuple[Any, str]:
    """Exit code and error output of a command from which nothing long follows."""
    errors = io.StringIO()

    def no_training(run: RunDirectory, config: TrainConfig, **_: Any) -> None:
        pass

    with (
        patch("revd.runs.train.train_in", no_training),
        patch("revd.suites.scheduler.train_all", lambda *_, **__: []),
        patch("revd.analysis.writing.image_files.save_example", lambda *_: []),
        redirect_stdout(io.StringIO()),
        redirect_stderr(errors),
    ):
        try:
            cli.main(words)
        except SystemExit as exit_:
            return exit_.code, errors.getvalue()
    return 0, errors.getvalue()


@fuzz(words=command_lines())
def test_any_command_line(folder: Path, words: list[str]) -> None:
    code, errors = run(words)
    assert "Traceback" not in errors
    if code not in (0, None):
        assert code in (1, 2), code
        assert errors.strip()
        if errors.startswith("revd: "):
            assert errors.count("\n") == 1, errors
        else:
            assert "For full helptext" in errors, "neither our words nor the parser's"
    assert [entry.name for entry in folder.parent.iterdir()] == ["inside"]
