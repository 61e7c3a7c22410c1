import csv
import json
import re

import numpy as np
import pytest

from revd.analysis.drawing.captions import search_caption
from revd.analysis.drawing.search_figure import search_figure
from revd.analysis.reading.searches import load_search
from revd.analysis.reading.sources import find_runs
from revd.analysis.statistics.figure_data import analyse_runs
from revd.analysis.writing.figure_files import ReportFiles, write_figures
from revd.analysis.writing.report import report
from tests.analysis.reading.searches import SPACE, write_search
from tests.analysis.support import fake_save, write_json, write_run


def load(directory):
    return load_search(directory, find_runs([directory]).runs)


@pytest.fixture(scope="module")
def thirty(tmp_path_factory):
    return write_search(tmp_path_factory.mktemp("searches") / "thirty", trials=30, seeds=2)


def marks(axes):
    """Positions of the marks of each kind, by marker and fill style."""
    return {(line.get_marker(), line.get_fillstyle()): line.get_xydata() for line in axes.lines}


def test_a_search_is_read(thirty):
    search = load(thirty)
    assert [(parameter.name, parameter.bounds, parameter.is_log) for parameter in search.parameters] == [
        ("weight", (0.001, 10.0), True),
        ("alpha", (0.1, 0.9), False),
        ("k", (1.0, 15.0), True),
        ("boundary", None, False),
    ]
    assert (len(search.trials), len(search.runs), search.seeds, search.metric) == (30, 60, 2, "final return")
    assert search.finished[0] == search.best[0]
    assert search.trials[29].state == "failed"
    assert search.trials[29].score is None
    assert [run.seed for run in search.runs_of(search.trials[3])] == [0, 1]


def test_scores_are_drawn_against_each_parameter(thirty):
    search = load(thirty)
    panels = {axes.get_title(loc="left"): axes for axes in search_figure(search).subfigs[0].axes}
    assert list(panels) == list(SPACE)
    assert [axes.get_xscale() for axes in panels.values()] == ["log", "linear", "log", "linear"]
    with (thirty / "results.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["state"] == "finished"]
    expected = sorted((float(row["weight"]), float(row["score"])) for row in rows)
    found = marks(panels["weight"])
    np.testing.assert_allclose(sorted(map(tuple, found["o", "full"])), expected)
    best = max(rows, key=lambda row: float(row["score"]))
    np.testing.assert_allclose(found["*", "full"], [(float(best["weight"]), float(best["score"]))])
    assert len(found["x", "full"]) == sum(trial.state == "pruned" for trial in search.trials) > 0
    assert [label.get_text() for label in panels["boundary"].get_xticklabels()] == ["episode", "rollout"]
    assert {round(place) for place, _ in marks(panels["boundary"])["o", "full"]} == {0, 1}


def test_the_legend_has_kinds_and_not_trials(thirty):
    figure = search_figure(load(thirty))
    assert [text.get_text() for text in figure.subfigs[0].legends[0].get_texts()] == [
        "pruned", "finished", "failed", "first trial", "best"
    ]  # fmt: skip


def test_no_trial_is_the_best_if_all_scores_are_equal(tmp_path):
    search = load(write_search(tmp_path / "tie", trials=5, earns=lambda values: -200.0, prune=False))
    assert search.best == []
    assert "so none is the best" in search_caption(search)
    assert "best" not in [text.get_text() for text in search_figure(search).subfigs[0].legends[0].get_texts()]


def test_trials_are_in_no_other_figure(thirty, tmp_path):
    for seed in (1, 2):
        write_run(tmp_path / f"a{seed}", seed=seed, returns=[1] * 100)
    found = analyse_runs(find_runs([thirty, tmp_path]).runs)
    assert [run.directory.name for run in found.runs] == ["a1", "a2"]
    assert [result.plan.name for result in found.figures] == ["gymnasium-algorithms"]
    assert (len(found.searches), len(found.all_runs)) == (1, 62)


def test_curves_of_a_hundred_trials_have_a_short_legend(tmp_path):
    (found,) = analyse_runs(find_runs([write_search(tmp_path / "s", trials=100)]).runs).searches
    with pytest.MonkeyPatch.context() as patch:
        drawn = []
        patch.setattr(
            "revd.analysis.writing.figure_files.save_figure", lambda figure, path: drawn.append(figure) or path
        )
        write_figures(analyse_runs(found.search.runs), tmp_path / "figures")
    (legend,) = drawn[2].subfigs[0].legends
    labels = [text.get_text() for text in legend.get_texts()]
    best = sorted(trial.number for trial in found.search.finished[:8])
    assert labels == [*(f"PPO+REVD (trial {number})" for number in best), "91 others"]
    colours = [(line.get_color(), line.get_linestyle()) for line in legend.get_lines()]
    assert len(set(colours)) == 9
    (axes,) = drawn[2].subfigs[0].axes
    assert len(axes.lines) == 99, "the one that failed is not drawn"


def test_a_report_of_a_search(thirty, tmp_path, monkeypatch):
    monkeypatch.setattr("revd.analysis.writing.figure_files.save_figure", fake_save)
    analysis = analyse_runs(find_runs([thirty]).runs)
    page = tmp_path / "page.md"
    text = report(analysis, write_figures(analysis, tmp_path / "figures"), page)
    search = analysis.searches[0].search
    best = search.best[0]
    values = " | ".join(best.values.values())
    assert f"| 1 | {best.number} | {values} | {best.score:.1f} | {best.score:.1f} |" in text
    assert "60 runs, " in text
    assert "1 search" in text
    assert "## Figures" not in text
    listed = text.partition("## Failed and unfinished runs")[2].partition("##")[0]
    assert listed.count("| failed |") == 2
    assert "interrupted" not in listed, "a search gives trials up, which is no failure"
    for name in re.findall(r"\]\(([^)]+)\)", text):
        assert (tmp_path / name).is_file()


def test_an_unreadable_search_is_reported(tmp_path):
    directory = write_search(tmp_path / "s", trials=3)
    write_json(directory / "study.json", {"search": {"k": "k=3,5"}, "seeds": 1, "metric": "luck"})
    found = analyse_runs(find_runs([directory]).runs)
    assert (len(found.runs), found.searches) == (3, ())
    (note,) = found.notes
    assert note.endswith(
        "s' is not the directory of a search: 'luck' is missing or unknown; its trials are shown like other runs"
    )
    assert f"- {note}" in report(found, ReportFiles(), tmp_path / "page.md")


def test_a_search_without_parameters_is_reported(tmp_path):
    directory = write_search(tmp_path / "s", trials=1)
    write_json(directory / "study.json", {"search": {}, "seeds": 1, "metric": "final"})
    with pytest.raises(ValueError, match=r"study.json names no searched parameter"):
        load(directory)


def test_equal_names_of_searches_give_two_files(tmp_path, monkeypatch):
    monkeypatch.setattr("revd.analysis.writing.figure_files.save_figure", fake_save)
    for name in ("a", "b"):
        write_search(tmp_path / name / "tune it", trials=2, space={"k": "k=3,5"}, earns=lambda values: int(values["k"]))
    found = write_figures(analyse_runs(find_runs([tmp_path]).runs), tmp_path / "figures")
    assert [entry.scores.png.name for entry in found.searches] == ["search-tune-it.png", "search-tune-it~2.png"]


def test_a_real_search_is_read(tmp_path):
    pytest.importorskip("optuna", reason="searches come with an extra")
    from tests.support.fake_searches import run, search

    config = search(tmp_path / "real", trials=6, seeds=2, prune=False)
    records = run(config)
    found = load(tmp_path / "real")
    assert {trial.number: (trial.state, trial.score) for trial in found.trials} == {
        one.number: (one.state, one.score) for one in records
    }
    assert [parameter.name for parameter in found.parameters] == ["weight", "k"]
    assert found.parameters[0].is_log
    described = json.loads((tmp_path / "real" / "study.json").read_text())
    assert found.seeds == described["seeds"] == 2
