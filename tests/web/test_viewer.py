"""The viewer from end to end in a real browser: every selector and tab, held against what the store says."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.web.looking import NARROW, WIDE, Look, like, number

import cutaway
from cutaway import Run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page
    from tests.server.served import Served

pytest.importorskip("starlette")
TENSOR, WEIGHT = "blocks.1.up", "blocks.1.up.weight"
STEP = 24


@pytest.fixture(scope="module")
def run(recorded: Path) -> Run:
    return cutaway.load(recorded / "base")


@pytest.fixture(scope="module")
def other(recorded: Path) -> Run:
    return cutaway.load(recorded / "deep" / "other")


@pytest.fixture
def look(page: Page, served: Served) -> Look:
    """The page, before it is opened somewhere."""
    page.set_viewport_size({"width": WIDE[0], "height": WIDE[1]})
    return Look(page, served.url)


def test_every_choice_of_show_and_iteration_shows_the_numbers_of_the_store(look: Look, run: Run) -> None:
    look.open(node=TENSOR, step=STEP)
    look.agrees(run, TENSOR, iteration=1, step=STEP)
    look.choose("Iteration", "2")
    look.agrees(run, TENSOR, iteration=2, step=STEP)
    for text, of in (("of guess", "grad/guess"), ("of size", "grad/size"), ("value", "value")):
        look.choose("Show", text)
        look.agrees(run, TENSOR, of, iteration=2, step=STEP)
    look.open(node=WEIGHT, step=STEP)
    for text, of in (("gradient", "grad"), ("update", "update"), ("of size", "grad/size"), ("value", "value")):
        look.choose("Show", text)
        look.agrees(run, WEIGHT, of, step=STEP)


def test_every_step_is_reached_by_key_and_by_mouse_with_its_own_numbers(look: Look, run: Run) -> None:
    steps = [int(step) for step in run.steps]
    look.open(node=TENSOR, step=steps[0])
    slider = look.page.locator(".step-slider")
    slider.focus()
    look.agrees(run, TENSOR, iteration=1, step=steps[0])
    for step in steps[1:5]:
        look.page.keyboard.press("ArrowRight")
        look.agrees(run, TENSOR, iteration=1, step=step)
    look.page.keyboard.press("End")
    look.agrees(run, TENSOR, iteration=1, step=steps[-1])
    for step in steps[2:-1:3]:
        look.slide(step, run)
        look.until(lambda seen, step=step: abs(seen.step - step) <= 1, f"step {step} clicked")
        look.agrees(run, TENSOR, iteration=1, step=look.seen.step)
    look.page.get_by_role("button", name="Previous recorded step").click()
    look.agrees(run, TENSOR, iteration=1, step=look.seen.step)


def test_a_kind_shows_only_its_steps(look: Look, run: Run) -> None:
    look.open(node=TENSOR, step=STEP)
    for kind in run.kinds:
        look.choose("Kind of step", kind)
        own = [int(step) for step in run.steps_of(kind)]
        look.page.keyboard.press("Home")
        for step in own[:3]:
            look.agrees(run, TENSOR, iteration=1, step=step)
            look.page.keyboard.press(".")


def test_one_sample_is_shown_with_its_own_numbers_and_its_text(look: Look, run: Run) -> None:
    look.open(node=TENSOR, step=STEP)
    step = run.at(STEP)
    kept = step[TENSOR].where(iteration=1).value
    for sample in (1, 2):
        look.page.get_by_label("One sample (b)").select_option(str(sample))
        look.until(lambda seen, sample=sample: seen.sample == str(sample))
        look.page.locator(".sample h3", has_text=f"sample {sample}").wait_for()
        assert look.page.locator(".tokens .token").all_inner_texts() == list(step.samples[sample]["tokens"])
        said = look.page.locator(".sample-numbers").inner_text()
        numbers = dict(re.findall(r"(\w+) (−?[\d.]+(?:e−?\d+)?)", said.partition(":")[2]))
        assert {"mean", "std"} <= set(numbers)
        assert like(numbers["mean"], kept[sample].mean())
        assert number(numbers["std"]) == pytest.approx(kept[sample].std(), rel=0.02)
    look.choose("Over", "batch")
    look.page.locator(".sample h3").wait_for(state="detached")


def test_the_parts_of_a_node_are_told_apart(look: Look, run: Run) -> None:
    look.open(node="head", step=STEP)
    look.agrees(run, "head", iteration=1, step=STEP)
    look.choose("Part", "margin")
    look.agrees(run, "$margin", step=STEP)
    look.choose("Part", "main")
    look.agrees(run, "head", iteration=1, step=STEP)


def test_runs_are_looked_at_in_turn_and_laid_over_each_other(look: Look, run: Run, other: Run) -> None:
    look.open(node=TENSOR, step=12)
    look.agrees(run, TENSOR, iteration=1, step=12)
    look.page.get_by_role("button", name="deep/other", exact=True).click(modifiers=["Shift"])
    look.until(lambda seen: seen.runs == ("base", "deep/other"))
    look.page.get_by_role("button", name="deep/other", exact=True).click()
    look.agrees(other, TENSOR, iteration=1, step=12)
    assert look.seen.active == "deep/other"
    seen = look.until(lambda seen: len(seen.timeline) == 2 and all(seen.timeline))
    for text, owner in zip(seen.timeline, (run, other), strict=True):
        loss = owner.scalars["loss"]
        assert like(text, loss.values[list(loss.steps).index(12)])
    look.page.get_by_role("button", name="Show deep/other").click()
    look.until(lambda seen: seen.runs == ("base",) and len(seen.timeline) == 1)
    look.agrees(run, TENSOR, iteration=1, step=12)


def test_a_node_is_selected_by_search_and_its_neighbors_by_a_click(look: Look, run: Run) -> None:
    look.open(step=STEP)
    at = look.found(TENSOR)
    look.agrees(run, TENSOR, iteration=1, step=STEP)
    look.tooltip(at, TENSOR)
    tip = look.page.locator(".run-graph .tooltip")
    for x, y in ((1, 0), (0, 1), (0, -1), (-1, 0)):
        names: list[str] = []
        for away in range(12, 360, 12):
            place = at[0] + x * away, at[1] + y * away
            look.page.mouse.move(*place)
            names.append(tip.inner_text().split("\n")[0] if tip.count() else "")
            # Not at its edge, where a press opens a module.
            if names[-1].startswith("blocks.1.") and names[-4:] == [names[-1]] * 4 and names[-1] != TENSOR:
                look.page.mouse.click(*place)
                look.agrees(run, names[-1], iteration=1, step=STEP)
                return
    pytest.fail("no neighbor is near it")


def test_a_node_is_selected_by_the_table_and_by_the_palette(look: Look, run: Run) -> None:
    look.open(step=STEP, tab="overview")
    look.page.get_by_label("Search tensors").fill("blocks.2 down weight")
    look.page.locator(".overview [role=gridcell]", has_text="blocks.2.down.weight").click()
    look.agrees(run, "blocks.2.down.weight", step=STEP)
    look.page.keyboard.press("Control+k")
    look.page.keyboard.type("blocks 0 norm bias")
    look.page.locator(".palette li[aria-selected=true]", has_text="blocks.0.norm.bias").wait_for()
    look.page.keyboard.press("Enter")
    assert look.agrees(run, "blocks.0.norm.bias", step=STEP).tab == "Tensors"


def test_the_overview_has_every_tensor_of_the_step_and_sorts_by_any_statistic(look: Look, run: Run) -> None:
    look.open(step=STEP, tab="overview")
    table = look.page.get_by_role("grid", name=f"Tensors at step {STEP}")
    values = {(row.site, row.iteration): n for n, row in enumerate(run.at(STEP).rows) if row.of == "value"}
    matrix = run.at(STEP).matrix
    measured = {key: matrix[n] for key, n in values.items() if not np.isnan(matrix[n]).all()}
    look.page.locator(".shown-count", has_text=f"{len(measured)} tensors").wait_for()
    for name in ("std", "max"):
        column = run.statistics.index(name)
        table.get_by_role("button", name=name, exact=True).click()
        expected = max(float(row[column]) for row in measured.values() if not np.isnan(row[column]))
        titles = [title.split("\n")[0].strip("↓↑ ") for title in table.get_by_role("columnheader").all_inner_texts()]
        first = table.get_by_role("row").nth(1).get_by_role("gridcell").all_inner_texts()
        assert like(first[titles.index(name)], expected)
    look.choose("Show", "of size")
    look.page.locator(".overview [role=gridcell]", has_text=re.compile("^blocks")).first.wait_for()


def test_colors_tell_a_statistic_and_its_change_since_a_step(look: Look, run: Run) -> None:
    look.open(step=STEP)
    at = look.found(WEIGHT)
    now, first = run.at(STEP)[WEIGHT].stats, run.at(0)[WEIGHT].stats
    for name in ("abs_mean", "norm", "max"):
        look.page.get_by_label("Color by (c)").select_option(name)
        tip = look.tooltip(at, f"{name.replace('_', ' ')} of the value")
        [said] = re.findall(rf"(\S+) {name.replace('_', ' ')} of the value", tip)
        assert like(said, now[name])
    look.page.get_by_label("Color by (c)").select_option("norm")
    look.page.get_by_label("change since another step").select_option("0")
    [said] = re.findall(r"×(\S+)", look.tooltip(at, "×"))
    assert number(said) == pytest.approx(now["norm"] / first["norm"], rel=0.006)
    assert (
        "change" in look.page.locator(".color-legend").inner_text()
        or "since" in look.page.locator(".color-legend").inner_text()
    )
    look.page.get_by_label("Color by (c)").select_option("")
    look.page.locator(".ramp-legend").wait_for(state="detached")


def test_a_click_on_any_curve_goes_to_a_step(look: Look, run: Run) -> None:
    look.open(node=TENSOR, step=STEP)
    for plot in (".timeline .u-over", ".over-steps .u-over"):
        look.page.locator(plot).first.wait_for()
        before = look.seen.step
        box = look.page.locator(plot).first.bounding_box()
        assert box is not None
        share = 0.15 if before > 20 else 0.8
        look.page.locator(plot).first.click(position={"x": box["width"] * share, "y": box["height"] / 2})
        step = look.until(lambda seen, before=before: seen.step != before, f"{plot} clicked").step
        look.agrees(run, TENSOR, iteration=1, step=step)
        assert (step < 20) == (share < 0.5)
    panel = look.tab("Curves")
    charts = panel.locator(".chart", has=look.page.locator(".chart-title", has_text=re.compile("^guess$")))
    guess = run.scalars["guess"]
    for x, step in ((0.001, int(run.steps[0])), (0.999, int(run.steps[-1]))):
        plot = charts.locator(".u-over").bounding_box()
        assert plot is not None
        look.page.mouse.move(plot["x"] + x * plot["width"], plot["y"] + 20)
        look.page.mouse.down()
        look.page.mouse.move(plot["x"] + x * plot["width"], plot["y"] + 22)  # a hand trembles
        look.page.mouse.up()
        look.until(lambda seen, step=step: seen.step == step, f"a click at step {step}")
        assert like(charts.locator(".chart-values").inner_text(), guess.values[list(guess.steps).index(step)])


def test_the_network_counts_the_parameters_of_the_model(look: Look, recorded: Path) -> None:
    import torch
    from tests.server import recorded as recording

    model: torch.nn.Module = recording._model()
    panel = (look.open(step=STEP), look.tab("Network"))[1]
    panel.locator(".treemap .tile").first.wait_for()
    total = sum(parameter.numel() for parameter in model.parameters())
    assert like(panel.locator(".network-facts b").first.inner_text(), total)
    names = [name for name, _ in model.named_modules() if name]
    shown = {}
    for row in panel.get_by_role("grid", name="Modules").get_by_role("row").all()[2:]:
        cells = row.get_by_role("gridcell")
        shown[cells.nth(0).locator("[title]").first.get_attribute("title")] = cells.nth(2).inner_text()
    for name in names:
        n = sum(parameter.numel() for parameter in model.get_submodule(name).parameters())
        assert name in shown
        assert shown[name] == (f"{n:,}" if n else "–")


def test_the_ops_of_a_saved_trace_are_shown_with_their_values(look: Look, recorded: Path) -> None:
    look.open()
    panel = look.tab("Ops")
    panel.locator(".graph-canvas canvas").first.wait_for()
    panel.get_by_label("Search", exact=True).fill("head/linear")
    look.page.keyboard.press("Enter")
    trace = cutaway.load(recorded / "net.trace")
    value = trace["head"].value
    panel.locator("aside", has_text="head").wait_for()
    mean = panel.locator("aside .stat", has_text="mean").first.locator("b")
    mean.wait_for()
    assert like(mean.inner_text(), value.mean())


def test_the_address_holds_all_that_is_shown(look: Look, run: Run, browser: Browser) -> None:
    look.open(node="head", step=STEP)
    look.choose("Iteration", "2")
    look.choose("Show", "of guess")
    look.choose("Kind of step", "long")
    look.page.get_by_label("One sample (b)").select_option("1")
    look.page.get_by_label("Color by (c)").select_option("norm")
    look.page.get_by_role("button", name="Show deep/other").click()
    look.tab("Overview").get_by_label("Search tensors").fill("head")
    before = look.agrees(run, "head", "grad/guess", iteration=2, step=STEP)
    look.page.wait_for_function("() => location.hash.includes('find=head') && location.hash.includes('norm')")
    look.until(lambda seen: all(seen.timeline))
    before, address = look.seen, look.page.url
    look.page.reload()
    look.until(lambda seen: seen == before, f"the same after a reload: {before}")
    assert look.page.get_by_label("Search tensors").input_value() == "head"
    context = browser.new_context()
    second = Look(context.new_page(), look.url)
    second.page.goto(address)
    second.until(lambda seen: seen == before, f"the same in another window: {before}")
    second.page.keyboard.press("Home")
    second.choose("Show", "value")
    second.until(lambda seen: seen.step == 0)
    assert (look.seen, look.page.url) == (before, address)
    context.close()


def at_rest(page: Page, part: str) -> None:
    """Wait until the address has a part and stays as it is: places that follow each other at once are one entry."""
    same = "location.hash === window.lastHash && performance.now() - window.lastTime > 800"
    note = "(window.lastHash = location.hash, window.lastTime = performance.now(), false)"
    changed = "location.hash !== window.lastHash"
    page.wait_for_function(f"() => {changed} ? {note} : location.hash.includes('{part}') && {same}")


def test_back_and_forward_go_from_place_to_place(look: Look) -> None:
    look.open(step=STEP)
    at_rest(look.page, "step=")
    look.found(TENSOR)
    at_rest(look.page, "node=blocks.1.up")
    look.tab("Curves")
    at_rest(look.page, "tab=curves")
    look.tab("Notes")
    at_rest(look.page, "tab=notes")
    # Not Playwright's go_back: it waits for a navigation, and may miss one inside the page.
    look.page.evaluate("() => history.back()")
    look.until(lambda seen: seen.tab == "Curves")
    look.page.evaluate("() => history.back()")
    look.until(lambda seen: (seen.tab, seen.node) == ("Tensors", TENSOR))
    look.page.evaluate("() => history.forward()")
    look.until(lambda seen: seen.tab == "Curves")


def test_values_are_taken_along_as_files(look: Look, run: Run, tmp_path: Path) -> None:
    look.open(node=TENSOR, step=STEP, of="grad/guess", iteration=2)
    look.agrees(run, TENSOR, "grad/guess", iteration=2, step=STEP)
    moment = run.at(STEP)[TENSOR].other("grad/guess", iteration=2)
    assert moment is not None
    names = set()
    for format in ("NPY", "CSV"):
        with look.page.expect_download() as downloading:
            look.page.locator("a.take", has_text=format).click()
        path = tmp_path / downloading.value.suggested_filename
        names.add(path.suffix)
        downloading.value.save_as(path)
        if format == "NPY":
            np.testing.assert_array_equal(np.load(path, allow_pickle=False), moment.value)
        else:
            with path.open(newline="") as file:
                titles, *lines = csv.reader(file)
            assert len(lines) == moment.value.size or len(lines) == moment.value.size // moment.value.shape[-1]
            found = np.array([[float(cell) for cell in line] for line in lines], np.float32)
            values = found[:, -1] if len(lines) == moment.value.size else found[:, -moment.value.shape[-1] :]
            np.testing.assert_array_equal(values.ravel(), moment.value.ravel())
            assert titles
    assert names == {".npy", ".csv"}


REACHED = (
    "Step", "Kind of step", "Show", "Iteration", "Over", "One sample (b)", "Search", "Color by (c)", "Graph of",
    "Width of the inspector", "Statistic", "over steps", "CSV", "Logged value", "Inspector", "Help",
    "Toggle dark mode (t)", "Show deep/other", "Search Ctrl K",
)  # fmt: skip


FOCUSED = """() => {
    const element = document.activeElement;
    if (element === document.body) return ["", false];
    const hasRing = (one) => {
        const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(one);
        return (outlineStyle !== "none" && parseFloat(outlineWidth) > 0) || boxShadow !== "none";
    };
    const outer = element.parentElement;
    const around = [element, outer, outer.parentElement, ...element.querySelectorAll("*")];
    const group = element.closest("[role=radiogroup]")?.ariaLabel ?? "";
    return [[group, element.ariaLabel ?? "", element.textContent.slice(0, 40)].join(" | "), around.some(hasRing)];
}"""
"""What has the focus, and whether that is seen."""


def test_everything_is_reached_by_the_tab_key_and_shows_where_the_focus_is(look: Look, run: Run) -> None:
    look.open(node=TENSOR, step=STEP)
    look.agrees(run, TENSOR, iteration=1, step=STEP)
    found, hidden = [], []
    for _ in range(120):
        look.page.keyboard.press("Tab")
        name, has_ring = look.page.evaluate(FOCUSED)
        if not name and found:
            break
        found.append(name)
        if name and not has_ring:
            hidden.append(name)
    # A group of choices is one stop, from which arrows go on.
    groups = [name.split(" | ")[0] for name in found if not name.startswith(" | ") and "One sample" not in name]
    assert sorted(set(groups)) == sorted(groups)
    for wanted in REACHED:
        assert any(wanted in name for name in found), f"{wanted} is not among {found}"
    assert hidden == []


def test_a_tensor_is_found_and_looked_into_with_keys_alone(look: Look, run: Run) -> None:
    look.open()
    keys = look.page.keyboard
    keys.press("Control+k")
    keys.type(TENSOR)
    look.page.locator(".palette li[aria-selected=true]", has_text=TENSOR).wait_for()
    keys.press("Enter")
    look.until(lambda seen: seen.node == TENSOR)
    keys.press("Home")
    look.agrees(run, TENSOR, iteration=1, step=0)
    keys.press("e")
    keys.press("e")
    keys.press("s")
    look.agrees(run, TENSOR, "grad/guess", iteration=2, step=0)
    keys.press("k")
    look.until(lambda seen: seen.chosen["Kind of step"] != "all")
    keys.press("4")
    look.page.get_by_role("grid", name="Tensors at step").focus()
    keys.press("ArrowDown")
    look.until(lambda seen: seen.node not in ("", TENSOR), "the next line of the table")
    keys.press("1")
    look.graph().focus()
    before = look.seen.node
    for key in ("ArrowUp", "ArrowLeft"):  # against the edges, whichever way the graph goes
        keys.press(key)
    after = look.until(lambda seen: seen.node not in ("", before), f"a walk from {before}").node
    for key in ("ArrowDown", "ArrowRight"):
        keys.press(key)
    look.until(lambda seen: seen.node not in ("", after), f"a walk from {after}")


def test_a_narrow_window_does_all_the_same(look: Look, run: Run) -> None:
    look.page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
    look.open(step=STEP)
    look.found(TENSOR)
    look.agrees(run, TENSOR, iteration=1, step=STEP)
    look.choose("Show", "of size")
    look.choose("Iteration", "2")
    look.agrees(run, TENSOR, "grad/size", iteration=2, step=STEP)
    look.page.get_by_label("One sample (b)").select_option("2")
    look.page.locator(".sample h3", has_text="sample 2").wait_for()
    look.choose("Over", "batch")
    look.page.locator(".step-slider").click(position={"x": 10, "y": 14})
    look.agrees(run, TENSOR, "grad/size", iteration=2, step=0)
    line = look.tab("Overview").get_by_role("row").filter(has_text="blocks.0.down").first
    iteration = int(line.get_by_role("gridcell").nth(1).inner_text())
    line.click()
    look.agrees(run, "blocks.0.down", "grad/size", iteration=iteration, step=0)
    look.tab("Tensors")
    look.graph().focus()
    look.page.keyboard.press("Escape")
    look.page.keyboard.press("Escape")
    look.page.locator(".inspector:visible").wait_for(state="detached")


COVERED = """() => {
    const named = (one) => one.ariaLabel || one.title || one.textContent.slice(0, 30);
    const found = [];
    for (const one of document.querySelectorAll("button, select, input, a[href], summary, [role=slider]")) {
        if (one.disabled || one.closest(".treemap") || !one.checkVisibility({ visibilityProperty: true })) continue;
        let { left, top, right, bottom } = one.getBoundingClientRect();
        for (let outer = one.parentElement; outer; outer = outer.parentElement) {
            if (getComputedStyle(outer).overflow === "visible") continue;
            const box = outer.getBoundingClientRect();
            [left, right] = [Math.max(left, box.left), Math.min(right, box.right)];
            [top, bottom] = [Math.max(top, box.top), Math.min(bottom, box.bottom)];
        }
        [right, bottom] = [Math.min(right, innerWidth), Math.min(bottom, innerHeight)];
        if (right - left < 8 || bottom - top < 8) continue;
        const over = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
        // The number of the step is pressed to be typed, and the line goes on below it.
        if (!over || one.contains(over) || over.contains(one) || over.matches(".step-number")) continue;
        found.push(`${named(one)} lies under ${over.className || over.tagName}`);
    }
    return found;
}"""
"""What can be pressed and is in view, but has something else over its middle."""


UNNAMED = """() => {
    const used = "button, select, input, a[href], canvas[tabindex], [role=slider], [role=grid]";
    const named = (one) => one.ariaLabel || one.title || one.innerText || one.labels?.[0]?.title || "";
    const all = [...document.querySelectorAll(used)].filter((one) => one.checkVisibility());
    return all.filter((one) => !named(one).trim()).map((one) => one.outerHTML.slice(0, 160));
}"""
"""What can be used and has no name for those who do not see it."""


def test_the_main_states_are_kept_as_pictures(look: Look, run: Run, tmp_path: Path) -> None:
    look.open(node=TENSOR, step=STEP)
    look.agrees(run, TENSOR, iteration=1, step=STEP)
    for size, theme in ((WIDE, "light"), (WIDE, "dark"), (NARROW, "dark"), (NARROW, "light")):
        look.page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        look.page.set_viewport_size({"width": size[0], "height": size[1]})
        brightness = look.page.evaluate(
            """() => {
                const color = getComputedStyle(document.querySelector("#cutaway")).backgroundColor;
                return color.match(/[\\d.]+/g).slice(0, 3).reduce((sum, part) => sum + Number(part) / 3, 0);
            }"""
        )
        assert (brightness > 200) if theme == "light" else (brightness < 60)
        for tab in ("Tensors", "Ops", "Curves", "Overview", "Network", "Notes"):
            panel = look.tab(tab)
            panel.locator("canvas, [role=row], .tile").first.wait_for()
            assert look.page.evaluate("() => document.documentElement.scrollWidth") <= size[0]
            assert look.page.evaluate(COVERED) == []
            assert look.page.evaluate(UNNAMED) == []
            look.keep(f"{theme}-{'wide' if size == WIDE else 'narrow'}-{tab.lower()}", tmp_path)
    assert len(list(tmp_path.glob("*.png"))) == 24
