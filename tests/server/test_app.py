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
    app.select_option(".colour-menu", "seconds")
    becomes(app, "location.hash.includes('colour=seconds') && location.hash.includes('show=descendants')")
    address, name = app.url, selected(app)
    app.goto("about:blank")
    app.goto(address)
    app.wait_for_selector(".ramp-legend")
    assert selected(app) == name
    assert app.get_attribute("[aria-label=Direction] [aria-checked=true]", "title") == "From left to right"
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
    assert "walk along the edges" in app.inner_text(".help")
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
