import re

import pytest

from revd.analysis.reading.archive import read_archive
from revd.analysis.reading.runs import load_run, load_runs
from revd.analysis.statistics.figure_data import analyse_runs
from revd.analysis.writing.archive import write_archive
from revd.analysis.writing.figure_files import ReportFiles, write_figures
from revd.analysis.writing.hand_written import hand_written_parts
from revd.analysis.writing.page import write_page
from revd.analysis.writing.report import report
from tests.analysis.support import fake_save, write_json, write_run

PROGRESS = "time/fps,exploration/bonus_share,exploration/time_fraction\n1,0.0,0.02\n1,0.5,0.04\n1,,\n"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page about two methods on one task, one run on another task, a failed run and an unfinished one."""
    folder = tmp_path_factory.mktemp("report")
    runs = folder / "runs"
    for seed, final in ((1, 10), (2, 20)):
        write_run(runs / f"a{seed}", seed=seed, returns=[final] * 20)
        directory = write_run(runs / f"b{seed}", method="PPO+REVD", seed=seed, returns=[final + 100] * 20)
        (directory / "progress.csv").write_text(PROGRESS)
    write_run(runs / "c", task="CartPole-v1", returns=[0.5] * 20, sparse=0.9)
    error = {"error": "RuntimeError: a | b", "steps": 70}
    write_run(runs / "d", method="PPO+REVD", task="CartPole-v1", sparse=0.9, state="failed", status=error)
    write_run(runs / "e", method="PPO+REVD", seed=3, returns=[1] * 5, state="running")
    data = analyse_runs(load_runs(runs))
    path = folder / "page.md"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("revd.analysis.writing.figure_files.save_figure", fake_save)
        files = write_figures(data, folder / "figures")
    path.write_text(report(data, files, path, unreadable=["'x' is no run"]))
    return path


def test_what_was_run(page):
    text = page.read_text()
    assert "7 runs, 5 of them finished: 2 tasks, 2 methods." in text
    assert "| MountainCar-v0 | PPO | 1, 2 | 1,000 | 2 of 2 |" in text
    assert "| MountainCar-v0 | PPO+REVD | 1, 2, 3 | 1,000 | 2 of 3 |" in text
    assert "| CartPole-v1, sparse 0.9 | PPO | 1 | 1,000 | 1 of 1 |" in text


def test_final_returns(page):
    text = page.read_text()
    # The runs are shorter than the hundred episodes of which the mean must reach the threshold.
    assert "| PPO | 2 | 15.0 | 10.0 to 20.0 | 0 of 2 | more than 1,000 | — |" in text
    beaten = "1.00 (1.00 to 1.00)"
    assert f"| PPO+REVD | 2 | 115.0 | 110.0 to 120.0 | 0 of 2 | more than 1,000 | {beaten} |" in text
    assert "| PPO | 1 | 0.50 | — | — |" in text
    assert "| PPO+REVD | 0 | — | — | — |" in text


def test_what_people_wrote_is_kept(tmp_path):
    write_run(tmp_path / "run", returns=[1] * 9)
    data = analyse_runs(load_runs(tmp_path))
    first = report(data, ReportFiles(), tmp_path / "page.md")
    assert hand_written_parts(first) == {"introduction": "# Report", "findings": ""}
    parts = {"introduction": "# Title\n\nQuestion?", "findings": "## What it shows\n\n- a\n\n- b"}
    second = report(data, ReportFiles(), tmp_path / "page.md", parts=parts)
    assert hand_written_parts(second) == parts
    assert "# Report" not in second
    assert report(data, ReportFiles(), tmp_path / "page.md", parts=hand_written_parts(second)) == second
    generated = second.replace(parts["findings"] + "\n", "").replace(parts["introduction"], "# Report")
    assert generated == first, "nothing else has changed"


def test_settings_that_a_label_leaves_out_are_listed(tmp_path):
    parameters = {"init": "torch", "merge_duplicates": False}
    write_run(tmp_path / "a", method="PPO+REVD", weight="auto")
    write_run(tmp_path / "b", method="PPO+REVD", weight=0.1, reward_params=parameters)
    text = report(analyse_runs(load_runs(tmp_path)), ReportFiles(), tmp_path / "page.md")
    assert "- PPO+REVD (weight=0.1): also init=torch, merge_duplicates=false\n" in text
    assert "- PPO+REVD (weight=auto): also init=default, merge_duplicates=default\n" in text


def test_hours_are_the_sum_over_runs(tmp_path):
    for seed in (1, 2):
        seconds = {"seconds": {"update": 3600, "bonus": 900}}
        write_run(tmp_path / str(seed), seed=seed, returns=[1] * 9, status=seconds)
    text = report(analyse_runs(load_runs(tmp_path)), ReportFiles(), tmp_path / "page.md")
    assert "| 2 | 2.50 | abc123 |" in text


def test_links_lead_to_files(page):
    links = re.findall(r"\]\(([^)]+)\)", page.read_text())
    assert len([name for name in links if name.endswith(".png")]) == 3
    texts = {name: (page.parent / name).read_text() for name in links if not name.endswith(".pdf")}
    assert all("PPO" in text for name, text in texts.items() if name.endswith(".csv"))
    curves = [set(text.split("\n")) for text in texts.values() if "environment steps" in text]
    shown = [{"PPO", "PPO+REVD", "MountainCar-v0"}, {"PPO", "CartPole-v1"}]
    assert [names - {"environment steps", "episode return"} for names in curves] == shown
    assert not any(name.startswith("/") for name in links)


def test_the_bonus(page):
    section = page.read_text().partition("## The bonus")[2].partition("##")[0]
    assert "| MountainCar-v0 | PPO+REVD | 25.0% | 3.0% |" in section
    assert section.count("| MountainCar-v0") == 1


def test_failures(page):
    text = page.read_text()
    assert "| CartPole-v1, sparse 0.9 | PPO+REVD | 1 | failed | 70 of 1,000 | RuntimeError: a \\| b |" in text
    assert "| MountainCar-v0 | PPO+REVD | 3 | running | 50 of 1,000 |" in text
    assert "- 'x' is no run" in text
    assert "- PPO+REVD on MountainCar-v0: cut at 50 steps" in text


def test_how_to_repeat_it(page):
    text = page.read_text()
    assert "| 7 | — | abc123 | 3.11.7 | revd 0.1.0, torch 2.13.0 | Linux |" in text
    assert "revd train --task MountainCar-v0 --reward none --seed 1  # and seeds 2\n" in text
    assert "--output" not in text


def test_runs_with_little_information(tmp_path):
    directory = write_run(tmp_path / "run", state="failed")
    write_json(directory / "run.json", {"git": None})
    data = analyse_runs(load_runs(tmp_path))
    text = report(data, ReportFiles(), tmp_path / "page.md")
    assert "1 run, 0 of them finished: 1 task, 1 method." in text
    assert "| 1 | — | — | — | — | — |" in text
    assert "None: all runs failed, are damaged, or have no finished episode." in text
    assert "## Damaged runs" not in text
    assert "## The bonus" not in text


def test_no_failures(tmp_path):
    write_run(tmp_path / "run", returns=[1] * 9)
    text = report(analyse_runs(load_runs(tmp_path)), ReportFiles(), tmp_path / "page.md")
    assert "## Failed and unfinished runs\n\nNone.\n" in text


def test_means_of_the_bonus_are_over_logged_rollouts(tmp_path):
    directory = write_run(tmp_path / "run")
    (directory / "progress.csv").write_text(PROGRESS + "1,0.9")
    found = load_run(directory).bonus
    assert found == pytest.approx({"exploration/bonus_share": 0.25, "exploration/time_fraction": 0.03})


def test_the_machine_of_a_run_is_named(tmp_path):
    directory = write_run(tmp_path / "run", returns=[1] * 9)
    write_json(directory / "run.json", {"platform": "Linux-x86_64", "processor": "AMD EPYC, 2 cores"})
    archived = read_archive(write_archive(load_runs(tmp_path), tmp_path / "runs.csv.gz"))
    text = report(analyse_runs(archived), ReportFiles(), tmp_path / "page.md")
    assert "| Linux-x86_64, AMD EPYC, 2 cores |" in text


def test_untrusted_text_is_neither_run_nor_rendered(tmp_path):
    error = {"error": "<script>alert(1)</script>"}
    directory = write_run(tmp_path / "run", task="<b>x</b>", state="failed", status=error)
    write_json(directory / "run.json", {"repeat": "rm -rf ~", "platform": "<img src=x>"})
    text = report(analyse_runs(load_runs(tmp_path)), ReportFiles(), tmp_path / "page.md", unreadable=["<i>"])
    assert "rm -rf" not in text
    assert "1 command left out: `run.json` has no `revd train` command." in text
    assert "<" not in re.sub("<!-- (written by hand: [a-z]+|end) -->", "", text)
    assert "&lt;script&gt;alert(1)" in text


def test_a_command_that_cannot_be_parsed_is_left_out(tmp_path):
    directory = write_run(tmp_path / "run", returns=[1] * 9)
    write_json(directory / "run.json", {"repeat": "revd train --task 'open"})
    assert "1 command left out" in report(analyse_runs(load_runs(tmp_path)), ReportFiles(), tmp_path / "page.md")


@pytest.fixture(scope="module")
def suite_page(tmp_path_factory):
    """A page about tasks of two families, and methods ahead of PPO, behind it, like it, and perhaps a little better."""
    folder = tmp_path_factory.mktemp("suite")
    for task in ("minigrid/door-key-8x8", "bullet/hopper"):
        for seed in (1, 2, 3):
            for method, gain in (("PPO", 0), ("PPO+REVD", 9), ("PPO+NOISE", -9), ("PPO+RND", 0), ("PPO+ICM", 0.5)):
                path = folder / "runs" / task / f"{method}{seed}"
                write_run(path, task=task, method=method, seed=seed, returns=[seed + gain] * 100)
    page = folder / "page.md"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("revd.analysis.writing.figure_files.save_figure", fake_save)
        write_page(analyse_runs(load_runs(folder / "runs")), page)
    return page


def test_all_tasks_are_in_one_table(suite_page):
    text = suite_page.read_text()
    table = text[text.index("### All tasks") : text.index("### bullet/hopper")]
    assert "| method | seeds | Hopper, 1,000 steps | Door Key 8x8, 1,000 steps |" in table
    assert "| PPO+REVD | 3 | **11.0 (10.0 to 12.0)** | **11.0 (10.0 to 12.0)** |" in table
    assert "| PPO+NOISE | 3 | -7.00 (-8.00 to -6.00) | -7.00 (-8.00 to -6.00) |" in table


def test_it_says_who_is_not_ahead(suite_page):
    said = "Ahead of PPO: PPO+REVD. Not ahead of PPO, and not behind: PPO+ICM, PPO+RND. Behind PPO: PPO+NOISE."
    assert suite_page.read_text().count(said) == 2


def test_families_are_compared_without_curves(suite_page):
    text = suite_page.read_text()
    section = text[text.index("### All families of tasks") : text.index("### PyBullet")]
    assert "![All families of tasks: comparison over tasks](page-figures/overall-comparison.png)" in section
    assert "learning curves" not in section
    assert (suite_page.parent / "page-figures" / "overall-scores.csv").exists()
    assert not (suite_page.parent / "page-figures" / "overall.csv").exists()
