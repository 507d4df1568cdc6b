"""The page around the graph, used as a reader uses it: in a real browser, by keys and clicks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from tests.server.models import tower
from torch import nn

import cutaway
from cutaway.server.page import to_html

if TYPE_CHECKING:
    from playwright.sync_api import Page

N_BLOCKS = 5


class Broken(nn.Module):
    """Its last layer does not fit."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Linear(4, 8), nn.ReLU()), nn.Linear(9, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.body(x))
        return out


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return to_html(tower(N_BLOCKS), tmp_path_factory.mktemp("app") / "tower.html")


@pytest.fixture
def app(page: Page, file: Path) -> Page:
    page.goto(file.as_uri())
    page.wait_for_selector(".cutaway .shown-count")
    return page


def n_boxes(page: Page) -> int:
    return int(page.inner_text(".shown-count").split()[0])


def selected(page: Page) -> str:
    return page.inner_text(".inspector h2")


def becomes(page: Page, script: str) -> None:
    """Wait until an expression holds; by asking, because the policy of the page allows no script of ours in it."""
    for _ in range(100):
        if page.evaluate(script):
            return
        page.wait_for_timeout(50)
    pytest.fail(f"never so: {script}; the address is {page.url}")


# Moving the pointer from here would take twenty times as long.
TOLD = """async (points) => {
    const canvas = document.querySelector('.graph-canvas canvas');
    const told = [];
    for (const [clientX, clientY] of points) {
        canvas.dispatchEvent(new PointerEvent('pointermove', { clientX, clientY, bubbles: true }));
        await new Promise((done) => setTimeout(done));
        told.push(document.querySelector('.tooltip')?.textContent ?? '');
    }
    return told;
}"""


def points_of(page: Page, text: str) -> list[tuple[float, float]]:
    """The points on the canvas at which the pointer is told something with this text, from top to bottom."""
    box = page.locator(".stage").bounding_box()
    assert box is not None
    columns = range(int(box["width"] * 0.3), int(box["width"] * 0.7), 24)
    points = [(box["x"] + x, box["y"] + y) for y in range(10, int(box["height"]) - 4, 24) for x in columns]
    found = told(page, text, points)
    assert found, f"nothing on the canvas tells '{text}'"
    return found


def told(page: Page, text: str, points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    return [point for point, said in zip(points, page.evaluate(TOLD, points), strict=True) if text in said]


def test_the_header_says_what_the_model_is(app: Page) -> None:
    assert app.inner_text(".model") == "Tower"
    assert f"{N_BLOCKS * 4 + 1} ops" in app.inner_text(".facts")


def test_levels_open_and_fold_by_key(app: Page) -> None:
    seen = {n_boxes(app)}
    app.keyboard.press("[")
    becomes(app, "document.querySelector('.stepper output').textContent === '1'")
    seen.add(n_boxes(app))
    app.keyboard.press("]")
    becomes(app, "document.querySelector('.stepper output').textContent === '2'")
    assert n_boxes(app) in seen
    assert len(seen) == 2


def test_identical_blocks_are_drawn_one_by_one_when_asked(app: Page) -> None:
    once = n_boxes(app)
    app.click("text=one by one")
    becomes(app, f"parseInt(document.querySelector('.shown-count').textContent) > {once}")
    assert n_boxes(app) - once == 4 * (N_BLOCKS - 1)


def test_a_stack_of_blocks_has_a_button_that_shows_all(app: Page) -> None:
    app.keyboard.press("[")
    becomes(app, "document.querySelector('.stepper output').textContent === '1'")
    app.wait_for_timeout(300)
    text = f"{N_BLOCKS} identical blocks"
    inside = points_of(app, text)
    right, top = max(x for x, _ in inside), min(y for _, y in inside)
    above = told(app, text, [(right - 8, top - dy) for dy in range(0, 40, 2)])
    once = n_boxes(app)
    app.mouse.click(right - 8, min(y for _, y in above) + 3)  # what stands over the upper right corner
    becomes(app, f"parseInt(document.querySelector('.shown-count').textContent) === {once + N_BLOCKS - 1}")


def test_the_list_of_what_was_found_gives_way_to_what_is_told_of_it(app: Page) -> None:
    app.keyboard.press("/")
    app.keyboard.type("relu")
    app.wait_for_selector(".search-results")
    app.keyboard.press("Enter")
    assert app.query_selector(".search-results") is None
    app.keyboard.type("6")
    assert "No matches" in app.inner_text(".search-results")


def test_a_search_goes_to_the_op_in_the_block_that_stands_for_its_own(app: Page) -> None:
    app.keyboard.press("/")
    app.keyboard.type("blocks.*/relu")
    assert app.inner_text(".search-count") == f"{N_BLOCKS}"
    for _ in range(3):
        app.keyboard.press("Enter")
    assert "blocks.2/relu" in app.inner_text(".inspector .copied")
    assert f"3 of {N_BLOCKS} drawn as this box" in app.inner_text(".alike")
    app.keyboard.press("Escape")
    app.keyboard.press("n")
    assert "blocks.3/relu" in app.inner_text(".inspector .copied")


def test_arrows_walk_along_the_edges(app: Page) -> None:
    app.keyboard.press("ArrowDown")
    first = selected(app)
    app.keyboard.press("ArrowDown")
    becomes(app, f"document.querySelector('.inspector h2').textContent !== '{first}'")
    app.keyboard.press("ArrowUp")
    becomes(app, f"document.querySelector('.inspector h2').textContent === '{first}'")


def test_an_address_shows_the_same_again(app: Page, file: Path) -> None:
    app.keyboard.press("ArrowDown")
    app.keyboard.press("d")
    app.keyboard.press("v")
    app.select_option(".color-menu", "seconds")
    becomes(app, "location.hash.includes('color=seconds') && location.hash.includes('show=descendants')")
    address, name = app.url, selected(app)
    app.goto("about:blank")
    app.goto(address)
    app.wait_for_selector(".ramp-legend")
    assert selected(app) == name
    assert app.get_attribute("[aria-label=Direction] [aria-checked=true]", "title") == "Left to right"
    assert app.query_selector(".highlights .on") is not None


def test_an_op_shows_its_value_its_arguments_and_its_line(app: Page) -> None:
    app.keyboard.press("/")
    app.keyboard.type("head")
    app.keyboard.press("Enter")
    app.wait_for_selector(".inspector .histogram")
    assert "return self.head(x)" in app.inner_text(".inspector .line.here")
    app.click(".inspector .fact-list .link")
    becomes(app, "!document.querySelector('.inspector h2').textContent.startsWith('linear')")
    assert selected(app).startswith("add")


def test_paths_between_two_ops(app: Page) -> None:
    app.keyboard.press("ArrowDown")
    app.keyboard.press("p")
    assert "other end" in app.inner_text(".hint")
    assert app.evaluate("getComputedStyle(document.querySelector('.hint')).pointerEvents") == "none"
    app.keyboard.press("/")
    app.keyboard.type("head")
    app.keyboard.press("Enter")
    becomes(app, "location.hash.includes('show=paths')")


def test_escape_takes_all_back(app: Page) -> None:
    app.keyboard.press("ArrowDown")
    app.keyboard.press("a")
    becomes(app, "location.hash.includes('show=ancestors')")
    app.keyboard.press("Escape")
    app.keyboard.press("Escape")
    becomes(app, "location.hash === ''")


def test_light_and_dark_are_a_key_away(app: Page) -> None:
    def ground() -> str:
        return str(app.evaluate("getComputedStyle(document.querySelector('.cutaway .header')).backgroundColor"))

    before = ground()
    app.keyboard.press("t")
    assert ground() != before
    app.keyboard.press("t")
    assert ground() == before


def test_help_lists_the_keys_and_shuts(app: Page) -> None:
    app.keyboard.press("?")
    assert "follow edges" in app.inner_text(".help")
    app.keyboard.press("Escape")
    assert app.query_selector(".help") is None


def test_a_trace_that_raised_leads_to_the_op_that_did(page: Page, tmp_path: Path) -> None:
    model = Broken()
    with pytest.raises(RuntimeError), cutaway.watch(model) as trace:
        model(torch.randn(2, 4))
    page.goto(to_html(trace, tmp_path / "broken.html").as_uri())
    assert "RuntimeError" in page.inner_text(".banner")
    page.click(".banner button")
    assert page.inner_text(".inspector .badge.bad") == "raised here"


def test_a_narrow_window_shows_the_inspector_below_with_the_first_selection(page: Page, file: Path) -> None:
    page.set_viewport_size({"width": 600, "height": 900})
    page.goto(file.as_uri())
    page.wait_for_selector(".cutaway .toolbar")
    assert page.query_selector(".inspector") is None
    page.keyboard.press("ArrowDown")
    panel = page.wait_for_selector(".inspector")
    assert panel is not None
    place, stage = panel.bounding_box(), page.locator(".stage").bounding_box()
    assert place is not None
    assert stage is not None
    assert place["y"] >= stage["y"] + stage["height"]
    assert place["width"] > 500
    assert page.evaluate("document.documentElement.scrollWidth") <= 600


def test_what_is_selected_stays_in_view_when_the_inspector_takes_half_of_it(page: Page, file: Path) -> None:
    page.set_viewport_size({"width": 600, "height": 900})
    page.goto(file.as_uri())
    page.wait_for_selector(".cutaway .toolbar")
    page.wait_for_timeout(200)
    page.mouse.click(*points_of(page, "add")[-1])
    page.wait_for_selector(".inspector")
    name = selected(page)
    page.wait_for_timeout(300)
    assert points_of(page, name)


def test_differences_are_walked_through_all_together_or_one_sort_at_a_time(page: Page, tmp_path: Path) -> None:
    one = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    two = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4), nn.Softmax(-1))
    x = torch.randn(2, 4)
    page.goto(to_html(cutaway.diff(cutaway.trace(one, x), cutaway.trace(two, x)), tmp_path / "diff.html").as_uri())
    page.wait_for_selector(".compare")
    walked = []
    for _ in range(4):
        page.click("[title='Next difference']")
        walked.append(selected(page).lstrip("+~ ").split("_")[0])
    assert walked == ["linear", "gelu", "linear", "softmax"]
    page.click(".mark-new")
    assert page.inner_text(".place") == "1/1"


def test_a_model_that_does_nothing_says_so(page: Page, tmp_path: Path) -> None:
    class Nothing(nn.Module):
        def forward(self) -> int:
            return 3

    page.goto(to_html(cutaway.trace(Nothing()), tmp_path / "nothing.html").as_uri())
    assert "nothing to draw" in page.inner_text(".stage .empty")
