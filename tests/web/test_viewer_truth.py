"""What the viewer says at first sight is true: runs with planted faults, held against the store and against pandas."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.server.recorded import one_thread
from tests.server.served import Served, serving
from tests.web.looking import WIDE, Look

import cutaway

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

EVERY, N_STEPS, BOOM, TRACED = 10, 40, 20, 20
RUNS = ("healthy-a", "healthy-b", "exploding")


def train(path: Path, *, seed: int, boom: bool = False, traced: Path | None = None, kinds: bool = False) -> None:
    """Train a small network; its loss may explode after half of the steps. Samples are kept, and not described."""
    import torch
    from torch import nn

    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with one_thread(), cutaway.record(path, model, every=EVERY, samples=2) as run:
        for number in range(N_STEPS):
            x = torch.randn(8, 4)
            with run.step(kind=("odd" if number % 20 >= EVERY else "even") if kinds else ""):
                with cutaway.watch(model) if traced and number == TRACED else nullcontext() as trace:
                    loss = nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long())
                if trace is not None:
                    trace.save(traced)
                loss = loss * 10.0 ** (number - BOOM) if boom and number > BOOM else loss
                loss.backward()
                if not boom:
                    optimizer.step()
                optimizer.zero_grad()
                run.log(loss=loss)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("truth") / "runs"
    for seed, name in enumerate(RUNS):
        train(folder / name, seed=seed, boom=name == "exploding", traced=folder / "step.trace" if not seed else None)
    train(folder / "very" / "deep" / "below" / "several" / "folders", seed=7, kinds=True)
    import torch

    cutaway.trace(torch.nn.Linear(2, 2), torch.randn(1, 2)).save(folder / "loose.trace")
    return folder


@pytest.fixture(scope="module")
def truth(folder: Path) -> Iterator[Served]:
    with serving(folder) as served:
        yield served


@pytest.fixture(scope="module")
def opened(browser: Browser, truth: Served) -> Iterator[Page]:
    """One page for all tests here, which may read its clipboard. It is closed before the viewer ends."""
    context = browser.new_context(
        viewport={"width": WIDE[0], "height": WIDE[1]}, permissions=["clipboard-read", "clipboard-write"]
    )
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    yield page
    context.close()
    assert not errors


@pytest.fixture
def look(opened: Page, truth: Served) -> Look:
    opened.goto("about:blank")  # another fragment alone would not load the page again
    return Look(opened, truth.url)


@pytest.fixture(scope="module")
def ids(opened: Page, truth: Served) -> dict[str, str]:
    items: list[Any] = opened.request.get(f"{truth.url}/api/runs").json()
    return {item["name"]: item["id"] for item in items}


def test_kept_samples_can_be_selected_although_nothing_describes_them(
    look: Look, ids: dict[str, str], folder: Path
) -> None:
    look.open(run=ids["healthy-a"], node="2", step=20)
    menu = look.page.get_by_label("One sample (b)")
    menu.select_option("1")
    look.until(lambda seen: seen.sample == "1")
    kept = cutaway.load(folder / "healthy-a").at(20)["2"].value
    assert menu.locator("option").count() == len(kept) == 2
    said = look.page.locator(".sample-numbers").inner_text()
    shown = float(re.findall(r"mean (−?[\d.]+(?:e−?\d+)?)", said)[0].replace("−", "-"))
    assert shown == pytest.approx(kept[1].mean(), rel=0.01)
    look.page.keyboard.press("b")
    look.until(lambda seen: seen.sample == "0")


def test_a_click_on_a_step_that_was_not_recorded_says_so_and_shows_the_nearest(look: Look, ids: dict[str, str]) -> None:
    look.open(run=ids["healthy-a"], step=0)
    notice = look.page.locator(".step-notice")
    assert notice.inner_text() == ""
    over = look.page.locator(".timeline .u-over")
    over.wait_for()
    box = over.bounding_box()
    assert box is not None
    over.click(position={"x": box["width"] * 27 / (N_STEPS - 1), "y": box["height"] / 2})
    look.until(lambda seen: seen.step == 30)
    assert notice.inner_text() == "step 27 was not recorded; nearest: 30"
    assert "step=27" in look.page.url
    assert look.page.locator(".step-selector .label").inner_text().startswith(f"Step · 4 recorded of {N_STEPS}")
    look.page.get_by_role("button", name="Previous recorded step").click()
    look.until(lambda seen: seen.step == 20)
    assert notice.inner_text() == ""


def color_of(look: Look, name: str) -> str:
    chip = look.page.locator(".chip", has=look.page.get_by_role("button", name=name, exact=True))
    return str(chip.locator(".chip-mark").first.evaluate("one => getComputedStyle(one).backgroundColor"))


def test_runs_keep_the_color_of_their_name_and_never_share_one(look: Look, ids: dict[str, str]) -> None:
    alone = {}
    for name in RUNS:
        look.open(run=ids[name])
        look.until(lambda seen, name=name: seen.active == name)
        alone[name] = color_of(look, name)
    look.open(tab="curves", runs=",".join(ids[name] for name in RUNS), node="2")
    look.until(lambda seen: len(seen.runs) == 3 and all(seen.timeline))
    together = [color_of(look, name) for name in RUNS]
    assert len(set(together)) == 3
    assert together[0] == alone[RUNS[0]]
    assert look.page.locator(".chip .chip-mark").all_inner_texts() == ["A", "B", "C"]
    strokes = look.page.locator(".timeline-value line")
    assert strokes.evaluate_all("lines => lines.map((one) => getComputedStyle(one).stroke)") == together
    assert not look.page.locator("line[stroke-dasharray]").count()
    # Dashes mean kinds of steps, in the run that has several.
    look.open(tab="curves", run=ids["very/deep/below/several/folders"], node="2")
    legend = look.page.locator(".curves-part .curve-legend", has_text="odd").locator("line")
    legend.first.wait_for(state="attached")
    assert legend.evaluate_all("lines => lines.map((one) => one.getAttribute('stroke-dasharray') !== null)") == [
        False,
        True,
    ]


def test_one_exploding_run_does_not_flatten_the_others(look: Look, ids: dict[str, str]) -> None:
    look.open(tab="curves", runs=",".join(ids[name] for name in RUNS))
    chart = look.page.locator(".chart", has_text="loss")
    left = chart.locator(".curve-left")
    left.wait_for()
    assert left.inner_text().startswith("▲ C up to ")
    assert not chart.locator(".chart-scale").count()  # the others need no logarithm
    assert look.page.locator(".timeline .curve-left").inner_text() == left.inner_text()
    left.click()
    look.page.wait_for_url(re.compile(r"curves\.range=all"))
    chart.locator(".chart-scale", has_text="log").wait_for()
    left.wait_for(state="detached")
    look.page.get_by_role("radiogroup", name="Y axis").get_by_role("radio", name="linear").click()
    chart.locator(".chart-scale").wait_for(state="detached")
    # Alone, the exploding run sets the axis of the timeline, and the data chooses the scale.
    look.open(run=ids["exploding"])
    scale = look.page.get_by_label("Scale", exact=True)
    look.page.wait_for_function(
        "() => document.querySelector('.timeline [aria-label=Scale]')?.selectedOptions[0]?.text === 'log, auto'"
    )
    scale.select_option("0")
    look.page.wait_for_url(re.compile(r"timeline\.log=0"))
    look.page.reload()
    scale.wait_for()
    assert scale.input_value() == "0"


def test_a_copied_table_is_read_by_pandas_as_numbers(look: Look, ids: dict[str, str], folder: Path) -> None:
    pandas = pytest.importorskip("pandas")
    look.open(tab="overview", run=ids["exploding"], step=30)
    grid = look.page.get_by_role("grid", name="Tensors at step 30")
    grid.get_by_role("row").nth(3).wait_for()
    look.page.evaluate("navigator.clipboard.writeText('')")
    grid.get_by_role("button", name="Copy table as text").click()
    look.page.wait_for_function("navigator.clipboard.readText().then((text) => text.startsWith('tensor\\t'))")
    text = look.page.evaluate("navigator.clipboard.readText()")
    table = pandas.read_csv(io.StringIO(text), sep="\t").set_index("tensor")
    assert "−" not in text
    step = cutaway.load(folder / "exploding").at(30)
    for name in ("mean", "abs_mean", "std", "norm", "min", "max"):
        assert pandas.api.types.is_float_dtype(table[name]), name
        for site in ("0", "2", "0.weight", "$loss"):
            assert np.float32(table[name][site]) == np.float32(step[site].stats[name]), (site, name)
    assert (table["min"] < 0).any()
    assert pandas.isna(table["batch_std"]["0.weight"])  # a parameter has none
    # The table of modules has thousands, bytes and percentages for people, and plain numbers for programs.
    look.tab("Network").get_by_role("button", name="Copy table as text").click()
    look.page.wait_for_function("navigator.clipboard.readText().then((text) => text.startsWith('module\\t'))")
    modules = pandas.read_csv(io.StringIO(look.page.evaluate("navigator.clipboard.readText()")), sep="\t")
    assert modules["parameters"].tolist() == [44, 30, 0, 14]
    assert modules["bytes"][0] == 4 * 44


def test_a_trace_says_whose_it_is_and_is_linked_to_its_step(look: Look, ids: dict[str, str]) -> None:
    look.open(run=ids["healthy-a"], step=20)
    look.page.get_by_role("button", name="trace of this step").click()
    bar = look.page.locator(".origin-bar")
    bar.get_by_text("made in step 20 of healthy-a").wait_for()
    assert bar.get_by_label("Trace", exact=True).locator("option").first.inner_text() == "step 20 · step.trace"
    bar.get_by_label("Trace", exact=True).select_option(ids["loose.trace"])
    bar.get_by_text("not made in a step of a run, so it belongs to none").wait_for()
    assert "healthy-a has a trace of its own" in bar.inner_text()
    # From another run: whose it is, and the way to that run and step.
    look.open(tab="tensors", run=ids["healthy-b"], step=0)
    assert not look.page.locator(".trace-link").count()
    look.tab("Ops")
    bar.get_by_label("Trace", exact=True).select_option(ids["step.trace"])
    bar.get_by_text("made in step 20 of healthy-a, not of healthy-b").wait_for()
    bar.get_by_text("tensors of step 20").click()
    look.until(lambda seen: (seen.tab, seen.active, seen.step) == ("Tensors", "healthy-a", 20))
    # A step of the same structure leads to the same trace, and says so.
    look.page.get_by_role("button", name="Previous recorded step").click()
    link = look.page.locator(".trace-link", has_text="trace of step 20")
    link.wait_for()
    assert "same structure" in (link.get_attribute("title") or "")
