"""Colors and marks of the run graph, in a real browser, on a training with planted faults."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page
from tests.server.faulty import BROKEN, LATE, SPIKE
from tests.server.faulty import faulty as faulty
from tests.server.served import Served, serving
from tests.web.test_graph_app import becomes
from tests.web.test_viewer_graph import PLACES


@pytest.fixture(scope="module")
def viewer(faulty: Path) -> Iterator[Served]:
    with serving(faulty) as found:
        yield found


def show(page: Page, viewer: Served, address: str) -> Page:
    page.set_default_timeout(30_000)
    page.goto("about:blank")
    page.goto(f"{viewer.url}/#{address}")
    page.wait_for_selector(".color-legend .ramp-ticks, .table-row")
    return page


def looks(page: Page) -> dict[str, Any]:
    """How each box is decorated, by its name, once it has come to rest."""
    before: Any = None
    for _ in range(100):
        found = page.evaluate(PLACES)
        if found is not None and found == before:
            return {one["name"]: one["look"] for one in reversed(found)}
        before = found
        page.wait_for_timeout(60)
    pytest.fail("the graph does not come to rest")


def all_open(page: Page) -> None:
    page.get_by_role("button", name="all", exact=True).click()


def test_colors_rise_from_nothing_and_stay_the_same_at_all_steps(page: Page, viewer: Served) -> None:
    show(page, viewer, f"step={SPIKE - 1}")
    all_open(page)
    becomes(page, "location.hash.includes('~scale=')")
    address, ticks = page.url.split("~scale=")[1].split("&")[0], page.inner_text(".color-legend .ramp-ticks")
    before = looks(page)
    page.keyboard.press(".")
    page.locator(".color-legend .limits", has_text="above now").wait_for()
    page.locator(".color-legend .unusual").wait_for()
    spiked = looks(page)
    assert page.inner_text(".color-legend .ramp-ticks") == ticks
    assert page.url.split("~scale=")[1].split("&")[0] == address
    assert spiked["head"]["note"].endswith("of usual")
    assert spiked["head"]["ring"]
    assert spiked["head"]["strip"] == "rgb(88,24,92)"  # the darkest
    # What did not explode has the color that it had.
    assert spiked["emb.weight" if "emb.weight" in spiked else "emb"]["strip"]
    for name in ("ids", "src_mask", "num_batches_tracked"):
        assert "strip" not in (spiked.get(name) or {}), name
        assert not (spiked.get(name) or {}).get("note"), name
    assert spiked["src_mask"]["holds"] == "mask"
    assert not (before["head"] or {}).get("note")
    # The limits in an address take precedence, and the legend offers those of the run.
    page.goto(page.url.replace(address, address.rsplit("%7C", 3)[0] + "%7C0.5%7C2%7C0"))
    becomes(page, "document.querySelector('.ramp-ticks').innerText.startsWith('0.5')")
    page.get_by_role("button", name="use the run's limits").click()
    becomes(page, f"document.querySelector('.ramp-ticks').innerText === {ticks!r}")


def test_zeros_are_neutral_and_inf_is_not_called_nan(page: Page, viewer: Served) -> None:
    show(page, viewer, f"step={BROKEN}")
    all_open(page)
    page.locator(".color-legend li", has_text="Inf").first.wait_for()
    found = looks(page)
    assert found["zero"]["holds"] == "zero"
    assert found["zero"]["words"] == "all zero"
    assert "strip" not in found["zero"]
    assert found["gain"]["holds"] == "inf"
    assert found["gain"]["note"] == "Inf starts here"
    assert found["loss"]["holds"] == "nan"
    notes = [look["note"] for look in found.values() if look and look.get("note")]
    assert "NaN starts here" not in notes
    show(page, viewer, f"step={BROKEN}&node=.@in.gain")
    page.locator(".tensor-head h2", has_text="gain").wait_for()
    page.locator(".tensor-head .badge.bad", has_text="holds Inf").wait_for()
    show(page, viewer, f"step={BROKEN}&node=zero")
    page.locator(".tensor-head .badge", has_text="all zero").wait_for()
    assert page.locator(".tensor-head .badge.bad").count() == 0
    show(page, viewer, "step=5&node=.@in.src_mask")
    page.locator(".tensor-head .badge", has_text="holds −Inf, as a mask does").wait_for()
    assert page.locator(".tensor-head .bad, .stat.out").count() == 0


def test_what_training_does_not_reach_is_marked_everywhere_with_since_when(page: Page, viewer: Served) -> None:
    show(page, viewer, f"step={LATE + 2}&of=grad")
    all_open(page)
    page.locator(".color-legend li", has_text="no gradient reaches this").wait_for()
    found = looks(page)
    assert (found["side"]["words"], found["side"]["corner"]) == ("no gradient since step 0", "no gradient")
    assert found["late"]["words"] == f"no gradient since step {LATE}"
    of_all = {(one["look"].get("words"), one["look"].get("corner")) for one in page.evaluate(PLACES)}
    assert {("never updated", "not updated"), ("frozen since step 0", "frozen")} <= of_all
    assert not (found["head"] or {}).get("corner")
    show(page, viewer, f"step={LATE - 1}&of=grad")
    page.locator(".color-legend li", has_text="no gradient reaches this").wait_for()
    found = looks(page)
    assert found["side"]["words"] == "no gradient since step 0"
    assert not found["late"].get("corner")
    show(page, viewer, f"tab=overview&of=grad&step={LATE + 2}")
    row = page.locator(".table-row", has_text=f"no gradient since step {LATE}").first
    row.wait_for()
    for name, words in (("side.weight", "no gradient since step 0"), ("frozen.weight", "frozen since step 0")):
        page.get_by_label("Search tensors").fill(name)
        page.locator(".table-row", has_text=name).filter(has_text=words).wait_for()
    page.locator(".unusual-help", has_text="robust standard deviations (1.48 × MAD)").wait_for()
    show(page, viewer, f"step={LATE + 2}&node=late.weight")
    page.locator(".badge.state", has_text=f"no gradient since step {LATE}").wait_for()


def test_the_inspector_opens_with_a_selection_and_low_windows_keep_the_graph(page: Page, viewer: Served) -> None:
    show(page, viewer, "step=3")
    assert page.locator(".inspector").count() == 0
    stage, legend = page.locator(".graph-canvas").bounding_box(), page.locator(".color-legend").bounding_box()
    assert stage is not None
    assert legend is not None
    assert legend["y"] >= stage["y"] + stage["height"] - 1  # beside the graph, not over it
    assert stage["width"] == page.evaluate("innerWidth")
    page.set_viewport_size({"width": 720, "height": 450})
    becomes(page, "document.querySelector('.graph-canvas').clientHeight > 180")
    page.set_viewport_size({"width": 390, "height": 800})
    becomes(page, "document.querySelector('.graph-canvas').clientHeight > 250")
