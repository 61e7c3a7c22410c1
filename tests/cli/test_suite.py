from dataclasses import replace

import pytest

from revd import cli
from revd.analysis.reading.runs import load_runs
from revd.analysis.writing.archive import write_archive
from revd.cli.suite import parse_shard
from revd.runs.directory import Status
from revd.suites.grids import suite_runs
from revd.suites.scheduler import RunProgress
from tests.analysis.support import write_run
from tests.support.bullet import needs_pybullet


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def fake_train_all(seen, *, failing=()):
    def train_all(configs, *, jobs, watch, retries, launcher):
        seen.append((configs, jobs, retries, launcher))
        states = [("failed", "ValueError: no") if config.seed in failing else ("finished", None) for config in configs]
        runs = [
            RunProgress(config=config, status=Status(state=state, error=error))
            for config, (state, error) in zip(configs, states, strict=True)
        ]
        watch(runs)
        return runs

    return train_all


def test_without_a_name_the_suites_are_listed(capsys):
    cli.main(["suite"])
    text = capsys.readouterr().out
    assert "paper-bullet-sparse" in text
    assert "360" in text


def test_a_dry_run_starts_nothing(capsys, tmp_path):
    cli.main(["suite", "smoke", "--seeds", "4", "--tasks", "classic/cart-pole", "--steps", "4e4", "--dry-run"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("revd train --task classic/cart-pole --reward none --steps 40000 --seed 4")
    assert lines[-1] == "6 runs, 240,000 steps in all; nothing was started"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--jobs", "-1"], "jobs must be at least 0, got -1"),
        (["--retries", "-1"], "retries must be at least 0, got -1"),
        (["--seeds", "1", "1"], "two of the runs have the same output"),
    ],
)
def test_a_dry_run_refuses_what_would_be_refused(flags, message, capsys):
    with pytest.raises(SystemExit) as error:
        cli.main(["suite", "smoke", "--dry-run", *flags])
    assert error.value.code == 2
    assert message in capsys.readouterr().err


def test_flags_reach_the_launcher(monkeypatch, capsys):
    seen = []
    monkeypatch.setattr("revd.suites.scheduler.train_all", fake_train_all(seen))
    cli.main(["suite", "smoke", "--steps", "9", "--jobs", "3", "--retries", "2", "--shard", "2/8", "--output", "x"])
    ((configs, jobs, retries, _),) = seen
    assert (len(configs), jobs, retries) == (3, 3, 2)
    assert {config.steps for config in configs} == {9}
    assert "Next: revd figure x, revd report x" in capsys.readouterr().out


def archive_of(configs, path, *, interrupted=0):
    """An archive of runs of these trainings as if of another machine; the last so many were interrupted."""
    for index, config in enumerate(configs):
        fake = {name: value for name, value in config.to_dict().items() if name not in ("task", "seed", "steps")}
        write_run(
            path.parent / "there" / config.task / config.directory.name,
            task=config.task,
            method=config.method,
            seed=config.seed,
            steps=config.steps,
            returns=[1] * 100,
            state="finished" if index < len(configs) - interrupted else "interrupted",
            **fake,
        )
    return write_archive(load_runs(path.parent / "there"), path)


def test_a_suite_is_continued_on_another_machine(monkeypatch, tmp_path):
    """The runs of its archive are left out; a run that did not finish there is not."""
    runs = [replace(config, output=tmp_path / config.directory.name) for config in suite_runs("smoke")[:6]]
    path = archive_of(runs, tmp_path / "x.csv.gz", interrupted=1)
    seen = []
    monkeypatch.setattr("revd.suites.scheduler.train_all", fake_train_all(seen))
    cli.main(["suite", "smoke", "--archived", str(path)])
    ((configs, *_),) = seen
    assert [config.directory for config in configs] == [config.directory for config in suite_runs("smoke")[5:]]
    # Longer and shorter runs are other runs.
    for steps in ("50000", "30000"):
        cli.main(["suite", "smoke", "--archived", str(path), "--steps", steps])
        assert len(seen[-1][0]) == len(suite_runs("smoke"))


def test_an_archived_run_with_other_settings_is_refused(capsys, tmp_path):
    path = archive_of([replace(suite_runs("smoke")[0], n_envs=3)], tmp_path / "x.csv.gz")
    with pytest.raises(SystemExit) as error:
        cli.main(["suite", "smoke", "--dry-run", "--archived", str(path)])
    assert error.value.code == 2
    assert "is a run with other settings (n_envs is 3 there and 10 here)" in " ".join(capsys.readouterr().err.split())


class FakeCluster:
    """In place of a Ray cluster; `options` holds its arguments."""

    def __init__(self, **options):
        self.options = options

    def __enter__(self):
        return self

    def __exit__(self, *error):
        """Nothing to close."""

    def __str__(self):
        return "a Ray cluster of 2 nodes, 8 CPUs, 1 GPUs"


def test_a_suite_on_a_ray_cluster(monkeypatch, capsys):
    pytest.importorskip("ray", reason="Ray has no release for this version of Python")
    seen = []
    monkeypatch.setattr("revd.suites.scheduler.train_all", fake_train_all(seen))
    monkeypatch.setattr("revd.suites.launchers.ray.RayLauncher", FakeCluster)
    flags = ["--launcher", "ray", "--address", "head:6379", "--cpus-per-run", "2", "--gpus-per-run", "0.25", "--fetch"]
    cli.main(["suite", "smoke", "--seeds", "0", *flags])
    ((configs, jobs, _, launcher),) = seen
    assert jobs == len(configs) == 12, "all at once: the cluster knows how many it has room for"
    assert launcher.options == {"address": "head:6379", "cpus_per_run": 2.0, "gpus_per_run": 0.25, "fetch": True}
    assert {config.emulator_threads for config in configs} == {2}, "as many as CPUs are reserved for a run"
    assert capsys.readouterr().out.startswith("12 runs on a Ray cluster of 2 nodes, 8 CPUs, 1 GPUs\n")


def test_ray_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr("revd.suites.launchers.config.find_spec", lambda name: None)
    with pytest.raises(SystemExit) as error:
        cli.main(["suite", "smoke", "--launcher", "ray"])
    assert error.value.code == 2
    assert capsys.readouterr().err == "revd: launcher 'ray' needs Ray: pip install 'revd[ray]'\n"


def test_a_shard_without_runs_is_done_at_once(capsys):
    cli.main(["suite", "smoke", "--shard", "30/60"])
    assert capsys.readouterr().out.startswith("0 runs")


def test_failures_are_named_and_change_the_exit_code(monkeypatch, capsys):
    monkeypatch.setattr("revd.suites.scheduler.train_all", fake_train_all([], failing={1}))
    with pytest.raises(SystemExit) as error:
        cli.main(["suite", "smoke", "--methods", "ppo"])
    assert error.value.code == 1
    assert "failed: runs/smoke/classic-mountain-car/ppo-none-seed1: ValueError: no" in capsys.readouterr().out


def test_a_run_that_somebody_else_interrupted_is_named_too(monkeypatch, capsys):
    def train_all(configs, **options):
        states = ["interrupted", *["finished"] * (len(configs) - 1)]
        statuses = [Status(state=state) for state in states]
        return [RunProgress(config=config, status=status) for config, status in zip(configs, statuses, strict=True)]

    monkeypatch.setattr("revd.suites.scheduler.train_all", train_all)
    with pytest.raises(SystemExit) as error:
        cli.main(["suite", "smoke", "--methods", "ppo"])
    assert error.value.code == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "see its log.txt" in line] == [
        "interrupted: runs/smoke/classic-mountain-car/ppo-none-seed0: it ended before its last step (see its log.txt)"
    ]


@pytest.mark.parametrize("text", ["2", "a/b", "1/", "-1/2"])
def test_wrong_shards(text):
    with pytest.raises(ValueError, match="shard must be I/N"):
        parse_shard(text)


def test_tasks_are_listed_with_their_spaces(capsys, monkeypatch):
    monkeypatch.setattr("revd.cli.tasks.installed", lambda task: task.extra not in ("minigrid", "bullet"))
    cli.main(["tasks"])
    text = capsys.readouterr().out
    (assault,) = [line for line in text.splitlines() if "atari/assault" in line]
    assert "Box(4, 84, 84)" in assault
    assert "Discrete(7)" in assault
    assert "revd[minigrid]" in text
    assert "Shoot" in text
    monkeypatch.setenv("COLUMNS", "80")
    cli.main(["tasks"])
    narrow = capsys.readouterr().out
    assert "Box(4, 84, 84)" in narrow, "spaces are whole, lines about tasks are left out"
    assert "Shoot" not in narrow


@needs_pybullet
def test_continuous_actions_are_listed_with_their_shape(capsys):
    cli.main(["tasks"])
    (hopper,) = [line for line in capsys.readouterr().out.splitlines() if "bullet/hopper" in line]
    assert "Box(15,)" in hopper
    assert "Box(3,)" in hopper


def test_an_archive_that_does_not_exist_is_one_line(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["suite", "smoke", "--archived", "nowhere.csv.gz", "--dry-run"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == "revd: the archive 'nowhere.csv.gz' does not exist\n"
