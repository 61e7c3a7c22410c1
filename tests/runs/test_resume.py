"""Runs that are killed and repeated: nothing is counted twice, nothing is missing."""

import csv
import json
import os
import re
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from revd import cli
from revd.runs import train as train_module
from revd.runs.checkpoints import Checkpoints
from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory
from revd.runs.lease import LeaseLostError
from revd.runs.parameters import Parameters
from revd.runs.train import train
from revd.sb3.checkpoint import Checkpoint
from tests.fast.support import Replays
from tests.support.pretend_gpu import PretendGpu

ROLLOUT = 64


@pytest.fixture
def config(tmp_path):
    return TrainConfig(
        task="CartPole-v1",
        steps=16 * ROLLOUT,
        n_envs=2,
        output=tmp_path / "run",
        normalize="both",
        weight=0.1,
        decay=0.01,
        checkpoint_every=3 * ROLLOUT,
        eval_every=4 * ROLLOUT,
        eval_episodes=1,
        algo_params=Parameters(n_steps=ROLLOUT // 2, n_epochs=1),
    )


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def assert_complete(config):
    """As if nothing had happened: every rollout once, weight or strength by its schedule, episodes in order."""
    progress = read(config.directory / "progress.csv")
    assert [int(row["time/total_timesteps"]) for row in progress] == list(range(ROLLOUT, config.steps + 1, ROLLOUT))
    name = "strength" if config.weight == "auto" else "weight"
    expected = [getattr(config, name) * (1 - config.decay) ** (index + 1) for index in range(len(progress))]
    assert [float(row[f"exploration/{name}"]) for row in progress] == pytest.approx(expected, rel=1e-12)
    updates = [float(row["train/n_updates"]) for row in progress[1:]]
    assert updates == list(range(1, len(progress))), "every rollout was trained on once"
    steps = [int(row["steps"]) for row in read(config.directory / "episodes.csv")]
    assert steps == sorted(steps)
    assert RunDirectory(config.directory).read_status().state == "finished"


def interrupted(config, after):
    """Train, and break off once `after` steps are done."""

    def report(progress):
        if progress.steps == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config, report=report)


def test_rows_are_on_disk_before_the_checkpoint_that_stands_for_them(config, monkeypatch):
    """A power cut keeps of a file what it held when it was last flushed to disk."""
    on_disk, at_checkpoints = {}, []
    flush = os.fsync

    def fsync(descriptor):
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        final = re.sub(r"^\.\d+\.", "", path.name)
        if final.startswith("steps-"):
            at_checkpoints.append((int(Path(final).stem.removeprefix("steps-")), dict(on_disk)))
        elif final.endswith(".csv"):
            on_disk[final] = path.read_text()
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    train(replace(config, eval_every=3 * ROLLOUT, steps=12 * ROLLOUT))
    assert [steps for steps, _ in at_checkpoints] == [3 * ROLLOUT, 6 * ROLLOUT, 9 * ROLLOUT, 12 * ROLLOUT]
    columns = {"progress.csv": "time/total_timesteps", "episodes.csv": "steps", "evaluations.csv": "steps"}
    for steps, files in at_checkpoints:
        for name, column in columns.items():
            due = [row[column] for row in read(config.directory / name) if int(row[column]) <= steps]
            kept = [row[column] for row in csv.DictReader(files[name].splitlines())]
            assert kept == due, (name, steps)


@pytest.mark.parametrize("rollouts", [1, 3, 5, 15])
def test_an_interrupted_run_resumes(config, rollouts):
    interrupted(config, rollouts * ROLLOUT)
    train(config)
    assert_complete(config)
    # A checkpoint is due every third rollout and is written when the next one begins.
    assert json.loads((config.directory / "run.json").read_text())["resumed"][0]["steps"] == (
        (rollouts - 1) // 3 * 3 * ROLLOUT
    )


def test_an_automatic_weight_is_resumed(config):
    """The critic learns from every rollout once, and no deviation starts anew."""
    config = replace(config, weight="auto")
    interrupted(config, 5 * ROLLOUT)
    interrupted(config, 12 * ROLLOUT)
    train(config)
    assert_complete(config)
    assert [session["steps"] for session in json.loads((config.directory / "run.json").read_text())["resumed"]] == [
        3 * ROLLOUT,
        9 * ROLLOUT,
    ]
    state = Checkpoint.read(config.directory / "bonus.safetensors").weighting
    rollouts = config.steps // ROLLOUT
    # REVD's first rollout pays nothing.
    assert int(state["critic.fits"]) == rollouts - 1
    assert float(state["bonus.total"]) == pytest.approx(sum(0.9**index for index in range(rollouts - 1)), rel=1e-12)
    assert float(state["task_advantages.total"]) == pytest.approx(
        sum(0.9**index for index in range(rollouts)), rel=1e-12
    )


def test_a_run_from_before_automatic_weights_keeps_its_number(config):
    interrupted(config, 5 * ROLLOUT)
    path = config.directory / "config.json"
    values = json.loads(path.read_text())
    assert (values.pop("strength"), values["weight"]) == (0.1, 0.1)
    path.write_text(json.dumps(values))
    with pytest.raises(FileExistsError, match=r"weight is 0.1 there and 'auto' here"):
        train(replace(config, weight="auto"))
    train(config)
    assert_complete(config)


@pytest.mark.filterwarnings("ignore:You are trying to run")
@pytest.mark.parametrize("then", [{"device": "cuda"}, {"device": "cuda", "trainer": "sb3"}, {"device": "cpu"}], ids=str)
def test_a_run_on_a_gpu_resumes_there_or_elsewhere(config, then, monkeypatch):
    pytest.importorskip("triton", reason="Triton is not made for this system")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU, and this pretends one")
    monkeypatch.setattr("revd.fast.algorithm.CudaGraphRecorder", lambda device: Replays())
    config = replace(config, steps=6 * ROLLOUT)
    first, second = PretendGpu(), PretendGpu()
    first.generator = torch.tensor([7], dtype=torch.uint8)
    with first.present():
        interrupted(replace(config, device="cuda"), 5 * ROLLOUT)
    written = json.loads((config.directory / "config.json").read_text())["resolved"]
    assert (written["device"], written["algorithm"]) == ("cuda", "FastPPO")
    with nullcontext() if then["device"] == "cpu" else second.present():
        train(replace(config, **then))
    assert_complete(config)
    assert json.loads((config.directory / "run.json").read_text())["resumed"][0]["steps"] == 3 * ROLLOUT
    assert torch.equal(second.generator, first.generator) == (then["device"] == "cuda")


@pytest.mark.parametrize("sessions", [1, 2])
def test_a_run_from_before_duplicates_were_merged_resumes_without(config, sessions):
    path = config.directory / "config.json"
    config = replace(config, steps=4 * ROLLOUT, normalize="none", eval_every=0)
    train(replace(config, reward_params=Parameters(merge_duplicates=False)))
    values = json.loads(path.read_text())
    del values["reward_params"]["merge_duplicates"], values["resolved"]["reward_params"]["merge_duplicates"]
    path.write_text(json.dumps(values))
    for session in range(sessions):
        train(replace(config, steps=(5 + session) * ROLLOUT))
    values, run = json.loads(path.read_text()), json.loads((config.directory / "run.json").read_text())
    assert values["reward_params"] == {}
    assert values["resolved"]["reward_params"]["merge_duplicates"] is False
    assert "--reward-params merge_duplicates=false" in run["repeat"]
    train(replace(config, steps=7 * ROLLOUT, reward_params=Parameters(merge_duplicates=False)))
    with pytest.raises(FileExistsError, match="already holds a run with other settings"):
        train(replace(config, steps=8 * ROLLOUT, reward_params=Parameters(merge_duplicates=True)))


def test_a_ride_run_from_before_its_fraction_changed_keeps_the_old_one(config):
    path = config.directory / "config.json"
    config = replace(config, reward="ride", steps=2 * ROLLOUT, normalize="none", eval_every=0)
    train(replace(config, reward_params=Parameters(update_fraction=1.0)))
    values = json.loads(path.read_text())
    del values["reward_params"]["update_fraction"]
    path.write_text(json.dumps(values))
    train(replace(config, steps=3 * ROLLOUT))
    values, run = json.loads(path.read_text()), json.loads((config.directory / "run.json").read_text())
    assert values["resolved"]["reward_params"]["update_fraction"] == 1.0
    assert "--reward-params update_fraction=1.0" in run["repeat"]


def test_a_mixture_from_before_a_members_default_changed_keeps_the_old_one(config):
    path = config.directory / "config.json"
    config = replace(config, reward="ride+ride", steps=2 * ROLLOUT, normalize="none", eval_every=0)
    old = {"ride": {"update_fraction": 1.0, "k": 3}, "ride_2": {"update_fraction": 1.0}}
    train(replace(config, reward_params=Parameters(old)))
    values = json.loads(path.read_text())
    values["reward_params"] = {"ride": {"k": 3}}
    path.write_text(json.dumps(values))
    train(replace(config, steps=3 * ROLLOUT, reward_params=Parameters(ride={"k": 3})))
    values, run = json.loads(path.read_text()), json.loads((config.directory / "run.json").read_text())
    assert values["reward_params"] == {"ride": {"k": 3}}
    assert [values["resolved"]["reward_params"][name]["update_fraction"] for name in old] == [1.0, 1.0]
    assert "ride.update_fraction=1.0" in run["repeat"]
    assert "ride_2.update_fraction=1.0" in run["repeat"]
    other = Parameters(ride={"k": 3}, ride_2={"update_fraction": 0.25})
    with pytest.raises(FileExistsError, match="already holds a run with other settings"):
        train(replace(config, steps=4 * ROLLOUT, reward_params=other))


def test_a_new_mixture_keeps_todays_defaults(config):
    for steps in (2 * ROLLOUT, 3 * ROLLOUT):
        train(replace(config, reward="revd+ride", steps=steps, eval_every=0))
        resolved = json.loads((config.directory / "config.json").read_text())["resolved"]["reward_params"]
        assert resolved["ride"]["update_fraction"] == 0.25
        assert resolved["revd"]["merge_duplicates"] is True
    repeat = json.loads((config.directory / "run.json").read_text())["repeat"]
    assert "update_fraction" not in repeat
    assert "merge_duplicates" not in repeat


def test_a_new_run_merges_duplicates_in_every_session(config):
    for steps in (2 * ROLLOUT, 3 * ROLLOUT):
        train(replace(config, steps=steps, eval_every=0))
        values = json.loads((config.directory / "config.json").read_text())
        assert values["resolved"]["reward_params"]["merge_duplicates"] is True
    assert "merge_duplicates" not in json.loads((config.directory / "run.json").read_text())["repeat"]


def test_a_run_from_before_a_bonus_could_yield_does_not(config):
    path = config.directory / "config.json"
    config = replace(config, weight="auto", steps=2 * ROLLOUT, eval_every=0)
    train(replace(config, yield_to_task=False))
    values = json.loads(path.read_text())
    del values["yield_to_task"], values["resolved"]["yield_to_task"]
    path.write_text(json.dumps(values))
    for session in range(2):
        train(replace(config, steps=(3 + session) * ROLLOUT))
        assert json.loads(path.read_text())["resolved"]["yield_to_task"] is False
    assert "--no-yield-to-task" in json.loads((config.directory / "run.json").read_text())["repeat"]


def test_a_new_run_yields_in_every_session(config):
    for steps in (2 * ROLLOUT, 3 * ROLLOUT):
        train(replace(config, weight="auto", steps=steps, eval_every=0))
        assert json.loads((config.directory / "config.json").read_text())["resolved"]["yield_to_task"] is True
    assert "yield-to-task" not in json.loads((config.directory / "run.json").read_text())["repeat"]
    with pytest.raises(FileExistsError, match="yield_to_task is True there and False here"):
        train(replace(config, weight="auto", steps=4 * ROLLOUT, yield_to_task=False))


def test_a_run_that_was_told_not_to_yield_is_told_so_again(config):
    config = replace(config, weight="auto", steps=2 * ROLLOUT, eval_every=0)
    train(replace(config, yield_to_task=False))
    with pytest.raises(FileExistsError, match="yield_to_task is False there and True here"):
        train(replace(config, steps=3 * ROLLOUT))


def test_interrupted_many_times(config):
    for rollouts in (2, 4, 4, 9, 13):
        interrupted(config, rollouts * ROLLOUT)
    train(config)
    assert_complete(config)
    evaluations = [int(row["steps"]) for row in read(config.directory / "evaluations.csv")]
    assert evaluations == [4 * ROLLOUT * index for index in range(1, 5)], "the last one after the last update"


def test_episodes_of_lost_steps_are_taken_back(config):
    interrupted(config, 6 * ROLLOUT)
    assert max(int(row["steps"]) for row in read(config.directory / "episodes.csv")) > 3 * ROLLOUT
    interrupted(config, 4 * ROLLOUT)
    before = [row for row in read(config.directory / "episodes.csv") if int(row["steps"]) <= 3 * ROLLOUT]
    train(config)
    after = [row for row in read(config.directory / "episodes.csv") if int(row["steps"]) <= 3 * ROLLOUT]
    assert after == before


def test_every_session_leaves_one_file_of_events_and_later_ones_hide_what_was_lost(config):
    for rollouts in (5, 7):
        interrupted(config, rollouts * ROLLOUT)
    train(config)
    files = sorted(config.directory.glob("events.out.tfevents.*"))
    assert len(files) == 3
    for file in files:
        assert "exploration/weight" in scalars(file), "none is empty"
    steps = [event.step for event in scalars(config.directory)["exploration/weight"]]
    assert steps == list(range(ROLLOUT, config.steps + 1, ROLLOUT))


def scalars(path):
    """What TensorBoard shows of a file or a directory."""
    found = EventAccumulator(str(path)).Reload()
    return {tag: found.Scalars(tag) for tag in found.Tags()["scalars"]}


def test_a_session_that_does_nothing_leaves_no_file_of_events(config, monkeypatch):
    short = replace(config, steps=2 * ROLLOUT)
    with monkeypatch.context() as patch:
        patch.setattr("revd.runs.train.export", lambda training, directory: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            train(short)
    before = sorted(short.directory.glob("events.*"))
    assert len(before) == 1
    train(short)
    assert sorted(short.directory.glob("events.*")) == before
    assert RunDirectory(short.directory).read_status().state == "finished"


def test_more_steps_resume_the_same_training(config):
    train(replace(config, steps=5 * ROLLOUT))
    train(config)
    assert_complete(config)
    described = json.loads((config.directory / "run.json").read_text())
    assert f"--steps {config.steps} " in described["repeat"], "the command of the longer run"


def test_a_finished_run_is_not_changed(config):
    train(config)
    before = {path.name: path.stat().st_mtime_ns for path in config.directory.iterdir()}
    assert train(config) == config.directory
    assert {path.name: path.stat().st_mtime_ns for path in config.directory.iterdir()} == before


def test_the_policy_of_another_run_is_trained_further(config, tmp_path):
    train(replace(config, steps=5 * ROLLOUT, extrinsic_weight=0.0))
    tuned = replace(
        config, output=tmp_path / "tuned", init_from=config.directory, reward="none", weight="auto", decay=1e-5
    )
    train(replace(tuned, steps=2 * ROLLOUT))
    assert RunDirectory(tuned.directory).read_status().steps == 2 * ROLLOUT
    with pytest.raises(ValueError, match=r"init_from '.*nowhere' contains no checkpoint"):
        train(replace(tuned, output=tmp_path / "other", init_from=tmp_path / "nowhere"))


def wait_for_steps(config, steps, process):
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        path = config.directory / "progress.csv"
        if path.exists() and len(path.read_text().splitlines()) - 1 >= steps // ROLLOUT:
            return
        time.sleep(0.01)
    process.kill()
    raise AssertionError("the run ended before it could be killed, or did not get that far in two minutes")


def test_two_processes_do_not_write_one_run(config):
    directory = RunDirectory(config.directory)
    with directory.locked(), pytest.raises(FileExistsError, match="another process is training in"):
        train(config)
    assert not directory.config.exists()
    train(config)
    assert_complete(config)


def test_a_run_that_was_taken_over_stops_and_changes_no_files(config):
    """As after a machine's sleep: another process has written its lease, and its progress."""
    directory = RunDirectory(config.directory)

    def report(progress):
        if progress.steps == 5 * ROLLOUT:
            (config.directory / ".lease-2").write_text("{}")
            directory.status.write_text("of the taker")

    before = 3 * ROLLOUT
    with pytest.raises(LeaseLostError, match="is now held by another process"):
        train(config, report=report)
    assert directory.status.read_text() == "of the taker"
    assert directory.checkpoints.newest_steps == before, "none of its own after it was taken over"


@pytest.fixture
def taken(config, monkeypatch):
    """Lets another process take the run over."""
    monkeypatch.setattr("revd.runs.writer.SECONDS_BETWEEN_STATUSES", 1e9)

    def take(*arguments, **options):
        (config.directory / ".lease-2").write_text("{}")
        (config.directory / "status.json").write_text("of the taker")

    return take


def test_the_end_of_one_who_lost_the_run_is_not_noted(config, taken):
    def report(progress):
        taken()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config, report=report)
    assert (config.directory / "status.json").read_text() == "of the taker"
    assert json.loads((config.directory / "run.json").read_text())["state"] == "running"


def test_one_who_lost_the_run_exports_nothing(config, taken, monkeypatch):
    monkeypatch.setattr(Checkpoints, "write", taken)
    with pytest.raises(LeaseLostError):
        train(replace(config, steps=ROLLOUT, eval_every=0))
    assert (config.directory / "status.json").read_text() == "of the taker"
    assert not (config.directory / "model.zip").exists()


def test_the_last_look_is_before_the_run_is_called_finished(config, taken, monkeypatch):
    monkeypatch.setattr("revd.runs.train.export", taken)
    with pytest.raises(LeaseLostError):
        train(replace(config, steps=ROLLOUT))
    assert (config.directory / "status.json").read_text() == "of the taker"


def test_one_who_lost_the_run_writes_no_evaluation(config, taken):
    with pytest.raises(LeaseLostError):
        train(config, report=lambda progress: taken() if progress.steps == 4 * ROLLOUT else None)
    assert not (config.directory / "evaluations.csv").exists()


def test_one_who_lost_the_run_replaces_no_log(config, taken):
    """After the first rollout the logger has new columns: those of the first update."""
    with pytest.raises(LeaseLostError):
        train(config, report=lambda progress: taken())
    assert "train/n_updates" not in (config.directory / "progress.csv").read_text()


def test_one_who_lost_the_run_while_it_was_loaded_starts_nothing(config, taken, monkeypatch):
    interrupted(config, 5 * ROLLOUT)
    before = (config.directory / "progress.csv").read_text()

    def restore(training, snapshot):
        (config.directory / ".lease-3").write_text("{}")

    monkeypatch.setattr("revd.training.session.Training.restore", restore)
    with pytest.raises(LeaseLostError):
        train(config)
    assert (config.directory / "progress.csv").read_text() == before
    assert "resumed" not in json.loads((config.directory / "run.json").read_text())


def test_the_command_that_lost_its_run_says_so_in_one_line(config, monkeypatch, capsys):
    def lose(run, config, report=None, trust=False):
        raise LeaseLostError("the run is now held by another process")

    monkeypatch.setattr("revd.runs.train.train_in", lose)
    with pytest.raises(SystemExit) as error:
        cli.main([*config.command().split()[1:], "--no-progress"])
    assert error.value.code == 1
    assert capsys.readouterr().err == "revd: the run is now held by another process\n"


@pytest.mark.parametrize("damage", [b"\xff\xfe\0\n", b"x,y\n", b'"\n', b"9999,1,2\n"])
def test_logs_that_are_damaged_after_the_checkpoint_do_not_matter(config, damage):
    interrupted(config, 8 * ROLLOUT)
    for name in ("progress.csv", "episodes.csv", "evaluations.csv"):
        with (config.directory / name).open("ab") as file:
            file.write(damage)
    train(config)
    assert_complete(config)


def test_logs_that_are_damaged_before_it_are_named(config):
    interrupted(config, 8 * ROLLOUT)
    path = config.directory / "episodes.csv"
    lines = path.read_bytes().split(b"\n")
    lines[1] = b"\xff,1,2,3"
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(ValueError, match=r"episodes\.csv is damaged: line 2 is not a row"):
        train(config)


@pytest.mark.parametrize("left", [0, 1, 3])
def test_rows_that_are_missing_before_the_checkpoint_are_reported(config, left):
    interrupted(config, 8 * ROLLOUT)
    path = config.directory / "progress.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[: left + 1]) if left else "")
    said = rf"progress\.csv' has lost rows: it ends after {left * ROLLOUT} steps, the checkpoint is of {6 * ROLLOUT}"
    with pytest.warns(UserWarning, match=said):
        train(config)


def test_a_worker_ends_with_its_launcher(config):
    long = replace(config, steps=10_000 * ROLLOUT)
    process = subprocess.Popen([sys.executable, "-m", "revd.runs.worker"], stdin=subprocess.PIPE, text=True)
    process.stdin.write(long.to_json() + "\n")
    process.stdin.flush()
    wait_for_steps(long, ROLLOUT, process)
    process.stdin.close()  # what the system does with a launcher's pipes when it is killed
    try:
        process.wait(timeout=60)
    finally:
        process.kill()
    status = RunDirectory(long.directory).read_status()
    assert (status.state, status.error) == ("interrupted", "stopped by the user")


def test_a_run_that_died_after_its_last_step_is_finished_as_it_was(config):
    train(config)
    directory = RunDirectory(config.directory)
    before = directory.read_status()
    directory.write_status(replace(before, state="running"))
    train(config)
    after = directory.read_status()
    assert (after.state, after.steps) == ("finished", before.steps)
    assert after.episode_return == pytest.approx(before.episode_return)


def test_a_fine_tuned_run_resumes_without_its_source(config, tmp_path):
    source = replace(config, output=tmp_path / "source", steps=ROLLOUT)
    train(source)
    tuned = replace(config, init_from=source.directory)
    interrupted(tuned, 8 * ROLLOUT)
    source.directory.rename(tmp_path / "moved")
    train(tuned)
    assert_complete(tuned)


def test_another_normalisation_than_the_sources_is_refused(config, tmp_path):
    train(replace(config, output=tmp_path / "source", steps=ROLLOUT))
    with pytest.raises(ValueError, match="trained on normalised observations; use normalize"):
        train(replace(config, normalize="none", init_from=tmp_path / "source"))
    assert not config.directory.exists()


def meanwhile(monkeypatch, happens):
    """Let something happen after a training's first look at its directory, while it builds its environments."""
    prepare = train_module.prepare

    def slow(config):
        monkeypatch.setattr(train_module, "prepare", prepare)
        happens()
        return prepare(config)

    monkeypatch.setattr(train_module, "prepare", slow)


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file() and "lease" not in path.name}


def test_a_run_that_another_process_just_finished_is_not_changed(config, monkeypatch):
    short = replace(config, steps=2 * ROLLOUT)
    after = []
    meanwhile(monkeypatch, lambda: after.append(contents(train(short))))
    assert train(short) == config.directory
    assert after == [contents(config.directory)]


def test_another_run_that_has_just_begun_there_is_not_changed(config, monkeypatch):
    other = replace(config, seed=9)
    meanwhile(monkeypatch, lambda: interrupted(other, 4 * ROLLOUT))
    with pytest.raises(FileExistsError, match=r"already holds a run with other settings \(seed is 9 there and 0 here"):
        train(config)
    directory = RunDirectory(config.directory)
    assert (directory.read_config(), directory.read_status().state) == (other, "interrupted")
    train(other)
    assert_complete(other)
