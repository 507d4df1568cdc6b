"""The viewer while folders change under it: runs that grow, come and go, damage, and names that would be code."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests import warm_python
from tests.server.recorded import one_thread
from tests.server.served import serving
from tests.web.looking import PATIENCE, WIDE, Look, like

import cutaway
from cutaway.core.arrays import Raw
from cutaway.store.format.records import Row
from cutaway.store.format.segments import Limits
from cutaway.store.runs.samples import packed_samples
from cutaway.store.writing.writer import Options, Writer

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


def written(path: Path, step: int) -> cutaway.Run:
    """A run as soon as a step of it is on the disk: another thread writes it."""
    end = monotonic() + PATIENCE
    while monotonic() < end:
        run = cutaway.load(path)
        if step in run.steps and "loss" in run.scalars and step in run.scalars["loss"].steps:
            return run
        sleep(0.02)
    pytest.fail(f"step {step} was never written", pytrace=False)


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
            seen = look.agrees(written(path, last), "2", step=last)
            assert page.locator(".live").inner_text() == f"following step {last}"
            look.until(lambda seen: len(seen.timeline) == 1 and seen.timeline[0] != "")
        page.get_by_role("button", name="Previous recorded step").click()
        look.until(lambda seen: seen.step == 6)
        train(run, model, 3)
        page.wait_for_selector(".live:not(.on):text('live at step 10')")
        assert look.seen.step == 6
        page.locator(".live").click()
        now = written(path, 10)
        look.agrees(now, "2", step=10)
        seen = look.until(lambda seen: like(seen.timeline[0], now.scalars["loss"].values[-1]), "its loss")
        assert seen.runs == ("first",)
        with cutaway.record(tmp_path / "second", model, every=1) as second:
            train(second, model, 2)
            page.wait_for_selector(".chip-name:text('second')")
        page.get_by_role("button", name="second", exact=True).click()
        look.agrees(written(tmp_path / "second", 1), "2", step=1)
        page.get_by_role("button", name="first", exact=True).click()
    # The recorder has ended, and with it the run; so has the viewer.
    assert cutaway.load(path).is_live is False


KILLED = """
import sys
import numpy as np
from cutaway.store.format.records import Row
from cutaway.store.writing.writer import Writer
writer = Writer(sys.argv[1], kind="run")
schema = writer.schema([Row("a")], ["mean", "std"])
writer.step(7, schema=schema, matrix=np.ones((1, 2), np.float32))
writer.flush()
print("written", flush=True)
sys.stdin.read()
"""
"""Writes a step, and never ends what it began."""


def test_a_folder_is_filled_a_run_without_steps_and_one_that_is_killed_are_told(page: Page, tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        page.goto(served.url)
        page.wait_for_selector("text='No runs in this folder yet'")
        with Writer(tmp_path / "early", kind="run") as writer:
            writer.note("nothing came of it", step=0)
        page.wait_for_selector("text='No steps recorded yet'")
        page.keyboard.press("6")
        page.wait_for_selector("text='nothing came of it'")
        page.keyboard.press("1")
        with warm_python.start(["-c", KILLED, str(tmp_path / "lost")]) as process:
            assert process.stdout.readline() == "written\n"
            page.get_by_role("button", name="lost", exact=True).click()
            page.wait_for_selector(".live.on:text('following step 7')")
            process.kill()
        page.wait_for_selector(".live.killed:text('stopped at step 7')")
        assert "died before closing it" in (page.locator(".live.killed").get_attribute("title") or "")


def wrote(path: Path, values: dict[int, float], *, rank: int = 0, resume: bool = False) -> cutaway.Run:
    """Record one tensor whose statistics are one number, by step."""
    with Writer(path, kind="run", rank=rank, world_size=2, resume=resume) as writer:
        schema = writer.schema([Row("a"), Row("b")], ["mean", "std", "min", "max"])
        for step, value in values.items():
            writer.step(step, schema=schema, matrix=np.full((2, 4), value, np.float32))
            writer.scalars(step, {"loss": value})
    return cutaway.load(path)


def test_a_run_that_is_resumed_or_recorded_anew_shows_nothing_of_what_was(lenient: Page, tmp_path: Path) -> None:
    path = tmp_path / "runs" / "run"
    wrote(path, {0: 1, 1: 2, 2: 3})
    with serving(tmp_path / "runs") as served:
        look = Look(lenient, served.url).open(node="a")
        for step in (2, 1, 0):
            look.agrees(cutaway.load(path), "a", step=step)
            lenient.keyboard.press(",")
        lenient.keyboard.press("End")
        # As many steps as before, but other ones from step 1 on.
        run = wrote(path, {1: 20, 2: 30}, resume=True)
        look.agrees(run, "a", step=2)
        look.until(lambda seen: like(seen.timeline[0], 30), "the loss of the new session")
        lenient.keyboard.press(",")
        look.agrees(run, "a", step=1)
        # The same name and the same steps, but another run. Whoever asks in between is told that there is none.
        shutil.rmtree(path)
        run = wrote(path, {0: 100, 1: 200, 2: 300})
        look.agrees(run, "a", step=1)
        lenient.keyboard.press(",")
        look.agrees(run, "a", step=0)
        look.until(lambda seen: like(seen.timeline[0], 100), "the loss of the other run")


def test_the_ranks_of_a_run_are_looked_at_in_turn(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "wide"
    wrote(path, {0: 1, 5: 2})
    run = wrote(path, {0: 10, 5: 20, 6: 21}, rank=1)
    with serving(tmp_path) as served:
        look = Look(page, served.url).open(node="a")
        look.agrees(run, "a", step=5)
        assert "rank 0 of 2 ranks" in (page.locator(".chip-name").get_attribute("title") or "")
        look.choose("Rank", "1")
        look.agrees(run.rank(1), "a", step=6)
        assert look.seen.runs == ("wide · rank 1",)
        page.reload()
        look.agrees(run.rank(1), "a", step=6)
        wrote(path, {7: 30}, rank=1, resume=True)
        look.agrees(cutaway.load(path).rank(1), "a", step=7)
        look.choose("Rank", "0")
        look.agrees(run, "a", step=5)


def test_a_server_that_is_gone_is_told_and_what_was_seen_stays_until_it_is_back(lenient: Page, tmp_path: Path) -> None:
    run = wrote(tmp_path / "run", {0: 1, 1: 2})
    with serving(tmp_path) as served:
        look = Look(lenient, served.url).open(node="a")
        look.agrees(run, "a", step=1)
    banner = lenient.locator(".banner", has_text="is not responding")
    banner.wait_for()
    lenient.keyboard.press("5")
    lenient.locator(".tab-panel:not([hidden]) .blank", has_text="is not responding").wait_for()
    lenient.keyboard.press("1")
    look.agrees(run, "a", step=1)
    run = wrote(tmp_path / "run", {2: 3}, resume=True)
    with serving(tmp_path, port=int(served.url.rpartition(":")[2])):
        banner.wait_for(state="detached")
        look.agrees(run, "a", step=2)
        lenient.keyboard.press("5")
        lenient.locator(".tab-panel:not([hidden]) .blank", has_text="No modules recorded").wait_for()


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
