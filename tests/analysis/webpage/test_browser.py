"""The page in a real browser: what a reader sees, points at, clicks and types."""

import json
import re

import pytest

from revd.analysis.reading.runs import load_runs
from revd.analysis.statistics.figure_data import analyse_runs
from revd.analysis.webpage.page import write_web_page
from tests.analysis.reading.searches import write_search
from tests.analysis.support import write_run
from tests.analysis.webpage.support import write_hostile_run, write_runs
from tests.support.browser import needs_chromium, opened, running_browser

pytestmark = needs_chromium

WHITE, RETURNS, WEIGHT = "rgb(255, 255, 255)", '[data-group="returns"]', '[data-group="weight"]'
HOSTILE = "</script><script>window.owned = 1</script><img src=x onerror=window.owned=2>\"'{{7*7}}"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    return write_page(write_runs(folder / "runs"), folder / "report.html")


@pytest.fixture(scope="module")
def browser():
    with running_browser() as browser:
        yield browser


def write_page(runs, path):
    write_web_page(analyse_runs(load_runs(runs)), path)
    return path


def chart(page, title, group=RETURNS):
    return page.locator(f"{group} .chart", has_text=title)


def lines(found):
    return found.locator("path.mean").count()


def ticks(found, axis):
    return found.locator(f".tick-{axis}").all_text_contents()


def background(page, selector=".card"):
    return page.locator(selector).first.evaluate("element => getComputedStyle(element).backgroundColor")


def stated(page, title, method):
    """The series of a chart in the page's own data."""
    data = json.loads(page.locator("#data").text_content())
    charts = {found["title"]: found for found in data["groups"]["returns"]["charts"]}
    return charts[title]["series"][[found["name"] for found in data["methods"]].index(method)]


def test_every_method_has_a_line_and_a_band_in_each_chart(browser, report):
    with opened(browser, report) as page:
        for group in (RETURNS, WEIGHT, '[data-group="share"]'):
            assert page.locator(f"{group} .chart").count() == 2
        assert lines(chart(page, "CartPole-v1")) == 2
        assert lines(chart(page, "CartPole-v1", WEIGHT)) == 1, "only one of them has a bonus"
        assert chart(page, "CartPole-v1").locator("path.band").count() == 2
        assert page.locator('[data-group="profile-0"] path.mean').count() == 2


def test_an_unticked_method_has_no_curve_and_the_axis_fits_the_others(browser, report):
    with opened(browser, report) as page:
        found = chart(page, "CartPole-v1")
        before = ticks(found, "y")
        page.get_by_label("PPO+REVD", exact=True).uncheck()
        assert lines(found) == 1
        assert max(map(float, ticks(found, "y"))) < max(map(float, before))
        assert "no method with a curve is ticked" in chart(page, "CartPole-v1", WEIGHT).text_content()
        page.get_by_label("PPO+REVD", exact=True).check()
        assert (lines(found), ticks(found, "y")) == (2, before)


def test_logarithmic_scales_change_the_axes(browser, report):
    with opened(browser, report) as page:
        found = chart(page, "CartPole-v1")
        before = ticks(found, "x"), ticks(found, "y")
        page.get_by_label("log steps").check()
        assert ticks(found, "x") == ["10", "20", "50", "100", "200", "500", "1,000"]
        assert ticks(found, "y") == before[1]
        page.get_by_label("log values").check()
        assert ticks(found, "y") != before[1]
        weights = ["0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1"]
        assert ticks(chart(page, "CartPole-v1", WEIGHT), "y") == weights, "without the zero before the first one"
        assert "linear" in chart(page, "MountainCar-v0").text_content(), "its returns are below zero"
        assert "linear" not in found.text_content()


def test_pointing_at_a_chart_reads_its_values(browser, report):
    with opened(browser, report) as page:
        found = chart(page, "CartPole-v1")
        box = found.locator("svg").bounding_box()
        assert not found.locator(".tip").is_visible()
        page.mouse.move(box["x"] + box["width"] - 12, box["y"] + 50)
        series = stated(page, "CartPole-v1", "PPO+REVD")
        last = f"{series['mean'][-1]:.4g}{series['low'][-1]:.4g} to {series['high'][-1]:.4g}"
        rows = found.locator(".tip tr").all_text_contents()
        assert rows[0] == f"PPO+REVD{last}"
        assert rows[1].startswith("PPO"), "the lower one comes second"
        assert "environment steps: 1,000" in found.locator(".tip").text_content()
        page.mouse.move(box["x"], box["y"] - 200)
        assert not found.locator(".tip").is_visible()


def test_the_keyboard_reads_the_values_too(browser, report):
    with opened(browser, report) as page:
        found = chart(page, "CartPole-v1")
        tip = found.locator(".tip")
        found.locator(".plot").focus()
        page.keyboard.press("End")
        assert "environment steps: 1,000" in tip.text_content()
        page.keyboard.press("ArrowLeft")
        assert "environment steps: 995" in tip.text_content()
        page.keyboard.press("Shift+ArrowLeft")
        assert "environment steps: 945" in tip.text_content()
        page.keyboard.press("Escape")
        assert not tip.is_visible()


def test_a_chosen_task_is_alone(browser, report):
    with opened(browser, report) as page:
        page.get_by_label("Task").select_option(label="CartPole-v1")
        shown = page.locator("main").inner_text()
        assert "CartPole-v1" in shown
        cards = page.locator("[data-task]:visible")
        assert "MountainCar-v0" not in " ".join(cards.all_inner_texts())
        assert page.locator(f"{RETURNS} .chart:visible").count() == 1
        assert page.locator('[data-group="profile-0"] .chart:visible').count() == 1, "it is of all tasks"
        page.get_by_label("Task").select_option(label="all 2")
        assert page.locator(f"{RETURNS} .chart:visible").count() == 2


def test_the_button_changes_between_light_and_dark(browser, report):
    with opened(browser, report, color_scheme="light") as page:
        light = (
            background(page),
            chart(page, "CartPole-v1").locator("path.mean").first.evaluate("line => getComputedStyle(line).stroke"),
        )
        page.get_by_role("button", name="Dark mode").click()
        assert light[0] == WHITE != background(page)
        page.get_by_role("button", name="Light mode").click()
        assert background(page) == WHITE


def test_the_page_starts_as_the_system_is(browser, report):
    with opened(browser, report, color_scheme="dark") as page:
        assert background(page) != WHITE
        page.get_by_role("button", name="Light mode").click()
        assert background(page) == WHITE


def test_a_command_can_be_copied(browser, report):
    with opened(browser, report, permissions=["clipboard-read", "clipboard-write"]) as page:
        row = page.locator("#runs tr", has_text="CartPole-v1-b2")
        row.get_by_role("button", name="Copy").click()
        row.get_by_role("button", name="Copied").wait_for()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == "revd train --task CartPole-v1 --reward revd --seed 2"


def test_a_narrow_screen_needs_no_scrolling_aside(browser, report):
    with opened(browser, report, width=360) as page:
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        widths = page.locator(f"{RETURNS} svg").evaluate_all("all => all.map(one => one.getBoundingClientRect().right)")
        assert max(widths) <= 360


def test_without_scripts_the_tables_and_a_picture_are_there(browser, report):
    with opened(browser, report, java_script_enabled=False) as page:
        assert page.locator("#results table").first.is_visible()
        picture = page.locator("#curves img")
        assert picture.is_visible()
        assert picture.bounding_box()["width"] > 300
        assert not page.locator("#controls").is_visible()
        assert not page.get_by_role("button").count()
        assert "PPO+REVD on CartPole-v1, seed 1: watch.gif" in page.locator("#films").inner_text()


@pytest.mark.parametrize("value", [0.0, 5e15, 1e300])
def test_a_chart_of_one_value_has_an_axis(browser, tmp_path, value):
    write_run(tmp_path / "run", returns=[value] * 20)
    with opened(browser, write_page(tmp_path, tmp_path / "report.html")) as page:
        for scale in ("log steps", "log values"):
            page.get_by_label(scale).check()
        assert "NaN" not in page.locator(f"{RETURNS} svg").inner_html()


def test_a_search_alone_has_no_charts(browser, tmp_path):
    write_search(tmp_path / "search", trials=3)
    with opened(browser, write_page(tmp_path, tmp_path / "report.html")) as page:
        assert "Searches" in page.locator("main").inner_text()
        assert page.locator(".chart").count() == 0


def test_text_of_runs_is_shown_and_never_run(browser, tmp_path):
    write_hostile_run(tmp_path / "run", HOSTILE)
    with opened(browser, write_page(tmp_path, tmp_path / "report.html")) as page:
        assert page.evaluate("window.owned") is None
        assert HOSTILE in chart(page, "</script>").text_content()
        assert page.locator("#results h3").text_content() == HOSTILE
        page.locator(f"{RETURNS} .plot").focus()
        page.keyboard.press("End")
        assert HOSTILE in page.locator(f"{RETURNS} .tip").text_content()
        assert page.locator("[onerror]").count() == 0


def test_even_text_that_escaped_would_not_be_run(browser, report, tmp_path):
    attack = "<script>window.owned = 1</script><img src=x onerror='window.owned = 2'><link rel=stylesheet href=y.css>"
    path = tmp_path / "attacked.html"
    path.write_text(re.sub("(<main>)", rf"\1{attack}", report.read_text()))
    context = browser.new_context()
    page = context.new_page()
    page.goto(path.as_uri())
    assert page.evaluate("window.owned") is None
    assert lines(chart(page, "CartPole-v1")) == 2, "the page's own script is run"
    context.close()
