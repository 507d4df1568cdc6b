"""The tabs of pages in a real browser: collections, units, rankings, the ways between them, what comes meanwhile."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.server import shelf
from tests.server.recorded import save_trace
from tests.server.served import Served, serving
from tests.web.looking import NARROW

from cutaway.views.pages.model import Page as Blocks
from cutaway.views.pages.model import Section, Table

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytest.importorskip("starlette")
PATIENCE = 20_000
"""Milliseconds that something may take on a busy machine."""


@pytest.fixture(scope="module")
def shelved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Served]]:
    folder = shelf.fill(tmp_path_factory.mktemp("shelf"))
    with serving(folder) as served:
        yield folder, served


@pytest.fixture
def viewer(page: Page, shelved: tuple[Path, Served]) -> Iterator[Page]:
    page.set_default_timeout(PATIENCE)
    page.goto(f"{shelved[1].url}/#tab=neurons")
    page.wait_for_selector(".page-list li")
    yield page
    page.goto("about:blank")  # before the server goes


def titled(page: Page, title: str) -> None:
    page.locator(".tab-panel:not([hidden]) .page-head h1", has_text=re.compile(f"^{re.escape(title)}$")).wait_for()
    page.locator(".tab-panel:not([hidden]) .blocks-body:not(.old)").wait_for(state="attached")


def chosen(page: Page, name: str) -> None:
    page.locator(".page-list [aria-current=true] b", has_text=re.compile(f"^{re.escape(name)}$")).wait_for()


def test_one_goes_from_a_collection_to_its_units_to_rankings_and_back(viewer: Page) -> None:
    keys = viewer.keyboard
    assert viewer.locator(".page-list b").all_inner_texts() == ["acts", "ranks/mine", "ranks/other", "said"]
    entry = viewer.locator(".tab-panel:not([hidden]) .page-list button", has_text="ranks/mine").inner_text()
    assert "Ranking by mine: 12 units" in entry
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d", entry)
    chosen(viewer, "acts")
    titled(viewer, "Activations of activations")
    assert viewer.locator(".selectors, .timeline").count() == 0
    # By name, by number, and what is not there is said.
    keys.press("/")
    keys.type("enc.1#2")
    keys.press("Enter")
    titled(viewer, "enc.1#2")
    field = viewer.get_by_label("Unit", exact=True)
    field.fill("1")
    keys.press("Enter")
    titled(viewer, "enc.1#1")
    field.fill("77")
    keys.press("Enter")
    viewer.get_by_text("enc.1 has no unit 77: its units are numbered 0 to 3.").wait_for()
    keys.press("Escape")
    assert field.input_value() == "enc.1#1"
    # One by one, by key and by button; the ends are the ends.
    keys.press(".")
    titled(viewer, "enc.1#2")
    viewer.get_by_role("button", name="Next unit").click()
    titled(viewer, "enc.1#3")
    assert viewer.get_by_role("button", name="Next unit").is_disabled()
    keys.press("[")
    titled(viewer, "enc.0#3")
    viewer.get_by_label("Site", exact=True).select_option("enc.0")
    field.fill("enc.0#0")
    keys.press("Enter")
    titled(viewer, "enc.0#0")
    words = viewer.locator("section[aria-label='Top words'] [role=row]").nth(1)
    assert words.inner_text().startswith("cat")
    assert viewer.locator("section[aria-label='Top contexts'] .tok.marked").first.inner_text() == "cat"
    assert viewer.locator("section[aria-label='Distribution of values'] .outline").count() == 1
    # To a ranking that knows it, and from there to another unit, by keys alone.
    viewer.locator("section[aria-label='Ranks by method']").get_by_role("button", name="ranks/mine").first.click()
    titled(viewer, "Units ranked by mine")
    chosen(viewer, "ranks/mine")
    table = viewer.locator("section[aria-label='Top 12 units'] [role=grid]")
    table.focus()
    keys.press("ArrowDown")
    keys.press("ArrowDown")
    second = shelf.ranking().top(2)[1]
    viewer.locator(f"section[aria-label='Top 12 units'] .table-row.selected:has-text('{second}')").wait_for()
    keys.press("Enter")
    titled(viewer, second)
    chosen(viewer, "acts")
    # The address holds it all, and the way back is that of the browser.
    viewer.wait_for_function("name => location.hash.includes(encodeURIComponent(name))", arg=second)
    address = viewer.url
    viewer.evaluate("() => history.back()")
    titled(viewer, "Units ranked by mine")
    viewer.goto("about:blank")
    viewer.goto(address)
    titled(viewer, second)
    viewer.get_by_role("button", name="Collection", exact=True).click()
    titled(viewer, "Activations of activations")
    viewer.get_by_role("button", name="Go to enc.1").or_(viewer.locator(".cell-link", has_text="enc.1")).first.click()
    titled(viewer, "enc.1#0")
    # The list is walked by arrows; names are text.
    viewer.locator(".page-list button").first.focus()
    for _ in range(3):
        keys.press("ArrowDown")
    keys.press("Enter")
    titled(viewer, "What <b>this</b> is")


def test_what_comes_or_goes_is_seen_and_a_topic_has_its_tab(viewer: Page, shelved: tuple[Path, Served]) -> None:
    folder, keys = shelved[0], viewer.keyboard
    assert viewer.get_by_role("tab", name="Language").count() == 0
    viewer.locator(".tab-panel:not([hidden]) .page-list button", has_text="said").click()
    titled(viewer, "What <b>this</b> is")
    Blocks("About words", topic="language").save(folder / "words")
    viewer.get_by_role("tab", name="Language").click()
    titled(viewer, "About words")
    assert viewer.locator(".tab-panel:not([hidden]) .page-list b").all_inner_texts() == ["words"]
    keys.press("7")
    titled(viewer, "What <b>this</b> is")
    shelf.ranking("late").save(folder / "late")
    viewer.locator(".tab-panel:not([hidden]) .page-list button", has_text="late").wait_for()
    # What is damaged is told, and the rest goes on.
    shutil.copytree(folder / "late", folder / "torn")
    (index,) = (folder / "torn" / "rank-0").glob("*.index")
    index.write_bytes(index.read_bytes()[:50])
    viewer.locator(".tab-panel:not([hidden]) .page-list button", has_text="torn").click()
    viewer.locator(".failed", has_text="torn cannot be shown").wait_for()
    viewer.locator(".tab-panel:not([hidden]) .page-list button", has_text="late").click()
    titled(viewer, "Units ranked by late")
    shutil.rmtree(folder / "late")
    viewer.get_by_role("heading", name="Not found: deleted or moved").wait_for()
    for name in ("torn", "words"):
        shutil.rmtree(folder / name)
    keys.press("?")
    viewer.get_by_role("dialog", name="Help").get_by_text("previous · next unit").wait_for()
    keys.press("Escape")


def test_saved_texts_of_language_models_stand_on_their_tab(page: Page, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tests.results.generations import ASKED

    import cutaway

    gen = ASKED["beams"]()
    gen.save(tmp_path / "beams")
    ASKED["labeled"]().save(tmp_path / "label")
    cutaway.lm.similarity({"a": shelf.values()[:, :4], "b": shelf.values()[:, 4:]}).save(tmp_path / "like")
    Blocks("By hand", topic="language").save(tmp_path / "page")
    page.set_default_timeout(PATIENCE)
    with serving(tmp_path) as served:
        page.goto(f"{served.url}/#tab=language")
        entries = page.locator(".tab-panel:not([hidden]) .page-list b")
        entries.nth(3).wait_for()
        assert entries.all_inner_texts() == ["beams", "label", "like", "page"]
        titled(page, gen.page().title)
        marked = page.locator("section[aria-label='Text'] .tok.marked")
        assert marked.count() == len(gen)
        assert page.locator("section[aria-label='Beams'] [role=row]").count() > 2
        page.get_by_role("radio", name="rank").or_(page.get_by_role("button", name="rank", exact=True)).first.click()
        for name, title in (("label", ASKED["labeled"]().page().title), ("like", "Similarity by linear CKA")):
            page.locator(".tab-panel:not([hidden]) .page-list button", has_text=name).click()
            titled(page, title)
        page.locator(".tab-panel:not([hidden]) .page-list button", has_text="page").click()
        titled(page, "By hand")
        page.goto("about:blank")  # before the server goes


def test_a_folder_opens_on_its_start_page_whose_names_become_links(page: Page, tmp_path: Path) -> None:
    table = Table(["saved as", "what it is"], [("runs/net.trace", "a trace"), ("first", "a ranking"), ("base", "none")])
    Blocks("Hello", sections=[Section("What to click", "", [table])], topic="start").save(tmp_path / "start")
    page.set_default_timeout(PATIENCE)
    with serving(tmp_path) as served:
        page.goto(served.url)
        page.wait_for_url("**/#tab=start*")
        titled(page, "Hello")
        assert page.locator(".page-list, .cell-link").count() == 0  # a list of one entry says nothing
        shelf.ranking().save(tmp_path / "first")
        page.locator(".cell-link", has_text="first").click()
        titled(page, "Units ranked by mine")
        page.keyboard.press("9")
        save_trace(tmp_path / "runs" / "net.trace")
        page.locator(".cell-link", has_text="net.trace").click()
        page.locator(".ops-panel code", has_text="net.trace").or_(page.locator(".ops-panel canvas")).first.wait_for()
        page.get_by_role("tab", name="Start").click()
        assert page.locator(".cell-link").all_inner_texts() == ["runs/net.trace", "first"]
        page.goto("about:blank")  # before the server goes


def test_little_room_is_enough_and_an_empty_folder_says_what_to_do(
    page: Page, shelved: tuple[Path, Served], tmp_path: Path
) -> None:
    page.set_default_timeout(PATIENCE)
    page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
    page.goto(f"{shelved[1].url}/")
    page.wait_for_url("**/#tab=neurons*")  # there is no run in this folder
    page.get_by_label("Collection or result").select_option(label="ranks/other · Ranking")
    titled(page, "Units ranked by other")
    page.locator(".cell-link").first.click()
    titled(page, "enc.0#0")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.goto("about:blank")
    with serving(tmp_path) as empty:
        page.goto(f"{empty.url}/#tab=neurons")
        page.locator("pre", has_text="cutaway.collect(").wait_for()
        shelf.ranking().save(tmp_path / "first")
        titled(page, "Units ranked by mine")
        page.goto("about:blank")  # before the server goes
