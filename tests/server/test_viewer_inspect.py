"""The inspector and the curves of the viewer, in a real browser, against what the store itself says."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.server.recorded import WORDS

import cutaway

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page
    from tests.server.served import Served

    from cutaway import Run
    from cutaway.store.moments import Moment

pytest.importorskip("starlette")
STEP = 24


@pytest.fixture(scope="module")
def run(recorded: Path) -> Run:
    found = cutaway.load(recorded / "base")
    assert isinstance(found, cutaway.Run)
    return found


def open_at(page: Page, served: Served, **state: object) -> None:
    """The viewer on the first run, or on those that are named, at some state."""
    items = page.request.get(f"{served.url}/api/runs").json()
    ids = {item["name"]: item["id"] for item in items}
    names = str(state.pop("runs", "base")).split(",")
    said = "&".join(f"{name}={value}" for name, value in {"step": STEP, **state}.items())
    page.goto(f"{served.url}/#runs={','.join(ids[name] for name in names)}&{said}")


def moment(run: Run, site: str, of: str = "value", *, iteration: int | None = None) -> Moment:
    found = run.at(STEP)[site].other(of, iteration=iteration)
    assert found is not None
    return found


def card(page: Page, title: str) -> Locator:
    return page.locator(".cards .stat", has=page.locator(".label", has_text=re.compile(f"^{title}$")))


def number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))


def step_of(page: Page) -> int:
    return int(re.findall(r"at step ([\d,]+)", page.locator(".at-step").inner_text())[0].replace(",", ""))


def drag(page: Page, plot: Locator, low: float, high: float) -> None:
    box = plot.bounding_box()
    assert box
    height = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * low, height)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * (low + high) / 2, height, steps=3)
    page.mouse.move(box["x"] + box["width"] * high, height, steps=3)
    page.mouse.up()


def test_the_cards_say_what_the_store_says(page: Page, served: Served, run: Run) -> None:
    open_at(page, served, node="blocks.1.up", iteration=2)
    stats = moment(run, "blocks.1.up", iteration=2).stats
    for name in ("mean", "std", "norm", "min", "max"):
        shown = number(card(page, name).locator("b").inner_text())
        assert shown == pytest.approx(stats[name], rel=5e-3, abs=1e-9)
    card(page, "std").hover()
    assert number(page.locator(".past code").inner_text()) == pytest.approx(stats["std"], rel=1e-6)
    assert page.locator(".past path").get_attribute("d")


def test_a_click_on_the_curve_goes_to_the_recorded_step_nearest_to_it(page: Page, served: Served, run: Run) -> None:
    open_at(page, served, node="blocks.1.up")
    plot = page.locator(".over-steps .u-over")
    plot.wait_for()
    box = plot.bounding_box()
    assert box
    plot.click(position={"x": box["width"] * 0.75, "y": 40})
    page.wait_for_function("!document.querySelector('.at-step').textContent.includes('24')")
    low, high = int(run.steps[0]), int(run.steps[-1])
    place = low + 0.75 * (high - low)
    assert step_of(page) == min((int(step) for step in run.steps), key=lambda step: abs(step - place))


def test_a_drag_zooms_into_a_curve_and_a_double_click_goes_back_to_where_it_was(page: Page, served: Served) -> None:
    open_at(page, served, node="blocks.1.up")
    plot = page.locator(".over-steps .u-over")
    plot.wait_for()
    drag(page, plot, 0.5, 0.8)
    reset = page.locator(".over-steps .curve-reset")
    reset.wait_for()
    assert step_of(page) == STEP
    plot.dblclick(position={"x": 60, "y": 40})
    reset.wait_for(state="detached")
    page.wait_for_timeout(400)  # longer than a click waits to become a double one
    assert step_of(page) == STEP


def test_a_curve_is_walked_and_picked_with_keys(page: Page, served: Served, run: Run) -> None:
    open_at(page, served, node="blocks.1.up", kind="long")
    curve = page.locator(".over-steps .curve")
    curve.locator("canvas").wait_for()
    curve.focus()
    page.keyboard.press("ArrowRight")
    after = next(int(step) for step in run.steps_of("long") if step > STEP)
    assert f"step {after}" in page.locator(".curve-readout").inner_text()
    expected = run["blocks.1.up"].curve("abs_mean", kind="long")
    shown = number(page.locator(".curve-readout b").inner_text())
    assert np.float32(shown) == expected.values[list(expected.steps).index(after)]
    page.keyboard.press("Enter")
    page.wait_for_function(f"document.querySelector('.at-step').textContent.includes('{after}')")


def test_a_pixel_tells_the_exact_number_behind_it(page: Page, served: Served, run: Run) -> None:
    open_at(page, served, node="blocks.1.up", sample=1)
    value = run.at(STEP)["blocks.1.up"].value
    canvas = page.locator(".value-picture .pixels canvas")
    canvas.scroll_into_view_if_needed()
    caption = page.locator(".value-picture .pixels figcaption > span").first
    canvas.hover(position={"x": 3, "y": 3})
    found = None
    for _ in range(50):
        canvas.hover(position={"x": 40, "y": 20})
        found = re.fullmatch(r"\[([\d, ]+)\]: (\S+)", caption.inner_text())
        if found:
            break
        page.wait_for_timeout(50)
        canvas.hover(position={"x": 3, "y": 3})
    assert found, caption.inner_text()
    index = tuple(int(place) for place in found[1].split(","))
    assert index[0] == 1
    assert np.float32(number(found[2])) == value[index]


def test_the_table_of_units_is_that_of_the_record_and_sorts(page: Page, served: Served, run: Run) -> None:
    open_at(page, served, node="blocks.1.up")
    page.locator(".card summary", has_text="Units").click()
    table = page.get_by_role("grid", name="Units")
    means = moment(run, "blocks.1.up", "unit").value[0]
    cells = table.get_by_role("row").nth(1).get_by_role("gridcell")
    assert number(cells.nth(1).inner_text()) == pytest.approx(means[0], rel=5e-3)
    table.get_by_role("button", name="mean", exact=True).click()
    assert cells.nth(0).inner_text() == str(int(np.argmax(means)))


def test_a_sample_stands_beside_its_values_and_its_target(page: Page, served: Served, run: Run) -> None:
    open_at(page, served, node="blocks.1", sample=1)
    sample = run.at(STEP).samples[1]
    tokens = page.locator(".tokens .token")
    tokens.first.wait_for()
    assert tokens.all_inner_texts() == list(sample["tokens"])
    assert page.locator(".sample-image").count() == 1
    beside = page.locator(".beside > div", has_text="$target")
    assert beside.locator("code").inner_text() == str(sample["label"])
    page.locator(".card summary", has_text="Samples").click()
    page.get_by_role("grid", name="Samples").get_by_role("row").nth(3).click()
    page.locator(".sample h3", has_text="sample 02").wait_for()


def test_values_are_raw_or_compared_with_the_batch(page: Page, served: Served) -> None:
    open_at(page, served, node="blocks.1.up")
    page.get_by_role("radio", name="vs. batch").click()
    page.wait_for_url(re.compile(r"inspect\.normal=1"))
    page.locator(".pixels [aria-checked=true]", has_text="vs. batch").wait_for()
    page.get_by_role("radio", name="raw").click()
    page.locator(".pixels [aria-checked=true]", has_text="raw").wait_for()


def test_what_is_shown_can_be_taken_along(page: Page, served: Served, run: Run) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_at(page, served, node="blocks.1.up", of="grad/guess", iteration=2)
    expected = moment(run, "blocks.1.up", "grad/guess", iteration=2).value
    page.locator(".take", has_text="Python").click()
    page.locator(".take.done").wait_for()
    line = page.evaluate("navigator.clipboard.readText()")
    np.testing.assert_array_equal(eval(line, {"run": run}), expected)  # it is the page's own line
    link = page.locator("a.take", has_text="NPY").get_attribute("href")
    answer = page.request.get(f"{served.url}{link}")
    np.testing.assert_array_equal(np.load(io.BytesIO(answer.body()), allow_pickle=False), expected)


def test_where_only_statistics_were_kept_the_page_says_so(page: Page, served: Served) -> None:
    open_at(page, served, node="blocks.0.up.weight", of="update")
    assert "only statistics were recorded" in page.locator(".why-missing").inner_text()
    assert page.locator(".pixels").count() == 0
    assert page.locator(".over-steps canvas").count() == 1


def test_all_curves_of_two_runs_are_found_smoothed_and_drawn(page: Page, served: Served, run: Run) -> None:
    open_at(page, served, tab="curves", runs="base,deep/other", node="head")
    charts = page.locator(".chart")
    page.locator(".chart canvas").nth(len(run.scalars)).wait_for()
    names = page.locator(".chart-title").all_inner_texts()
    assert set(run.scalars) <= set(names)
    assert {"mean", "abs mean", "std"} <= set(names)
    page.get_by_placeholder("name of a number").fill("gue")
    page.wait_for_function("document.querySelectorAll('.chart').length === 1")
    assert charts.locator(".chart-title").inner_text() == "guess"
    page.get_by_role("slider", name="Smoothing").fill("0.9")
    page.get_by_role("radio", name="log").click()
    plot = charts.locator(".u-over")
    box = plot.bounding_box()
    assert box
    plot.hover(position={"x": box["width"] * 0.2, "y": 30})
    readout = page.locator(".curve-readout")
    step = int(re.findall(r"step (\d+)", readout.inner_text())[0])
    assert len(readout.locator(".curve-reading").all()) == 2
    guess = run.scalars["guess"]
    shown = number(readout.locator(".curve-reading b").first.inner_text())
    assert np.float32(shown) == np.float32(guess.values[list(guess.steps).index(step)])
    page.wait_for_url(re.compile(r"curves\.smooth=0\.9"))
    page.reload()
    page.locator(".chart canvas").wait_for()
    assert page.locator(".chart-title").all_inner_texts() == ["guess"]


def test_curves_are_drawn_over_time_too(page: Page, served: Served) -> None:
    open_at(page, served, tab="curves")
    page.locator(".chart canvas").first.wait_for()
    page.get_by_role("radio", name="time").click()
    plot = page.locator(".chart .u-over").first
    plot.hover(position={"x": 80, "y": 30})
    assert re.search(r"\d (s|min|h)\n", page.locator(".curve-readout").inner_text())
    assert "Select a tensor" in page.locator(".curves-part").nth(1).inner_text()


def test_text_of_a_run_never_becomes_a_part_of_the_page(page: Page, served: Served, run: Run) -> None:
    script = next(word for word in WORDS if "<" in word)
    places = ((step, sample) for step in run for sample in range(len(step.samples)))
    step, sample = next((step, sample) for step, sample in places if script in step.samples[sample]["tokens"])
    open_at(page, served, node="blocks.1", step=step.step, sample=sample)
    page.locator(".token", has_text=script).first.wait_for()
    assert page.locator(".sample script").count() == 0
    page.locator(".card summary", has_text="Samples").click()
    page.locator(".cell", has_text=script).first.wait_for()
    assert page.locator(".table script").count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_curves_follow_the_theme(page: Page, served: Served, theme: str) -> None:
    page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    open_at(page, served, node="blocks.1.up")
    page.locator(".over-steps canvas").wait_for()
    seen = page.evaluate(
        """() => {
          const root = document.querySelector(".over-steps canvas");
          const pixels = root.getContext("2d").getImageData(0, 0, root.width, root.height).data;
          const style = getComputedStyle(root);
          const wanted = style.getPropertyValue("--run-0").trim();
          const [r, g, b] = [1, 3, 5].map((at) => parseInt(wanted.slice(at, at + 2), 16));
          for (let i = 0; i < pixels.length; i += 4)
            if (pixels[i] === r && pixels[i + 1] === g && pixels[i + 2] === b && pixels[i + 3] === 255) return true;
          return wanted;
        }"""
    )
    assert seen is True
