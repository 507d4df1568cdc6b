"""A real browser for the tests: one for each process, a page as good as new for each test that asks for `page`.

`python -m tests.browser` says whether one can be found.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Browser, ConsoleMessage, Page, Request, ViewportSize

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
SIZE: ViewportSize = {"width": 1280, "height": 800}
STILL: Final = "reduce"
MOVING: Final = "no-preference"
"""Graphs glide for readers who do not mind. Each frame is painted in software, so most tests ask for none."""
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


class Tab:
    """A page that tests use one after the other: a new page costs a second of CPU time, a wiped one 0.1 s.

    What cannot be undone (a listener, a permission, an exposed function, a color scheme, a clock) spends it, as does
    a failed test; the next test then gets a new one.
    """

    SPENDING = ("on", "once", "expose_function", "expose_binding", "add_init_script", "emulate_media")

    def __init__(self, browser: Browser) -> None:
        self.context = browser.new_context(viewport=SIZE, reduced_motion=STILL)
        self.page, self.seen = self.context.new_page(), Seen()
        self.is_spent = False
        self._origins: set[str] = set()
        self._tools = self.context.new_cdp_session(self.page)
        page = self.page
        page.keyboard.press = drawing(type(page.keyboard).press, lambda _: page).__get__(page.keyboard)
        page.on("console", self.seen.note_console)
        page.on("pageerror", lambda error: self.seen.errors.append(str(error)))
        self.context.on("request", self._note_request)
        for name in self.SPENDING:
            setattr(page, name, self._spending(getattr(page, name)))
        for owner, name in ((self.context, "grant_permissions"), (page.clock, "install")):
            setattr(owner, name, self._spending(getattr(owner, name)))

    def wipe(self) -> None:
        """Make it as good as new."""
        page, context = self.page, self.context
        for other in context.pages:
            if other != page:
                other.close()
        page.unroute_all()
        page.goto("about:blank")
        page.mouse.move(0, 0)
        page.set_viewport_size(SIZE)
        set_motion(page, STILL)
        page.set_default_timeout(30_000)
        context.clear_cookies()
        for origin in self._origins:
            self._tools.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
        self._tools.send("Network.clearBrowserCache")
        self._origins.clear()
        self.seen.errors.clear()
        self.seen.addresses.clear()

    def _note_request(self, request: Request) -> None:
        self.seen.note_request(request)
        if request.is_navigation_request():
            parts = urlsplit(request.url)
            self._origins.add(f"{parts.scheme}://{parts.netloc}")

    def _spending(self, act: Callable[..., Any]) -> Callable[..., Any]:
        def spend(*args: Any, **options: Any) -> Any:
            self.is_spent = True
            return act(*args, **options)

        return spend


def set_motion(page: Page, motion: Literal["reduce", "no-preference"]) -> None:
    """Let a page move or not, until the test ends."""
    type(page).emulate_media(page, reduced_motion=motion)  # of the class: the page as it is used spends its tab


@pytest.fixture(scope="session")
def tabs() -> list[Tab]:
    """The tab of this process, if there is one that can be used again."""
    return []


@pytest.fixture
def page(browser: Browser, tabs: list[Tab], request: pytest.FixtureRequest) -> Iterator[Page]:
    """A fresh page. The test fails if an error was logged in it, or if it asked for something on the network."""
    tab = tabs.pop() if tabs else Tab(browser)
    n_failed = request.session.testsfailed
    yield tab.page
    if tab.page.is_closed() or tab.is_spent or request.session.testsfailed > n_failed:
        tab.context.close()
        errors, addresses = tab.seen.errors, tab.seen.addresses
    else:
        tab.page.evaluate("0")  # what was logged before has arrived when this is answered
        errors, addresses = [*tab.seen.errors], [*tab.seen.addresses]
        tab.wipe()
        tabs.append(tab)
    assert not errors, errors
    assert not addresses, addresses


if __name__ == "__main__":
    if executable() is None:
        sys.exit(f"The tests look at pictures in Chromium, and there is none here: {HOW}")
