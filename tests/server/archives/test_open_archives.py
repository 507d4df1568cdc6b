"""Open runs: one question at a time each, none waits for another run, and memory has a bound."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from time import monotonic, sleep

import numpy as np
import pytest
from tests.server.served import run_apart

from cutaway.core.errors import InputError, NotFoundError
from cutaway.server.archives.catalog import Catalog
from cutaway.server.archives.folders import Folders
from cutaway.server.archives.open_archives import ArchiveCache, ClientDisconnected, OpenArchive, rows_of
from cutaway.store.format.records import Row
from cutaway.store.writing.writer import Writer


def write(path: Path, n_steps: int = 3) -> Path:
    with Writer(path, kind="run") as writer:
        schema = writer.schema([Row("a"), Row("b")], ["mean", "std"])
        for step in range(n_steps):
            writer.step(step, schema=schema, matrix=np.full((2, 2), step, np.float32))
    return path


def n_steps_of(entry: OpenArchive) -> int:
    return len(rows_of(entry).run)


# folders


def test_ids_are_made_of_names_below_the_folder_and_stay_when_the_folder_moves(tmp_path: Path) -> None:
    write(tmp_path / "one" / "deep" / "base")
    before = Folders([str(tmp_path / "one")]).locations()
    (tmp_path / "one").rename(tmp_path / "two")
    after = Folders([str(tmp_path / "two")]).locations()
    assert list(before) == list(after)
    assert [place.name for place in after.values()] == [os.path.join("deep", "base")]


def test_runs_of_the_same_name_in_two_folders_are_two_and_one_named_twice_is_one(tmp_path: Path) -> None:
    first, second = write(tmp_path / "x" / "base"), write(tmp_path / "y" / "base")
    locations = Folders([str(first.parent), str(second.parent), str(first)]).locations()
    assert len(locations) == 2
    assert {os.path.realpath(place.path) for place in locations.values()} == {str(first), str(second)}
    assert len({place.name for place in locations.values()}) == 2


def test_a_folder_that_is_not_there_is_refused_and_an_empty_one_is_not(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no Cutaway archive at .*: it does not exist"):
        Folders([str(tmp_path / "nothing")])
    (tmp_path / "file").write_text("")
    with pytest.raises(NotFoundError, match="is not a folder"):
        Folders([str(tmp_path / "file")])
    with pytest.raises(InputError, match="memory of another process"):
        Folders(["memory://base"])
    assert Folders([str(tmp_path)]).locations() == {}


def test_a_path_written_as_a_url_is_a_path(tmp_path: Path) -> None:
    write(tmp_path / "base")
    assert len(Folders([f"file://{tmp_path}"]).locations()) == 1


# questions


def test_who_asks_a_slow_run_keeps_nobody_else_waiting(tmp_path: Path) -> None:
    write(tmp_path / "slow")
    write(tmp_path / "quick")
    release = threading.Event()

    def wait(_: OpenArchive) -> str:
        release.wait(120)
        return "slow"

    async def main() -> None:
        cache = ArchiveCache(Folders([str(tmp_path)]))
        ids = {place.name: id_ for id_, place in (await cache.locations()).items()}
        slow = [asyncio.create_task(cache.apply(ids["slow"], wait)) for _ in range(12)]  # more than there are threads
        await asyncio.sleep(0.05)
        assert await asyncio.wait_for(cache.apply(ids["quick"], n_steps_of), 60) == 3
        assert not any(task.done() for task in slow)
        release.set()
        assert await asyncio.gather(*slow) == ["slow"] * 12
        cache.close()

    run_apart(main)


def test_a_run_is_asked_one_question_at_a_time(tmp_path: Path) -> None:
    write(tmp_path / "base")
    inside = [0, 0]

    def ask(_: OpenArchive) -> None:
        inside[0] += 1
        inside[1] = max(inside)
        sleep(0.01)
        inside[0] -= 1

    async def main() -> None:
        cache = ArchiveCache(Folders([str(tmp_path)]))
        [id_] = await cache.locations()
        await asyncio.gather(*(cache.apply(id_, ask) for _ in range(10)))
        cache.close()

    run_apart(main)
    assert inside[1] == 1


def test_the_loop_goes_on_while_disks_are_read(tmp_path: Path) -> None:
    write(tmp_path / "base")
    is_reading, loop_ran = threading.Event(), threading.Event()

    def read(_: OpenArchive) -> bool:
        is_reading.set()
        return loop_ran.wait(60)  # True only if the loop runs while this thread waits

    async def main() -> None:
        cache = ArchiveCache(Folders([str(tmp_path)]))
        [id_] = await cache.locations()
        task = asyncio.create_task(cache.apply(id_, read))
        while not is_reading.is_set():
            await asyncio.sleep(0.001)
        loop_ran.set()
        assert await task
        cache.close()

    run_apart(main)


def test_nothing_is_read_for_who_has_left_meanwhile(tmp_path: Path) -> None:
    write(tmp_path / "base")

    async def gone() -> bool:
        return False

    async def main() -> None:
        cache = ArchiveCache(Folders([str(tmp_path)]))
        [id_] = await cache.locations()
        with pytest.raises(ClientDisconnected):
            await cache.apply(id_, n_steps_of, is_connected=gone)
        assert cache.open_runs == ()
        cache.close()

    run_apart(main)


def test_a_question_that_fails_leaves_the_run_open_to_the_next(tmp_path: Path) -> None:
    write(tmp_path / "base")

    def fail(_: OpenArchive) -> None:
        raise RuntimeError("oh dear")

    async def main() -> None:
        cache = ArchiveCache(Folders([str(tmp_path)]))
        [id_] = await cache.locations()
        with pytest.raises(RuntimeError, match="oh dear"):
            await cache.apply(id_, fail)
        assert await cache.apply(id_, n_steps_of) == 3
        cache.close()

    run_apart(main)


def test_runs_that_were_not_asked_longest_are_let_go_when_memory_is_short(tmp_path: Path) -> None:
    for number in range(5):
        write(tmp_path / f"run-{number}", 200)

    async def main() -> None:
        cache = ArchiveCache(Folders([str(tmp_path)]))
        ids = list(await cache.locations())
        sizes = [await cache.apply(id_, lambda entry: entry.n_bytes) for id_ in ids]
        assert list(cache.open_runs) == ids
        small = ArchiveCache(Folders([str(tmp_path)]), most_bytes=int(2.5 * max(sizes)))
        for id_ in ids:
            await small.apply(id_, n_steps_of)
        assert list(small.open_runs) == ids[-2:]
        assert await small.apply(ids[0], n_steps_of) == 200
        tiny = ArchiveCache(Folders([str(tmp_path)]), most_bytes=1)
        assert [await tiny.apply(id_, n_steps_of) for id_ in ids] == [200] * 5
        assert list(tiny.open_runs) == ids[-1:]

    run_apart(main)


def test_a_run_can_be_asked_while_it_grows(tmp_path: Path) -> None:
    def fill(writer: Writer) -> None:
        schema = writer.schema([Row("a"), Row("b")], ["mean", "std"])
        for step in range(300):
            writer.step(step, schema=schema, matrix=np.full((2, 2), step, np.float32))
            if step % 10 == 0:
                writer.flush()

    async def main(writer: Writer) -> None:
        cache = ArchiveCache(Folders([str(tmp_path)]))
        [id_] = await cache.locations()
        thread = threading.Thread(target=fill, args=(writer,))
        thread.start()

        def ask(entry: OpenArchive) -> int:
            rows = rows_of(entry)
            if not len(rows.run):
                return 0
            curve = rows.curve(0, "mean")
            np.testing.assert_array_equal(curve.values, curve.steps)
            return len(rows.run)

        found = [0]
        while thread.is_alive() or found[-1] < 300:
            found.extend(await asyncio.gather(*(cache.apply(id_, ask, fresh=True) for _ in range(4))))
            await asyncio.sleep(0.05)
            writer.flush()
        assert found == sorted(found)
        cache.close()

    with Writer(tmp_path / "live", kind="run") as writer:
        run_apart(lambda: main(writer))


# the list


def test_a_long_list_comes_in_parts_and_is_whole_in_the_end(tmp_path: Path) -> None:
    for number in range(6):
        write(tmp_path / f"run-{number}")

    async def main() -> None:
        catalog = Catalog(ArchiveCache(Folders([str(tmp_path)])), patience=0)
        first = await catalog.items()
        assert [item.name for item in first] == [f"run-{number}" for number in range(6)]
        assert not catalog.is_whole
        assert first[-1].damage == ("Not read yet.",)
        until = monotonic() + 120
        while not catalog.is_whole and monotonic() < until:
            await asyncio.sleep(0.01)
        last = await catalog.items()
        assert all(item.n_steps == 3 and item.state == "ended" and not item.damage for item in last)

    run_apart(main)


def test_what_ended_is_not_read_again_for_the_list_until_it_changes(tmp_path: Path) -> None:
    write(tmp_path / "base")

    async def main() -> None:
        cache = ArchiveCache(Folders([str(tmp_path)]))
        catalog = Catalog(cache)
        [item] = await catalog.items()
        cache._entries.clear()
        assert await catalog.items() == [item]
        assert cache.open_runs == ()
        with Writer(tmp_path / "base", kind="run", resume=True) as writer:
            schema = writer.schema([Row("a"), Row("b")], ["mean", "std"])
            writer.step(9, schema=schema, matrix=np.ones((2, 2), np.float32))
        assert [(each.n_steps, each.last_step) for each in await catalog.items()] == [(4, 9)]

    run_apart(main)
