"""Untrusted and damaged run directories: every JSON file with arbitrary content."""

import io
import json
from collections.abc import Iterator
from contextlib import closing, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import strategies as st

from revd import cli
from revd.analysis.reading.runs import load_run
from revd.analysis.reading.sources import find_runs
from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory
from revd.runs.lease import lease
from revd.runs.parameters import Parameters
from revd.runs.train import prepare, train
from revd.storage.tensor_file import read_tensors, write_tensors
from revd.training.session import Training
from tests.analysis.support import fake_save
from tests.fuzz.support import JSON, fuzz

CONFIG = TrainConfig(
    task="CartPole-v1",
    algo="a2c",
    steps=120,
    n_envs=2,
    reward="re3",
    normalize="both",
    algo_params=Parameters(n_steps=20),
    reward_params=Parameters(embedding_size=4),
)
NUMBERS = st.sampled_from([-1, 0, 2**63, 10**30, 10**400, 1e300, -0.5, float("inf"), float("nan")])
VALUES = JSON | NUMBERS | st.sampled_from(["<script>", "a\n```\nb", "'", "$\\frac", "rm -rf /", "\ud800", "\0", ""])
TEXTS = st.one_of(VALUES.map(json.dumps), st.text(max_size=20), st.sampled_from(["[" * 99_999, "9" * 5_000, "{}"]))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    path = tmp_path_factory.mktemp("fuzz") / "run"
    return train(TrainConfig.from_dict({**CONFIG.to_dict(), "output": str(path)}))


@pytest.fixture(scope="module")
def training(run: Path) -> Iterator[Training]:
    """A training that could resume from the run's checkpoint."""
    with closing(prepare(CONFIG)) as prepared:
        yield prepared


def spoilt(data: Any, text: str) -> str:
    """JSON with another value somewhere, or another text altogether."""
    values = json.loads(text)
    if not data.draw(st.integers(0, 3)):
        return str(data.draw(TEXTS))
    part = values
    while True:
        key = data.draw(st.sampled_from(list(part)))
        if not isinstance(part[key], dict) or not part[key] or data.draw(st.booleans()):
            break
        part = part[key]
    part[key] = data.draw(VALUES)
    return json.dumps(values)


def only(*kinds: type[Exception]) -> Any:
    """Accepts these errors if they have a message."""

    class Documented:
        def __enter__(self) -> None: ...

        def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
            return kind in kinds and bool(str(error))

    return Documented()


def said(*arguments: str) -> tuple[int, str]:
    """The exit code of a command, and its errors."""
    errors = io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(errors):
        try:
            cli.main(arguments)
        except SystemExit as exit_:
            return int(exit_.code or 0), errors.getvalue()
    return 0, errors.getvalue()


@fuzz(data=st.data(), name=st.sampled_from(["config.json", "status.json", "run.json"]))
def test_any_file_of_a_run(run: Path, data: Any, name: str) -> None:
    path, directory = run / name, RunDirectory(run)
    kept = path.read_bytes()
    try:
        path.write_bytes(spoilt(data, kept.decode()).encode(errors="surrogatepass"))
        directory.read_status()
        with only(ValueError):
            directory.read_config()
        with only(ValueError):
            load_run(run)
        with only(ValueError):
            find_runs([run])
        page = run.parent / "page.md"
        with patch("revd.analysis.writing.figure_files.save_figure", fake_save):
            code, errors = said("report", str(run), "--output", str(page))
        assert code in (0, 2)
        assert (code == 0) == (errors == "")
        if code == 0:
            assert "<script>" not in page.read_text()
    finally:
        path.write_bytes(kept)


@fuzz(text=TEXTS | st.builds(lambda **fields: json.dumps(fields), host=VALUES, machine=VALUES, pid=VALUES,
                             started=VALUES, token=VALUES), free=st.booleans())  # fmt: skip
def test_any_lease(run: Path, text: str, free: bool) -> None:
    path = run / f".lease-77{'-free' if free else ''}"
    path.write_bytes(text.encode(errors="surrogatepass"))
    try:
        with only(FileExistsError), lease(run, takeover_after=None):
            assert free
    finally:
        for left in run.glob(".lease-*"):
            left.unlink()


@fuzz(data=st.data())
def test_any_values_in_a_checkpoint(run: Path, training: Training, data: Any) -> None:
    """Its checksum is right, since it was computed again after the change."""
    newest = max((run / "checkpoints").glob("steps-*"))
    tensors, values = read_tensors(newest)
    path = run.parent / "changed.safetensors"
    try:
        changed = json.loads(spoilt(data, json.dumps(values)))
    except (ValueError, RecursionError):
        changed = {}
    with only(ValueError):
        write_tensors(path, tensors, changed if isinstance(changed, dict) else {})
        training.restore(read_tensors(path))
        assert training.steps >= 0
        write_tensors(path, *training.snapshot())
