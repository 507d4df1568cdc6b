"""A real browser for the tests: one for each process, a fresh page for each test that asks for `page`.

`python -m tests.browser` says whether one can be found.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Browser, ConsoleMessage, Page, Request

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
HERE = ("file:", "data:", "blob:", "about:", "http://127.0.0.1:", "http://localhost:")
STOPPED: set[str] = set()
"""Addresses of servers that a test has ended, which a page may go on asking."""
DRAWN = "() => new Promise((done) => { requestAnimationFrame(() => setTimeout(done)); setTimeout(done, 250); })"
"""What a page listens to changes after it has drawn; a page that is not shown never draws."""
HOW = "install it (Debian: apt-get install chromium; elsewhere: .venv/bin/playwright install chromium)."


def executable() -> str | None:
    """The browser of the system, or the one that playwright has fetched."""
    named = [os.environ.get("CUTAWAY_CHROMIUM"), *map(shutil.which, NAMES)]
    found = next((path for path in named if path), None)
    if found is None:
        from playwright.sync_api import sync_playwright

        with sync_playwright() as playwright:
            own = playwright.chromium.executable_path
        found = own if Path(own).is_file() else None
    return found


@dataclass
class Seen:
    """What went on in a page beside what it shows."""

    errors: list[str] = field(default_factory=list)
    """Errors on its console, and those that nobody caught."""
    addresses: list[str] = field(default_factory=list)
    """What it asked for outside this machine."""

    def note_console(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not message.location["url"].startswith(tuple(STOPPED)):
            self.errors.append(message.text)

    def note_request(self, request: Request) -> None:
        if not request.url.startswith(HERE):
            self.addresses.append(request.url)


def drawing(act: Callable[..., None], page_of: Callable[..., Page]) -> Callable[..., None]:
    """An act of the user that comes when the page has drawn, and ends when it has drawn what came of it.

    A person is slower than a frame; a test is not, and would press a key before the page listens to it.
    """

    def acted(self: object, *args: object, **options: object) -> None:
        _wait(page_of(self))
        act(self, *args, **options)
        _wait(page_of(self))

    return acted


def _wait(page: Page) -> None:
    from playwright.sync_api import Error

    try:
        page.evaluate(DRAWN)
    except Error:  # the act led to another page, or shut this one
        if not page.is_closed():
            page.wait_for_load_state()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests of a process."""
    from playwright.sync_api import Locator, Page, sync_playwright

    path = executable()
    if path is None:
        pytest.fail(f"the tests look at pictures in Chromium, and there is none here: {HOW}", pytrace=False)
    with sync_playwright() as playwright, pytest.MonkeyPatch.context() as patch:
        for name in ("click", "dblclick", "press", "fill", "select_option", "hover", "check", "set_checked"):
            patch.setattr(Locator, name, drawing(getattr(Locator, name), lambda locator: locator.page))
        for name in ("click", "dblclick", "press", "fill"):
            patch.setattr(Page, name, drawing(getattr(Page, name), lambda page: page))
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh page. The test fails if an error was logged in it, or if it asked for something on the network."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page, seen = context.new_page(), Seen()
    page.keyboard.press = drawing(type(page.keyboard).press, lambda _: page).__get__(page.keyboard)
    page.on("console", seen.note_console)
    page.on("pageerror", lambda error: seen.errors.append(str(error)))
    context.on("request", seen.note_request)
    yield page
    context.close()
    assert not seen.errors, seen.errors
    assert not seen.addresses, seen.addresses


if __name__ == "__main__":
    if executable() is None:
        sys.exit(f"The tests look at pictures in Chromium, and there is none here: {HOW}")
