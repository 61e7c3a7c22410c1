import base64
import hashlib
import html
import json
import re
import tomllib
from fnmatch import fnmatch
from html.parser import HTMLParser

import pytest

import revd
from revd.analysis.reading.runs import load_runs
from revd.analysis.reading.sources import find_runs
from revd.analysis.statistics.figure_data import analyse_runs
from revd.analysis.webpage.page import render_page, write_web_page
from revd.analysis.writing.archive import write_archive
from tests.analysis.reading.searches import write_search
from tests.analysis.support import write_run
from tests.analysis.webpage.support import GIF, write_hostile_run, write_runs
from tests.support.installs import ROOT

HOSTILE = "</script><script>alert(1)</script><img src=x onerror='a'>\"{{7*7}}"


@pytest.fixture(scope="module", autouse=True)
def quick():
    """Drawing takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("revd.analysis.webpage.pictures.figure_png", lambda figure: b"a picture")
        yield


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The path of a page, beside the folder `runs`."""
    path = tmp_path_factory.mktemp("report") / "new" / "report.html"
    data = analyse_runs(load_runs(write_runs(path.parent.parent / "runs")))
    write_web_page(data, path, unreadable=["'x' is no run"])
    return path


class Elements(HTMLParser):
    """The names of all elements, and their attributes."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, name, attributes):
        self.found.append((name, dict(attributes)))


def page_of(folder, **named):
    return render_page(analyse_runs(load_runs(folder)), **named)


def headings(text):
    return [html.unescape(heading) for heading in re.findall("<h2>(.*?)</h2>", text)]


def section(text, name):
    return text.partition(f'<section id="{name}">')[2].partition("</section>")[0]


def json_of(text):
    return json.loads(re.search('<script type="application/json" id="data">(.*?)</script>', text)[1])


def test_the_sections_of_a_report(report):
    text = report.read_text()
    assert headings(text) == [
        "Final returns",
        "Learning curves",
        "Comparison over tasks",
        "The bonus",
        "Where the time went",
        "Films and pictures",
        "Runs",
        "Failed, unfinished and damaged runs",
        "Machine, hours and software",
    ]
    assert "<h1>PPO and PPO+REVD on CartPole-v1 and MountainCar-v0</h1>" in text
    assert "8 runs, 8 of them finished: 2 tasks, 2 methods." in text
    assert "<li>&#39;x&#39; is no run</li>" in section(text, "failures")
    assert section(text, "runs").count("<code>revd train ") == 8


def test_films_and_pictures_are_in_the_page(report):
    film, picture = (base64.b64encode(data).decode() for data in (GIF, b"a picture"))
    text = report.read_text()
    assert f'src="data:image/gif;base64,{film}"' in section(text, "films")
    assert f'<noscript>\n<figure class="card"><img src="data:image/png;base64,{picture}"' in section(text, "curves")


def test_equal_runs_give_equal_pages(tmp_path):
    write_run(tmp_path / "run", returns=[1.0] * 20)
    assert page_of(tmp_path) == page_of(tmp_path)


def test_text_of_runs_is_escaped_everywhere(tmp_path):
    write_hostile_run(tmp_path / "run", HOSTILE)
    failed = {"error": HOSTILE, "steps": 10}
    write_run(tmp_path / "failed", task=HOSTILE, state="failed", status=failed, weight=HOSTILE)
    text = page_of(tmp_path, unreadable=[HOSTILE])
    assert HOSTILE not in text
    assert "<script>alert" not in text
    assert text.count("<script") == text.count("</script") == 2
    assert text.count(html.escape("</script><script>alert")) > 10
    assert json_of(text)["tasks"] == [HOSTILE]
    names = [name for name, _ in Elements(text).found]
    assert names.count("script") == 2
    assert not any("onerror" in attributes for _, attributes in Elements(text).found)


def test_json_cannot_end_its_element(tmp_path):
    write_run(tmp_path / "run", task="<!--<script>&'", returns=[1.0] * 9)
    text = page_of(tmp_path)
    raw = re.search('id="data">(.*?)</script>', text)[1]
    assert not set("<>&'") & set(raw)
    assert json_of(text)["tasks"] == ["<!--<script>&'"]


def test_the_policy_allows_only_the_script_of_the_page(report):
    text = report.read_text()
    (policy,) = [found["content"] for name, found in Elements(text).found if found.get("http-equiv")]
    script = re.findall("<script>(.*?)</script>", text, re.DOTALL)[-1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe-eval" not in policy


def test_nothing_is_loaded_from_elsewhere(report):
    for name, attributes in Elements(report.read_text()).found:
        assert name not in ("link", "iframe", "object", "embed", "base")
        assert attributes.get("src", "data:").startswith("data:")
        assert not attributes.keys() & {"srcset", "onclick", "onload", "action", "formaction"}


def test_a_file_that_is_too_large_is_linked(tmp_path, monkeypatch):
    monkeypatch.setattr("revd.analysis.webpage.media.MAX_BYTES", 3)
    (write_run(tmp_path / "runs" / "a") / "watch.gif").write_bytes(GIF)
    write_web_page(analyse_runs(load_runs(tmp_path / "runs")), tmp_path / "report.html")
    films = section((tmp_path / "report.html").read_text(), "films")
    assert '<a href="runs/a/watch.gif">watch.gif</a>' in films
    assert "Too large for this page" in films


def test_an_archive_has_no_curves_of_the_bonus_and_says_so(report, tmp_path):
    archive = write_archive(load_runs(report.parent.parent / "runs"), tmp_path / "runs.csv.gz")
    text = render_page(analyse_runs(find_runs([archive]).runs))
    bonus = section(text, "bonus")
    assert "Weight of the bonus over the training: not shown" in bonus
    assert "Share of the bonus over the training: not shown" in bonus
    assert 'data-group="weight"' not in bonus
    assert "25.2%" in bonus, "the mean share is in the archive"
    assert "Where the time went" in headings(text)
    assert "Films and pictures" not in headings(text)
    assert section(text, "results") == section(report.read_text(), "results")


def test_runs_without_a_bonus_have_no_section_about_it(tmp_path):
    write_run(tmp_path / "run", returns=[1.0] * 20)
    found = headings(page_of(tmp_path))
    assert "The bonus" not in found
    assert "Where the time went" not in found


def test_failed_runs_alone_are_a_page(tmp_path):
    write_run(tmp_path / "run", state="failed", status={"error": "OutOfMemory"})
    text = page_of(tmp_path)
    assert "None: all runs failed, are damaged, or have no finished episode." in section(text, "curves")
    assert "OutOfMemory" in section(text, "failures")
    assert "<noscript>" not in text


def test_damaged_runs_are_listed(tmp_path):
    damaged = write_run(tmp_path / "run", returns=[1.0] * 20)
    (damaged / "episodes.csv").unlink()
    assert "episodes.csv is missing" in section(page_of(tmp_path), "failures")


def test_a_search_has_its_trials_and_its_pictures(tmp_path):
    write_search(tmp_path / "search", trials=6)
    text = page_of(tmp_path)
    assert headings(text)[0] == "Searches"
    found = section(text, "searches")
    assert found.count("<img ") == 2
    assert "score (final return)" in found
    assert section(text, "runs").count("<code>revd train ") == 6


def test_variants_say_what_their_labels_leave_out(tmp_path):
    write_run(tmp_path / "a", method="PPO+REVD", weight="auto")
    write_run(tmp_path / "b", method="PPO+REVD", weight=0.1, reward_params={"init": "torch"})
    assert "PPO+REVD (weight=0.1): also init=torch" in page_of(tmp_path)


def test_of_many_methods_some_are_unticked_and_the_page_says_so(tmp_path):
    for number in range(10):
        write_run(tmp_path / str(number), method=f"PPO+M{number}", returns=[float(number)] * 20)
    text = page_of(tmp_path)
    switches = [found for name, found in Elements(text).found if "data-method" in found and name == "input"]
    assert [number for number, found in enumerate(switches) if "checked" not in found] == [0, 1]
    assert "the 8 best methods" in text


def test_a_wheel_has_the_files_of_the_page():
    packaged = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    package = ROOT / "revd"
    assert revd.__file__ == str(package / "__init__.py")
    others = [path for path in package.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")]
    assert len(others) > 10
    for path in others:
        patterns = [
            f"{name.replace('.', '/')}/{pattern}" for name, patterns in packaged.items() for pattern in patterns
        ]
        assert any(fnmatch(path.relative_to(ROOT).as_posix(), pattern) for pattern in patterns), path
