"""What a page of the viewer shows, read as a person would read it, so that tests can hold it against the store."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest

from cutaway import Run

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

PATIENCE = 30.0
"""Seconds that something may take on a busy machine."""
WIDE, NARROW = (1360, 860), (600, 900)
_LOOK = """() => {
    const text = (element) => element?.textContent ?? "";
    const all = (root, selector) => [...(root?.querySelectorAll(selector) ?? [])];
    const shown = document.querySelector(".tab-panel:not([hidden])");
    const panel = shown?.querySelector(".tensor-panel");
    const chosen = (group) => [group.ariaLabel, text(group.querySelector("[aria-checked=true]"))];
    const picked = (menu) => [menu.ariaLabel.split(" (")[0], text(menu.selectedOptions[0])];
    const card = (one) => [text(one.querySelector(".label")), text(one.querySelector("b"))];
    return {
        tab: text(document.querySelector("[role=tab][aria-selected=true]")),
        runs: all(document, ".chip:not(.off) .chip-name").map(text),
        active: text(document.querySelector(".chip.active .chip-name")),
        step: Number(document.querySelector(".step-slider")?.getAttribute("aria-valuenow") ?? -1),
        chosen: Object.fromEntries([
            ...all(document, ".selectors .labeled > .menu select").map(picked),
            ...all(document, ".selectors [role=radiogroup]").map(chosen),
        ]),
        sample: document.querySelector(".sample-menu.on select")?.value ?? "",
        timeline: all(document, ".timeline-value b").map(text),
        node: new URLSearchParams(location.hash.slice(1)).get("node") ?? "",
        path: text(panel?.querySelector(".tensor-head .path")) + text(panel?.querySelector(".tensor-head h2")),
        badges: all(panel, ".badge").map(text),
        cards: Object.fromEntries(all(panel, ".cards .stat").map(card)),
        is_old: panel?.classList.contains("old") ?? false,
    };
}"""


_SELECTED = """(canvas) => {
    const found = canvas.graph.isMoving ? null : canvas.graph.places().find(({ isSelected }) => isSelected);
    if (!found) return null;
    const { x, y } = canvas.getBoundingClientRect();
    return [x + found.rect.x + found.rect.width / 2, y + found.rect.y + found.rect.height / 2];
}"""


@dataclass(frozen=True)
class Seen:
    """What the page shows at one moment."""

    tab: str
    runs: tuple[str, ...]
    """Names of those on the page."""
    active: str
    step: int
    chosen: dict[str, str]
    """By the name of the selector."""
    sample: str
    timeline: tuple[str, ...]
    """The numbers below everything, one for each run."""
    node: str
    """As the address has it."""
    path: str
    """What the inspector is about: its place in the model, its name, its step."""
    badges: tuple[str, ...]
    cards: dict[str, str]
    """The statistics of the inspector by their titles."""
    is_old: bool
    """Whether it is of another step, until this one has come."""


@dataclass(frozen=True)
class Look:
    """One page on a viewer."""

    page: Page
    url: str

    def open(self, **state: object) -> Look:
        """Go to a state, and wait until there is a run."""
        self.page.set_default_timeout(1000 * PATIENCE)
        named = "&".join(f"{name}={value}" for name, value in state.items())
        self.page.goto(f"{self.url}/#{named}")
        self.page.wait_for_selector(".step-slider")
        return self

    @property
    def seen(self) -> Seen:
        found: dict[str, Any] = self.page.evaluate(_LOOK)
        return Seen(**{name: tuple(value) if isinstance(value, list) else value for name, value in found.items()})

    def until(self, holds: Callable[[Seen], object], what: str = "") -> Seen:
        """Look again and again until something holds."""
        end = monotonic() + PATIENCE
        while True:
            seen = self.seen
            if holds(seen):
                return seen
            if monotonic() > end:
                pytest.fail(f"{what or 'what was waited for'} did not come; the page shows {seen}", pytrace=False)
            self.page.wait_for_timeout(25)

    def choose(self, selector: str, text: str) -> Seen:
        """Click one choice of a selector, which is a menu where there is little room."""
        menu = self.page.locator(f".selectors select[aria-label^='{selector} (']:visible")
        if menu.count():
            menu.select_option(label=text)
            return self.until(lambda seen: seen.chosen.get(selector) == text, f"{selector}: {text}")
        group = self.page.get_by_role("radiogroup", name=selector, exact=True).locator("visible=true").first
        group.get_by_role("radio", name=re.compile(f"^{re.escape(text)}$")).click()
        return self.until(lambda seen: seen.chosen.get(selector) == text, f"{selector}: {text}")

    def tab(self, name: str) -> Locator:
        """Click a tab; its panel."""
        self.page.get_by_role("tab", name=name, exact=True).click()
        panel = self.page.locator(f".tab-panel[aria-label='{name}']:not([hidden])")
        panel.wait_for()
        return panel

    def agrees(self, run: Run, site: str, of: str = "value", *, iteration: int | None = None, step: int) -> Seen:
        """The inspector comes to be about this tensor at this step, and its numbers are those of the store."""
        moment = run.at(step)[site].other(of, iteration=iteration)
        assert moment is not None
        return self.until(
            lambda seen: (
                (seen.step, seen.is_old) == (step, False)
                and seen.path.replace(" › ", ".") == f"{site} at step {step}"
                and agreeing(seen.cards, moment.stats)
            ),
            f"{of} of {site}, iteration {iteration}, at step {step} with {moment.stats}",
        )

    def slide(self, step: int, run: Run) -> None:
        """Click the slider where a step is: it goes from the first step to the last, recorded or logged."""
        slider = self.page.locator(".step-slider")
        box = slider.bounding_box()
        assert box is not None
        logged = [int(end) for curve in run.scalars.values() for end in curve.steps[[0, -1]]]
        low, high = min(int(run.steps[0]), *logged), max(int(run.steps[-1]), *logged)
        slider.click(position={"x": 10 + (step - low) / (high - low) * (box["width"] - 20), "y": box["height"] / 2})

    def graph(self) -> Locator:
        return self.page.locator(".run-graph .graph-canvas canvas").first

    def found(self, name: str) -> tuple[float, float]:
        """Search for a node, which brings it into view; the middle of its box."""
        field = self.page.get_by_label("Search", exact=True)
        field.wait_for()  # without a graph, the key opens the palette
        self.page.keyboard.press("/")
        field.fill(name)
        self.page.keyboard.press("Enter")
        self.until(lambda seen: seen.node == name, f"{name} selected")
        self.page.keyboard.press("Escape")
        return self.selected()

    def selected(self) -> tuple[float, float]:
        """The middle of the selected box, once it has come to rest."""
        end, before = monotonic() + PATIENCE, None
        while ((found := self.graph().evaluate(_SELECTED)) is None or found != before) and monotonic() < end:
            before = found
            self.page.wait_for_timeout(80)
        assert found is not None, "no box is selected"
        return found[0], found[1]

    def tooltip(self, at: tuple[float, float], says: str = "") -> str:
        """What the pointer tells at a place, once it has these words in it."""
        tip = self.page.locator(".run-graph .tooltip")
        for attempt in range(int(PATIENCE * 20)):
            # Boxes may still be gliding there, and only a pointer that moves is told of them.
            self.page.mouse.move(at[0] + attempt % 2, at[1])
            if tip.count() and says in (text := tip.inner_text()):
                return text
            self.page.wait_for_timeout(50)
        pytest.fail(f"no tooltip with {says!r}", pytrace=False)

    def keep(self, name: str, folder: Path) -> None:
        """Keep a picture of the page: in this folder, and where CUTAWAY_SCREENSHOTS says."""
        picture = self.page.screenshot(animations="disabled")
        also = os.environ.get("CUTAWAY_SCREENSHOTS")
        for place in (folder, *([Path(also)] if also else [])):
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{name}.png").write_bytes(picture)


def number(text: str) -> float:
    """A number as the page writes it; NaN for none."""
    plain = text.replace("−", "-").replace(",", "").replace("∞", "inf").strip("×% ")
    try:
        return float(plain)
    except ValueError:
        return float("nan")


def like(text: str, value: float) -> bool:
    """Whether a number of three figures, or of two and an exponent, is this one."""
    return number(text) == pytest.approx(value, rel=0.051 if "e" in text else 0.0051, abs=0)


def agreeing(cards: dict[str, str], statistics: dict[str, float]) -> bool:
    """Whether all cards say what the store says."""
    plain = {title: text for title, text in cards.items() if title.replace(" ", "_") in statistics and title != "zeros"}
    same = all(
        text == "–"
        if math.isnan(statistics[title.replace(" ", "_")])
        else like(text, statistics[title.replace(" ", "_")])
        for title, text in plain.items()
    )
    share = 100 * statistics.get("zeros", 0) / max(1, statistics.get("count", 1))
    return len(plain) >= 4 and same and ("zeros" not in cards or like(cards["zeros"], share))
