"""What a page asks first is ready before it asks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.server.served import run_apart

from cutaway.server.archives.catalog import Catalog
from cutaway.server.archives.folders import Folders
from cutaway.server.archives.open_archives import ArchiveCache
from cutaway.server.prefetch import first_run, prefetch
from cutaway.views.run.run_view import other_item


def warmed(folder: Path) -> dict[str, list[str]]:
    """By the name of each open run, what of it was made ready."""
    found: dict[str, list[str]] = {}

    async def work() -> None:
        cache = ArchiveCache(Folders([str(folder)]))
        await prefetch(cache, Catalog(cache))
        for id_ in cache.open_runs:
            entry = await cache.apply(id_, lambda entry: entry)
            found[entry.location.name] = [asked.split()[0] for asked in entry.answers]
        cache.close()

    run_apart(work)
    return found


def test_the_first_run_and_its_graph_are_ready(recorded: Path) -> None:
    found = warmed(recorded)
    assert found["base"] == ["run", "graph"]
    assert not found["deep/other"], "only what the page shows first"


def test_an_empty_folder_and_a_damaged_run_are_no_trouble(tmp_path: Path, recorded_copy: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert warmed(tmp_path / "empty") == {}
    for file in recorded_copy.rglob("*.safetensors"):
        file.write_bytes(b"nothing")
    assert "base" in warmed(recorded_copy)


def test_a_run_being_written_is_shown_first() -> None:
    empty, stepped, live = (other_item(name, name) for name in ("a", "b", "c"))
    stepped, live = replace(stepped, n_steps=3), replace(live, state="live")
    assert first_run([]) is None
    assert first_run([other_item("t", "t", kind="trace")]) is None
    assert first_run([empty]) == empty
    assert first_run([empty, stepped]) == stepped
    assert first_run([empty, stepped, live]) == live
