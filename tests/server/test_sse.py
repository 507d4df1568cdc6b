"""Live runs: what a page is told while a run is written, and that nobody looks at disks for nobody."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from tests.server.served import Served, serving

from cutaway.store.format.records import Row
from cutaway.store.writing.writer import Writer


class Events:
    """What the server tells one listener."""

    def __init__(self, response: HTTPResponse) -> None:
        self._response = response

    def next(self) -> Any:
        """The next thing it says; beats are passed over."""
        while line := self._response.readline():
            if line.startswith(b"data: "):
                return json.loads(line[6:])
        return None

    def until(self, fits: Callable[[Any], bool]) -> Any:
        for _ in range(50):
            said = self.next()
            if said is None or fits(said):
                return said
        raise AssertionError("it was never said")


@contextmanager
def listening(served: Served) -> Iterator[Events]:
    connection = HTTPConnection(urlsplit(served.url).netloc, timeout=120)
    connection.request("GET", "/api/events")
    response = connection.getresponse()
    assert response.headers["content-type"].startswith("text/event-stream")
    try:
        yield Events(response)
    finally:
        response.close()
        connection.close()


def asked(served: Served, path: str) -> Any:
    connection = HTTPConnection(urlsplit(served.url).netloc, timeout=120)
    connection.request("GET", path)
    found = json.loads(connection.getresponse().read())
    connection.close()
    return found


def eventually(fits: Callable[[], bool], seconds: float = 120) -> bool:
    until = monotonic() + seconds
    while not fits() and monotonic() < until:
        sleep(0.02)
    return fits()


def written(path: Path, n_steps: int = 2) -> Writer:
    writer = Writer(path, kind="run")
    for step in range(n_steps):
        add(writer, step)
    return writer


def add(writer: Writer, step: int) -> None:
    schema = writer.schema([Row("a"), Row("b")], ["mean", "std"])
    writer.step(step, schema=schema, matrix=np.full((2, 2), step, np.float32))
    writer.flush()


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[tuple[Writer, Served]]:
    with written(tmp_path / "live") as writer, serving(tmp_path) as served:
        yield writer, served


def test_a_run_that_is_written_grows_on_the_page(growing: tuple[Writer, Served]) -> None:
    writer, served = growing
    [item] = asked(served, "/api/runs")
    assert (item["state"], item["n_steps"]) == ("live", 2)
    view = asked(served, f"/api/run/{item['id']}")
    assert view["steps"] == [0, 1]
    with listening(served) as events:
        first = events.next()
        assert (first["run"], first["n_steps"], first["last_step"], first["state"]) == (item["id"], 2, 1, "live")
        add(writer, 2)
        grown = events.until(lambda said: said.get("n_steps") == 3)
        assert grown["last_step"] == 2
        assert asked(served, f"/api/run/{item['id']}")["steps"] == [0, 1, 2]
        writer.scalars(2, {"loss": 0.5})
        writer.note("something happened", step=2)
        writer.flush()
        noted = events.until(lambda said: said.get("n_read", 0) > grown["n_read"])
        assert noted["n_steps"] == 3
        writer.close()
        assert events.until(lambda said: said.get("state") == "ended")["n_steps"] == 3


def test_a_new_run_in_the_folder_is_told_and_a_deleted_one_too(growing: tuple[Writer, Served], tmp_path: Path) -> None:
    _, served = growing
    asked(served, "/api/runs")
    with listening(served) as events:
        events.next()
        written(tmp_path / "second", 1).close()
        events.until(lambda said: said.get("runs") is True)
        items = asked(served, "/api/runs")
        assert [item["name"] for item in items] == ["live", "second"]
        events.until(lambda said: said.get("run") == items[1]["id"])
        shutil.rmtree(tmp_path / "second")
        gone = events.until(lambda said: said.get("run") == items[1]["id"] and "error" in said)
        assert "deleted or moved" in gone["error"]
        assert [item["name"] for item in asked(served, "/api/runs")] == ["live"]


def test_disks_are_looked_at_only_while_somebody_listens(growing: tuple[Writer, Served]) -> None:
    _, served = growing
    live = served.viewer.live
    assert not live.is_polling
    with listening(served) as first:
        with listening(served) as second:
            asked(served, "/api/runs")
            first.next()
            second.next()
            assert (live.n_clients, live.is_polling) == (2, True)
        assert eventually(lambda: live.n_clients == 1)
        assert live.is_polling
    assert eventually(lambda: live.n_clients == 0)
    assert not live.is_polling


def test_who_comes_later_is_told_how_far_each_run_is(growing: tuple[Writer, Served]) -> None:
    _, served = growing
    [item] = asked(served, "/api/runs")
    with listening(served) as first:
        assert first.next()["run"] == item["id"]
        with listening(served) as second:
            assert second.next()["n_steps"] == 2


def test_listeners_do_not_keep_the_viewer_from_ending(tmp_path: Path) -> None:
    with written(tmp_path / "live"):
        with serving(tmp_path) as served:
            context = listening(served)
            events = context.__enter__()
            asked(served, "/api/runs")
            events.next()
        assert events.next() is None  # `serving` has checked that the server ended
        context.__exit__(None, None, None)


def test_a_run_that_is_resumed_is_followed(tmp_path: Path) -> None:
    written(tmp_path / "run", 3).close()
    with serving(tmp_path) as served:
        [item] = asked(served, "/api/runs")
        asked(served, f"/api/run/{item['id']}")
        with listening(served) as events:
            assert events.next()["state"] == "ended"
            with Writer(tmp_path / "run", kind="run", resume=True) as writer:
                add(writer, 2)
                add(writer, 3)
                assert events.until(lambda said: said.get("n_steps") == 4)["state"] == "live"
        assert asked(served, f"/api/run/{item['id']}")["steps"] == [0, 1, 2, 3]


def test_the_answers_of_a_step_that_is_run_again_change(tmp_path: Path) -> None:
    written(tmp_path / "run", 3).close()
    with serving(tmp_path) as served:
        [item] = asked(served, "/api/runs")
        address = f"/api/run/{item['id']}/matrix?step=2"
        before = _fetched(served, address)
        edition = asked(served, f"/api/run/{item['id']}")["edition"]
        with Writer(tmp_path / "run", kind="run", resume=True) as writer:
            schema = writer.schema([Row("a"), Row("b")], ["mean", "std"])
            writer.step(2, schema=schema, matrix=np.full((2, 2), 7, np.float32))
        assert eventually(lambda: asked(served, f"/api/run/{item['id']}")["edition"] != edition)
        view = asked(served, f"/api/run/{item['id']}")
        assert view["steps"] == [0, 1, 2]
        after = _fetched(served, address, before[1])
        assert after[0] == np.full((2, 2), 7, "<f4").tobytes()
        assert before[0] == np.full((2, 2), 2, "<f4").tobytes()


def test_a_run_is_told_by_the_edition_of_its_steps_and_each_rank_by_its_own_id(tmp_path: Path) -> None:
    written(tmp_path / "run", 2).close()
    with Writer(tmp_path / "run", kind="run", rank=3, world_size=4) as second:
        add(second, 0)
        second.scalars(9, {"loss": 1.0})
        second.flush()
        with serving(tmp_path) as served:
            [item] = asked(served, "/api/runs")
            assert (item["ranks"], item["n_steps"]) == ([0, 3], 2)
            own = f"{item['id']}~3"
            view = asked(served, f"/api/run/{own}")
            assert (view["item"]["id"], view["item"]["name"]) == (own, "run · rank 3")
            assert (view["steps"], view["logged"]) == ([0], [9, 9])
            assert asked(served, f"/api/run/{item['id']}")["logged"] == []
            with listening(served) as events:
                said = {event["run"]: event for event in (events.next(), events.next())}
                assert said[own]["edition"] == view["edition"]
                add(second, 1)
                assert events.until(lambda event: event["run"] == own and event["n_steps"] == 2)["last_step"] == 1
            for wrong in ("~9", "~x", "~-1"):
                assert "rank" in asked(served, f"/api/run/{item['id']}{wrong}")["error"]


def _fetched(served: Served, path: str, tag: str = "") -> tuple[bytes, str]:
    connection = HTTPConnection(urlsplit(served.url).netloc, timeout=120)
    connection.request("GET", path, headers={"if-none-match": tag})
    response = connection.getresponse()
    found = response.read(), response.headers["etag"]
    connection.close()
    return found
