"""A real browser for tests of pages: the system's Chromium, driven by Playwright."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

#: The path of Chromium or Chrome; None if there is neither.
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")

# A test is often root, who gets no sandbox, and reads pages of its own only.
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


@contextmanager
def running_browser() -> Iterator[Browser]:
    """A headless browser with a new, empty profile."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=_FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Browser, path, *, width=1200, **settings) -> Iterator[Page]:
    """The page in a file. At the end, it must have loaded nothing else and have logged nothing."""
    context = browser.new_context(viewport={"width": width, "height": 800}, **settings)
    # Under load, a browser may need long for what usually takes milliseconds.
    context.set_default_timeout(60_000)
    page = context.new_page()
    events: list[str] = []
    page.on("console", lambda message: events.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: events.append(f"error: {error}"))
    page.on("request", lambda request: events.append(f"request: {request.url[:100]}"))
    try:
        page.goto(path.as_uri())
        yield page
    finally:
        context.close()
    foreign = [event for event in events if not event.startswith("request: data:")]
    assert foreign == [f"request: {path.as_uri()}"]
