"""From a spike of the loss to the sample that caused it, in three clicks; and filters, in a real browser.

The run has a planted fault (`tests/server/spiking.py`): one image is scaled by 255. What the page says is held against
what the store itself gives. One page is used for all of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote, urlsplit
from urllib.request import urlopen

import numpy as np
import pytest
from tests.browser import Seen
from tests.server.served import serving
from tests.server.spiking import BAD, BAD_PLACE, BATCH, SPIKES
from tests.server.spiking import spiking as spiking
from tests.web.looking import NARROW, PATIENCE, WIDE

import cutaway
from cutaway.store.runs.run import Run
from cutaway.views.run.filter_view import filter_view
from cutaway.views.run.rows import RunRows
from cutaway.views.run.spikes_view import CurveSource, verdict
from cutaway.views.run.what_changed import what_changed

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("starlette")
LOSS = CurveSource("loss")
STEP = SPIKES[1]


@dataclass(frozen=True)
class Viewed:
    """A page on the folder of runs, and the run as the store has it."""

    page: Page
    url: str
    ids: dict[str, str]
    rows: RunRows

    def at(self, name: str = "reader", **state: object) -> Page:
        """Go to a state; each value is escaped."""
        said = "&".join(f"{key}={quote(str(value))}" for key, value in {"runs": self.ids[name], **state}.items())
        self.page.goto("about:blank")
        self.page.goto(f"{self.url}/#{said}")
        self.page.wait_for_selector(".step-slider")
        return self.page

    @property
    def state(self) -> dict[str, str]:
        """The state in the address."""
        return {name: values[0] for name, values in parse_qs(urlsplit(self.page.url).fragment).items()}

    def until(self, **state: str) -> None:
        """Wait until the address has these."""
        for name, value in state.items():
            said = re.escape(f"{name}=") + re.escape(quote(value, safe=",/"))
            self.page.wait_for_url(re.compile(rf"[#&]{said}(&|$)"))


@pytest.fixture(scope="module")
def viewed(browser: Browser, spiking: Path) -> Iterator[Viewed]:
    with serving(spiking) as served:
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        page, seen = context.new_page(), Seen()
        page.set_default_timeout(1000 * PATIENCE)
        page.on("console", seen.note_console)
        page.on("pageerror", lambda error: seen.errors.append(str(error)))
        items = json.load(urlopen(f"{served.url}/api/runs"))
        run = cutaway.load(spiking / "reader")
        assert isinstance(run, Run)
        yield Viewed(page, served.url, {item["name"]: item["id"] for item in items}, RunRows(run))
        context.close()
        assert seen.errors == []


def click_spike(page: Page, chart: str, number: int) -> None:
    """Click the curve below the mark of a spike."""
    # In one go: a chart draws its marks anew whenever something changes.
    place = page.wait_for_function(
        """([chart, number]) => {
          const mark = document.querySelectorAll(`${chart} .spike-mark`)[number]?.getBoundingClientRect();
          const plot = document.querySelector(`${chart} .u-over`)?.getBoundingClientRect();
          return mark && plot && mark.width > 0 && [mark.x + mark.width / 2, plot.y + plot.height / 2];
        }""",
        arg=[chart, number],
    ).json_value()
    page.mouse.click(*place)


def text(page: Page, selector: str) -> str:
    return re.sub(r"\s+", " ", page.locator(selector).first.inner_text())


def test_three_clicks_from_the_spike_to_the_sample(viewed: Viewed) -> None:
    page = viewed.at(step=50)
    view = what_changed(viewed.rows, LOSS, STEP, samples=viewed.rows.filter)
    page.wait_for_function("(n) => document.querySelectorAll('.timeline .spike-mark').length === n", arg=len(SPIKES))
    # 1: the spike
    click_spike(page, ".timeline", 1)
    viewed.until(step=str(STEP), **{"~spike": f"{STEP},logged,loss"})
    page.wait_for_selector(".changed-row .changed-name")
    assert text(page, ".verdict-line") == "".join(verdict(viewed.rows, LOSS, STEP))
    names = page.locator(".changed-row .changed-name b").all_inner_texts()
    sites = [viewed.rows.row(tensor.row).base for tensor in view.tensors[:6]]
    assert names == ["input 0" if site == ".@in.0" else site for site in sites]
    assert f"{view.n_unusual} of {view.n_tensors}" in text(page, ".changed-row.head")
    # 2: the tensor
    first = view.tensors[0]
    page.locator(".changed-name").first.click()
    viewed.until(node=viewed.rows.row(first.row).base)
    assert "×" in text(page, ".changed-row.on .num")
    # 3: the sample
    page.locator(".sample-card").first.click()
    viewed.until(sample=str(BAD_PLACE))
    page.wait_for_selector(".one-sample")
    said = text(page, ".one-sample")
    assert f"{BAD}, in all {len(SPIKES)} spikes" in said
    strip = next(strip for strip in view.strips if strip.row == first.row)
    values = [value for value in strip.values if value is not None]
    assert "others" in said
    assert page.locator(".one-sample .dots circle").count() == len(values) == BATCH
    assert page.locator(".one-sample .dots text.own").text_content() == BAD
    trail = text(page, ".trail")
    assert re.fullmatch(rf"1 ?spike at step {STEP} › 2 ?{re.escape(names[0])} › 3 ?sample {BAD}", trail), trail


def test_the_address_brings_it_back_and_the_trail_leads_back(viewed: Viewed) -> None:
    page, before = viewed.page, viewed.state
    page.reload()
    page.wait_for_selector(".one-sample")
    assert viewed.state == before
    page.locator(".changed-row.on .inspect").click()
    page.wait_for_selector(".tensor-panel:not(.old) .cards")
    assert text(page, ".tensor-head h2").endswith(f"at step {STEP}")
    assert f"sample {BAD_PLACE}" in text(page, ".tensor-panel .sample h3")
    # The table of samples: the outlier is marked and comes first.
    page.locator("summary", has_text="Samples").click()
    first = page.locator(".tensor-table [role=row]").nth(1)
    first.wait_for()
    assert first.locator(".cell").first.inner_text() == str(BAD_PLACE)
    assert first.locator(".cell.bad").count() >= 2
    page.locator(".trail button").first.click()
    page.wait_for_selector(".what-changed .changed-row")
    page.go_back()
    page.wait_for_selector(".tensor-panel .cards")
    page.go_forward()
    page.wait_for_selector(".what-changed .changed-row")


def test_n_and_p_go_from_spike_to_spike(viewed: Viewed) -> None:
    page = viewed.page
    for key, step, number in (("n", SPIKES[2], 3), ("n", SPIKES[2], 3), ("p", SPIKES[1], 2), ("p", SPIKES[0], 1)):
        page.keyboard.press(key)
        viewed.until(**{"~spike": f"{step},logged,loss"})
        page.wait_for_function(
            "(said) => document.querySelector('.what-keys').textContent.includes(said)", arg=f"spike {number} of 3"
        )
    assert viewed.state["step"] == str(SPIKES[0])
    page.locator(".step-slider .spike-mark").nth(2).click()
    viewed.until(**{"~spike": f"{SPIKES[2]},logged,loss"})
    page.get_by_role("button", name="Close", exact=True).click()
    page.wait_for_selector(".what-changed", state="detached")
    assert "~spike" not in viewed.state
    # Outside of spikes, the same question is one click away.
    page.locator(".timeline-spikes").click()
    page.wait_for_selector(".what-changed .changed-row")


def test_spikes_on_the_curves_tab_and_in_the_inspector(viewed: Viewed) -> None:
    page = viewed.at(tab="curves", node="stem.0", step=40)
    click_spike(page, ".chart", 0)
    page.wait_for_selector(".what-changed .changed-row")
    assert viewed.state["~spike"] == f"{SPIKES[0]},logged,loss"
    page = viewed.at(node="stem.0", step=40, statistic="std")
    click_spike(page, ".over-steps", 1)
    page.wait_for_selector(".what-changed .verdict-line")
    number = viewed.rows.number("stem.0")
    said = "".join(verdict(viewed.rows, CurveSource(row=number, statistic="std"), STEP))
    assert text(page, ".verdict-line") == said
    assert viewed.state["node"] == "stem.0"


def test_what_was_not_recorded_is_said(viewed: Viewed) -> None:
    page = viewed.at("bare", **{"~spike": f"{STEP},logged,loss", "step": STEP})
    page.wait_for_selector(".verdict-line")
    assert f"Step {STEP} was logged but not recorded" in text(page, ".what-changed .note")
    assert page.locator(".timeline .spike-mark.logged").count() == len(SPIKES)
    page.locator(".what-changed .note .link").first.click()
    page.wait_for_function("() => document.querySelector('.changed-samples .note')")
    assert "No samples were kept at this step" in text(page, ".changed-samples .note")


def test_filters_leave_steps_and_samples(viewed: Viewed) -> None:
    page, run = viewed.at(step=10), viewed.rows.run
    page.keyboard.press("F")
    field = page.get_by_label("Add a filter")
    texts: list[str] = []
    for term in ("kind = train", "loss > 2", "label >= 0", "token = dark"):
        texts.append(term)
        field.fill(term)
        field.press("Enter")
        left = filter_view(run, texts, viewed.rows.filter)
        said = f"{len(left.steps)} of {left.n_steps} steps · {left.n_samples} of {left.n_all_samples} samples · clear"
        page.wait_for_function(
            "(said) => document.querySelector('.filter-left')?.textContent.trim().endsWith(said)", arg=said
        )
    assert left.steps == SPIKES
    viewed.until(**{"~filter": "\n".join(texts)})
    # The step that was shown is left out, so the nearest that is left is shown; keys go among those.
    assert viewed.state["step"] == str(SPIKES[0])
    assert f"{len(SPIKES)} left by the filters" in text(page, ".step-selector .label")
    field.blur()
    for key, step in ((".", SPIKES[1]), (".", SPIKES[2]), (".", SPIKES[2]), (",", SPIKES[1])):
        page.keyboard.press(key)
        viewed.until(step=str(step))
    page.reload()
    page.wait_for_selector(".filter-left b")
    assert page.locator(".filter code").all_inner_texts() == texts
    # Samples of the panel pass the same filters.
    click_spike(page, ".timeline", 1)
    page.wait_for_selector(".sample-card")
    labels = run.at(STEP).samples.fields["tokens"]
    n_passing = int(np.sum([" dark" in words for words in labels]))
    assert f"{n_passing} of {BATCH} pass the filters" in text(page, ".changed-samples h3")
    page.get_by_label("Remove label >= 0").click()
    page.wait_for_function("() => document.querySelectorAll('.filter code').length === 3")
    page.locator(".filter-left .link", has_text="clear").click()
    page.wait_for_selector(".filter-bar", state="detached")


def test_wrong_filters_say_what_is_understood(viewed: Viewed) -> None:
    page = viewed.at(step=10, **{"~filter": "los > 3"})
    page.wait_for_selector(".filter.wrong")
    assert "Did you mean 'loss'?" in text(page, ".filter-error")
    field = page.get_by_label("Add a filter")
    field.fill("hello")
    field.press("Enter")
    page.wait_for_selector(".filter-wrong")
    assert "is not a filter. Write a name, one of = != < <= > >= ~ and a value" in text(page, ".filter-wrong")
    assert page.locator(".filter code").all_inner_texts() == ["los > 3"]


@pytest.mark.parametrize("size", [WIDE, NARROW, (390, 800)])
def test_nothing_is_cut_off(viewed: Viewed, size: tuple[int, int]) -> None:
    page = viewed.page
    page.set_viewport_size({"width": size[0], "height": size[1]})
    viewed.at(node="stem.0", sample=BAD_PLACE, step=STEP, **{"~spike": f"{STEP},logged,loss", "~inspector": "open"})
    page.wait_for_selector(".one-sample")
    wide = page.evaluate(
        """() => [".what-changed", ".changed-row.head", ".sample-cards", ".one-sample"].filter((what) => {
          const element = document.querySelector(what);
          return element && element.scrollWidth > element.clientWidth + 1;
        })"""
    )
    assert wide == []
