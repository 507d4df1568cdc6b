"""The anywidget: what Python sends and answers, and what the browser makes of it."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from tests.server.models import tower

from cutaway.layout.graph_view import plain
from cutaway.server.view_json import to_json
from cutaway.server.widget import Picture
from cutaway.views.showable import ShowableGraph, as_showable

if TYPE_CHECKING:
    from playwright.sync_api import Page

# What anywidget does: the module is imported from its text, and `render` is given a model and an element.
RENDER = """async ({script, views, id}) => {
    const module = await import(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
    const listeners = {};
    const model = {
        get: (name) => ({ views: new DataView(Uint8Array.from(atob(views), (c) => c.charCodeAt(0)).buffer) })[name],
        on: (name, callback) => (listeners[name] ??= new Set()).add(callback),
        off: (name, callback) => listeners[name]?.delete(callback),
        send: async (message) => {
            for (const answer of await window.ask(message)) listeners["msg:custom"]?.forEach((each) => each(answer));
        },
    };
    const el = document.createElement("div");
    el.id = id;
    document.body.append(el);
    window.cleanup = await module.default.render({ model, el });
    window.listening = () => Object.values(listeners).reduce((n, set) => n + set.size, 0);
}"""


def answers(picture: Picture, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], list[Any]]:
    """A function that asks the widget as the front end does, and gives what it sends back."""
    sent: list[Any] = []
    monkeypatch.setattr(picture, "send", sent.append)

    def ask(question: Any) -> list[Any]:
        sent.clear()
        picture._handle_custom_msg(question, [])
        return list(sent)

    return ask


def render(page: Page, picture: Picture, id: str = "cell") -> None:
    views = base64.b64encode(picture.views).decode()
    page.evaluate(RENDER, {"script": picture._esm, "views": views, "id": id})


def test_its_state_is_the_views() -> None:
    trace = tower()
    picture = Picture([as_showable(trace)])
    assert json.loads(zlib.decompress(picture.views)) == json.loads(json.dumps([plain(as_showable(trace).view)]))
    assert {"_esm", "views"} <= set(picture.get_state())


def test_it_answers_what_it_is_asked_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = tower()
    ask = answers(Picture([as_showable(trace)]), monkeypatch)
    row = trace["head"].node
    (answer,) = ask({"id": 5, "view": 0, "row": row})
    assert answer == {"id": 5, "detail": json.loads(to_json(as_showable(trace).detail(row)))}
    assert answer["detail"]["label"] == trace["head"].label
    for view, row in ((0, 10_000), (0, -1), (3, 1), ("0", 1), (0, None)):
        assert ask({"id": 6, "view": view, "row": row}) == [{"id": 6, "detail": None}]
    assert ask("hello") == ask({"id": 9}) == []


def test_what_can_no_longer_be_read_is_no_error_in_a_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("the disk is gone")

    ask = answers(Picture([as_showable(tower())]), monkeypatch)
    monkeypatch.setattr(ShowableGraph, "detail", fail)
    assert ask({"id": 5, "view": 0, "row": 1}) == [{"id": 5, "detail": None}]


def test_closed_it_lets_go_of_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = Picture([as_showable(tower())])
    ask = answers(picture, monkeypatch)
    picture.close()
    assert ask({"id": 5, "view": 0, "row": 1}) == [{"id": 5, "detail": None}]


def test_it_is_drawn_in_a_page_that_belongs_to_somebody_else(page: Page) -> None:
    page.set_content("<h1>A notebook</h1><button>theirs</button>")
    style = "['font', 'color', 'margin', 'boxSizing'].map((n) => getComputedStyle(document.querySelector('button'))[n])"
    theirs = page.evaluate(style)
    render(page, Picture([as_showable(tower())]))
    page.wait_for_selector("#cell .cutaway canvas")
    assert page.evaluate(style) == theirs
    outside = page.evaluate(
        """() => {
            const rules = (list) => [...list].flatMap((rule) =>
                rule.selectorText ? [rule.selectorText] : rule.cssRules ? rules(rule.cssRules) : []);
            const all = [...document.styleSheets].flatMap((sheet) => rules(sheet.cssRules));
            const each = all.flatMap((text) => text.split(/,(?![^(]*\\))/)).map((text) => text.trim());
            return { count: all.length, outside: each.filter((text) => !/^\\.cutaway|^(from|to|\\d)/.test(text)) };
        }"""
    )
    assert outside["count"] > 5
    assert outside["outside"] == []


def test_an_op_shows_what_the_kernel_tells_of_it(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = tower()
    picture = Picture([as_showable(trace)])
    page.expose_function("ask", answers(picture, monkeypatch))
    page.set_content("")
    render(page, picture)
    page.get_by_role("textbox", name="Search").fill(trace["head"].label)
    page.get_by_role("textbox", name="Search").press("Enter")
    page.get_by_text("return self.head(x)").wait_for()


def test_two_pictures_share_one_style_sheet(page: Page) -> None:
    page.set_content("")
    picture = Picture([as_showable(tower())])
    render(page, picture, "one")
    render(page, picture, "two")
    page.wait_for_selector("#two .cutaway canvas")
    assert page.locator("style[data-cutaway]").count() == 1


def test_it_is_dark_where_the_notebook_is(page: Page) -> None:
    page.set_content("")
    page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    render(page, Picture([as_showable(tower())]))
    root = page.locator("#cell > .cutaway")
    assert root.get_attribute("data-theme") == "dark"
    page.evaluate("document.body.dataset.jpThemeLight = 'true'")
    page.wait_for_selector("#cell > .cutaway[data-theme=light]")


def test_removed_it_leaves_nothing_behind(page: Page) -> None:
    page.set_content("")
    render(page, Picture([as_showable(tower())]))
    page.wait_for_selector("#cell canvas")
    page.evaluate("window.cleanup()")
    assert page.locator("#cell canvas").count() == 0
    assert page.evaluate("window.listening()") == 0


def test_a_kernel_that_is_busy_is_said_to_be(page: Page) -> None:
    page.expose_function("ask", lambda _: [])
    page.set_content("")
    render(page, Picture([as_showable(tower())]))
    page.wait_for_selector("#cell .cutaway canvas")
    page.focus("#cell canvas")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector("text=The kernel is busy", timeout=10_000)
