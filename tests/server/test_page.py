"""The offline HTML file."""

from __future__ import annotations

import base64
import json
import os
import re
import zlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests import ROOT
from tests.server.models import tower

import cutaway
from cutaway import Trace
from cutaway.layout.graph_view import GraphView, plain
from cutaway.server import page as pages
from cutaway.server.view_json import to_json
from cutaway.views.pages.model import ColoredText, Heatmap, Section, Text
from cutaway.views.pages.model import Page as Blocks
from cutaway.views.showable import as_showable

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HOSTILE = "</title></script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"


def unpacked(html: str, name: str) -> Any:
    (found,) = re.findall(rf'<script type="application/octet-stream" id="{name}">(.*?)</script>', html)
    return json.loads(zlib.decompress(base64.b64decode(found, validate=True)))


def named_details(html: str) -> list[str]:
    return re.findall(r'id="(cutaway-details-\d+-\d+)"', html)


@pytest.fixture(scope="module")
def trace() -> Trace:
    return tower()


@pytest.fixture(scope="module")
def view(trace: Trace) -> GraphView:
    return as_showable(trace).view


def test_the_view_lies_in_the_page_whole(view: GraphView) -> None:
    assert unpacked(pages.html([as_showable(view)]), "cutaway-data") == json.loads(json.dumps([plain(view)]))


def test_details_lie_in_chunks_by_their_row(trace: Trace, view: GraphView, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "CHUNK", 4)
    html = pages.html([as_showable(trace), as_showable(view)])
    found = {}
    for name in named_details(html):
        assert name.startswith("cutaway-details-0-"), "a bare view knows nothing of its ops"
        chunk = unpacked(html, name)
        assert {int(row) // 4 for row in chunk} == {int(name.rpartition("-")[2])}
        found.update(chunk)
    assert {int(row) for row in found} == {row for row in view.nodes.row if row >= 0}
    for row, detail in found.items():
        assert detail == json.loads(to_json(as_showable(trace).detail(int(row))))


def test_details_keep_to_their_budget(trace: Trace) -> None:
    def size(budget: int) -> int:
        html = pages.html([as_showable(trace)], budget=budget)
        return sum(len(json.dumps(unpacked(html, name))) for name in named_details(html))

    assert size(0) == 0
    assert 1_000 < size(8_000) < 8_500
    assert size(10**6) > 8_500


def test_the_size_of_chunks_is_the_one_the_browser_expects() -> None:
    source = ROOT / "web" / "src" / "lib" / "host.ts"
    assert f"export const CHUNK = {pages.CHUNK};" in source.read_text(encoding="utf-8")


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "net.html"
    target.write_text("before")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        pages.write(target, "after")
    assert target.read_text() == "before"
    assert os.listdir(tmp_path) == ["net.html"]


def test_to_html_writes_where_it_says(tmp_path: Path) -> None:
    trace = tower()
    assert trace.to_html(str(tmp_path / "net.html")) == tmp_path / "net.html"
    assert "<title>Tower</title>" in (tmp_path / "net.html").read_text(encoding="utf-8")


def test_the_file_opens_in_a_browser_without_error_or_network(page: Page, tmp_path: Path) -> None:
    page.goto(tower().to_html(tmp_path / "net.html").as_uri())
    page.wait_for_selector(".cutaway canvas")
    assert page.title() == "Tower"
    box = page.locator(".cutaway").bounding_box()
    assert box is not None
    assert (box["width"], box["height"]) == (1280, 800)


def test_an_op_shows_what_it_holds_without_python(page: Page, trace: Trace, tmp_path: Path) -> None:
    page.goto(trace.to_html(tmp_path / "net.html").as_uri())
    page.get_by_role("textbox", name="Search").fill(trace["head"].label)
    page.get_by_role("textbox", name="Search").press("Enter")
    page.get_by_text("return self.head(x)").wait_for()
    largest = float(trace["head"].value.max())
    assert f"{largest:.3g}" in page.locator(".cutaway").inner_text()


def test_the_page_lets_go_of_what_it_has_read(page: Page, tmp_path: Path) -> None:
    page.goto(tower().to_html(tmp_path / "net.html").as_uri())
    page.wait_for_selector(".cutaway canvas")
    assert page.locator("#cutaway-data").count() == 0


def test_names_of_a_model_are_text_and_nothing_else(page: Page, view: GraphView, tmp_path: Path) -> None:
    labels = (HOSTILE, *view.nodes.label[1:])
    hostile = replace(view, title=HOSTILE, subtitle=HOSTILE, nodes=replace(view.nodes, label=labels))
    path = pages.write(tmp_path / "net.html", pages.html([as_showable(hostile), as_showable(view)]))
    page.goto(path.as_uri())
    page.wait_for_selector(".cutaway canvas")
    assert page.title() == HOSTILE + " · Tower"
    assert page.evaluate("window.hacked") is None


def test_several_things_have_a_tab_each_and_keep_their_state(page: Page, view: GraphView, tmp_path: Path) -> None:
    other = replace(view, title="Other")
    path = pages.write(tmp_path / "net.html", pages.html([as_showable(view), as_showable(other)]))
    page.goto(path.as_uri())
    tabs = page.get_by_role("tab")
    assert tabs.all_inner_texts() == ["Tower", "Other"]
    first = page.locator("[role=tabpanel]").nth(0).locator("canvas").first.element_handle()
    tabs.nth(1).click()
    page.wait_for_selector("[role=tabpanel]:not([hidden]) canvas")
    assert page.locator("[role=tabpanel]:visible").count() == 1
    tabs.nth(1).press("ArrowRight")
    assert tabs.nth(0).get_attribute("aria-selected") == "true"
    assert first.is_visible(), "it is the same element as before"


def test_several_results_lie_in_one_file_beside_a_graph(
    page: Page, trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUTAWAY_BROWSER", "none")
    one = Blocks("Written: 4, 5", sections=[Section("Text", blocks=[ColoredText(["p"], [Text([" 4"], [[0.9]])])])])
    other = Blocks("Lens", sections=[Section("Ranks", blocks=[Heatmap(["0", "1"], ["4"], [[7], [1]])])])
    shown = cutaway.show(one, other, trace, path=tmp_path / "all.html")
    assert shown.path is not None
    page.goto(shown.path.as_uri())
    tabs = page.get_by_role("tab")
    assert tabs.all_inner_texts() == ["Written: 4, 5", "Lens", "Tower"]
    assert page.locator("[role=tabpanel]:visible .tok").inner_text() == "·4"
    tabs.nth(1).click()
    page.locator("[role=tabpanel]:visible section[aria-label='Ranks']").wait_for()
    tabs.nth(2).click()
    page.wait_for_selector("[role=tabpanel]:not([hidden]) canvas")
    tabs.nth(0).click()
    assert page.locator("[role=tabpanel]:visible").count() == 1


def test_a_page_cannot_fetch_anything_even_if_its_script_wanted_to(browser: Browser, tmp_path: Path) -> None:
    page = browser.new_page()
    page.goto(tower().to_html(tmp_path / "net.html").as_uri())
    refused = page.evaluate(
        """async () => {
            const seen = [];
            document.addEventListener("securitypolicyviolation", (event) => seen.push(event.effectiveDirective));
            await fetch("http://127.0.0.1:9/").catch(() => 0);
            const image = new Image();
            await new Promise((done) => { image.onerror = done; image.src = "http://127.0.0.1:9/x.png"; });
            const script = document.createElement("script");
            script.textContent = "window.hacked = 1";
            document.body.append(script);
            await new Promise((done) => setTimeout(done, 50));
            return [...seen, window.hacked ?? null];
        }"""
    )
    page.close()
    assert refused == ["connect-src", "img-src", "script-src-elem", None]
