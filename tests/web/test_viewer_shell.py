"""The frame of the viewer in a real browser: steps, selectors, runs, tabs, palette, address, keys, narrow windows."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest
from tests.server.served import Served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytest.importorskip("starlette")
PATIENCE = 20_000
"""Milliseconds that something may take on a busy machine."""


@pytest.fixture
def viewer(page: Page, served: Served) -> Page:
    """The page on the recorded runs, when all of it is there."""
    opened(page, served.url)
    return page


def opened(page: Page, url: str) -> None:
    page.set_default_timeout(PATIENCE)
    page.goto(url)
    page.wait_for_selector(".step-slider")


def at_step(page: Page, step: int) -> None:
    page.wait_for_selector(f".step-slider[aria-valuenow='{step}']")


def says(page: Page, name: str, value: str | None) -> None:
    """Wait until the address says something; None for nothing."""
    page.wait_for_function(
        "([name, value]) => new URLSearchParams(location.hash.slice(1)).get(name) === value", arg=[name, value]
    )


def shows(page: Page, name: str, value: str) -> None:
    """Wait until a selector shows something."""
    page.wait_for_function(
        "([name, value]) => document.querySelector(`[aria-label='${name}'] .on`)?.textContent === value",
        arg=[name, value],
    )


def is_on(page: Page, tab: str) -> None:
    page.wait_for_selector(f"[role=tab][aria-selected=true]:text-is('{tab}')")


def run_of(served: Served, page: Page, name: str = "base") -> dict[str, Any]:
    """What the server itself says of a run."""
    [item] = [one for one in json.load(urlopen(f"{served.url}/api/runs")) if one["name"] == name]
    found: dict[str, Any] = json.load(urlopen(f"{served.url}/api/run/{item['id']}"))
    return found


def test_steps_are_walked_dragged_paged_and_typed(viewer: Page, served: Served) -> None:
    run, keys = run_of(served, viewer), viewer.keyboard
    steps, kinds = run["steps"], [run["kinds"][kind] for kind in run["kind_of"]]
    at_step(viewer, steps[-1])
    keys.press(",")
    at_step(viewer, steps[-2])
    keys.press(",")
    keys.press(".")
    at_step(viewer, steps[-2])
    says(viewer, "step", str(steps[-2]))
    slider = viewer.locator(".step-slider")
    slider.focus()
    keys.press("Home")
    at_step(viewer, steps[0])
    keys.press("ArrowRight")
    at_step(viewer, steps[1])
    keys.press("PageUp")
    at_step(viewer, steps[2])
    keys.press("End")
    keys.press("PageDown")
    at_step(viewer, steps[-2])
    keys.press("Home")
    keys.press("Shift+ArrowRight")
    at_step(viewer, [step for step, kind in zip(steps, kinds, strict=True) if kind == kinds[0]][1])
    shows(viewer, "Kind of step", "all")
    # A number goes to the recorded step next to it: typed on the slider, or into the field that a key opens.
    for typed in ("25", "9999", "0"):
        keys.type(typed) if typed == "25" else (keys.press("g"), keys.type(typed))
        keys.press("Enter")
        at_step(viewer, min(steps, key=lambda step, wish=int(typed): (abs(step - wish), step)))
    viewer.locator("button.step-number").click()
    keys.type("13")
    keys.press("Escape")
    at_step(viewer, steps[0])
    assert slider.evaluate("one => one === document.activeElement")
    # The mouse.
    slider.evaluate("one => one.blur()")
    box = slider.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    viewer.mouse.move(box["x"] + box["width"] - 12, middle)
    viewer.mouse.down()
    at_step(viewer, steps[-1])
    viewer.mouse.move(box["x"] + box["width"] / 2, middle, steps=8)
    viewer.mouse.move(box["x"] + 2, middle, steps=8)
    viewer.mouse.up()
    at_step(viewer, steps[0])
    keys.press("3")  # a tab, for who came by the mouse
    is_on(viewer, "Curves")
    keys.press("1")
    note = next(note for note in run["notes"] if note["level"] == "warning")
    share = note["step"] / max(run["logged"][1], steps[-1])
    viewer.mouse.move(box["x"] + 10 + share * (box["width"] - 20), box["y"] + 4)
    viewer.wait_for_selector(".slider-over .bad")
    assert note["text"] in viewer.locator(".slider-over").inner_text()
    # A kind leaves its steps only; the step that was wished for comes back.
    place = next(place for place, kind in enumerate(kinds) if place > 2 and kind == "short")
    viewer.goto(f"{served.url}/#step={steps[place]}")
    at_step(viewer, steps[place])
    viewer.get_by_role("radio", name="long").click()
    viewer.wait_for_function(f"() => !document.querySelector('.step-slider[aria-valuenow=\"{steps[place]}\"]')")
    assert kinds[steps.index(int(slider.get_attribute("aria-valuenow") or -1))] == "long"
    viewer.get_by_role("radiogroup", name="Kind of step").get_by_role("radio", name="all", exact=True).click()
    at_step(viewer, steps[place])


def test_choices_are_made_by_keys_and_remembered_where_a_tensor_cannot_fulfill_them(
    viewer: Page, served: Served
) -> None:
    keys = viewer.keyboard
    viewer.goto(f"{served.url}/#node=head&of=grad/guess")
    viewer.wait_for_selector(".inspector h2")
    shows(viewer, "Show", "of guess")
    viewer.goto(f"{served.url}/#node=$target&of=grad/guess")
    shows(viewer, "Show", "value")
    says(viewer, "of", "grad/guess")
    viewer.evaluate("() => history.back()")
    shows(viewer, "Show", "of guess")
    viewer.goto(f"{served.url}/#node=head")
    shows(viewer, "Part", "main")
    shows(viewer, "Iteration", "all")
    keys.press("e")
    shows(viewer, "Iteration", "1")
    keys.press("e")
    shows(viewer, "Iteration", "2")
    keys.press("s")
    shows(viewer, "Show", "gradient")
    keys.press("s")
    shows(viewer, "Show", "of guess")
    keys.press("m")
    shows(viewer, "Part", "margin")
    shows(viewer, "Show", "value")
    keys.press("b")
    viewer.wait_for_selector(".sample-menu.on")
    says(viewer, "sample", "0")
    keys.press("B")
    says(viewer, "sample", None)
    # Arrows walk a group of choices, which is one stop of the Tab key.
    viewer.get_by_role("radio", name="main", exact=True).click()
    show = viewer.get_by_role("radiogroup", name="Show")
    assert show.locator("[tabindex='0']").count() == 1
    show.locator("[tabindex='0']").focus()
    keys.press("ArrowLeft")
    keys.press("ArrowLeft")
    shows(viewer, "Show", "value")
    assert show.locator(":focus").inner_text() == "value"
    keys.press("ArrowRight")
    keys.press("ArrowRight")
    shows(viewer, "Show", "of guess")
    # A key that can do nothing says why.
    viewer.goto(f"{served.url}/#node=$target")
    viewer.wait_for_selector(".tensor-head h2:has-text('target')")
    keys.press("m")
    viewer.wait_for_selector(".toast:has-text('has only one tensor')")
    # The inspector is shut and opened.
    keys.press("i")
    viewer.wait_for_selector(".inspector", state="detached")
    keys.press("i")
    viewer.wait_for_selector(".inspector")


def test_a_sample_is_wished_for_before_it_is_known_which_there_are(page: Page, served: Served) -> None:
    waiting: list[Route] = []
    page.route("**/samples?*", lambda route: waiting.append(route))
    opened(page, served.url)
    page.keyboard.press("b")
    says(page, "sample", "0")
    assert page.locator(".sample-menu").count() == 0
    for route in waiting:
        route.continue_()
    page.unroute("**/samples?*")
    page.wait_for_selector(".sample-menu.on")


TABS = {
    "Tensors": ".run-graph",
    "Ops": ".app",
    "Curves": ".uplot",
    "Overview": "[role=grid], table",
    "Network": ".treemap",
    "Notes": ".notes-panel",
}


def test_tabs_palette_and_help_are_reached_by_click_and_key(viewer: Page, served: Served) -> None:
    keys = viewer.keyboard
    steps = run_of(served, viewer)["steps"]
    viewer.on("dialog", lambda _: pytest.fail("something in the run was run"))
    for name, content in TABS.items():
        viewer.get_by_role("tab", name=name).click()
        viewer.wait_for_selector(f".tab-panel[aria-label='{name}']:not([hidden])")
        viewer.locator(f".tab-panel[aria-label='{name}'] :is({content})").first.wait_for()
    for number, name in enumerate(TABS, start=1):
        keys.press(str(number))
        is_on(viewer, name)
    says(viewer, "tab", "notes")
    viewer.evaluate("() => history.back()")
    is_on(viewer, "Network")
    assert viewer.locator("img[src=x]").count() == 0  # which is a name in this run
    # The palette.
    keys.press("Control+k")
    keys.type("blocks.1.up")
    viewer.wait_for_selector(".palette li[aria-selected=true]:has-text('blocks.1.up')")
    keys.press("Enter")
    viewer.wait_for_selector(".inspector h2:has-text('up')")
    says(viewer, "node", "blocks.1.up")
    for typed in (str(steps[2]), "deep/other", "notes"):
        keys.press("Control+k")
        viewer.get_by_role("combobox", name="Search tensors").fill(typed)
        viewer.wait_for_selector(f".palette li[aria-selected=true]:has-text('{typed}')")
        keys.press("Enter")
        viewer.wait_for_selector(".palette", state="detached")
    is_on(viewer, "Notes")
    at_step(viewer, steps[2])
    assert viewer.locator(".chip.active .chip-name").inner_text() == "deep/other"
    keys.press("Control+k")
    recent = viewer.locator(".palette .palette-title").all_inner_texts()
    assert recent[:3] == ["Notes", "deep/other", "blocks.1.up"]
    keys.press("Escape")
    viewer.wait_for_selector(".palette", state="detached")
    # Searching goes to the field of the tab.
    keys.press("/")
    assert viewer.locator(":focus").get_attribute("aria-label") == "Search notes"
    keys.press("Tab")
    # Help, and light and dark, which is kept.
    for press in (lambda: keys.press("?"), viewer.get_by_role("button", name="Help").locator("visible=true").click):
        press()
        assert "follow the newest step" in viewer.get_by_role("dialog").inner_text()
        keys.press("Escape")
        viewer.get_by_role("dialog").wait_for(state="detached")
    keys.press("t")
    theme = viewer.locator("#cutaway").get_attribute("data-theme")
    assert theme in ("light", "dark")
    viewer.reload()
    viewer.wait_for_selector(f"#cutaway[data-theme={theme}]")


def test_the_address_is_written_at_once_and_shows_the_same_elsewhere(viewer: Page, browser: Browser) -> None:
    viewer.keyboard.press("4")
    viewer.keyboard.press(",")
    viewer.get_by_role("radio", name="gradient", exact=True).click()
    viewer.keyboard.press(",")
    step = int(viewer.locator(".step-slider").get_attribute("aria-valuenow") or -1)
    viewer.reload()
    at_step(viewer, step)
    shows(viewer, "Show", "gradient")
    is_on(viewer, "Overview")
    url = viewer.url
    other = browser.new_context().new_page()
    opened(other, url)
    at_step(other, step)
    other.keyboard.press(",")
    other.wait_for_function("url => location.href !== url", arg=url)
    at_step(viewer, step)
    assert viewer.url == url
    other.context.close()


def test_the_address_says_what_was_chosen_a_moment_ago(page: Page, served: Served) -> None:
    page.clock.install()
    opened(page, f"{served.url}/#step=24")
    at_step(page, 24)
    page.clock.pause_at(page.evaluate("Date.now()") / 1000 + 1)
    for key, name, value in (("4", "tab", "overview"), ("Home", "step", "0"), ("k", "kind", "long")):
        page.keyboard.down(key)  # `press` waits for a frame, and time stands still
        page.keyboard.up(key)
        page.clock.run_for(60)
        assert page.evaluate("name => new URLSearchParams(location.hash.slice(1)).get(name)", name) == value


def test_what_is_looked_at_on_the_ops_tab_is_in_the_address(page: Page, served: Served) -> None:
    opened(page, served.url)
    page.keyboard.press("2")
    panel = page.locator(".tab-panel[aria-label='Ops']")
    panel.get_by_label("Search", exact=True).fill("head/linear")
    page.keyboard.press("Enter")
    holds = panel.locator("aside", has_text="mean").filter(has_not_text="Loading details")
    holds.wait_for()
    page.wait_for_function("() => decodeURIComponent(location.hash).includes('~ops=')")
    page.wait_for_function("() => decodeURIComponent(location.hash).includes('~trace=')")
    about = holds.inner_text()
    assert "head" in about
    page.reload()
    holds.wait_for()
    assert holds.inner_text() == about
    # One button for help, and it tells the keys of this tab.
    assert page.get_by_role("button", name="Help").locator("visible=true").count() == 1
    panel.locator("canvas").first.focus()
    page.keyboard.press("?")
    assert "roll up or unroll loops" in page.get_by_role("dialog").inner_text()
    assert "follow the newest step" not in page.get_by_role("dialog").inner_text()


def test_runs_are_looked_at_and_laid_over_each_other(viewer: Page, served: Served) -> None:
    other = run_of(served, viewer, "deep/other")
    values = viewer.locator(".timeline-value")
    chip = viewer.get_by_role("button", name="deep/other", exact=True)
    viewer.get_by_role("button", name="Show deep/other").click()
    viewer.wait_for_function("() => document.querySelectorAll('.timeline-value').length === 2")
    assert viewer.locator(".chip.active .chip-name").inner_text() == "base"
    assert values.locator(".run-letter").all_inner_texts() == ["A", "B"]  # told apart without colors, too
    assert not values.locator("line[stroke-dasharray]").count()  # dashes mean kinds of steps
    viewer.keyboard.press("x")
    at_step(viewer, other["steps"][-1])
    says(viewer, "runs", f"{run_of(served, viewer)['item']['id']},{other['item']['id']}")
    chip.click(modifiers=["Shift"])
    viewer.wait_for_function("() => document.querySelectorAll('.timeline-value').length === 1")
    assert viewer.locator(".chip.active .chip-name").inner_text() == "base"
    chip.click()
    at_step(viewer, other["steps"][-1])
    says(viewer, "runs", other["item"]["id"])
    # A tensor of the other one that this one has not.
    viewer.goto(f"{served.url}/#node=no.such&run={other['item']['id']}")
    viewer.wait_for_selector(".inspector:has-text('deep/other has no tensor no.such')")


def test_what_is_pointed_at_on_the_slider_is_pointed_at_on_the_strip(viewer: Page, served: Served) -> None:
    run = run_of(served, viewer)
    slider, plot = viewer.locator(".step-slider"), viewer.locator(".timeline .u-over")
    # The number beside the timeline takes room from it.
    viewer.locator(".timeline-value b", has_text=re.compile(r"\d")).first.wait_for()
    plot.wait_for()
    viewer.wait_for_timeout(150)
    line, timeline = slider.bounding_box(), plot.bounding_box()
    assert line is not None
    assert timeline is not None
    step = run["steps"][4]
    share = step / run["logged"][1]
    viewer.mouse.move(line["x"] + 10 + share * (line["width"] - 20), line["y"] + 20)
    viewer.locator(".timeline .curve-readout", has_text=f"step {step}").wait_for()
    cursor = viewer.locator(".timeline .u-cursor-x").bounding_box()
    assert cursor is not None
    assert (cursor["x"] - timeline["x"]) / timeline["width"] == pytest.approx(share, abs=0.01)
    viewer.mouse.move(timeline["x"] + 0.75 * timeline["width"], timeline["y"] + 30)
    viewer.locator(".step-pointed").wait_for(state="attached")
    mark = viewer.locator(".step-pointed").bounding_box()
    assert mark is not None
    assert (mark["x"] - line["x"] - 10) / (line["width"] - 20) == pytest.approx(0.75, abs=0.01)
    read = viewer.locator(".timeline .curve-readout").inner_text()
    assert re.search(r"step 3[56]\s+base\s+[\d.]+", read)
    viewer.mouse.move(10, 400)
    viewer.locator(".step-pointed").wait_for(state="detached")


def test_notes_are_searched_and_the_network_leads_to_its_parameters(viewer: Page, served: Served) -> None:
    run = run_of(served, viewer)
    note = next(note for note in run["notes"] if note["level"] == "warning")
    viewer.keyboard.press("6")
    viewer.get_by_label("Search notes").fill("rose")
    viewer.wait_for_selector(".search-count:text('1 of')")
    viewer.get_by_text(note["text"]).first.click()
    at_step(viewer, note["step"])
    assert note["text"] in viewer.get_by_label("Selected note").inner_text()
    viewer.get_by_role("tab", name="Network").click()
    viewer.locator(".tile[title^='blocks.0.up']").click()
    viewer.locator(".module-card button:text('weight')").click()
    is_on(viewer, "Tensors")
    says(viewer, "node", "blocks.0.up.weight")


def test_a_change_is_timed_from_the_event_to_the_pixels(viewer: Page) -> None:
    for key in (",", "k", "s", "4", "1"):
        viewer.keyboard.press(key)
        taken = viewer.evaluate(
            """() => new Promise((done, fail) => {
                setTimeout(() => fail(new Error("never shown")), 10000);
                const look = () => {
                    const last = (name) => performance.getEntriesByName(`cutaway:${name}`).at(-1);
                    const [from, to] = [last("selected"), last("shown")];
                    if (from && to && from.detail === to.detail) done(to.startTime - from.startTime);
                    else setTimeout(look, 5);
                };
                look();
            })"""
        )
        assert taken > 0
    assert viewer.evaluate("() => performance.getEntriesByName('cutaway:shown').length") == 1


CUT = """() => {
    const found = [];
    const bars = ".viewer-header button, .selectors :is(button, select), .panel-bar *, .inspector-handle, .timeline *";
    for (const one of document.querySelectorAll(bars)) {
        if (!one.checkVisibility() || one.closest(".chip-row, .tabs")) continue;
        const { left, right } = one.getBoundingClientRect();
        if (left < -1 || right > innerWidth + 1) found.push(`${one.ariaLabel || one.textContent} ${left} … ${right}`);
    }
    return found;
}"""
"""What can be pressed in the bars, and is not wholly in the window. Runs and tabs are scrolled to."""


def test_windows_of_any_width_have_everything(page: Page, served: Served) -> None:
    opened(page, f"{served.url}/#node=head&step=24")
    for width in (360, 600, 900, 1600):
        page.set_viewport_size({"width": width, "height": 800})
        for key in "123456":
            page.keyboard.press(key)
            page.wait_for_function(
                "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
            )
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width
            assert page.evaluate(CUT) == [], f"tab {key} at {width}"
            slider = page.locator(".step-slider")
            if slider.count():
                box = slider.bounding_box()
                assert box is not None
                assert box["width"] > 100
                assert box["x"] + box["width"] <= width
    # The inspector lies below the graph, is shut by a press, and gets more room by a drag.
    page.set_viewport_size({"width": 600, "height": 900})
    page.keyboard.press("1")
    handle, inspector = page.locator(".inspector-handle:visible"), page.locator(".inspector:visible")
    handle.click()
    inspector.wait_for(state="detached")
    assert "head" in handle.inner_text()
    handle.click()
    inspector.wait_for()
    before, bar = inspector.bounding_box(), handle.bounding_box()
    assert before is not None
    assert bar is not None
    page.mouse.move(bar["x"] + 100, bar["y"] + 10)
    page.mouse.down()
    page.mouse.move(bar["x"] + 100, bar["y"] - 70, steps=4)
    page.mouse.up()
    after = inspector.bounding_box()
    assert after is not None
    assert after["height"] == pytest.approx(before["height"] + 80, abs=3)
