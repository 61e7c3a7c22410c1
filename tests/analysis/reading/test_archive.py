import gzip
import json

import numpy as np
import pytest

from revd.analysis.reading.archive import COLUMNS, FORMAT, read_archive
from revd.analysis.reading.runs import load_runs
from revd.analysis.reading.sources import find_runs
from revd.analysis.statistics.figure_data import analyse_runs
from revd.analysis.statistics.scores import final_score
from revd.analysis.writing.archive import write_archive
from tests.analysis.reading.searches import write_search
from tests.analysis.support import write_run

BONUS = "time/fps,exploration/bonus_share,exploration/time_fraction\n1,0.25,0.02\n"


@pytest.fixture
def runs(tmp_path):
    """Finished runs of three variants, an unfinished run and a damaged one."""
    noise = np.random.default_rng(0)
    for seed in (1, 2):
        seconds = {"seconds": {"update": 7.25}}
        write_run(tmp_path / f"a/p{seed}", seed=seed, steps=5000, returns=noise.normal(size=600), status=seconds)
        for weight in (0.1, "auto"):
            returns = noise.normal(size=400)
            path = tmp_path / f"a/r{seed}-{weight}"
            write_run(path, method="PPO+REVD", seed=seed, steps=5000, returns=returns, weight=weight)
            (path / "progress.csv").write_text(BONUS)
    write_run(tmp_path / "a/late", seed=3, steps=5000, returns=[1.5] * 9, state="running", status={"steps": 95})
    damaged = write_run(tmp_path / "a/bad", seed=4, returns=[1] * 50)
    (damaged / "episodes.csv").write_text("steps,return\n10,1\noops\n")
    return load_runs(tmp_path)


@pytest.fixture
def path(runs, tmp_path):
    return write_archive(runs, tmp_path / "new" / "runs.csv.gz")


def test_everything_but_single_episodes_is_as_in_the_directories(runs, path):
    found = list(find_runs([path]).runs)
    for name in ("task", "method", "seed", "total_steps", "reached", "state", "sparse", "error", "damage", "seconds"):
        assert [getattr(run, name) for run in found] == [getattr(run, name) for run in runs], name
    np.testing.assert_allclose([final_score(run) for run in found], [final_score(run) for run in runs], atol=1e-6)
    assert sum(np.isfinite(final_score(run)) for run in found) == 6
    np.testing.assert_equal([run.bonus for run in found], [run.bonus for run in runs])
    assert [run.directory.relative_to(path).name for run in found] == [run.directory.name for run in runs]
    labels = [[run.label for run in analyse_runs(each).runs] for each in (found, runs)]
    assert labels[0] == labels[1]
    assert "PPO+REVD (weight=auto)" in labels[0]
    assert "output" not in found[0].settings
    assert "--output" not in found[0].origin["repeat"]


def test_curves_are_those_of_the_directories_within_a_bin(runs, path):
    before, after = analyse_runs(runs).figures[0], analyse_runs(read_archive(path)).figures[0]
    (curves,), (again,) = before.curves.values(), after.curves.values()
    for method, curve in curves.items():
        np.testing.assert_array_equal(again[method].steps, curve.steps)
        np.testing.assert_allclose(again[method].mean, curve.mean, atol=1e-6)


def test_equal_runs_give_equal_bytes(runs, path, tmp_path):
    assert write_archive(runs, tmp_path / "other.csv.gz").read_bytes() == path.read_bytes()
    again = write_archive(find_runs([path]).runs, tmp_path / "again.csv.gz")
    assert again.read_bytes() == path.read_bytes(), "an archive of an archive is the same"


def test_a_long_run_takes_a_thousand_rows(tmp_path):
    write_run(tmp_path / "run", steps=400_000, returns=np.arange(40_000.0))
    path = write_archive(load_runs(tmp_path), tmp_path / "runs.csv.gz")
    rows = [line for line in gzip.decompress(path.read_bytes()).decode().splitlines() if line.startswith("run,")]
    assert len(rows) == 1001
    assert rows[1] == "run,MountainCar-v0,PPO,1,400,40,19.5"


def test_directories_and_archives_are_read_together(path, tmp_path):
    write_run(tmp_path / "b", task="CartPole-v1")
    assert len(find_runs([path, path, tmp_path / "b"]).runs) == 9


def test_searches_are_refused(tmp_path):
    search = write_search(tmp_path / "s", trials=2)
    with pytest.raises(ValueError, match="trial of a search; the trials of searches cannot be archived"):
        write_archive(find_runs([search]).runs, tmp_path / "runs.csv.gz")


def edited(path, edit):
    """Write the archive anew with its lines changed."""
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    edit(lines)
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


def with_header(**changes):
    def edit(lines):
        header = json.loads(lines[1][1:]) | changes
        lines[1] = "# " + json.dumps({name: value for name, value in header.items() if value != "drop"})

    return edit


def with_last_row(row):
    return lambda lines: lines.__setitem__(-1, row)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda lines: lines.__setitem__(0, "# something"), f"its first line must be '{FORMAT}', got '# something'"),
        (lambda lines: lines.clear(), "its first line must be"),
        (lambda lines: lines.__setitem__(1, "# {"), "line 2 is no JSON"),
        (lambda lines: lines.__setitem__(1, "# []"), "line 2 must be a JSON object"),
        (lambda lines: lines.insert(1, lines[1]), "line 3 is a second run"),
        (lambda lines: lines.__delitem__(slice(9, None)), "it has no table"),
        (lambda lines: lines.pop(), r"run '.*' has \d+ episodes instead of \d+"),
        (lambda lines: lines.pop(9), "the columns must be run, task"),
        (lambda lines: lines.append(lines[-1]), "has impossible numbers"),
        (lambda lines: lines.append("x"), "is not a row of 7 values about one of the runs"),
        (lambda lines: lines.append(",".join(COLUMNS)), "is not a row of 7 values about one of the runs"),
        (with_last_row('"'), "the table cannot be read"),
        (with_last_row("p1,CartPole-v1,PPO,1,9,1,0"), "has another task, method or seed than its run 'p1'"),
        (with_last_row("p1,MountainCar-v0,PPO,1,9000,x,0"), "has a wrong number"),
        (with_last_row("p1,MountainCar-v0,PPO,1,9000,1,nan"), "return must be a finite number, got nan"),
        (with_last_row("p1,MountainCar-v0,PPO,1,9000,9001,1"), "9001 episodes until step 9000"),
        (with_header(settings="drop"), "has no 'settings'"),
        (with_header(settings=[]), "settings must be a JSON object"),
        (with_header(error=3), "error must be text or null, got 3"),
        (with_header(state="a\nb"), "state must be text on one line"),
        (with_header(reached=-1), "reached must be an integer"),
        (with_header(seconds={"update": "x"}), "seconds of .* must be a finite number, got 'x'"),
        (with_header(run="../x"), r"run must be a relative path without '..'"),
        (with_header(run="/x"), r"run must be a relative path without '..'"),
    ],
)
def test_a_damaged_archive_is_refused_with_the_reason(edit, said, path):
    with pytest.raises(ValueError, match=f"runs.csv.gz' is no valid archive of runs: .*{said}"):
        read_archive(edited(path, edit))


def test_a_file_that_was_cut_off_or_changed_is_refused(path):
    data = path.read_bytes()
    for damaged in (data[:-9], data[:-6] + b"xx" + data[-4:], b"text", data[:200] + b"!" + data[201:]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="it cannot be decompressed, so it was cut off or changed"):
            find_runs([path])


def test_a_file_that_would_fill_the_memory_is_refused(path, monkeypatch):
    monkeypatch.setattr("revd.analysis.reading.archive._MAX_EPISODES", 1000)
    with pytest.raises(ValueError, match="it has more than 1,000 episodes"):
        read_archive(path)
    monkeypatch.setattr("revd.analysis.reading.archive._MAX_BYTES", 1000)
    with pytest.raises(ValueError, match="it is larger than 1,000 bytes"):
        read_archive(path)
