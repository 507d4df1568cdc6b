"""Pages of plates in a real browser: every plate, by pointer and by keys, by day and by night."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.server.test_widget import render
from tests.views.plate_pages import HOSTILE, every_plate

import cutaway
from cutaway.server.page import html
from cutaway.server.widget import Picture
from cutaway.views.plates import Bars, Page, Section
from cutaway.views.showing import showing

if TYPE_CHECKING:
    from playwright.sync_api import Locator
    from playwright.sync_api import Page as Tab

SMALL = Page("Small", sections=[Section("Only", plates=[Bars(["a"], [1])])])


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return every_plate().to_html(tmp_path_factory.mktemp("plates") / "page.html")


@pytest.fixture
def opened(page: Tab, file: Path) -> Tab:
    page.goto(file.as_uri())
    page.wait_for_selector(".plates")
    return page


def section(page: Tab, title: str) -> Locator:
    return page.get_by_role("region", name=title, exact=True)


def tip(place: Locator) -> str:
    """What the pointer or the keys have brought up, in one line."""
    place.page.wait_for_timeout(60)
    return re.sub(r"\s+", " ", place.locator(".plate-tip:not(.gone)").inner_text())


def test_every_text_is_text_and_nothing_runs(opened: Tab) -> None:
    assert opened.title() == f"Past tense {HOSTILE}"
    assert opened.locator("h1").inner_text() == f"Past tense {HOSTILE}"
    said = opened.locator(".plates").inner_text()
    assert said.count(HOSTILE) >= 5
    for theirs in ("img", "b:has-text('bold')", ".plates script"):
        assert opened.locator(theirs).count() == 0
    assert opened.evaluate("window.hacked") is None


def test_every_plate_is_there(opened: Tab) -> None:
    kinds = opened.locator(".plate").evaluate_all("all => all.map((one) => one.dataset.kind)")
    assert set(kinds) == {"prose", "facts", "table", "lines", "bars", "histogram", "heatmap", "text"}
    assert "needs a newer" not in opened.locator(".plates").inner_text()


def test_a_table_is_sorted_by_a_click_and_copied_with_all_figures(opened: Tab) -> None:
    table = section(opened, "Best units").get_by_role("grid", name="The best 60")
    rank = table.get_by_role("columnheader", name="rank by IoU")
    rank.get_by_role("button").click()
    column = "rows => rows.slice(0, 8).map((row) => row.children[4].textContent)"
    shown = [int(text.replace(",", "")) for text in table.locator(".table-row").evaluate_all(column)]
    assert shown == sorted(shown, reverse=True)
    assert rank.get_attribute("aria-sort") == "descending"
    opened.context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened.get_by_role("button", name="Copy as text: The best 60").click()
    section(opened, "Best units").get_by_text("copied").wait_for()
    lines = opened.evaluate("navigator.clipboard.readText()").split("\n")
    assert len(lines) == 61
    assert lines[4].split("\t")[1] == "-0.8125"


def test_text_is_coloured_by_the_chosen_unit_and_tells_whole_numbers(opened: Tab) -> None:
    plate = every_plate().sections[2].plates[0]
    text = section(opened, "Coloured text")
    colours = "all => all.map((one) => one.style.background)"
    token = text.locator(".coloured").first.locator("[data-token='1']").first
    token.hover()
    exact = str(plate.texts[0].values[0][1]).replace("-", "−")  # type: ignore[union-attr]
    assert "committee" in tip(text)
    assert exact in tip(text)
    before = text.locator(".tok").evaluate_all(colours)
    assert before[2] == "", "it has no number"
    text.get_by_role("radio", name="layer.5#201").click()
    assert text.locator(".tok").evaluate_all(colours) != before
    text.get_by_role("radio", name="all", exact=True).click()
    assert text.locator(".coloured").first.locator(".tokens").count() == 9
    zeros = text.locator(".coloured").nth(1).locator(".tok")
    assert zeros.evaluate_all(colours) == ["", ""]


def test_keys_walk_through_the_tokens(opened: Tab) -> None:
    text = section(opened, "Coloured text")
    text.locator(".tokens").first.focus()
    for _ in range(3):
        opened.keyboard.press("ArrowRight")
    assert "had" in tip(text)
    assert text.locator(".tok.at").inner_text() == "had"
    opened.keyboard.press("End")
    assert text.locator(".tok.at").inner_text() == "settled"
    opened.keyboard.press("Escape")
    assert text.locator(".tok.at").count() == 0


def test_lines_tell_what_they_are_at_the_pointer_and_the_keys(opened: Tab) -> None:
    lines = section(opened, "How many units are needed")
    lines.locator(".plate-chart").first.focus()
    opened.keyboard.press("ArrowRight")
    opened.keyboard.press("ArrowRight")
    told = tip(lines)
    assert told.startswith("units kept 5 probeless 0.77111456180001")
    assert "0.75" in told
    assert "0.79" in told
    lines.get_by_role("button", name="random").click()
    assert lines.locator(".plate-chart").first.locator(".line").count() == 2


def test_a_histogram_compares_shares_and_counts(opened: Tab) -> None:
    spread = section(opened, "Spread")
    first = spread.locator(".outline").first.get_attribute("d")
    spread.get_by_role("button", name="shares").click()
    assert spread.locator(".outline").first.get_attribute("d") != first
    spread.locator(".plate-chart").focus()
    opened.keyboard.press("ArrowRight")
    assert tip(spread).startswith("−4 to −3.75 past tense 0 0.00 %")


def test_bars_and_cells_tell_whole_numbers(opened: Tab) -> None:
    bars = section(opened, "Over layers")
    bars.get_by_role("listitem").nth(3).hover()
    assert bars.locator(".plate-said").first.inner_text() == "encoder.layer.3 21, from 19 to 23"
    overlap = section(opened, "Overlap of methods")
    overlap.locator(".heatmap").first.focus()
    opened.keyboard.press("ArrowRight")
    opened.keyboard.press("ArrowRight")
    exact = every_plate().sections[6].plates[0].values[0][1]  # type: ignore[union-attr]
    assert overlap.locator(".plate-said").first.inner_text() == f"probeless × iou {exact}"
    large = section(opened, "Large matrix")
    large.locator("canvas").hover(position={"x": 2, "y": 2})
    assert large.locator(".plate-said").inner_text().startswith("token 0 × token 0 −0.")


def test_everything_is_reached_by_tab(opened: Tab) -> None:
    reached = opened.evaluate(
        """() => [...document.querySelectorAll(".plate")].map((plate) =>
            [plate.dataset.kind, plate.querySelectorAll("button:not([tabindex='-1']), [tabindex='0']").length])"""
    )
    assert all(n >= 1 for _, n in reached)
    assert all(n >= 2 for kind, n in reached[:-4] if kind not in ("facts", "prose"))


@pytest.mark.parametrize("width", [600, 1280])
def test_nothing_is_wider_than_the_window(opened: Tab, width: int) -> None:
    opened.set_viewport_size({"width": width, "height": 900})
    opened.wait_for_timeout(100)
    wide = opened.evaluate(
        """() => [...document.querySelectorAll(".plate-section, .plate, .plate > *")]
            .filter((one) => one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.className)"""
    )
    assert wide == []
    assert opened.evaluate("document.querySelector('.plates-body').scrollWidth") <= width


def test_it_is_dark_where_the_reader_wants_it(opened: Tab) -> None:
    ground = "getComputedStyle(document.querySelector('.plate-section')).backgroundColor"
    by_day = opened.evaluate(ground)
    token = opened.locator("[data-token='9']").first
    inked = token.evaluate("one => one.style.background")
    opened.get_by_role("button", name="Light or dark").click()
    opened.wait_for_timeout(60)
    assert opened.evaluate(ground) != by_day
    assert token.evaluate("one => one.style.background") != inked


def test_several_pages_have_a_tab_each(page: Tab, tmp_path: Path) -> None:
    path = tmp_path / "two.html"
    path.write_text(html([showing(SMALL), showing(Page("Other"))]), encoding="utf-8")
    page.goto(path.as_uri())
    assert page.get_by_role("tab").all_inner_texts() == ["Small", "Other"]
    page.get_by_role("listitem").hover()


def test_show_writes_a_page_and_to_html_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTAWAY_BROWSER", "none")
    shown = cutaway.show(SMALL, path=tmp_path / "a.html")
    assert SMALL.to_html(tmp_path / "b.html").read_bytes() == (tmp_path / "a.html").read_bytes()
    assert repr(shown) == f"<Shown Small in {tmp_path / 'a.html'}>"


def test_a_notebook_draws_the_page_in_its_cell(page: Tab) -> None:
    page.goto("about:blank")
    page.set_content("<body data-jp-theme-light='false'></body>")
    render(page, Picture([showing(every_plate())]))
    page.wait_for_selector(".cutaway-notebook .plates")
    box = page.locator(".cutaway-notebook").bounding_box()
    assert box is not None
    assert box["height"] == 640, "what is longer is scrolled"
    assert page.locator(".plates.dark").count() == 1
    assert page.locator(".plate").count() == 17
    assert page.evaluate("window.hacked") is None
    page.evaluate("window.cleanup()")
    assert page.locator(".plates").count() == 0


def test_a_notebook_gets_the_widget_and_the_still_page(monkeypatch: pytest.MonkeyPatch) -> None:
    published: list[dict[str, Any]] = []
    display = SimpleNamespace(publish=lambda data, metadata: published.append(data))
    shell = SimpleNamespace(kernel=object(), execution_count=1, display_pub=display)
    monkeypatch.setattr("cutaway.server.showing._kernel", lambda: shell)
    shown = cutaway.show(SMALL)
    assert isinstance(shown.widget, Picture)
    assert "<h2" in published[0]["text/html"]
    assert published[0]["text/html"] == SMALL._repr_html_()
    assert shown.widget._detail(0, 0) is None
