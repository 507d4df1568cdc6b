"""`cutaway.show` finds the screen that there is."""

from __future__ import annotations

import importlib
import logging
import sys
import webbrowser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.server.models import Tower, tower

import cutaway
from cutaway.core.errors import InputError, InputTypeError
from cutaway.store.writing.writer import Writer

WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A machine with a browser; gives the addresses that it was asked to open."""
    opened: list[str] = []
    monkeypatch.setenv("CUTAWAY_BROWSER", "")
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", lambda address: not opened.append(address))
    return opened


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A notebook; gives what was published in it."""
    importlib.import_module("cutaway.server.widget")  # which needs the real IPython
    published: list[dict[str, Any]] = []
    display = SimpleNamespace(publish=lambda data, metadata: published.append(data))
    shell = SimpleNamespace(kernel=object(), execution_count=1, display_pub=display, published=published)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    return shell


def test_a_browser_opens_the_file(screen: list[str]) -> None:
    shown = cutaway.show(tower())
    assert shown.path is not None
    assert screen == [shown.path.as_uri()]
    assert shown.path.name == "Tower.html"
    assert repr(shown) == f"<Shown Tower in {shown.path}>"


def test_the_file_lies_where_it_was_asked_for(
    screen: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = cutaway.show(tower(), tower(2), path="net.html")
    assert shown.path == Path("net.html")
    assert screen == [(tmp_path / "net.html").as_uri()]


def test_without_a_screen_the_path_is_told(
    monkeypatch: pytest.MonkeyPatch, screen: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    with caplog.at_level(logging.WARNING):
        shown = cutaway.show(tower())
    assert screen == []
    assert str(shown.path) in caplog.text


def test_a_browser_can_be_refused(monkeypatch: pytest.MonkeyPatch, screen: list[str]) -> None:
    monkeypatch.setenv("CUTAWAY_BROWSER", "none")
    shown = cutaway.show(tower())
    assert screen == []
    assert shown.path is not None
    assert shown.path.is_file()


def test_a_browser_that_fails_is_no_error(monkeypatch: pytest.MonkeyPatch, screen: list[str]) -> None:
    def fail(_: str) -> bool:
        raise webbrowser.Error("no window manager")

    monkeypatch.setattr(webbrowser, "open", fail)
    path = cutaway.show(tower()).path
    assert path is not None
    assert path.is_file()


def test_a_notebook_gets_the_widget_and_a_picture_that_stands_still(kernel: SimpleNamespace, screen: list[str]) -> None:
    shown = cutaway.show(tower())
    (data,) = kernel.published
    assert data[WIDGET]["model_id"] == shown.widget.model_id
    assert data["text/html"].startswith('<img alt="Tower"')
    assert data["text/plain"] == "<Shown Tower>"
    assert shown.path is None
    assert screen == []


def test_a_cell_that_ends_with_show_has_one_picture_and_a_later_cell_another(kernel: SimpleNamespace) -> None:
    shown = cutaway.show(tower())
    shown._ipython_display_()
    kernel.execution_count = 2
    with pytest.raises(NotImplementedError):  # IPython goes on with the mimebundle
        shown._ipython_display_()
    assert WIDGET in shown._repr_mimebundle_()[0]


def test_without_anywidget_there_is_a_still_picture_and_a_hint(
    kernel: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.delitem(sys.modules, "cutaway.server.widget", raising=False)
    cutaway.show(tower())
    (data,) = kernel.published
    assert WIDGET not in data
    assert "data:image/svg+xml;base64," in data["text/html"]
    assert "pip install anywidget" in data["text/html"]


def test_marimo_displays_the_widget_as_the_value_of_the_cell(
    monkeypatch: pytest.MonkeyPatch, screen: list[str]
) -> None:
    monkeypatch.setitem(sys.modules, "marimo", SimpleNamespace(running_in_notebook=lambda: True))
    shown = cutaway.show(tower())
    assert shown._display_() is shown.widget
    assert screen == []


def test_ipython_in_a_terminal_opens_a_browser_and_prints_where(
    monkeypatch: pytest.MonkeyPatch, screen: list[str]
) -> None:
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace()))
    shown = cutaway.show(tower())
    assert len(screen) == 1
    assert shown._repr_mimebundle_()[0] == {"text/plain": repr(shown)}


def test_closed_it_lets_go_of_what_it_shows(kernel: SimpleNamespace) -> None:
    shown = cutaway.show(tower())
    picture = shown.widget
    shown.close()
    assert picture.comm is None
    assert shown._shown == ()


def test_what_cannot_be_shown_is_told_with_what_can(screen: list[str]) -> None:
    with pytest.raises(
        InputError, match=r"cannot show an object of type int: pass a Trace, a Diff, .* a Page or a GraphView\.$"
    ):
        cutaway.show(3)
    with pytest.raises(InputError, match=r"got the path 'runs/base'. Load it first: cutaway.show\(cutaway.load"):
        cutaway.show("runs/base")
    with pytest.raises(InputError, match=r"cannot show an object of type .*Tower: .* Trace it first: cutaway.trace"):
        cutaway.show(tower(), Tower())
    with pytest.raises(InputError, match="got nothing to show"):
        cutaway.show()
    assert screen == []


def test_a_model_with_an_odd_name_has_a_file_with_a_plain_one(screen: list[str]) -> None:
    odd = type("../A/b:c <d>", (torch.nn.Sequential,), {})
    path = cutaway.show(cutaway.trace(odd(torch.nn.Linear(1, 1)), torch.ones(1))).path
    assert path is not None
    assert path.name == "A-b-c-d.html"
    assert path.parent.name.startswith("cutaway-")


def test_a_path_or_a_run_says_what_to_call_instead(tmp_path: Path) -> None:
    with Writer(tmp_path / "run", kind="run") as writer:
        writer.note("here")
    with pytest.raises(InputTypeError, match=r"got the path 'net.trace'. Load it first: cutaway.show\(cutaway.load"):
        cutaway.show("net.trace")
    with pytest.raises(InputTypeError, match=r"cannot show a recorded run. Use the viewer: `cutaway view .*run`"):
        cutaway.show(cutaway.load(tmp_path / "run"))
