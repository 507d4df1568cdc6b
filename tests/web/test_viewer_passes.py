"""Tensors with several passes on the page: the mean with its band, one pass, one iteration, the graph, the table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.server.served import Served, serving
from tests.web.looking import Look, agreeing

import cutaway
from cutaway import Run

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytest.importorskip("starlette")
N_STEPS = 12
_PAINTED = """(canvas) => {
    const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let n = 0;
    for (let i = 3; i < data.length; i += 4) if (data[i] > 47 && data[i] < 55) n++;
    return n / (width * height);
}"""
"""The share of pixels with a fifth of their color: those of a band, and a few at the edges of lines."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.head = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x: Any, n: int) -> Any:
            for _ in range(n):
                x = x + self.cell(x)
            return self.head(x)

    path = tmp_path_factory.mktemp("passes")
    torch.manual_seed(0)
    for name in ("varying", "rounds"):
        model = Net()
        with cutaway.record(path / name, model, every=1, samples=2) as run:
            for step in range(N_STEPS):
                with run.step():
                    if name == "varying":
                        model(torch.randn(3, 4), 1 + step % 3).sum().backward()
                        continue
                    for _ in range(2):
                        with run.iteration():
                            model(torch.randn(3, 4), 1).sum().backward()
    return path


@pytest.fixture(scope="module")
def passes(folder: Path) -> Iterator[Served]:
    with serving(folder) as found:
        yield found


def opened(folder: Path, name: str) -> Run:
    run = cutaway.load(folder / name)
    assert isinstance(run, Run)
    return run


def look_at(page: Page, served: Served, name: str, **state: object) -> Look:
    import json
    import urllib.request

    items = json.load(urllib.request.urlopen(f"{served.url}/api/runs"))
    [found] = [item["id"] for item in items if item["name"] == name]
    return Look(page, served.url).open(run=found, **state)


def last_reading(look: Look) -> list[float]:
    """The numbers at the right end of the curve in the inspector: the mean, then the band if there is one."""
    plot = look.page.locator(".over-steps .u-over")
    plot.wait_for()
    box = plot.bounding_box()
    assert box is not None
    plot.hover(position={"x": box["width"] - 1, "y": 30})
    said = look.page.locator(".over-steps .curve-reading").first.inner_text().replace("−", "-")
    return [float(number) for number in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", said.partition("varying")[2])]


def test_a_curve_is_the_mean_with_its_band_and_a_pass_is_picked(page: Page, passes: Served, folder: Path) -> None:
    run = opened(folder, "varying")
    look = look_at(page, passes, "varying", node="cell", statistic="std", step=N_STEPS - 1)
    moment = run.at(N_STEPS - 1)["cell"]
    assert moment.n_passes == 3
    look.until(lambda seen: seen.chosen.get("Pass") == "all" and agreeing(seen.cards, moment.passes[0].stats))
    assert "pass 1" in look.seen.badges
    page.get_by_text("mean of up to 3 passes, band from minimum to maximum").wait_for()
    band = run["cell"].band("std")
    assert last_reading(look) == pytest.approx([band.values[-1], band.low[-1], band.high[-1]], rel=1e-3)
    canvas = page.locator(".over-steps canvas")
    banded = canvas.evaluate(_PAINTED)
    look.choose("Pass", "2")
    look.until(lambda seen: "pass 2" in seen.badges and agreeing(seen.cards, moment.passes[1].stats))
    page.locator(".over-steps .quiet", has_text=re.compile("^pass 2$")).wait_for()
    assert last_reading(look) == pytest.approx([run["cell:2"].stats("std")[-1]], rel=1e-6)
    assert banded > 4 * canvas.evaluate(_PAINTED)
    page.keyboard.press("E")
    look.until(lambda seen: seen.chosen.get("Pass") == "3")


def test_a_tensor_stays_selected_where_a_step_has_other_passes(page: Page, passes: Served, folder: Path) -> None:
    run = opened(folder, "varying")
    look = look_at(page, passes, "varying", node="cell", step=2)
    for step in (2, 3, 4, 5):
        stats = run.at(step)["cell"].passes[0].stats
        look.until(lambda seen, step=step, stats=stats: seen.step == step and agreeing(seen.cards, stats))
        page.keyboard.press(".")
    rows = look.tab("Overview").locator("[role=row]", has_text=re.compile(r"^cell\d?$|^cell\b"))
    rows.first.wait_for()
    look.tab("Network")
    look.tab("Curves")
    page.locator(".curves-part h3", has_text="mean of up to 3 passes").wait_for()


def test_an_iteration_is_picked_and_all_are_shown_at_first(page: Page, passes: Served, folder: Path) -> None:
    run = opened(folder, "rounds")
    look = look_at(page, passes, "rounds", node="cell", step=0)
    moment = run.at(0)["cell"]
    look.until(lambda seen: seen.chosen.get("Iteration") == "all" and "Pass" not in seen.chosen)
    look.until(lambda seen: agreeing(seen.cards, moment.where(iteration=1).stats))
    look.choose("Iteration", "2")
    look.until(lambda seen: agreeing(seen.cards, moment.where(iteration=2).stats))
    page.locator(".over-steps .quiet", has_text=re.compile("^iteration 2$")).wait_for()


def test_bands_are_those_of_the_store(passes: Served, folder: Path) -> None:
    import json
    import urllib.request

    def ask(path: str) -> bytes:
        answer: bytes = urllib.request.urlopen(f"{passes.url}/api/{path}").read()
        return answer

    for item in json.loads(ask("runs")):
        run, view = opened(folder, item["name"]), json.loads(ask(f"run/{item['id']}"))
        for row in view["rows"]:
            content = ask(f"run/{item['id']}/band?row={row['row']}&stat=norm")
            n = int(np.frombuffer(content[:4], "<i4")[0])
            values, low, high, _ = np.frombuffer(content[4 + 8 * n :], "<f4").reshape(4, n)
            band = run[row["site"]].other(row["of"]).band("norm")
            np.testing.assert_array_equal(np.frombuffer(content[4 : 4 + 8 * n], "<i8"), band.steps)
            np.testing.assert_array_equal([values, low, high], [band.values, band.low, band.high])
            assert row["n_passes"] == run[row["site"]].n_passes
