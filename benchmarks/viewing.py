"""What the viewer costs: from the command to the first paint, from a key to the pixels, memory and weight.

On a synthetic run of 300 tensors × 10,000 steps, and on a real training that is recorded here. Chromium draws in
software, so these are figures of a machine without a graphics card.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import nn

import cutaway
from benchmarks.picturing import chromium
from benchmarks.report import Figure
from cutaway.core.arrays import Raw
from cutaway.graph.dependencies import Dependencies, Link, Node
from cutaway.server import bundle
from cutaway.store.records import Row
from cutaway.store.writer import Writer

START = "the command to the first paint"
SELECT = "a selector changed, event to pixels: median"
SLOW = "a selector changed, event to pixels: 95th percentile"
CLICK = "a tensor of 100,000 values selected, event to pixels: 95th percentile"
MEMORY = "memory of the server, after all of this"
WEIGHT = "weight of the page, gzipped"
ORDER = (START, SELECT, SLOW, CLICK, MEMORY, WEIGHT)

STATISTICS = ("mean", "abs_mean", "std", "norm", "min", "max", "nonfinite", "p5", "p25", "p50", "p75", "p95")
_LARGE = (100, 1000)
_SHOWN = """() => {
  const one = (name) => performance.getEntriesByName(name).at(-1);
  const asked = one("cutaway:selected"), shown = one("cutaway:shown");
  return asked && shown && asked.detail === shown.detail ? [asked.detail, shown.startTime - asked.startTime] : null;
}"""


@dataclass(frozen=True, slots=True)
class Size:
    n_tensors: int = 300
    n_steps: int = 10_000
    n_starts: int = 5
    n_changes: int = 40


FULL = Size()
QUICK = Size(60, 500, 2, 10)


def figures(size: Size) -> list[Figure]:
    """All figures."""
    found = []
    with TemporaryDirectory() as folder, chromium() as browser:
        synthetic, real = Path(folder) / "synthetic", Path(folder) / "real"
        write_synthetic(synthetic, size)
        record_real(real)
        on = f"{size.n_tensors} tensors × {size.n_steps:,} steps"
        for place, title in ((synthetic, on), (real, "a recorded transformer")):
            found += _measured(browser, place, title, size)
    weight = len(gzip.compress(bundle.script().encode())) / 1e3
    found.append(Figure(WEIGHT, "script and style", weight, "KB", aim=200))
    return sorted(found, key=lambda figure: ORDER.index(figure.work))


def _measured(browser: Any, place: Path, on: str, size: Size) -> Iterator[Figure]:
    starts = []
    for _ in range(size.n_starts):
        with _served(place) as (url, _, begun), _page(browser, url) as page:
            starts.append(perf_counter() - begun)
            page.wait_for_timeout(10)
    yield Figure(START, on, median(starts), "s", aim=1.5, remark=f"{min(starts):.2f} to {max(starts):.2f}")
    with _served(place) as (url, pid, _), _page(browser, url) as page:
        page.wait_for_timeout(1500)
        times: list[float] = []
        for name, change in _changes(page).items():
            took = [_took(page, change, number) for number in range(size.n_changes)]
            times += [one for one in took if one is not None]
            sys.stderr.write(f"{on}: {name}: {[round(one) for one in took if one is not None][:12]}\n")
        yield Figure(SELECT, on, median(times), "ms", aim=50, remark=f"{len(times)} changes")
        yield Figure(SLOW, on, quantiles(times, n=20)[-1], "ms", aim=100, remark=f"longest {max(times):.0f}")
        clicks = [one for number in range(size.n_changes // 2) if (one := _took(page, _large, number)) is not None]
        if len(clicks) > 1 and "×" in on:
            yield Figure(CLICK, on, quantiles(clicks, n=20)[-1], "ms", aim=100, remark=f"median {median(clicks):.0f}")
        status = Path(f"/proc/{pid}/status").read_text()
        held = int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1e3  # type: ignore[index]
        yield Figure(MEMORY, on, held, "MB", aim=300)


def _changes(page: Any) -> dict[str, Callable[[Any, int], None]]:
    """Selectors by keyboard and mouse; each is called with the page and how often it was called before."""

    def step(page: Any, number: int) -> None:
        page.get_by_role("slider").press("ArrowLeft" if number % 7 else "ArrowRight")

    def show(page: Any, number: int) -> None:
        page.get_by_role("radio", name="gradient" if number % 2 == 0 else "value", exact=True).click()

    def kind(page: Any, number: int) -> None:
        names = page.get_by_role("radiogroup", name="Kind of step").get_by_role("radio")
        names.nth(number % names.count()).click()

    return {"step": step, "show": show, "kind": kind}


def _large(page: Any, number: int) -> None:
    page.keyboard.press("/")
    page.keyboard.press("Control+a")
    page.keyboard.type("large" if number % 2 == 0 else "layers.1.out")
    page.keyboard.press("Enter")
    page.locator("canvas.cutaway-canvas").focus()


def _took(page: Any, change: Callable[[Any, int], None], number: int) -> float | None:
    """Milliseconds from the event to the pixels; None where nothing had to change."""
    before = page.evaluate(_SHOWN)
    change(page, number)
    end = perf_counter() + 3
    while perf_counter() < end:
        now = page.evaluate(_SHOWN)
        if now is not None and (before is None or now[0] != before[0]):
            took: float = now[1]
            return took
        page.wait_for_timeout(5)
    return None


@contextmanager
def _served(place: Path) -> Iterator[tuple[str, int, float]]:
    """The command as a user gives it: its address, its process, and when it was given."""
    begun = perf_counter()
    command = [sys.executable, "-m", "cutaway", "view", str(place), "--no-browser", "--json", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"], process.pid, begun
    finally:
        process.terminate()
        process.wait(10)


@contextmanager
def _page(browser: Any, url: str) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1600, "height": 960}, bypass_csp=True)
    page = context.new_page()
    page.goto(url)
    page.wait_for_function("performance.getEntriesByName('cutaway:painted').length > 0")
    yield page
    context.close()


def write_synthetic(place: Path, size: Size) -> None:
    """A run of layers in a row, with gradients, two kinds of step, and one tensor with 100,000 values at every step."""
    rng = np.random.default_rng(0)
    half = size.n_tensors // 2
    sites = [f"layers.{number}.out" for number in range(half - 1)] + ["large"]
    rows = [Row(site) for site in sites] + [Row(site, of="grad") for site in sites]
    nodes = tuple(Node(site, (site,), "value", group=site.rpartition(".")[0], order=i) for i, site in enumerate(sites))
    links = tuple(Link(a.name, b.name, carries_gradient=True) for a, b in pairwise(nodes))
    graph = Dependencies(nodes, links)
    large = Raw.of(rng.normal(size=_LARGE).astype(np.float32))
    with Writer(place, kind="run") as writer:
        writer.document(f"structure/{graph.hash}", graph.plain())
        schema = writer.schema(rows, STATISTICS)
        for step in range(size.n_steps):
            matrix = rng.lognormal(size=(len(rows), len(STATISTICS))).astype(np.float32)
            values = {half - 1: large} if step % 50 == 0 or step == size.n_steps - 1 else {}
            about = {"structure": graph.hash}
            kind = "long" if step % 3 == 0 else "short"
            writer.step(step, schema=schema, kind=kind, matrix=matrix, values=values, about=about)
            writer.scalars(step, {"loss": 1 / (step + 1)})


def record_real(place: Path) -> None:
    """A small transformer, trained for a moment."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    model = nn.Sequential(
        nn.Linear(16, 64), nn.TransformerEncoder(layer, 6, enable_nested_tensor=False), nn.Linear(64, 8)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with cutaway.record(place, model, every=2, samples=4) as run:
        for number in range(80):
            with run.step(kind="long" if number % 8 == 0 else "short"):
                x = torch.randn(8, 32 if number % 8 == 0 else 16, 16)
                loss = model(x).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                run.log(loss=loss)
