"""An archive, opened for reading: what is in it, and what is the matter with it."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from cutaway.core.arrays import Raw
from cutaway.core.errors import DamagedError, NotFoundError
from cutaway.store.backends.memory import MemoryBackend
from cutaway.store.format.records import Row
from cutaway.store.reading.archive import Archive
from cutaway.store.writing.writer import Writer


@pytest.fixture(params=["local", "memory"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "archive") if request.param == "local" else f"memory://{tmp_path.name}/archive"


def test_documents_and_blocks_are_read_by_name(path: str) -> None:
    with Writer(path, kind="trace") as writer:
        writer.document("a", {"x": [1, None, b"\0"]})
        writer.document("a", "the later one counts")
        writer.document("empty", None)
        writer.block(
            "values", {"0": Raw.of(np.arange(6).reshape(2, 3)), "1": Raw("bfloat16", (1,), b"\x80\x3f")}, {"k": 1}
        )
    archive = Archive(path)
    assert (archive.kind, archive.damage, archive.is_live) == ("trace", [], False)
    assert archive.documents == {"a": "the later one counts", "empty": None}
    assert archive.document("a") == "the later one counts"
    with pytest.raises(NotFoundError, match=r"no document 'b'\. It has: 'a', 'empty'"):
        archive.document("b")
    block = archive.blocks["values"]
    assert (block.names, list(block), len(block), block.about) == (("0", "1"), ["0", "1"], 2, {"k": 1})
    assert (block.shape("0"), block.dtype("1")) == ((2, 3), "bfloat16")
    assert block["0"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (block["1"].tolist(), bytes(memoryview(block.raw("1").data))) == ([1.0], b"\x80\x3f")
    with pytest.raises(NotFoundError, match=r"block 'values' has no array '2'"):
        block["2"]
    assert ("0" in block, "2" in block, block.get("2")) == (True, False, None)
    assert len(archive.id) == 32
    assert archive.created


def test_refresh_tells_whether_there_was_anything(path: str) -> None:
    with Writer(path, kind="run") as writer:
        writer.flush()
        archive = Archive(path)
        assert archive.is_live
        archive.refresh()
        assert archive.refresh() is False
        writer.note("hello")
        writer.flush()
        assert archive.refresh() is True
        assert [note.text for note in archive.sessions()[0].notes] == ["hello"]
    assert archive.refresh() is True, "the end"
    assert archive.is_live is False
    with Writer(path, kind="run", resume=True):
        assert archive.refresh() is True, "another session"
    assert len(archive.sessions()) == 2


def test_without_its_head_a_session_says_what_it_is(path: str) -> None:
    with Writer(path, kind="trace") as writer:
        writer.document("a", 1)
        backend = writer.backend
    backend.remove("cutaway.json")
    archive = Archive(path)
    assert (archive.kind, archive.id, archive.created, archive.document("a")) == ("trace", "", "", 1)
    assert archive.damage == ["cutaway.json is missing."]
    backend.put("cutaway.json", b"{")
    assert Archive(path).kind == "trace"
    assert "not JSON" in Archive(path).damage[0]
    backend.put("rank-0/0001.index", b"")
    with pytest.raises(DamagedError, match="no session record has the kind"):
        _ = Archive(path).kind


def test_a_session_that_goes_away_stays_as_it_was_read(tmp_path: Path) -> None:
    with Writer(tmp_path / "a", kind="run") as writer:
        writer.note("hello")
        writer.flush()
        archive = Archive(tmp_path / "a")
        (tmp_path / "a" / "rank-0" / "0001.index").unlink()
        archive.refresh()
        archive.refresh()
    assert [note.text for note in archive.sessions()[0].notes] == ["hello"]
    assert archive.damage == ["rank-0/0001.index no longer exists."]
    shutil.rmtree(tmp_path / "a")
    assert archive.refresh() is False


def test_a_folder_that_is_none_says_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r": the folder is empty\."):
        Archive(tmp_path)
    with pytest.raises(NotFoundError, match=r": it does not exist\. Neither does the folder"):
        Archive(tmp_path / "missing" / "run")
    with Writer(tmp_path / "inner", kind="run"):
        pass
    with pytest.raises(NotFoundError, match=r"it is a folder of archives: 'inner'\. Name one, as in '.*/inner'"):
        Archive(tmp_path)
    with pytest.raises(NotFoundError, match=r"it does not exist\. Nearest: '.*/inner'"):
        Archive(tmp_path / "iner")
    with pytest.raises(NotFoundError, match=r"it is a part of one\. Pass '.*/inner'"):
        Archive(tmp_path / "inner" / "rank-0")
    shutil.rmtree(tmp_path / "inner")
    (tmp_path / "model.bin").touch()
    with pytest.raises(NotFoundError, match=r"the folder has .*'model.bin'.*cutaway\.record, cutaway\.collect"):
        Archive(tmp_path)


def test_ranks_stand_beside_each_other(path: str) -> None:
    for rank in (10, 2):
        with Writer(path, kind="run", rank=rank, world_size=11, resume=True) as writer:
            writer.step(rank, schema=writer.schema([Row("x")]))
    archive = Archive(path)
    assert list(archive.ranks) == [2, 10]
    assert [index.session.rank for index in archive.sessions() if index.session] == [2]
    assert [step.step for index in archive.sessions(10) for step in index.steps] == [10]
    assert archive.sessions(3) == []


def test_it_reads_from_any_backend() -> None:
    with Writer("memory://any/backend", kind="run") as writer:
        writer.document("a", 1)
    archive = Archive(MemoryBackend("any/backend"))
    assert (archive.path, archive.document("a")) == ("memory://any/backend", 1)
