"""The viewer while folders change under it: runs that grow, come and go, damage, and names that would be code."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.server.looking import WIDE, Look, like
from tests.server.recorded import one_thread
from tests.server.served import serving

import cutaway
from cutaway.core.arrays import Raw
from cutaway.store.records import Row
from cutaway.store.samples import packed_samples
from cutaway.store.segments import Limits
from cutaway.store.writer import Options, Writer

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    import torch
    from playwright.sync_api import Browser, Page

    from cutaway.recording.recorder import Recorder

pytest.importorskip("starlette")


@pytest.fixture
def lenient(browser: Browser) -> Iterator[Page]:
    """A page in which requests may be refused, which browsers log as errors."""
    context = browser.new_context(viewport={"width": WIDE[0], "height": WIDE[1]})
    page, failures = context.new_page(), list[str]()
    page.on("pageerror", lambda error: failures.append(str(error)))
    yield page
    context.close()
    assert failures == []


def train(run: Recorder, model: torch.nn.Module, n_steps: int) -> None:
    import torch

    for _ in range(n_steps):
        with run.step():
            loss = model(torch.randn(4, 3)).pow(2).mean()
            loss.backward()
            run.log(loss=loss)


def test_a_training_is_followed_left_alone_and_followed_again(page: Page, tmp_path: Path) -> None:
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    path = tmp_path / "first"
    with one_thread(), cutaway.record(path, model, every=1) as run, serving(tmp_path) as served:
        train(run, model, 2)
        look = Look(page, served.url).open(node="2")
        page.wait_for_selector(".live.on")
        for last in (4, 7):
            train(run, model, 3)
            seen = look.agrees(cutaway.load(path), "2", step=last)
            assert page.locator(".live").inner_text() == f"following step {last}"
            look.until(lambda seen: len(seen.strip) == 1 and seen.strip[0] != "")
        page.get_by_role("button", name="The recorded step before").click()
        look.until(lambda seen: seen.step == 6)
        train(run, model, 3)
        page.wait_for_selector(".live:not(.on):text('live at step 10')")
        assert look.seen.step == 6
        page.locator(".live").click()
        look.agrees(cutaway.load(path), "2", step=10)
        seen = look.until(lambda seen: like(seen.strip[0], cutaway.load(path).scalars["loss"].values[-1]), "its loss")
        assert seen.runs == ("first",)
        with cutaway.record(tmp_path / "second", model, every=1) as second:
            train(second, model, 2)
            page.wait_for_selector(".chip-name:text('second')")
        page.get_by_role("button", name="second", exact=True).click()
        look.agrees(cutaway.load(tmp_path / "second"), "2", step=1)
        page.get_by_role("button", name="first", exact=True).click()
    # The recorder has ended, and with it the run; so has the viewer.
    assert cutaway.load(path).is_live is False


def test_a_run_is_deleted_while_it_is_looked_at(lenient: Page, recorded_copy: Path) -> None:
    other = cutaway.load(recorded_copy / "deep" / "other")
    with serving(recorded_copy) as served:
        look = Look(lenient, served.url).open(node="blocks.0.up", step=12)
        look.agrees(cutaway.load(recorded_copy / "base"), "blocks.0.up", iteration=1, step=12)
        shutil.rmtree(recorded_copy / "base")
        lenient.locator(".blank.failed:visible", has_text="base cannot be shown").wait_for()
        lenient.get_by_role("button", name="deep/other", exact=True).click()
        look.agrees(other, "blocks.0.up", iteration=1, step=12)


def test_a_damaged_segment_costs_its_own_steps_alone(lenient: Page, tmp_path: Path) -> None:
    path = tmp_path / "runs" / "hurt"
    with Writer(path, kind="run", options=Options(limits=Limits(steps=2))) as writer:
        schema = writer.schema([Row("a"), Row("b"), Row("c")], ["mean", "std", "min", "max"])
        for step in range(8):
            writer.step(step, schema=schema, matrix=np.arange(12, dtype=np.float32).reshape(3, 4) + step)
        writer.note("all is well", step=1)
    whole = cutaway.load(shutil.copytree(path, tmp_path / "whole"))
    files = sorted(path.rglob("*.safetensors"))
    assert len(files) == 4
    content = files[1].read_bytes()
    files[1].write_bytes(content[: len(content) // 2] + bytes(len(content) - len(content) // 2))
    with serving(tmp_path / "runs") as served:
        look = Look(lenient, served.url).open(node="b", step=0)
        for step in (0, 1, 4, 7):
            look.page.goto(f"{served.url}/#node=b&step={step}")
            look.agrees(whole, "b", step=step)
        lenient.goto(f"{served.url}/#tab=overview&step=2")
        told = lenient.locator(".tab-panel:not([hidden]) .blank.failed")
        told.wait_for()
        assert files[1].name in told.inner_text() or "step 2" in told.inner_text().lower()
        assert "Traceback" not in lenient.locator("body").inner_text()
        lenient.get_by_role("tab", name="Notes").click()
        lenient.locator(".notes-panel", has_text="all is well").wait_for()


EVIL = "<img src=x onerror='window.hacked=1'></script><script>window.hacked=2</script>"


def test_what_a_run_says_never_becomes_a_part_of_the_page(page: Page, tmp_path: Path) -> None:
    name = "<img src=x onerror='window.hacked=3'>"
    said = packed_samples(
        {"text": [EVIL, "b"], "tokens": [[EVIL, "b"], ["c"]], "label": [EVIL, "d"], "id": [EVIL, "e"]}
    )
    rows = [
        Row(f"a.{name}", role=name),
        Row(f"a.{name}", of=f"grad/{name}"),
        Row("b", node=name, part=name),
        Row("c", node=name, part="y", names=(name,)),
    ]
    with Writer(tmp_path / name, kind="run") as writer:
        writer.document("config", {EVIL: EVIL})
        schema = writer.schema([*rows, *said], ["mean", "std", name])
        for step in range(3):
            matrix = np.random.default_rng(step).normal(size=(len(rows) + len(said), 3))
            writer.step(
                step,
                schema=schema,
                kind=(EVIL, name)[step % 2],
                matrix=matrix,
                values={0: Raw.of(np.ones((2, 3))), **dict(enumerate(said.values(), start=len(rows)))},
            )
            writer.scalars(step, {EVIL: 1.0 + step, name: 2.0})
            writer.note(EVIL, step=step, level=name)
    with serving(tmp_path) as served:
        look = Look(page, served.url).open()
        assert look.seen.active == name
        page.keyboard.press("Control+k")
        page.keyboard.type("img")
        page.locator(".palette li", has_text=name).first.wait_for()
        page.keyboard.press("Escape")
        look.found(f"a.{name}")
        page.wait_for_selector(".sample-menu")
        page.keyboard.press("b")
        page.locator(".inspector:visible .sample", has_text=EVIL).wait_for()
        for tab in ("Curves", "Overview", "Notes", "Network", "Ops", "Tensors"):
            panel = look.tab(tab)
            if tab in ("Curves", "Notes"):
                panel.get_by_text(EVIL).first.wait_for()
            for tag in ("img", "script"):
                assert page.locator(f"body {tag}[src=x], #cutaway script").count() == 0, tag
        box = page.locator(".step-slider").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] - 12, box["y"] + 5)
        page.locator(".slider-over", has_text=EVIL).wait_for()
        assert page.evaluate("() => window.hacked ?? null") is None
