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
from benchmarks.report import Figure
from benchmarks.viewer.graph import chromium
from cutaway.core.arrays import Raw
from cutaway.graph.dependencies.graph import Dependencies, Link, Node
from cutaway.server import bundle
from cutaway.store.format.records import Row
from cutaway.store.writing.writer import Writer

START = "the command to the first paint"
SELECT = "a selector changed, event to pixels: median"
SLOW = "a selector changed, event to pixels: 95th percentile"
CLICK = "a tensor of 100,000 values selected, event to pixels: 95th percentile"
SCROLL = "the longest table scrolled: frames a second short of 60"
MEMORY = "memory of the server, after all of this"
HEAP = "an hour of clicking: growth of the page's heap, garbage collected"
NODES = "an hour of clicking: growth of the page's nodes"
HELD = "an hour of clicking: growth of the server"
WEIGHT = "weight of the page, gzipped"
ORDER = (START, SELECT, SLOW, CLICK, SCROLL, MEMORY, HEAP, NODES, HELD, WEIGHT)

STATISTICS = ("mean", "abs_mean", "std", "norm", "min", "max", "nonfinite", "p5", "p25", "p50", "p75", "p95")
_LARGE = (100, 1000)
_N_ROWS = 65_536
"""The most that a step can have."""
_PAINTED = "performance.getEntriesByName('cutaway:painted').length > 0"
_SELECTED = "performance.getEntriesByName('cutaway:selected').at(-1)?.detail ?? 0"
_SHOWN = """(before) => new Promise((resolve) => {
  const end = performance.now() + 3000, given_up = performance.now() + 150;
  const look = () => {
    const one = (name) => performance.getEntriesByName(name).at(-1);
    const asked = one("cutaway:selected"), shown = one("cutaway:shown"), now = performance.now();
    if (asked && asked.detail > before && shown?.detail === asked.detail) resolve(shown.startTime - asked.startTime);
    else if (now > end || (now > given_up && !(asked && asked.detail > before))) resolve(null);
    else setTimeout(look, 4);
  };
  look();
})"""
_FRAMES = """() => new Promise((resolve) => {
  const table = document.querySelector(".table"), times = [];
  const next = (time) => {
    times.push(time);
    table.scrollTop += 100;
    if (times.length < 121) requestAnimationFrame(next);
    else resolve(times.slice(1).map((time, i) => time - times[i]));
  };
  requestAnimationFrame(next);
})"""


@dataclass(frozen=True, slots=True)
class Size:
    n_tensors: int = 300
    n_steps: int = 10_000
    n_starts: int = 5
    n_changes: int = 30
    n_soak: int = 3600
    """Clicks of an hour, one a second."""


FULL = Size()
QUICK = Size(60, 500, 2, 6, 240)


def figures(size: Size) -> list[Figure]:
    """All figures."""
    found = []
    with TemporaryDirectory() as folder, chromium() as browser:
        synthetic, real, long = (Path(folder) / name for name in ("synthetic", "real", "long"))
        write_synthetic(synthetic, size)
        record_real(real)
        write_long(long)
        on = f"{size.n_tensors} tensors × {size.n_steps:,} steps"
        for place, title in ((synthetic, on), (real, "two recorded transformers")):
            found += _measured(browser, place, title, size)
        found.append(_scrolled(browser, long))
        found += _soaked(browser, real, size)
    weight = len(gzip.compress(bundle.script().encode())) / 1e3
    found.append(Figure(WEIGHT, "script and style", weight, "KB", aim=200))
    return sorted(found, key=lambda figure: ORDER.index(figure.work))


def _measured(browser: Any, place: Path, on: str, size: Size) -> Iterator[Figure]:
    starts = []
    for _ in range(size.n_starts):
        with _window(browser) as page, _served(place) as (url, _, begun):
            page.goto(url)
            page.wait_for_function(_PAINTED)
            starts.append(perf_counter() - begun)
    yield Figure(START, on, median(starts), "s", aim=1.5, remark=f"{min(starts):.2f} to {max(starts):.2f}")
    with _served(place) as (url, pid, _), _page(browser, url) as page:
        page.wait_for_timeout(1500)
        _lay_over(page)
        times: list[float] = []
        slowest = ""
        for name, change in CHANGES.items():
            found = [_took(page, change, number) for number in range(size.n_changes)]
            took = [one for one in found if one is not None]
            if took and max(took) > max(times, default=0):
                slowest = name
            times += took
            sys.stderr.write(f"{on}: {name}: {[round(one) for one in took[:12]]} of {len(found)}\n")
        yield Figure(SELECT, on, median(times), "ms", aim=50, remark=f"{len(times)} changes")
        yield Figure(SLOW, on, _p95(times), "ms", aim=100, remark=f"longest {max(times):.0f}, {slowest}")
        if "×" in on:
            clicks = [one for number in range(size.n_changes) if (one := _took(page, _large, number)) is not None]
            yield Figure(CLICK, on, _p95(clicks), "ms", aim=100, remark=f"median {median(clicks):.0f}")
        yield Figure(MEMORY, on, _held(pid), "MB", aim=300)


def _scrolled(browser: Any, place: Path) -> Figure:
    """How far scrolling through a long table, 100 pixels a frame, falls short of 60 frames a second."""
    with (
        _served(place) as (url, _, _),
        _page(browser, f"{url}#tab=overview", ready="document.querySelector('[role=row]')") as page,
    ):
        page.wait_for_timeout(1000)
        frames = page.evaluate(_FRAMES)
    late = [one for one in frames if one > 20]
    rate = 1000 * len(frames) / sum(frames)
    return Figure(
        SCROLL, f"{_N_ROWS:,} rows", max(60 - rate, 0), "frames/s", aim=1, remark=f"{len(late)} of {len(frames)} late"
    )


def _soaked(browser: Any, place: Path, size: Size) -> Iterator[Figure]:
    """As many changes as an hour of clicking has; what is there at its end beyond what was there after a third."""
    with _served(place) as (url, pid, _), _page(browser, url) as page:
        devtools = page.context.new_cdp_session(page)
        devtools.send("HeapProfiler.enable")
        seen = []
        for number in range(size.n_soak):
            list(CHANGES.values())[number % len(CHANGES)](page, number // len(CHANGES))
            if number in (size.n_soak // 3, size.n_soak - 1):
                page.wait_for_timeout(1000)
                for _ in range(3):
                    devtools.send("HeapProfiler.collectGarbage")
                heap = devtools.send("Runtime.getHeapUsage")["usedSize"] / 1e6
                seen.append((heap, devtools.send("Memory.getDOMCounters")["nodes"], _held(pid)))
    on = f"{size.n_soak:,} changes"
    for work, aim, unit, before, after in zip(
        (HEAP, NODES, HELD), (3, 200, 10), ("MB", "nodes", "MB"), seen[0], seen[1], strict=True
    ):
        yield Figure(
            work, on, after - before, unit, aim=aim, remark=f"{before:.1f} after a third, {after:.1f} at the end"
        )


def _lay_over(page: Any) -> None:
    """Put the second run of the folder on the page too, if there is one."""
    chips = page.locator(".chip-name")
    if chips.count() > 1:
        chips.nth(1).click(modifiers=["Shift"])
        page.wait_for_timeout(500)


def _press(*keys: str) -> Callable[[Any, int], None]:
    """A change by keys, one after the other."""

    def change(page: Any, number: int) -> None:
        page.keyboard.press(keys[number % len(keys)])

    return change


# Each is called with the page and how often it was called before.
CHANGES: dict[str, Callable[[Any, int], None]] = {
    "step": _press(",", ",", ",", "."),
    "first and last step": _press("Home", "End"),
    "kind": _press("k"),
    "value, gradient, update": _press("s"),
    "iteration": _press("e"),
    "sample": _press("b", "b", "B"),
    "tensor of the node": _press("m"),
    "tensor": _press("ArrowDown", "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp"),
    "run": _press("x"),
    "tab": _press("3", "4", "5", "6", "1"),
}


def _large(page: Any, number: int) -> None:
    page.keyboard.press("/")
    page.keyboard.press("Control+a")
    page.keyboard.type("large" if number % 2 == 0 else "layers.1.out")
    page.keyboard.press("Enter")
    page.locator("canvas.cutaway-canvas").focus()


def _took(page: Any, change: Callable[[Any, int], None], number: int) -> float | None:
    """Milliseconds from the event to the pixels; None where nothing had to change."""
    before = page.evaluate(_SELECTED)
    change(page, number)
    took: float | None = page.evaluate(_SHOWN, before)
    return took


def _p95(times: list[float]) -> float:
    return quantiles(times, n=20)[-1]


def _held(pid: int) -> float:
    """Megabytes that a process holds."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1e3  # type: ignore[index]


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
def _window(browser: Any) -> Iterator[Any]:
    """A window of the browser that has seen nothing yet."""
    context = browser.new_context(viewport={"width": 1600, "height": 960}, bypass_csp=True)
    yield context.new_page()
    context.close()


@contextmanager
def _page(browser: Any, url: str, ready: str = _PAINTED) -> Iterator[Any]:
    with _window(browser) as page:
        page.goto(url)
        page.wait_for_function(ready)
        yield page


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


def write_long(place: Path) -> None:
    """A run of two steps and very many tensors."""
    rows = [Row(f"units.{number}") for number in range(_N_ROWS)]
    matrix = np.random.default_rng(0).lognormal(size=(_N_ROWS, len(STATISTICS))).astype(np.float32)
    with Writer(place, kind="run") as writer:
        schema = writer.schema(rows, STATISTICS)
        for step in range(2):
            writer.step(step, schema=schema, matrix=matrix)


def record_real(folder: Path) -> None:
    """Two small transformers that refine their answer, trained for a moment, with samples."""
    for seed in range(2):
        torch.manual_seed(seed)
        layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
        encoder = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
        model = nn.ModuleDict({"embed": nn.Linear(16, 64), "encoder": encoder, "head": nn.Linear(64, 8)})
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        with cutaway.record(folder / f"run-{seed}", model, every=2, samples=4) as run:
            for number in range(80):
                with run.step(kind="long" if number % 8 == 0 else "short"):
                    state = model["embed"](torch.randn(8, 32 if number % 8 == 0 else 16, 16))
                    for _ in range(2):
                        with run.iteration():
                            state = model["encoder"](state)
                    run.samples(text=[f"sample {row} of step {number}" for row in range(8)])
                    loss = model["head"](state).square().mean()
                    loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    run.log(loss=loss)
