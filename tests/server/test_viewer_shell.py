"""The frame of the viewer in a real browser: runs, tabs, selectors, palette, address, growth, and what goes wrong."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.server.served import Served, serving

from cutaway.store.records import Row
from cutaway.store.writer import Writer

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PATIENCE = 20_000
"""Milliseconds that something may take on a busy machine."""


@pytest.fixture
def viewer(page: Page, served: Served) -> Page:
    """The page on the recorded runs, when all of it is there."""
    opened(page, served.url)
    return page


@pytest.fixture
def lenient(browser: Browser) -> Iterator[Page]:
    """A page in which requests may be refused, which browsers log as errors."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    failures: list[str] = []
    page.on("pageerror", lambda error: failures.append(str(error)))
    yield page
    context.close()
    assert failures == []


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


def steps_of(served: Served, page: Page, name: str = "base") -> dict[str, Any]:
    """What the server itself says of a run."""
    [item] = [one for one in page.request.get(f"{served.url}/api/runs").json() if one["name"] == name]
    found: dict[str, Any] = page.request.get(f"{served.url}/api/run/{item['id']}").json()
    return found


def test_the_newest_step_is_shown_first_and_keys_walk_the_recorded_ones(viewer: Page, served: Served) -> None:
    steps = steps_of(served, viewer)["steps"]
    at_step(viewer, steps[-1])
    viewer.keyboard.press(",")
    at_step(viewer, steps[-2])
    viewer.keyboard.press(",")
    viewer.keyboard.press(".")
    at_step(viewer, steps[-2])
    says(viewer, "step", str(steps[-2]))
    viewer.locator(".step-slider").focus()
    viewer.keyboard.press("Home")
    at_step(viewer, steps[0])
    viewer.keyboard.press("ArrowRight")
    at_step(viewer, steps[1])


def test_steps_of_the_same_kind_are_walked_with_shift(viewer: Page, served: Served) -> None:
    run = steps_of(served, viewer)
    kinds = [run["kinds"][kind] for kind in run["kind_of"]]
    same = [step for step, kind in zip(run["steps"], kinds, strict=True) if kind == kinds[0]]
    viewer.locator(".step-slider").focus()
    viewer.keyboard.press("Home")
    viewer.keyboard.press("Shift+ArrowRight")
    at_step(viewer, same[1])
    shows(viewer, "Kind of step", "all")


def test_a_kind_leaves_its_steps_only_and_the_old_step_comes_back(viewer: Page, served: Served) -> None:
    run = steps_of(served, viewer)
    place = next(place for place, kind in enumerate(run["kind_of"]) if place > 2 and run["kinds"][kind] == "short")
    viewer.goto(f"{served.url}/#step={run['steps'][place]}")
    at_step(viewer, run["steps"][place])
    viewer.get_by_role("radio", name="long").click()
    viewer.wait_for_function(f"() => !document.querySelector('.step-slider[aria-valuenow=\"{run['steps'][place]}\"]')")
    shown = int(viewer.locator(".step-slider").get_attribute("aria-valuenow") or -1)
    assert run["kinds"][run["kind_of"][run["steps"].index(shown)]] == "long"
    viewer.get_by_role("radio", name="all", exact=True).click()
    at_step(viewer, run["steps"][place])


def test_the_slider_is_dragged_and_a_mark_leads_to_its_note(viewer: Page, served: Served) -> None:
    run = steps_of(served, viewer)
    box = viewer.locator(".step-slider").bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    viewer.mouse.move(box["x"] + box["width"] - 12, middle)
    viewer.mouse.down()
    viewer.mouse.move(box["x"] + box["width"] / 2, middle, steps=8)
    viewer.mouse.move(box["x"] + 2, middle, steps=8)
    viewer.mouse.up()
    at_step(viewer, run["steps"][0])
    note = next(note for note in run["notes"] if note["level"] == "warning")
    share = (note["step"] - run["steps"][0]) / (run["steps"][-1] - run["steps"][0])
    viewer.mouse.move(box["x"] + 10 + share * (box["width"] - 20), box["y"] + 4)
    assert note["text"] in viewer.locator(".slider-over").inner_text()


def test_choices_are_remembered_where_a_tensor_cannot_fulfil_them(viewer: Page, served: Served) -> None:
    viewer.goto(f"{served.url}/#node=head&of=grad/guess")
    viewer.wait_for_selector(".inspector h2")
    shows(viewer, "Show", "of guess")
    viewer.goto(f"{served.url}/#node=$target&of=grad/guess")
    shows(viewer, "Show", "value")
    says(viewer, "of", "grad/guess")
    viewer.go_back()
    shows(viewer, "Show", "of guess")


def test_iteration_show_sample_and_part_are_chosen_by_keys(viewer: Page, served: Served) -> None:
    viewer.goto(f"{served.url}/#node=head")
    shows(viewer, "Part", "main")
    shows(viewer, "Iteration", "1")
    viewer.keyboard.press("e")
    shows(viewer, "Iteration", "2")
    viewer.keyboard.press("s")
    shows(viewer, "Show", "of guess")
    viewer.keyboard.press("m")
    shows(viewer, "Part", "margin")
    shows(viewer, "Show", "value")
    viewer.wait_for_selector(".sample-menu")
    viewer.keyboard.press("b")
    viewer.wait_for_selector(".sample-menu.on")
    says(viewer, "sample", "0")
    viewer.keyboard.press("B")
    says(viewer, "sample", None)


TABS = {
    "Tensors": ".run-graph",
    "Ops": ".app",
    "Curves": ".uplot",
    "Overview": "[role=grid], table",
    "Network": ".treemap",
    "Notes": ".notes-panel",
}


def test_every_tab_shows_something_and_is_reached_by_click_and_key(viewer: Page) -> None:
    for name, content in TABS.items():
        viewer.get_by_role("tab", name=name).click()
        viewer.wait_for_selector(f".tab-panel[aria-label='{name}']:not([hidden])")
        viewer.locator(f".tab-panel[aria-label='{name}'] :is({content})").first.wait_for()
    for number, name in enumerate(TABS, start=1):
        viewer.keyboard.press(str(number))
        assert viewer.locator("[role=tab][aria-selected=true]").first.inner_text() == name


def test_a_reload_and_another_window_show_the_same(viewer: Page, browser: Browser) -> None:
    viewer.keyboard.press("4")
    viewer.keyboard.press(",")
    viewer.get_by_role("radio", name="gradient", exact=True).click()
    says(viewer, "of", "grad")
    step = viewer.locator(".step-slider").get_attribute("aria-valuenow")
    url = viewer.url
    viewer.reload()
    at_step(viewer, int(step or -1))
    shows(viewer, "Show", "gradient")
    other = browser.new_context().new_page()
    opened(other, url)
    at_step(other, int(step or -1))
    other.keyboard.press(",")
    other.wait_for_timeout(300)
    at_step(viewer, int(step or -1))
    assert viewer.url == url
    other.context.close()


def test_the_way_back_leads_from_tab_to_tab(viewer: Page) -> None:
    viewer.keyboard.press("3")
    says(viewer, "tab", "curves")
    viewer.keyboard.press("6")
    says(viewer, "tab", "notes")
    viewer.go_back()
    viewer.wait_for_selector("[role=tab][aria-selected=true]:text('Curves')")


def test_the_palette_finds_tensors_steps_and_things_to_do(viewer: Page, served: Served) -> None:
    steps = steps_of(served, viewer)["steps"]
    viewer.keyboard.press("Control+k")
    viewer.keyboard.type("blocks.1.up")
    viewer.wait_for_selector(".palette li[aria-selected=true]:has-text('blocks.1.up')")
    viewer.keyboard.press("Enter")
    viewer.wait_for_selector(".inspector h2:has-text('up')")
    says(viewer, "node", "blocks.1.up")
    viewer.keyboard.press("Control+k")
    viewer.keyboard.type(str(steps[2]))
    viewer.keyboard.press("Enter")
    at_step(viewer, steps[2])
    viewer.keyboard.press("Control+k")
    viewer.keyboard.type("notes")
    viewer.keyboard.press("Enter")
    viewer.wait_for_selector("[role=tab][aria-selected=true]:text('Notes')")
    viewer.keyboard.press("Control+k")
    viewer.keyboard.press("Escape")
    viewer.wait_for_selector(".palette", state="detached")


def test_runs_are_laid_over_each_other_and_looked_at_in_turn(viewer: Page, served: Served) -> None:
    other = steps_of(served, viewer, "deep/other")
    viewer.get_by_role("button", name="deep/other on the page").click()
    viewer.wait_for_function("() => document.querySelectorAll('.strip-value').length === 2")
    assert viewer.locator(".chip.active .chip-name").inner_text() == "base"
    viewer.keyboard.press("x")
    at_step(viewer, other["steps"][-1])
    viewer.wait_for_function("() => new URLSearchParams(location.hash.slice(1)).get('runs')?.includes(',')")
    viewer.get_by_role("button", name="base on the page").click()
    viewer.wait_for_function("() => document.querySelectorAll('.strip-value').length === 1")


def test_notes_are_searched_and_lead_to_their_step(viewer: Page, served: Served) -> None:
    run = steps_of(served, viewer)
    note = next(note for note in run["notes"] if note["level"] == "warning")
    viewer.keyboard.press("6")
    viewer.get_by_label("Search in notes").fill("rose")
    viewer.wait_for_selector(".search-count:text('1 of')")
    viewer.get_by_text(note["text"]).first.click()
    at_step(viewer, note["step"])


def test_the_network_is_folded_and_leads_to_its_parameters(viewer: Page) -> None:
    viewer.keyboard.press("5")
    viewer.locator(".tile[title^='blocks.0.up']").click()
    viewer.locator(".module-card button:text('weight')").click()
    viewer.wait_for_selector("[role=tab][aria-selected=true]:text('Tensors')")
    says(viewer, "node", "blocks.0.up.weight")


def test_light_and_dark_are_kept(viewer: Page) -> None:
    viewer.keyboard.press("t")
    theme = viewer.locator("#cutaway").get_attribute("data-theme")
    assert theme in ("light", "dark")
    viewer.reload()
    viewer.wait_for_selector(f"#cutaway[data-theme={theme}]")


def test_help_names_keys_and_goes_away(viewer: Page) -> None:
    viewer.keyboard.press("?")
    assert "follow the newest step" in viewer.get_by_role("dialog").inner_text()
    viewer.keyboard.press("Escape")
    viewer.get_by_role("dialog").wait_for(state="detached")


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


@pytest.mark.parametrize("width", [360, 600, 900, 1600])
def test_nothing_sticks_out_of_a_window_of_any_width(viewer: Page, width: int) -> None:
    viewer.set_viewport_size({"width": width, "height": 800})
    for key in "123456":
        viewer.keyboard.press(key)
        viewer.wait_for_timeout(150)
        assert viewer.evaluate("() => document.documentElement.scrollWidth") <= width
        slider = viewer.locator(".step-slider")
        if slider.count():
            box = slider.bounding_box()
            assert box is not None
            assert box["width"] > 100
            assert box["x"] + box["width"] <= width


def test_hostile_names_are_only_text(viewer: Page) -> None:
    viewer.on("dialog", lambda _: pytest.fail("something in the run was run"))
    for key in "123456":
        viewer.keyboard.press(key)
        viewer.wait_for_timeout(100)
    assert viewer.locator("img[src=x]").count() == 0


def add(writer: Writer, step: int) -> None:
    schema = writer.schema([Row("a"), Row("b"), Row("b", of="grad")], ["mean", "std"])
    writer.step(step, schema=schema, matrix=np.full((3, 2), step, np.float32))
    writer.scalars(step, {"loss": 1 / (step + 1)})
    writer.flush()


def test_a_run_that_is_written_grows_is_followed_and_left_alone(page: Page, tmp_path: Path) -> None:
    with Writer(tmp_path / "live", kind="run") as writer, serving(tmp_path) as served:
        add(writer, 0)
        opened(page, served.url)
        page.wait_for_selector(".live.on:text('following step 0')")
        add(writer, 5)
        at_step(page, 5)
        page.keyboard.press("l")
        page.wait_for_selector(".live:not(.on)")
        add(writer, 9)
        page.wait_for_selector(".live:text('live at step 9')")
        at_step(page, 5)
        page.keyboard.press("l")
        at_step(page, 9)
        with Writer(tmp_path / "second", kind="run") as second:
            add(second, 0)
            page.wait_for_selector(".chip-name:text('second')")
        writer.close()
        page.wait_for_selector(".live.ended:text('ended at step 9')")


def test_a_deleted_run_is_told_and_others_are_still_there(lenient: Page, recorded_copy: Path) -> None:
    with serving(recorded_copy) as served:
        opened(lenient, served.url)
        shutil.rmtree(recorded_copy / "base")
        lenient.wait_for_selector(".blank.failed:visible")
        assert "base cannot be shown" in lenient.locator(".blank.failed:visible").inner_text()
        lenient.get_by_role("button", name="deep/other", exact=True).click()
        lenient.wait_for_selector(".run-graph")


def test_a_damaged_segment_is_told_where_it_is_asked_for(lenient: Page, recorded_copy: Path) -> None:
    for file in (recorded_copy / "base").rglob("*.safetensors"):
        whole = bytearray(file.read_bytes())
        whole[len(whole) // 3 :] = bytes(len(whole) - len(whole) // 3)
        file.write_bytes(whole)
    with serving(recorded_copy) as served:
        opened(lenient, served.url)
        lenient.keyboard.press("4")
        lenient.wait_for_selector(".tab-panel:not([hidden]) >> text=/safetensors/")
        lenient.get_by_role("tab", name="Notes").click()
        lenient.wait_for_selector(".notes-panel")


def test_a_server_that_is_gone_is_told_and_what_was_seen_stays(lenient: Page, recorded: Path) -> None:
    with serving(recorded) as served:
        opened(lenient, served.url)
        lenient.wait_for_selector(".run-graph")
    lenient.wait_for_selector(".banner:has-text('does not answer')")
    lenient.keyboard.press("5")
    lenient.wait_for_selector(".tab-panel:not([hidden]) .blank")
    assert re.search("does not answer", lenient.locator(".tab-panel:not([hidden])").inner_text())
    lenient.keyboard.press("1")
    assert lenient.locator(".run-graph").is_visible()


def test_an_empty_folder_says_how_to_fill_it(page: Page, tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        page.goto(served.url)
        page.wait_for_selector("text='There is no run here yet'")
        with Writer(tmp_path / "first", kind="run") as writer:
            add(writer, 3)
            at_step(page, 3)


def test_a_run_without_steps_says_so_and_shows_its_notes(page: Page, tmp_path: Path) -> None:
    with Writer(tmp_path / "early", kind="run") as writer:
        writer.note("nothing came of it", step=0)
    with serving(tmp_path) as served:
        page.goto(served.url)
        page.wait_for_selector("text='No step was recorded yet'")
        page.keyboard.press("6")
        page.wait_for_selector("text='nothing came of it'")
