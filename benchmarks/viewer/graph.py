"""What the interactive picture costs in a real browser: first paint, panning, opening a block.

Chromium draws in software here (`--disable-gpu`), so these are figures of a machine without a graphics card.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import torch
import transformers
from tests.browser import FLAGS, executable

import cutaway
from benchmarks.report import Figure
from cutaway.core.io import write
from cutaway.server.page import html
from cutaway.views.showable import as_showable

WRITE = "page written, all details of all ops"
PAINT = "first paint of a graph, from opening the file"
PAN = "panning, all ops drawn: frames longer than 1/50 s"
FRAME = "panning, all ops drawn: a frame, at the 95th percentile"
OPEN = "a block opened: key pressed to its first frame"
OPEN_ALL = "a block opened while all ops are drawn"
ALL = "everything opened"
ORDER = (PAINT, OPEN, ALL, PAN, FRAME, OPEN_ALL, WRITE)

_FRAMES_LONG = 20.0
_PAN = """
async ({ seconds, dx, dy }) => {
  const canvas = document.querySelector("canvas.cutaway-canvas");
  const box = canvas.getBoundingClientRect();
  const at = { clientX: box.x + box.width / 2, clientY: box.y + box.height / 2, bubbles: true, cancelable: true };
  const times = [];
  await new Promise((done) => {
    const begun = performance.now();
    const step = (now) => {
      times.push(now);
      if (now - begun > 1000 * seconds) return done();
      canvas.dispatchEvent(new WheelEvent("wheel", { ...at, deltaX: dx, deltaY: dy }));
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  });
  return times;
}
"""
_NOTE_KEY = "addEventListener('keydown', () => (window.pressed = performance.now()), { once: true, capture: true })"
_PAINTED = "performance.getEntriesByName('cutaway:painted').map((mark) => mark.startTime)"


@dataclass(frozen=True, slots=True)
class Size:
    """How large the graphs are and how often each figure is taken."""

    blocks: tuple[int, ...] = (96, 190)
    """Blocks of encoder and of decoder: about 107 ops a pair."""
    repeats: int = 5
    pan_seconds: float = 3.0


FULL = Size()
QUICK = Size((20,), 2, 1.0)


def transformer(n_blocks: int) -> cutaway.Trace:
    """A T5 of so many blocks a side, traced."""
    torch.manual_seed(0)
    config = transformers.T5Config(d_model=32, d_ff=64, d_kv=8, num_heads=4, num_layers=n_blocks, vocab_size=100)
    model = transformers.T5ForConditionalGeneration(config).eval()
    ids = torch.arange(8)[None]
    with torch.no_grad():
        return cutaway.trace(model, input_ids=ids, decoder_input_ids=ids, use_cache=False)


def figures(size: Size) -> list[Figure]:
    """All figures, on graphs of about 10,000 and 20,000 ops."""
    found = []
    with TemporaryDirectory() as folder, chromium() as browser:
        for n_blocks in size.blocks:
            trace = transformer(n_blocks)
            path = Path(folder) / f"{n_blocks}.html"
            begun = perf_counter()
            write(path, html([as_showable(trace)]))
            on = f"T5, 2 × {n_blocks} blocks, {len(trace):,} ops"
            megabytes = path.stat().st_size / 1e6
            found.append(Figure(WRITE, on, perf_counter() - begun, "s", remark=f"{megabytes:.1f} MB"))
            found += _in_browser(browser, path, on, size)
    return sorted(found, key=lambda figure: ORDER.index(figure.work))


@contextmanager
def chromium() -> Iterator[Any]:
    """The browser that figures are measured in."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=list(FLAGS))
        yield browser
        browser.close()


def _in_browser(browser: Any, path: Path, on: str, size: Size) -> Iterator[Figure]:
    is_aim = f"× {FULL.blocks[0]} " in on
    aim = 2000.0 if is_aim else None
    paints = [_first_paint(browser, path) for _ in range(size.repeats)]
    remark = f"{min(paints):.0f} to {max(paints):.0f}"
    yield Figure(PAINT, on, median(paints), "ms", aim=aim, remark=remark)
    page = _opened(browser, path)
    yield Figure(OPEN, on, median(_openings(page, size.repeats)), "ms", aim=150 if is_aim else None)
    begun = perf_counter()
    n = len(page.evaluate(_PAINTED))
    page.get_by_role("radio", name="one by one").click()
    page.get_by_role("button", name="all", exact=True).click()
    page.wait_for_function(f"{_PAINTED}.length >= {n + 2}")
    yield Figure(ALL, on, 1000 * (perf_counter() - begun), "ms", remark=_boxes(page))
    page.wait_for_timeout(2000)
    for name, keys in (("all in view", "0"), ("near enough to read", "0+++++++++++++++")):
        for key in keys:
            page.keyboard.press(key)
        page.wait_for_timeout(1500)
        times = page.evaluate(_PAN, {"seconds": size.pan_seconds, "dx": 3, "dy": 11})
        frames = sorted(b - a for a, b in pairwise(times))
        late = sum(frame > _FRAMES_LONG for frame in frames) / len(frames)
        what = f"{on}, {name}"
        rate = 1000 * len(frames) / (times[-1] - times[0])
        yield Figure(PAN, what, 100 * late, "%", aim=5 if is_aim else None, remark=f"{rate:.0f} frames/s")
        yield Figure(FRAME, what, frames[int(0.95 * len(frames))], "ms", remark=f"median {median(frames):.1f}")
    yield Figure(OPEN_ALL, on, median(_openings(page, size.repeats)), "ms", aim=150 if is_aim else None)
    page.context.close()


def _opened(browser: Any, path: Path) -> Any:
    page = browser.new_context(viewport={"width": 1600, "height": 960}, bypass_csp=True).new_page()
    page.goto(path.as_uri())
    page.wait_for_function(f"{_PAINTED}.length > 0")
    return page


def _boxes(page: Any) -> str:
    found: str = page.get_by_text("boxes shown").inner_text()
    return found


def _first_paint(browser: Any, path: Path) -> float:
    """From the start of the navigation to the first frame with the graph in it, in a fresh context."""
    page = _opened(browser, path)
    found: float = page.evaluate(_PAINTED)[0]
    page.context.close()
    return found


def _openings(page: Any, repeats: int) -> list[float]:
    """A block folded and opened again by key."""
    page.keyboard.press("/")
    page.keyboard.type("decoder.block.1.layer.0")
    page.keyboard.press("Enter")
    page.wait_for_timeout(1000)
    page.keyboard.press("Escape")
    page.locator("canvas.cutaway-canvas").focus()
    found = []
    for _ in range(2 * repeats):
        n = len(page.evaluate(_PAINTED))
        page.evaluate(_NOTE_KEY)
        page.keyboard.press("Enter")
        page.wait_for_function(f"{_PAINTED}.length > {n}")
        found.append(page.evaluate(f"{_PAINTED}.at(-1) - window.pressed"))
        page.wait_for_timeout(600)
    return found
