"""Pages of blocks in a real browser: every block, by pointer and by keys, by day and by night."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.server.test_widget import render
from tests.views.pages.example_pages import HOSTILE, every_block

import cutaway
from cutaway.server.page import html
from cutaway.server.widget import Picture
from cutaway.views.pages.model import Bars, ColoredText, Fact, Facts, Heatmap, Page, Section, Text
from cutaway.views.showable import as_showable

if TYPE_CHECKING:
    from playwright.sync_api import Locator
    from playwright.sync_api import Page as Tab

SMALL = Page("Small", sections=[Section("Only", blocks=[Bars(["a"], [1])])])


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return every_block().to_html(tmp_path_factory.mktemp("blocks") / "page.html")


@pytest.fixture
def opened(page: Tab, file: Path) -> Tab:
    page.goto(file.as_uri())
    page.wait_for_selector(".blocks")
    return page


def section(page: Tab, title: str) -> Locator:
    return page.get_by_role("region", name=title, exact=True)


def tip(place: Locator) -> str:
    """What the pointer or the keys have brought up, in one line."""
    place.page.wait_for_timeout(60)
    return re.sub(r"\s+", " ", place.locator(".block-tip:not(.hidden)").inner_text())


def test_every_text_is_text_and_nothing_runs(opened: Tab) -> None:
    assert opened.title() == f"Past tense {HOSTILE}"
    assert opened.locator("h1").inner_text() == f"Past tense {HOSTILE}"
    said = opened.locator(".blocks").inner_text()
    assert said.count(HOSTILE) >= 5
    for theirs in ("img", "b:has-text('bold')", ".blocks script"):
        assert opened.locator(theirs).count() == 0
    assert opened.evaluate("window.hacked") is None


def test_every_block_is_there(opened: Tab) -> None:
    kinds = opened.locator(".block").evaluate_all("all => all.map((one) => one.dataset.kind)")
    assert set(kinds) == {"prose", "facts", "table", "lines", "bars", "histogram", "heatmap", "text"}
    assert "needs a newer" not in opened.locator(".blocks").inner_text()


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


def test_text_is_colored_by_the_chosen_unit_and_tells_numbers_of_four_figures(opened: Tab) -> None:
    block = every_block().sections[2].blocks[0]
    text = section(opened, "Colored text")
    colors = "all => all.map((one) => one.style.background)"
    token = text.locator(".colored").first.locator("[data-token='1']").first
    token.hover()
    number = f"{block.texts[0].values[0][1]:.4g}".replace("-", "−")  # type: ignore[union-attr]
    assert "committee" in tip(text)
    assert f" {number} " in tip(text)
    before = text.locator(".tok").evaluate_all(colors)
    assert before[2] == "", "it has no number"
    text.get_by_role("radio", name="layer.5#201").click()
    assert text.locator(".tok").evaluate_all(colors) != before
    text.get_by_role("radio", name="all", exact=True).click()
    assert text.locator(".colored").first.locator(".tokens").count() == 9
    zeros = text.locator(".colored").nth(1).locator(".tok")
    assert zeros.evaluate_all(colors) == ["", ""]


def test_keys_walk_through_the_tokens(opened: Tab) -> None:
    text = section(opened, "Colored text")
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
    lines.locator(".block-chart").first.focus()
    opened.keyboard.press("ArrowRight")
    opened.keyboard.press("ArrowRight")
    told = tip(lines)
    assert told.startswith("units kept 5 probeless 0.7711")
    assert "0.75" in told
    assert "0.79" in told
    lines.get_by_role("button", name="random").click()
    assert lines.locator(".block-chart").first.locator(".line").count() == 2


def test_a_histogram_compares_shares_and_counts(opened: Tab) -> None:
    spread = section(opened, "Spread")
    first = spread.locator(".outline").first.get_attribute("d")
    spread.get_by_role("button", name="normalize").click()
    assert spread.locator(".outline").first.get_attribute("d") != first
    spread.locator(".block-chart").focus()
    opened.keyboard.press("ArrowRight")
    assert tip(spread).startswith("−4 to −3.75 past tense 0 0 %")


def test_bars_and_cells_tell_their_numbers(opened: Tab) -> None:
    bars = section(opened, "Over layers")
    bars.get_by_role("listitem").nth(3).hover()
    assert bars.locator(".block-readout").first.inner_text() == "encoder.layer.3 21, from 19 to 23"
    overlap = section(opened, "Overlap of methods")
    overlap.locator(".heatmap").first.focus()
    opened.keyboard.press("ArrowRight")
    opened.keyboard.press("ArrowRight")
    value = every_block().sections[6].blocks[0].values[0][1]  # type: ignore[union-attr]
    assert tip(overlap) == f"probeless × iou {value:.4g}"
    is_near(overlap, overlap.locator("td.at"))
    large = section(opened, "Large matrix")
    large.locator("canvas").hover(position={"x": 2, "y": 2})
    assert tip(large).startswith("token 0 × token 0 −0.")
    is_near(large, large.locator(".heatmap-pixels i"))
    large.locator("canvas").hover(position={"x": 300, "y": 300})
    is_near(large, large.locator(".heatmap-pixels i"))


def is_near(place: Locator, pointed: Locator) -> None:
    """Whether the tip stands right below or above what is pointed at, and within the window."""
    own, about = pointed.bounding_box(), place.locator(".block-tip:not(.hidden)").bounding_box()
    size = place.page.viewport_size
    assert own is not None
    assert about is not None
    assert size is not None
    below, above = about["y"] - own["y"] - own["height"], own["y"] - about["y"] - about["height"]
    assert 0 <= max(below, above) < 12
    assert about["x"] - 12 < own["x"] + own["width"]
    assert own["x"] < about["x"] + about["width"] + 12
    assert about["y"] >= 0
    assert about["y"] + about["height"] <= size["height"]


def linked_page() -> Page:
    """Two texts of the same three targets, the last three of five tokens; a target does not see what is after it."""
    values = [[i / 10 + target / 100 if i < target + 2 else None for i in range(5)] for target in range(3)]
    text = Text(["The", " keys", " are", " here", " now"], values, marks=[2, 3, 4], chooses=[-1, -1, 0, 1, 2])
    names = ["0 are", "1 here", "2 now"]
    shared = {"missing": "not seen by this target", "link": "targets"}
    sections = [
        Section("Share", blocks=[ColoredText(names, [text], is_signed=False, is_share=True, **shared)], is_wide=True),
        Section("For and against", blocks=[ColoredText(names, [text], **shared)], is_wide=True),
        Section("By itself", blocks=[ColoredText(names, [Text(text.tokens, values)])], is_wide=True),
    ]
    return Page("Linked", sections=sections)


@pytest.fixture
def linked(page: Tab, tmp_path: Path) -> Tab:
    page.goto(linked_page().to_html(tmp_path / "linked.html").as_uri())
    page.wait_for_selector(".blocks")
    return page


def chosen(page: Tab) -> list[str]:
    """The chosen channel of each text."""
    page.wait_for_timeout(60)
    return page.locator("[role=radio][aria-checked=true]").all_inner_texts()


def test_pointing_at_a_written_token_shows_its_target_and_a_click_keeps_it(linked: Tab) -> None:
    share = section(linked, "Share")
    assert chosen(linked) == ["0 are", "0 are", "0 are"]
    colors = "all => all.map((one) => one.style.background)"
    before = [part.locator(".tok").evaluate_all(colors) for part in (share, section(linked, "For and against"))]
    share.locator("[data-token='3']").hover()
    assert chosen(linked) == ["1 here", "1 here", "0 are"]
    assert linked.locator(".tok.chosen").all_inner_texts() == ["·here", "·here"]
    after = [part.locator(".tok").evaluate_all(colors) for part in (share, section(linked, "For and against"))]
    assert all(one != other for one, other in zip(before, after, strict=True))
    assert tip(share) == "·here 4 of 5, the target click to pin"
    linked.mouse.move(2, 2)
    assert chosen(linked) == ["0 are", "0 are", "0 are"], "it was a look"
    share.locator("[data-token='4']").click()
    linked.mouse.move(2, 2)
    assert chosen(linked) == ["2 now", "2 now", "0 are"], "it was a click"
    section(linked, "For and against").locator("[data-token='2']").click()
    linked.mouse.move(2, 2)
    assert chosen(linked) == ["0 are", "0 are", "0 are"], "and so in the other text"


def test_a_token_tells_its_number_for_the_chosen_target_alone(linked: Tab) -> None:
    share = section(linked, "Share")
    share.locator("[data-token='1']").hover()
    assert tip(share) == "·keys 2 of 5 for 0 are 10 %"
    share.locator("[data-token='4']").click()
    share.locator("[data-token='2']").hover()
    assert tip(share) == "·are 3 of 5, the target for 2 now 22 % click to pin"
    share.locator("[data-token='2']").click()
    share.locator("[data-token='1']").hover()
    assert share.locator(".tok.unseen").all_inner_texts() == ["·here", "·now"]
    alone = section(linked, "By itself")
    alone.locator("[data-token='4']").hover()
    assert tip(alone) == "·now 5 of 5 no number"
    assert alone.locator(".tok.unseen").count() == 0


def test_enter_keeps_the_target_at_the_keys(linked: Tab) -> None:
    section(linked, "Share").locator(".tokens").focus()
    linked.keyboard.press("End")
    assert chosen(linked)[:2] == ["2 now", "2 now"]
    linked.keyboard.press("ArrowLeft")
    linked.keyboard.press("Enter")
    linked.keyboard.press("Escape")
    assert chosen(linked) == ["1 here", "1 here", "0 are"]
    section(linked, "For and against").get_by_role("radio", name="0 are").click()
    assert chosen(linked)[:2] == ["0 are", "0 are"], "the choice above the text is still there"


def test_sections_read_row_by_row_and_long_facts_have_room(page: Tab, tmp_path: Path) -> None:
    facts = Facts(
        [Fact("n", "3"), Fact("tokenizer", "TokenizersBackend"), Fact("path", "/a/rather/long/path/to/the/model")]
    )
    bars = [
        Section(str(i), blocks=[Bars([str(row) for row in range(rows)], range(rows))])
        for i, rows in enumerate((9, 3, 4, 2))
    ]
    page.goto(Page("Rows", sections=[*bars, Section("Facts", blocks=[facts])]).to_html(tmp_path / "rows.html").as_uri())
    page.set_viewport_size({"width": 1280, "height": 900})
    page.wait_for_timeout(100)
    places = page.locator(".block-section").evaluate_all("all => all.map((one) => [one.offsetTop, one.offsetLeft])")
    assert places == sorted(places)
    assert len({left for _, left in places}) == 2
    heights = page.locator(".block-facts dd").evaluate_all("all => all.map((one) => one.clientHeight)")
    assert len(set(heights)) == 1, "none is broken"


def test_what_is_cut_off_says_so(page: Tab, tmp_path: Path) -> None:
    wide = Heatmap(["row"], [f"column {i}" for i in range(60)], [[i / 60 for i in range(60)]])
    sections = [
        Section("Some", blocks=[Bars([str(i) for i in range(60)], range(60))]),
        Section("Many", blocks=[Bars([str(i) for i in range(90)], range(90))]),
        Section("Wide", blocks=[wide]),
    ]
    page.goto(Page("Cut", sections=sections).to_html(tmp_path / "cut.html").as_uri())
    page.set_viewport_size({"width": 700, "height": 900})
    page.wait_for_timeout(100)
    more = [section(page, name).locator(".block-frame") for name in ("Some", "Many", "Wide")]
    assert [each.get_attribute("data-more") for each in more] == ["", "below", "right"]
    section(page, "Many").locator(".block-bars").evaluate("one => one.scrollTo(0, 1e6)")
    page.wait_for_timeout(100)
    assert more[1].get_attribute("data-more") == "above"
    assert page.get_by_role("navigation", name="Sections").is_visible()


def test_everything_is_reached_by_tab(opened: Tab) -> None:
    reached = opened.evaluate(
        """() => [...document.querySelectorAll(".block")].map((block) =>
            [block.dataset.kind, block.querySelectorAll("button:not([tabindex='-1']), [tabindex='0']").length])"""
    )
    assert all(n >= 1 for _, n in reached)
    assert all(n >= 2 for kind, n in reached[:-4] if kind not in ("facts", "prose"))


@pytest.mark.parametrize("width", [600, 1280])
def test_nothing_is_wider_than_the_window(opened: Tab, width: int) -> None:
    opened.set_viewport_size({"width": width, "height": 900})
    opened.wait_for_timeout(100)
    wide = opened.evaluate(
        """() => [...document.querySelectorAll(".block-section, .block, .block > *")]
            .filter((one) => one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.className)"""
    )
    assert wide == []
    assert opened.evaluate("document.querySelector('.blocks-body').scrollWidth") <= width


def test_it_is_dark_where_the_reader_wants_it(opened: Tab) -> None:
    ground = "getComputedStyle(document.querySelector('.block-section')).backgroundColor"
    by_day = opened.evaluate(ground)
    token = opened.locator("[data-token='9']").first
    inked = token.evaluate("one => one.style.background")
    opened.get_by_role("button", name="Toggle dark mode").click()
    opened.wait_for_timeout(60)
    assert opened.evaluate(ground) != by_day
    assert token.evaluate("one => one.style.background") != inked


def test_several_pages_have_a_tab_each(page: Tab, tmp_path: Path) -> None:
    path = tmp_path / "two.html"
    path.write_text(html([as_showable(SMALL), as_showable(Page("Other"))]), encoding="utf-8")
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
    render(page, Picture([as_showable(every_block())]))
    page.wait_for_selector(".cutaway-notebook .blocks")
    box = page.locator(".cutaway-notebook").bounding_box()
    assert box is not None
    assert box["height"] == 640, "what is longer is scrolled"
    assert page.locator(".blocks.dark").count() == 1
    assert page.locator(".block").count() == 17
    assert page.evaluate("window.hacked") is None
    page.evaluate("window.cleanup()")
    assert page.locator(".blocks").count() == 0


def test_a_notebook_gets_the_widget_and_the_still_page(monkeypatch: pytest.MonkeyPatch) -> None:
    published: list[dict[str, Any]] = []
    display = SimpleNamespace(publish=lambda data, metadata: published.append(data))
    shell = SimpleNamespace(kernel=object(), execution_count=1, display_pub=display)
    monkeypatch.setattr("cutaway.server.show._kernel", lambda: shell)
    shown = cutaway.show(SMALL)
    assert isinstance(shown.widget, Picture)
    assert "<h2" in published[0]["text/html"]
    assert published[0]["text/html"] == SMALL._repr_html_()
    assert shown.widget._detail(0, 0) is None
