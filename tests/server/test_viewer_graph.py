"""The dependency graph and the overview of the viewer, in a real browser, by keys and clicks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.server.served import Served
from tests.server.test_app import TOLD, becomes

import cutaway

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from playwright.sync_api import Page

Point = tuple[float, float]
NUMBERS = r"[\d,]+ element|[−\d.e]+ abs mean|not recorded"


def base(recorded: Path) -> cutaway.Run:
    run = cutaway.load(recorded / "base")
    assert isinstance(run, cutaway.Run)
    return run


def opened(page: Page, served: Served, address: str = "") -> Page:
    page.goto(f"{served.url}/#{address}")
    page.wait_for_selector(".tint-legend .ramp, .table-row")
    return page


@pytest.fixture
def graph(page: Page, served: Served) -> Page:
    return opened(page, served, "of=grad")


def tooltips(page: Page) -> dict[Point, str]:
    """What the pointer is told at points all over the canvas; nothing where it is told nothing."""
    box = page.locator(".stage").bounding_box()
    assert box is not None
    columns = range(8, int(box["width"]), 24)
    points = [(box["x"] + x, box["y"] + y) for y in range(8, int(box["height"]), 16) for x in columns]
    return {point: said for point, said in zip(points, page.evaluate(TOLD, points), strict=True) if said}


def names(page: Page) -> dict[Point, str]:
    """The same without the numbers, which change from step to step."""
    return {point: re.split(NUMBERS, said)[0] for point, said in tooltips(page).items()}


def point_of(page: Page, text: str) -> Point:
    """A point well inside the box that tells this."""
    found = [point for point, said in tooltips(page).items() if text in said]
    assert found, f"nothing on the canvas tells '{text}'"
    return found[len(found) // 2]


def are_alike(one: dict[Point, str], other: dict[Point, str]) -> bool:
    """Whether two pictures are the same but for parts of a pixel, to which an address rounds."""
    points = one.keys() | other.keys()
    return sum(one.get(point) == other.get(point) for point in points) >= 0.95 * len(points)


def told(page: Page) -> str:
    return page.inner_text(".graph-canvas [role=status]")


def test_keys_walk_through_the_graph_and_the_inspector_follows(graph: Page) -> None:
    graph.keyboard.press("ArrowRight")
    becomes(graph, "document.querySelector('.graph-canvas [role=status]').textContent !== ''")
    first, shown = told(graph), graph.inner_text(".inspector h2")
    graph.keyboard.press("ArrowRight")
    becomes(graph, f"document.querySelector('.graph-canvas [role=status]').textContent !== {first!r}")
    becomes(graph, f"document.querySelector('.inspector h2').textContent !== {shown!r}")
    becomes(graph, "location.hash.includes('node=')")
    graph.keyboard.press("Escape")
    becomes(graph, "!location.hash.includes('node=')")


def test_modules_open_to_any_depth_and_a_link_shows_the_same(graph: Page) -> None:
    graph.keyboard.press("]")
    graph.keyboard.press("]")
    becomes(graph, "location.hash.includes('graph=')")
    graph.wait_for_timeout(900)  # until the graph has come to rest, and the address with it
    depth, seen, address = graph.inner_text(".stepper output"), names(graph), graph.url
    graph.goto("about:blank")
    graph.goto(address)
    graph.wait_for_selector(".tint-legend .ramp")
    assert graph.inner_text(".stepper output") == depth
    assert are_alike(names(graph), seen)


def test_nothing_moves_while_steps_kinds_and_runs_change(graph: Page) -> None:
    before = names(graph)
    assert before
    legend = graph.inner_text(".tint-legend")
    graph.keyboard.press("Home")
    becomes(graph, "location.hash.includes('step=0')")
    becomes(graph, f"document.querySelector('.tint-legend').innerText !== {legend!r}")
    assert names(graph) == before
    graph.keyboard.press("k")
    becomes(graph, "location.hash.includes('kind=')")
    assert names(graph) == before
    graph.get_by_text("deep/other").first.click()
    becomes(graph, "document.title.includes('other')")
    graph.wait_for_timeout(300)
    assert names(graph) == before


def test_colours_tell_any_statistic_or_its_change_since_another_step(graph: Page) -> None:
    assert "abs mean of the gradient, log scale" in graph.inner_text(".tint-legend")
    graph.select_option(".graph-bar select >> nth=0", "mean")
    becomes(graph, "document.querySelector('.tint-legend').innerText.includes('mean of the gradient, around 0')")
    graph.select_option(".graph-bar select >> nth=1", "0")
    becomes(graph, "document.querySelector('.tint-legend').innerText.includes('change since step 0')")
    assert "×1" in graph.inner_text(".tint-legend .ramp-ticks")
    graph.keyboard.press("Home")
    becomes(graph, "location.hash.includes('step=0')")
    graph.select_option(".graph-bar select >> nth=0", "")
    graph.wait_for_selector(".tint-legend .ramp", state="detached")


def test_the_pointer_is_told_the_number_that_was_recorded(graph: Page, recorded: Path) -> None:
    value = base(recorded)["table.weight"].grad.stats("abs_mean")[-1]
    said = next(said for said in tooltips(graph).values() if said.startswith("table.weight"))
    found = re.search(r"([\d.]+(?:e−\d+)?) abs mean", said)
    assert found is not None, said
    assert float(found[1].replace("−", "-")) == pytest.approx(value, rel=0.06)


def test_what_is_hidden_stays_hidden_and_can_be_shown_again(graph: Page, served: Served) -> None:
    name = "table.weight"
    graph.mouse.click(*point_of(graph, name), button="right")
    graph.get_by_role("menuitem", name="Hide", exact=True).click()
    graph.get_by_text("1 hidden").wait_for()
    assert not any(said.startswith(name) for said in tooltips(graph).values())
    becomes(graph, "location.hash.includes('hide')")
    # Kept in this browser too, for whoever comes back without the link.
    graph.goto("about:blank")
    opened(graph, served, "of=grad")
    graph.get_by_text("1 hidden").click()
    becomes(graph, "!document.querySelector('.graph-bar').innerText.includes('hidden')")
    assert any(said.startswith(name) for said in tooltips(graph).values())


def test_a_pinned_tensor_keeps_its_number_in_view(graph: Page) -> None:
    graph.mouse.click(*point_of(graph, "table.weight"), button="right")
    graph.get_by_role("menuitem", name="Pin").click()
    graph.wait_for_selector(".pins b")
    number = graph.inner_text(".pins b")
    graph.keyboard.press("Home")
    becomes(graph, f"document.querySelector('.pins b').textContent !== {number!r}")


def test_a_box_that_was_moved_stays_there_and_the_others_where_they_were(graph: Page) -> None:
    graph.keyboard.press("ArrowRight")
    becomes(graph, "location.hash.includes('node=')")
    name = told(graph).split(",")[0]
    graph.keyboard.press("0")
    graph.wait_for_timeout(900)  # until the graph has come to rest
    before = names(graph)
    for _ in range(3):
        graph.keyboard.press("Shift+ArrowUp")
    becomes(graph, "location.hash.includes('move')")
    graph.wait_for_timeout(900)
    after = names(graph)
    assert {point for point, said in after.items() if said.startswith(name)} != {
        point for point, said in before.items() if said.startswith(name)
    }
    stayed = {point: said for point, said in before.items() if not said.startswith(name)}
    assert all(after.get(point) == said for point, said in stayed.items())
    address = graph.url
    graph.goto("about:blank")
    graph.goto(address)
    graph.wait_for_selector(".tint-legend .ramp")
    assert are_alike(names(graph), after)


def test_search_finds_tensors_and_goes_to_them(graph: Page) -> None:
    graph.keyboard.press("/")
    graph.keyboard.type("head weight")
    graph.keyboard.press("Enter")
    becomes(graph, "location.hash.includes('node=head.weight')")
    becomes(graph, "document.querySelector('.inspector h2').textContent.includes('weight')")


def test_the_overview_sorts_by_any_statistic_and_selects_everywhere(page: Page, served: Served, recorded: Path) -> None:
    opened(page, served, "tab=overview&of=grad")
    page.get_by_role("columnheader").get_by_text("norm", exact=True).click()
    becomes(page, "location.hash.includes('sort=norm')")
    run = base(recorded)
    series = [run[site] for site in run.sites if "grad" in run[site].has]
    ends = [one for one in series if one.grad.steps[-1] == run.steps[-1]]
    sizes = {one.site: one.grad.stats("norm")[-1] for one in ends}
    largest = np.nanmax(list(sizes.values()))
    shown = page.locator(".table-row").first
    assert any(size == pytest.approx(largest) and site in shown.inner_text() for site, size in sizes.items())
    shown.click()
    becomes(page, "location.hash.includes('node=')")
    assert page.locator(".table-row.selected").count() == 1
    page.keyboard.press("ArrowDown")
    becomes(page, "document.querySelectorAll('.table-row')[1].classList.contains('selected')")


def test_the_overview_lists_what_the_words_and_the_role_ask_for(page: Page, served: Served) -> None:
    opened(page, served, "tab=overview")
    everything = int(page.inner_text(".overview .shown-count").split()[0])
    page.get_by_label("Search tensors").fill("head weight")
    becomes(page, f"parseInt(document.querySelector('.overview .shown-count').textContent) < {everything}")
    assert all("head.weight" in text for text in page.locator(".table-row .name").all_inner_texts())
    page.get_by_label("Search tensors").fill("nothing is called that")
    page.get_by_text("No tensor is called that.").wait_for()
