"""The inspector and the curves of the viewer, in a real browser, against what the store itself says.

One page is loaded for all of it, as a person would go on in the same one; the address leads from test to test.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import numpy as np
import pytest
from tests.browser import Seen
from tests.server.recorded import WORDS
from tests.server.served import serving
from tests.server.strange import N_UNITS, TOKENS
from tests.server.strange import strange as strange

import cutaway

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page
    from tests.server.served import Served

    from cutaway import Run
    from cutaway.store.runs.step import Moment

pytest.importorskip("starlette")
STEP = 24
BUTTONS = ("site", "Python", "statistics", "values")
"""What can be copied of a tensor, in the order of the buttons."""


@dataclass(frozen=True)
class Viewed:
    """A page on a folder of runs."""

    page: Page
    url: str
    ids: dict[str, str]

    def at(self, runs: str = "", **state: object) -> Page:
        """Go to a state of it."""
        names = runs.split(",") if runs else [next(iter(self.ids))]
        said = "&".join(f"{name}={value}" for name, value in state.items())
        self.page.goto(f"{self.url}/#runs={','.join(self.ids[name] for name in names)}&{said}")
        return self.page


def viewed(browser: Browser, served: Served) -> Iterator[Viewed]:
    context = browser.new_context(
        viewport={"width": 1280, "height": 800}, permissions=["clipboard-read", "clipboard-write"]
    )
    page, seen = context.new_page(), Seen()
    page.on("console", seen.note_console)
    page.on("pageerror", lambda error: seen.errors.append(str(error)))
    items = json.load(urlopen(f"{served.url}/api/runs"))
    yield Viewed(page, served.url, {item["name"]: item["id"] for item in items})
    context.close()
    assert seen.errors == []


@pytest.fixture(scope="module")
def base(browser: Browser, served: Served) -> Iterator[Viewed]:
    yield from viewed(browser, served)


@pytest.fixture(scope="module")
def odd(browser: Browser, strange: Path) -> Iterator[Viewed]:
    with serving(strange) as served:
        yield from viewed(browser, served)


@pytest.fixture(scope="module")
def run(recorded: Path) -> Run:
    found = cutaway.load(recorded / "base")
    assert isinstance(found, cutaway.Run)
    return found


@pytest.fixture(scope="module")
def images(strange: Path) -> Run:
    found = cutaway.load(strange / "images")
    assert isinstance(found, cutaway.Run)
    return found


def inspected(view: Viewed, node: str, runs: str = "base", **state: object) -> Page:
    """The inspector on a tensor of a run, once it is there."""
    page = view.at(runs, **{"step": STEP, "node": node, **state})
    page.wait_for_function(
        """([node, name, step]) => {
          const panel = document.querySelector(".tensor-panel:not(.old)");
          const text = (what) => panel?.querySelector(what)?.textContent ?? "";
          const [title, also] = [text("h2"), text(".tensor-head .quiet")];
          const isIt = title.startsWith(`${name} at`) || also.slice(5).split(", ").includes(node);
          return isIt && title.endsWith(` ${step}`) && panel.querySelector(".cards");
        }""",
        arg=[node, re.split(r"[./](?=\D)", node)[-1], state.get("step", STEP)],
    )
    return page


def moment(run: Run, site: str, of: str = "value", *, iteration: int | None = None) -> Moment:
    found = run.at(STEP)[site].other(of, iteration=iteration)
    assert found is not None
    return found


def card(page: Page, title: str) -> Locator:
    return page.locator(".cards .stat", has=page.locator(".label", has_text=re.compile(f"^{title}$")))


def number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))


def at_step(page: Page, step: int) -> None:
    page.locator(".at-step", has_text=re.compile(f"at step {step}$")).wait_for()


def opened(page: Page, title: str) -> Locator:
    """The table of the units or the samples, folded out."""
    part = page.locator("details.card", has=page.locator("summary", has_text=title))
    if part.get_attribute("open") is None:
        part.locator("summary").click()
    return page.get_by_role("grid", name=title)


def drag(page: Page, plot: Locator, low: float, high: float) -> None:
    box = plot.bounding_box()
    assert box
    height = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * low, height)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * (low + high) / 2, height, steps=3)
    page.mouse.move(box["x"] + box["width"] * high, height, steps=3)
    page.mouse.up()


def pointed(page: Page, canvas: Locator, x: float, y: float, pattern: str) -> re.Match[str]:
    """What the caption says of the pixel at a place, once the numbers have come."""
    canvas.scroll_into_view_if_needed()
    caption = page.locator(".value-picture .pixels figcaption > span").first
    for attempt in range(200):
        canvas.hover(position={"x": x + attempt % 2, "y": y})
        found = re.fullmatch(pattern, caption.inner_text())
        if found:
            return found
        page.wait_for_timeout(25)
    pytest.fail(f"{caption.inner_text()!r} is not like {pattern!r}")


# statistics


def test_the_cards_say_what_the_store_says(base: Viewed, run: Run) -> None:
    page = inspected(base, "blocks.1.up", iteration=2)
    stats = moment(run, "blocks.1.up", iteration=2).stats
    for name in ("mean", "std", "norm", "min", "max"):
        shown = number(card(page, name).locator("b").inner_text())
        assert shown == pytest.approx(stats[name], rel=5e-3, abs=1e-9)
    card(page, "std").hover()
    assert number(page.locator(".past code").inner_text()) == pytest.approx(stats["std"], rel=1e-6)
    page.locator(".past path").wait_for()
    words = page.locator(".quantile-words").inner_text().replace("\n", " ")
    assert number(re.findall(r"median (\S+)", words)[0]) == pytest.approx(stats["p50"], rel=5e-3, abs=1e-9)


def test_what_stands_out_is_marked_on_its_card_and_named_above(odd: Viewed) -> None:
    page = inspected(odd, "right.cut", "images", step=2)
    zeros = card(page, "zeros")
    assert zeros.locator("small").all_inner_texts() == ["dead units 4"]
    assert "out" in str(zeros.get_attribute("class"))
    chip = page.get_by_role("button", name="value 10⁵ × smaller than its sibling left.cut")
    chip.click()
    page.locator("h2", has_text=re.compile("^cut at step 2")).wait_for()
    page.get_by_role("button", name="value 10⁵ × larger than its sibling right.cut").wait_for()


def test_what_is_not_finite_or_not_there_is_told_as_such(odd: Viewed) -> None:
    page = inspected(odd, "$only_nan", "images", step=2)
    page.locator(".badge.bad", has_text="holds only NaN").wait_for()
    assert page.locator(".pixels-scale").inner_text() == "only NaN or Inf"
    assert "NaN or infinite at every step" in page.locator(".over-steps").inner_text()
    assert page.locator(".histogram").count() == 0
    page = inspected(odd, "$some_nan", "images", step=2)
    page.locator(".pixels-broken", has_text="NaN or Inf").wait_for()
    page = inspected(odd, "$empty", "images", step=2)
    assert set(page.locator(".cards b").all_inner_texts()) == {"–"}
    assert page.locator(".cards .out").count() == 0
    assert "no elements" in page.locator(".value-text").inner_text()
    page = inspected(odd, "$one", "images", step=2)
    assert page.locator(".value-text.one").inner_text() == "2.5"
    assert "scalar" in page.locator(".badges").inner_text()


def test_where_only_statistics_were_kept_the_page_says_so(base: Viewed) -> None:
    page = inspected(base, "blocks.0.up.weight", of="update")
    assert "recorded only statistics" in page.locator(".why-missing").inner_text()
    assert page.locator(".pixels").count() == 0
    assert page.locator(".over-steps canvas").count() == 1


# over steps


def test_a_curve_leads_to_steps_and_zooms_by_hand_and_by_keys(base: Viewed, run: Run) -> None:
    page = inspected(base, "blocks.1.up")
    plot, reset = page.locator(".over-steps .u-over"), page.locator(".over-steps .curve-reset")
    plot.wait_for()
    box = plot.bounding_box()
    assert box
    plot.click(position={"x": box["width"] * 0.75, "y": 40})
    low, high = int(run.steps[0]), int(run.steps[-1])
    place = low + 0.75 * (high - low)
    here = min((int(step) for step in run.steps), key=lambda step: abs(step - place))
    at_step(page, here)
    drag(page, plot, 0.5, 0.8)
    reset.wait_for()
    plot.dblclick(position={"x": 60, "y": 40})
    reset.wait_for(state="detached")
    page.wait_for_timeout(300)  # longer than a click waits to become a double one
    at_step(page, here)

    page = inspected(base, "blocks.1.up", kind="long")
    page.locator(".over-steps .curve").focus()
    page.keyboard.press("ArrowRight")
    after = next(int(step) for step in run.steps_of("long") if step > STEP)
    readout = page.locator(".over-steps .curve-readout")
    assert f"step {after}" in readout.inner_text()
    expected = run["blocks.1.up"].band("abs_mean", kind="long")  # the mean of its iterations
    shown = number(readout.locator("b").inner_text())
    assert np.float32(shown) == expected.values[list(expected.steps).index(after)]
    page.keyboard.press("Enter")
    at_step(page, after)


def test_logarithmic_heights_stay_in_the_address(base: Viewed) -> None:
    page = inspected(base, "blocks.1.up", statistic="mean")
    log = page.locator(".over-steps .toggle")
    assert log.get_attribute("aria-pressed") == "false"
    log.click()
    page.wait_for_url(re.compile(r"inspect\.log=1"))
    page.locator(".histogram .toggle").click()
    page.wait_for_url(re.compile(r"inspect\.bars=log"))
    page.reload()
    page.locator(".over-steps .toggle[aria-pressed=true]").wait_for()
    page.locator(".histogram .toggle[aria-pressed=true]").wait_for()


def test_all_curves_of_two_runs_are_named_found_smoothed_and_drawn(base: Viewed, run: Run) -> None:
    page = base.at("base,deep/other", tab="curves", node="head", step=STEP)
    charts = page.locator(".chart")
    page.locator(".chart canvas").nth(len(run.scalars)).wait_for()
    names = page.locator(".chart-title").all_inner_texts()
    assert set(run.scalars) <= set(names)
    assert {"mean", "abs mean", "std"} <= set(names)
    logged, statistics = (page.locator(".curves-part .curve-legend").nth(part).locator("span") for part in (0, 1))
    assert logged.all_inner_texts() == ["A\nbase", "B\ndeep/other"]
    assert statistics.all_inner_texts() == ["A\nbase", "B\ndeep/other", *run.kinds]
    dashes = [one.get_attribute("stroke-dasharray") for one in statistics.locator("line").all()]
    assert len(set(dashes[2:])) == len(run.kinds)
    page.get_by_label("Search curves").fill("gue")
    page.wait_for_function("document.querySelectorAll('.chart').length === 1")
    assert charts.locator(".chart-title").inner_text() == "guess"
    page.get_by_role("slider", name="Smoothing").fill("0.9")
    page.get_by_role("radiogroup", name="Y axis").get_by_role("radio", name="log").click()
    plot = charts.locator(".u-over")
    box = plot.bounding_box()
    assert box
    plot.hover(position={"x": box["width"] * 0.2, "y": 30})
    readout = page.locator(".chart .curve-readout")
    step = int(re.findall(r"step (\d+)", readout.inner_text())[0])
    assert len(readout.locator(".curve-reading").all()) == 2
    guess = run.scalars["guess"]
    shown = number(readout.locator(".curve-reading b").first.inner_text())
    assert np.float32(shown) == np.float32(guess.values[list(guess.steps).index(step)])
    page.wait_for_url(re.compile(r"curves\.smooth=0\.9"))
    page.reload()
    page.locator(".chart canvas").wait_for()
    assert page.locator(".chart-title").all_inner_texts() == ["guess"]
    page.get_by_role("radiogroup", name="X axis").get_by_role("radio", name="time").click()
    charts.locator(".u-over").hover(position={"x": 80, "y": 30})
    assert re.search(r"\d (s|min|h)\n", page.locator(".chart .curve-readout").inner_text())


def test_a_point_of_a_logged_number_leads_to_the_recorded_step_next_to_it(base: Viewed, run: Run) -> None:
    page = base.at("base", tab="curves", **{"~curves.search": "loss"})
    plot = page.locator(".chart .u-over").first
    plot.wait_for()
    box = plot.bounding_box()
    assert box
    plot.click(position={"x": box["width"] * 0.5, "y": 30})
    page.wait_for_url(re.compile(r"[#&]step=\d+"))
    asked = int(re.findall(r"[#&]step=(\d+)", page.url)[0])
    nearest = min((int(step) for step in run.steps), key=lambda step: abs(step - asked))
    page.locator(f".step-slider[aria-valuenow='{nearest}']").wait_for()


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_curves_follow_the_theme(base: Viewed, theme: str) -> None:
    page = inspected(base, "blocks.1.up")
    page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    page.wait_for_function(
        """() => {
          const root = document.querySelector(".over-steps canvas");
          if (!root) return false;
          const pixels = root.getContext("2d").getImageData(0, 0, root.width, root.height).data;
          const wanted = getComputedStyle(document.querySelector(".chip.active .chip-mark")).backgroundColor;
          const [r, g, b] = wanted.match(/[0-9]+/g).map(Number);
          for (let i = 0; i < pixels.length; i += 4)
            if (pixels[i] === r && pixels[i + 1] === g && pixels[i + 2] === b && pixels[i + 3] === 255) return true;
          return false;
        }"""
    )


# values


def test_a_pixel_tells_the_exact_number_behind_it(base: Viewed, odd: Viewed, run: Run, images: Run) -> None:
    place = r"\[([\d, ]+)\]: (\S+)"
    page = inspected(base, "blocks.1.up", sample=1)
    value = run.at(STEP)["blocks.1.up"].where(iteration=1).value
    found = pointed(page, page.locator(".value-picture .pixels canvas"), 40, 20, place)
    index = tuple(map(int, found[1].split(",")))
    assert index[0] == 1
    assert np.float32(number(found[2])) == value[index]

    page = inspected(odd, "conv", "images", step=2, sample=1)
    value = images.at(2)["conv"].value
    canvas = page.locator(".value-picture .pixels canvas")
    box = canvas.bounding_box()
    assert box
    found = pointed(page, canvas, box["width"] * 0.8, box["height"] * 0.3, place)
    index = tuple(map(int, found[1].split(",")))
    assert index[:2] == (1, 1)
    assert np.float32(number(found[2])) == value[index]


def test_a_channel_is_seen_alone_and_each_in_its_own_colors(odd: Viewed, images: Run) -> None:
    page = inspected(odd, "conv", "images", step=2, sample=1)
    assert page.locator(".sample-image").count() == 1
    page.get_by_role("radio", name="each channel").click()
    page.locator(".pixels-scale", has_text="highest of each channel").wait_for()
    page.get_by_role("radio", name="vs. batch").click()
    page.wait_for_url(re.compile(r"inspect\.scale=batch"))
    page.get_by_role("radio", name="raw").click()
    canvas = page.locator(".value-picture .pixels canvas")
    box = canvas.bounding_box()
    assert box
    canvas.click(position={"x": box["width"] * 0.8, "y": box["height"] * 0.8})
    page.locator(".pixels figcaption", has_text="channel 4 of 4").wait_for()
    page.get_by_role("button", name="Next channel").click()
    page.locator(".pixels figcaption", has_text="channel 1 of 4").wait_for()
    page.mouse.move(0, 0)
    value = images.at(2)["conv"].value[1, 0]
    ends = page.locator(".pixels-scale").inner_text().split()
    assert number(ends[-1]) == pytest.approx(
        np.abs(value).max() if value.min() < 0 < value.max() else value.max(), rel=6e-3
    )
    page.get_by_role("button", name="all 4").click()
    page.locator(".pixels figcaption", has_text="channels 1–4 of 4").wait_for()


def test_of_attention_a_head_is_chosen_and_a_token_shows_where_it_looks(odd: Viewed, strange: Path) -> None:
    looks = cutaway.load(strange / "looks").at(1)["weights"].value  # (sample, head, query, key)
    page = inspected(odd, "weights", "looks", step=1, sample=1)
    page.locator(".pixels figcaption", has_text="heads 1–3 of 3").wait_for()
    tokens = page.locator(".tokens .token")
    assert tokens.all_inner_texts() == list(TOKENS)
    said = page.locator(".tokens figcaption span").first
    tokens.nth(2).hover()
    assert np.float32(number(said.inner_text().split()[-1])) == pytest.approx(looks[1, :, :, 2].mean(), rel=1e-5)
    tokens.nth(3).click()
    page.locator(".tokens .toggle", has_text="all tokens").wait_for()
    for chosen in (looks[1].mean(0), looks[1, 2]):
        tokens.nth(0).hover()
        page.wait_for_function(
            "(want) => Math.abs(Number(document.querySelector('.tokens .token').title) - want) <= 1e-5 * want",
            arg=float(chosen[3, 0]),
        )
        page.goto(re.sub(r"&~inspect[^&]*|$", "", page.url, count=1) + "&~inspect.tile=2")
    page.locator(".pixels figcaption", has_text="head 3 of 3").wait_for()
    found = pointed(page, page.locator(".value-picture .pixels canvas"), 10, 10, r"the → the \[1, 2, 0, 0\]: (\S+)")
    assert np.float32(number(found[1])) == looks[1, 2, 0, 0]
    page.goto(page.url.replace("~inspect.tile=2", ""))


def test_a_sample_stands_beside_its_values_its_output_and_its_target(base: Viewed, run: Run) -> None:
    page = inspected(base, "blocks.1", sample=1, iteration=1)
    sample = run.at(STEP).samples[1]
    tokens = page.locator(".tokens .token")
    tokens.first.wait_for()
    assert tokens.all_inner_texts() == list(sample["tokens"])
    assert page.locator(".sample-image").count() == 1
    label = int(sample["label"])
    beside = page.locator(".companions > div")
    assert beside.filter(has_text=re.compile(r"^target \$target")).locator("code").inner_text() == str(label)
    for iteration in (1, 2):
        page = inspected(base, "blocks.1", sample=1, iteration=iteration)
        output = beside.filter(has_text="head")
        output.filter(has_text=f"in iteration {iteration}").wait_for()
        scores = moment(run, "head", iteration=iteration).value[1]
        shown = [number(one) for one in output.locator("code").inner_text().strip("[]").split(", ")]
        assert shown == pytest.approx(scores, rel=1e-3)
        is_right = int(scores.argmax()) == label
        verdict = f"{'correct' if is_right else 'wrong'}: $target is {label}"
        assert output.locator(".verdict").inner_text() == f"prediction {int(scores.argmax())}, {verdict}"
    opened(page, "Samples").get_by_role("row").nth(3).click()
    page.locator(".sample h3", has_text="sample 2").wait_for()


def test_what_is_shown_can_be_taken_along(base: Viewed, run: Run) -> None:
    page = inspected(base, "blocks.1.up", of="grad/guess", iteration=2)
    whole = moment(run, "blocks.1.up", "grad/guess", iteration=2)

    def pasted(button: str) -> str:
        page.evaluate("navigator.clipboard.writeText('nothing')")
        page.locator("button.take").nth(BUTTONS.index(button)).click()
        text = "nothing"
        for _ in range(200):
            text = page.evaluate("navigator.clipboard.readText()")
            if text != "nothing":
                break
            page.wait_for_timeout(50)
        page.locator(".take.done").first.wait_for()
        return text

    def downloaded(format_: str) -> bytes:
        with page.expect_download() as download:
            page.locator("a.take", has_text=format_).click()
        assert download.value.suggested_filename.endswith(f".{format_.lower()}")
        return Path(download.value.path()).read_bytes()

    np.testing.assert_array_equal(eval(pasted("Python"), {"run": run}), whole.value)  # it is the page's own line
    statistics = dict(line.split("\t") for line in pasted("statistics").splitlines())
    assert float(statistics["abs_mean"]) == whole.stats["abs_mean"]
    for sample, expected in ((None, whole.value), (1, whole.value[1])):
        if sample is not None:
            inspected(base, "blocks.1.up", of="grad/guess", iteration=2, sample=sample)
        np.testing.assert_array_equal(np.float32(eval(pasted("values"), {"nan": np.nan, "inf": np.inf})), expected)
        np.testing.assert_array_equal(np.load(io.BytesIO(downloaded("NPY")), allow_pickle=False), expected)
        table = np.genfromtxt(io.BytesIO(downloaded("CSV")), delimiter=",", names=None, skip_header=1, dtype=np.float64)
        n_before = expected.ndim - 1
        np.testing.assert_array_equal(np.float32(table[:, n_before:]), expected.reshape(-1, expected.shape[-1]))
        assert [tuple(map(int, line)) for line in table[:, :n_before]] == list(np.ndindex(expected.shape[:-1]))


def test_text_of_a_run_never_becomes_a_part_of_the_page(base: Viewed, run: Run) -> None:
    script = next(word for word in WORDS if "<" in word)
    places = ((step, sample) for step in run for sample in range(len(step.samples)))
    step, sample = next((step, sample) for step, sample in places if script in step.samples[sample]["tokens"])
    page = inspected(base, "blocks.1", step=step.step, sample=sample)
    page.locator(".token", has_text=script).first.wait_for()
    assert page.locator(".sample script").count() == 0
    opened(page, "Samples").locator(".cell", has_text=script).first.wait_for()
    assert page.locator(".table script").count() == 0


# tables


def test_the_table_of_units_is_that_of_the_record_and_sorts(base: Viewed, run: Run) -> None:
    page = inspected(base, "blocks.1.up", iteration=1)
    table = opened(page, "Units")
    means = moment(run, "blocks.1.up", "unit", iteration=1).value[0]
    cells = table.get_by_role("row").nth(1).get_by_role("gridcell")
    assert number(cells.nth(1).inner_text()) == pytest.approx(means[0], rel=5e-3)
    cells.nth(1).hover()
    assert np.float32(number(str(cells.nth(1).get_attribute("title")))) == means[0]
    table.get_by_role("button", name="mean", exact=True).click()
    assert cells.nth(0).inner_text() == str(int(np.argmax(means)))
    table.get_by_role("button", name="Copy table as text").click()
    page.wait_for_function("navigator.clipboard.readText().then((text) => text.startsWith('unit\\tmean'))")
    lines = page.evaluate("navigator.clipboard.readText()").splitlines()
    copied = [number(line.split("\t")[1]) for line in lines[1:]]
    np.testing.assert_array_equal(np.float32(copied), np.sort(means)[::-1])


def test_of_a_hundred_thousand_units_only_those_in_view_are_drawn(odd: Viewed, images: Run) -> None:
    page = inspected(odd, "$many", "images", step=2)
    table = opened(page, "Units")
    table.get_by_role("gridcell").first.wait_for()
    table.scroll_into_view_if_needed()
    table.hover(position={"x": 100, "y": 120})
    for _ in range(30):
        page.mouse.wheel(0, 4000)
    rows = table.locator(".table-row")
    page.wait_for_function("document.querySelector('.tensor-table .table').scrollTop >= 100000")
    assert rows.count() < 60
    table.evaluate("(element) => { element.scrollTop = element.scrollHeight; }")
    last = table.locator(f".table-row[aria-rowindex='{N_UNITS + 1}']")
    last.wait_for()
    means = images.at(2)["$many"].other("unit")
    values = images.at(2)["$many"].value
    expected = values[:, -1].mean() if means is None else means.value[0, -1]
    assert last.get_by_role("gridcell").nth(0).inner_text() == str(N_UNITS - 1)
    assert number(last.get_by_role("gridcell").nth(1).inner_text()) == pytest.approx(expected, rel=5e-3, abs=1e-6)


def test_the_overview_is_readable_in_a_narrow_window(base: Viewed) -> None:
    base.page.set_viewport_size({"width": 600, "height": 900})
    page = base.at("base", tab="overview", step=STEP)
    page.locator(".overview .table-row").first.wait_for()
    page.wait_for_function("document.querySelector('.overview .table-title').clientWidth <= 170")
    titles = page.locator(".overview .table-title").all()
    boxes = [(title, title.bounding_box()) for title in titles]
    whole = [title.inner_text() for title, box in boxes if box and box["x"] + box["width"] <= 600]
    assert whole[-1] in ("abs mean", "std", "norm")
    page.set_viewport_size({"width": 1280, "height": 800})
