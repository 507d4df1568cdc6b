"""The dependency graph and the overview of the viewer, in a real browser, by keys and clicks."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import numpy as np
import pytest
from tests.browser import MOVING, set_motion
from tests.server.served import Served, serving
from tests.web.test_graph_app import becomes

import cutaway
from cutaway.graph.dependencies.graph import Dependencies, Node
from cutaway.store.format.records import Row
from cutaway.store.writing.writer import Writer
from cutaway.views.run.rows import RunRows
from cutaway.views.run.sample_matrix import sample_matrix

if TYPE_CHECKING:
    from playwright.sync_api import Page

PLACES = """() => {
    const canvas = document.querySelector('.run-graph canvas');
    const corner = canvas.getBoundingClientRect();
    if (canvas.graph.isMoving) return null;
    return canvas.graph.places().map(({ key, name, rect, look, isSelected }) => ({
        key, name, look, is_selected: isSelected,
        x: corner.x + rect.x, y: corner.y + rect.y, width: rect.width, height: rect.height,
    }));
}"""
UNNAMED = """() => [...document.querySelectorAll('.run-graph :is(button, select, input, canvas[tabindex])')]
    .filter((one) => !(one.ariaLabel || one.title || one.innerText || one.labels?.[0]?.innerText || '').trim())
    .map((one) => one.outerHTML.slice(0, 200))"""
CUT = """() => {
    const bar = document.querySelector('.graph-bar').getBoundingClientRect();
    const all = [...document.querySelectorAll('.graph-bar :is(button, select, input)')];
    return all.filter((one) => one.offsetParent).filter((one) => {
        const box = one.getBoundingClientRect();
        return box.left < bar.left || box.right > bar.right + 0.5 || box.width < 12;
    }).map((one) => one.outerHTML.slice(0, 120));
}"""


@dataclass(frozen=True)
class Box:
    """A box of the graph on the screen."""

    key: str
    name: str
    look: dict[str, Any]
    is_selected: bool
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> tuple[float, float]:
        return self.x + self.width / 2, self.y + self.height / 2

    @property
    def place(self) -> tuple[float, ...]:
        return tuple(round(side, 2) for side in (self.x, self.y, self.width, self.height))


def base(recorded: Path) -> cutaway.Run:
    run = cutaway.load(recorded / "base")
    assert isinstance(run, cutaway.Run)
    return run


def answer(served: Served, path: str, **asked: str) -> Any:
    with urlopen(f"{served.url}/api/{path}?{urlencode(asked)}") as found:
        return json.loads(found.read())


def opened(page: Page, served: Served, address: str = "") -> Page:
    page.set_default_timeout(30_000)
    page.goto(f"{served.url}/#{address}")
    page.wait_for_selector(".color-legend .ramp, .table-row")
    return page


@pytest.fixture
def graph(page: Page, served: Served) -> Page:
    return opened(page, served, "of=grad")


def boxes(page: Page) -> dict[str, Box]:
    """All boxes by their names, once they have come to rest."""
    before: list[dict[str, Any]] | None = None
    for _ in range(100):
        found = page.evaluate(PLACES)
        if found is not None and found == before:
            return {one["name"]: Box(**one) for one in reversed(found)}  # of two of one name the first
        before = found
        page.wait_for_timeout(40)
    pytest.fail("the graph does not come to rest")


def places(page: Page) -> dict[str, tuple[float, ...]]:
    return {name: box.place for name, box in boxes(page).items()}


def are_alike(one: dict[str, tuple[float, ...]], other: dict[str, tuple[float, ...]]) -> bool:
    """Whether two pictures are the same but for pixels, to which an address rounds."""
    return one.keys() == other.keys() and all(other[name] == pytest.approx(place, abs=2) for name, place in one.items())


def told(page: Page) -> str:
    return page.inner_text(".graph-canvas [role=status]")


def hovered(page: Page, name: str, says: str) -> str:
    """What the pointer is told at a box, once it has these words in it."""
    x, y = boxes(page)[name].middle
    page.mouse.move(x, y)
    becomes(page, f"document.querySelector('.run-graph .tooltip')?.innerText.includes({says!r})")
    return page.inner_text(".run-graph .tooltip")


def ask(page: Page, name: str, item: str) -> None:
    """Choose from the menu of a box."""
    page.mouse.click(*boxes(page)[name].middle, button="right")
    page.get_by_role("menuitem", name=item).first.click()


def test_keys_walk_through_the_graph_and_the_inspector_follows(graph: Page) -> None:
    set_motion(graph, MOVING)
    graph.keyboard.press("ArrowDown")
    becomes(graph, "document.querySelector('.graph-canvas [role=status]').textContent !== ''")
    first, shown = told(graph), graph.inner_text(".inspector h2")
    graph.keyboard.press("ArrowDown")
    becomes(graph, f"document.querySelector('.graph-canvas [role=status]').textContent !== {first!r}")
    becomes(graph, f"document.querySelector('.inspector h2').textContent !== {shown!r}")
    becomes(graph, "location.hash.includes('node=')")
    graph.keyboard.press("Escape")
    becomes(graph, "!location.hash.includes('node=')")
    # Names that fit exactly come first: the module, and not what has the word somewhere in a class.
    graph.keyboard.press("/")
    graph.keyboard.type("head")
    graph.keyboard.press("Enter")
    becomes(graph, "document.querySelector('.inspector h2').textContent.startsWith('head')")
    assert graph.inner_text(".crumbs").split("\n")[-1] == "head"
    graph.get_by_label("Search", exact=True).fill("head weight")
    graph.keyboard.press("Enter")
    becomes(graph, "location.hash.includes('node=head.weight')")
    # What a module returned goes by the module's name, which is said once.
    graph.get_by_label("Search", exact=True).fill("blocks.1.up")
    graph.keyboard.press("Enter")
    becomes(graph, "document.querySelector('.inspector h2').textContent.startsWith('up')")
    graph.keyboard.press("Escape")
    graph.keyboard.press("Enter")
    crumbs = re.split(r"\s*›\s*", graph.inner_text(".crumbs").strip())
    assert len(crumbs) == len(set(crumbs))


def test_modules_open_to_any_depth_and_a_link_shows_the_same(graph: Page) -> None:
    set_motion(graph, MOVING)
    n_boxes = len(boxes(graph))
    graph.keyboard.press("]")
    graph.keyboard.press("]")
    becomes(graph, "location.hash.includes('graph=') && location.hash.includes('view')")
    depth, seen, address = graph.inner_text(".stepper output"), places(graph), graph.url
    assert len(seen) > n_boxes
    graph.goto("about:blank")
    graph.goto(address)
    graph.wait_for_selector(".color-legend .ramp")
    assert graph.inner_text(".stepper output") == depth
    assert are_alike(places(graph), seen)


def test_nothing_moves_while_steps_kinds_and_runs_change(graph: Page) -> None:
    before = places(graph)
    assert before
    legend = graph.inner_text(".color-legend")
    graph.keyboard.press("Home")
    becomes(graph, "location.hash.includes('step=0')")
    becomes(graph, f"document.querySelector('.color-legend').innerText !== {legend!r}")
    assert places(graph) == before
    graph.keyboard.press("k")
    becomes(graph, "location.hash.includes('kind=')")
    assert places(graph) == before
    graph.get_by_text("deep/other").first.click()
    becomes(graph, "document.title.includes('other')")
    graph.wait_for_selector(".color-legend .ramp")
    assert places(graph) == before
    graph.select_option(".graph-bar select >> nth=0", "max")
    becomes(graph, "document.querySelector('.color-legend').innerText.startsWith('max of')")
    assert places(graph) == before


def test_colors_tell_any_statistic_or_its_change_since_another_step(graph: Page, recorded: Path) -> None:
    assert "abs mean of the gradient, log scale" in graph.inner_text(".color-legend")
    first, last = (base(recorded)["table.weight"].grad.stats("abs_mean")[place] for place in (0, -1))
    said = hovered(graph, "table.weight", "64 elements")
    found = re.search(r"([\d.]+(?:e−\d+)?) abs mean", said)
    assert found is not None, said
    assert float(found[1].replace("−", "-")) == pytest.approx(last, rel=0.06)
    strips = {name: box.look.get("strip") for name, box in boxes(graph).items()}
    graph.select_option(".graph-bar select >> nth=1", "0")
    becomes(graph, "document.querySelector('.color-legend').innerText.includes('change since step 0')")
    assert "×1" in graph.inner_text(".color-legend .ramp-ticks")
    graph.mouse.move(5, 5)
    change = re.search(r"×([\d.]+)", hovered(graph, "table.weight", "change since step 0"))
    assert change is not None
    assert float(change[1]) == pytest.approx(last / first, rel=0.06)
    assert {name: box.look.get("strip") for name, box in boxes(graph).items()} != strips
    graph.select_option(".graph-bar select >> nth=1", "")
    graph.select_option(".graph-bar select >> nth=0", "mean")
    becomes(graph, "document.querySelector('.color-legend').innerText.includes('mean of the gradient, around 0')")
    graph.get_by_role("button", name="fill").click()
    becomes(graph, "document.querySelector('.run-graph canvas').graph.places().some(({ look }) => look.fill)")
    graph.select_option(".graph-bar select >> nth=0", "")
    graph.wait_for_selector(".color-legend .ramp", state="detached")


def test_one_sample_colors_the_graph_by_its_own_values(page: Page, served: Served, recorded: Path) -> None:
    opened(page, served, "sample=1&iteration=1&graph=")
    becomes(page, "document.querySelector('.color-legend').innerText.includes('sample 1')")
    run = base(recorded)
    rows, step = RunRows(run), int(run.steps[-1])
    number, column = rows.number("head", iteration=1), rows.column_number("abs_mean")
    assert number is not None
    own, batch = sample_matrix(rows, step, 1)[number, column], rows.matrix(step)[number, column]
    assert own != pytest.approx(batch, rel=0.01)
    page.keyboard.press("/")
    page.keyboard.type("head")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    page.keyboard.press("0")
    becomes(page, "document.querySelector('.stepper output').textContent === '1+'")
    said = re.search(r"([\d.]+(?:e−\d+)?) abs mean", hovered(page, "head (×2)", "[3, 3] float32"))
    assert said is not None
    assert float(said[1].replace("−", "-")) == pytest.approx(own, rel=0.01)


def test_the_reader_hides_moves_orders_and_groups_and_takes_all_back_at_once(page: Page, served: Served) -> None:
    # The inspector is open from the start: it would take room from the graph with the first selection.
    graph = opened(page, served, "of=grad&~inspector=open")
    before = places(graph)
    ask(graph, "table.weight", "Pin")
    graph.wait_for_selector(".pins b")
    number = graph.inner_text(".pins b")
    graph.keyboard.press("Home")
    becomes(graph, f"document.querySelector('.pins b').textContent !== {number!r}")
    graph.keyboard.press("0")
    ask(graph, "target", "Hide")
    graph.get_by_text("1 hidden").wait_for()
    assert "target" not in boxes(graph)
    still = places(graph)
    ask(graph, "loss", "Move with the arrow keys")
    graph.keyboard.press("ArrowLeft")
    graph.keyboard.press("ArrowLeft")
    graph.keyboard.press("Escape")
    becomes(graph, "location.hash.includes('move')")
    after = places(graph)
    assert after["loss"] != still["loss"]
    moved = {name for name in after if after[name] != pytest.approx(still[name], abs=1.5)}
    assert moved == {"loss"}
    # Kept in this browser too, for whoever comes back without the link.
    graph.goto("about:blank")
    opened(graph, served, "of=grad")
    graph.get_by_text("1 hidden").wait_for()
    assert graph.locator(".pins b").count() == 1
    x, y = boxes(graph)["blocks.0 (×2)"].middle
    graph.mouse.click(x, y)
    ask(graph, "blocks.1 (×2)", "Group with blocks.0")
    becomes(graph, "document.querySelector('.crumbs').textContent.includes('group 1')")
    assert "target" not in boxes(graph)
    ask(graph, "blocks.0 (×2)", "Rename group 1")
    graph.keyboard.type("core")
    graph.keyboard.press("Enter")
    becomes(graph, "document.querySelector('.crumbs').textContent.includes('core')")
    address = graph.url
    becomes(graph, "location.hash.includes('core')")
    graph.goto("about:blank")
    opened(graph, served, address.split("#")[1])
    becomes(graph, "document.querySelector('.crumbs').textContent.includes('core')")
    graph.get_by_role("button", name="reset").click()
    becomes(graph, "!document.querySelector('.crumbs').textContent.includes('core')")
    becomes(graph, "!document.querySelector('.graph-bar').innerText.includes('reset')")
    graph.keyboard.press("0")
    assert boxes(graph).keys() == before.keys()
    ask(graph, "loss", "Show only this")
    graph.get_by_text(re.compile(r"\d+ hidden")).wait_for()
    assert "loss" in boxes(graph)
    assert len(boxes(graph)) < len(before)


def test_the_server_puts_groups_of_the_readers_own_into_effect_and_refuses_nonsense(served: Served) -> None:
    [run] = [item["id"] for item in answer(served, "runs") if item["name"] == "base"]
    layout = json.dumps([{"at": "head.weight", "within": "mine"}, {"at": "head.bias", "within": "mine"}])
    graph = answer(served, f"run/{run}/graph", layout=layout)["view"]["groups"]
    assert graph["class_name"][graph["label"].index("mine")] == "your group"
    for wrong in ("{", '"mine"', "[" * 9_999):
        with pytest.raises(HTTPError) as refused:
            answer(served, f"run/{run}/graph", layout=wrong)
        assert refused.value.code == 400
        assert "must be a JSON list such as" in json.loads(refused.value.read())["error"]
    with pytest.raises(HTTPError, match="40"):
        answer(served, f"run/{run}/matrix", step="0", sample="99")


def test_every_control_has_a_name_and_nothing_is_cut_or_covered_at_any_width(graph: Page) -> None:
    assert graph.evaluate(UNNAMED) == []
    for width in (1600, 1360, 1280, 600):
        graph.set_viewport_size({"width": width, "height": 860})
        graph.keyboard.press("0")
        shown = boxes(graph)
        assert graph.evaluate(CUT) == [], width
        if width > 700:
            bar = graph.locator(".graph-bar").bounding_box()
            assert bar is not None
            assert bar["height"] < 50, f"the bar wraps at {width}"
        legend = graph.locator(".color-legend").bounding_box()
        assert legend is not None
        for box in shown.values():
            is_clear = (
                box.x > legend["x"] + legend["width"]
                or box.y > legend["y"] + legend["height"]
                or box.y + box.height < legend["y"]
            )
            assert is_clear, f"{box.name} lies behind the legend at {width}"


def test_the_overview_sorts_by_any_statistic_and_selects_everywhere(page: Page, served: Served, recorded: Path) -> None:
    opened(page, served, "tab=overview&of=grad")
    page.get_by_role("columnheader").get_by_text("norm", exact=True).click()
    becomes(page, "location.hash.includes('sort=norm')")
    run = base(recorded)
    series = [run[site] for site in run.sites if "grad" in run[site].has]
    ends = [one for one in series if one.grad.steps[-1] == run.steps[-1]]
    sizes = {one.site: np.nanmax(one.grad.stats("norm")[-1]) for one in ends}
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
    page.get_by_text("No matches").wait_for()


def test_a_step_far_from_what_is_usual_is_told(page: Page, tmp_path: Path) -> None:
    names = ("a", "b", "c")
    graph = Dependencies(tuple(Node(name, (name,), "value", order=i) for i, name in enumerate(names)), ())
    with Writer(tmp_path / "run", kind="run") as writer:
        writer.document(f"structure/{graph.hash}", graph.plain())
        schema = writer.schema([Row(name) for name in names], ["abs_mean"])
        for step, size in enumerate((1, 1.2, 0.9, 1, 1.1, 1, 2000, 1)):
            matrix = np.float32([[size], [2 * size], [3 * size]])
            writer.step(step, schema=schema, matrix=matrix, about={"structure": graph.hash})
    with serving(tmp_path) as served:
        page.goto(f"{served.url}/#step=7")
        ticks = page.locator(".color-legend .ramp-ticks")
        ticks.wait_for()
        limits = ticks.inner_text()
        assert "above" not in page.inner_text(".color-legend .limits")
        page.keyboard.press(",")
        page.locator(".color-legend .limits", has_text="3 tensors above now").wait_for()
        page.locator(".color-legend .unusual").wait_for()
        assert ticks.inner_text() == limits
        page.keyboard.press(",")
        becomes(page, "!document.querySelector('.color-legend .limits').innerText.includes('above')")
        assert ticks.inner_text() == limits
        page.goto("about:blank")  # before the server goes
