"""Safety in a real browser: what another page can get out of the viewer, and what hostile names can do in it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.server.recorded import HOSTILE
from tests.server.served import Served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

EVIL = """<!doctype html><title>evil</title><script>
window.got = {};
window.ready = (async () => {
  for (const mode of ["cors", "no-cors"]) {
    try { got[mode] = await (await fetch(VIEWER + "/api/runs", {mode, credentials: "include"})).text(); }
    catch (error) { got[mode] = "refused"; }
  }
  got.events = await new Promise((done) => {
    const source = new EventSource(VIEWER + "/api/events");
    source.onopen = () => done("open");
    source.onerror = () => done("refused");
  });
  got.script = await new Promise((done) => {
    const script = document.createElement("script");
    script.src = VIEWER + "/static/cutaway.js";
    script.onload = () => done("loaded");
    script.onerror = () => done("refused");
    document.head.append(script);
  });
  got.frame = await new Promise((done) => {
    const frame = document.createElement("iframe");
    frame.src = VIEWER;
    frame.onload = () => { try { done(String(frame.contentDocument.title)); } catch { done("closed"); } };
    document.body.append(frame);
    setTimeout(() => done("closed"), 3000);
  });
})();
</script><body></body>"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def evil(served: Served, tmp_path: Path) -> Iterator[str]:
    """The address of a page that another program on this machine serves."""
    (tmp_path / "index.html").write_text(EVIL.replace("VIEWER", repr(served.url)))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def test_another_page_gets_nothing_out_of_the_viewer(browser: Browser, evil: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(evil)
    page.evaluate("window.ready")
    got = page.evaluate("window.got")
    assert got == {
        "cors": "refused",
        "no-cors": "refused",
        "events": "refused",
        "script": "refused",
        "frame": "closed",
    }
    context.close()


def test_names_notes_and_samples_of_a_stranger_run_nothing(page: Page, served: Served) -> None:
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    page.goto(served.url)
    page.get_by_text("Notes").first.click()
    page.get_by_text(HOSTILE).first.wait_for()
    assert page.locator("img[src=x]").count() == 0


def test_the_page_cannot_be_made_to_run_a_script_that_was_put_into_it(browser: Browser, served: Served) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(served.url)
    page.evaluate(
        """() => {
          const script = document.createElement("script");
          script.textContent = "window.ran = true";
          document.body.append(script);
          document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.ran = true'>");
        }"""
    )
    page.wait_for_timeout(200)
    assert page.evaluate("window.ran") is None
    context.close()
