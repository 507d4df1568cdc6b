"""Files are written atomically, special files directly, and errors name the path that was asked for."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Thread

import pytest

from cutaway.core.io import write


def test_a_file_holds_what_was_written_and_nothing_lies_beside_it(tmp_path: Path) -> None:
    for content in ("é漢\n", b"\x00\r\n", "half a pair: \ud800"):
        assert write(tmp_path / "net.svg", content) == tmp_path / "net.svg"
        expected = content if isinstance(content, bytes) else content.replace("\ud800", "?").encode()
        assert (tmp_path / "net.svg").read_bytes() == expected
    assert os.listdir(tmp_path) == ["net.svg"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.svg").write_text("before")
    (tmp_path / "link.svg").symlink_to(tmp_path / "real.svg")
    write(tmp_path / "link.svg", "after")
    assert (tmp_path / "link.svg").is_symlink()
    assert (tmp_path / "real.svg").read_text() == "after"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    read: list[str] = []
    reader = Thread(target=lambda: read.append((tmp_path / "pipe").read_text()))
    reader.start()
    write(tmp_path / "pipe", "through")
    reader.join()
    assert read == ["through"]
    assert (tmp_path / "pipe").is_fifo()


def test_errors_name_the_path_that_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "folder.svg").mkdir()
    for path, kind in ((tmp_path / "no" / "net.svg", FileNotFoundError), (tmp_path / "folder.svg", IsADirectoryError)):
        with pytest.raises(kind) as caught:
            write(path, "x")
        assert caught.value.filename == str(path)
        assert "part" not in str(caught.value)
    assert os.listdir(tmp_path) == ["folder.svg"]


def test_a_name_may_be_as_long_as_the_file_system_allows(tmp_path: Path) -> None:
    path = tmp_path / f"{'x' * 251}.svg"
    write(path, "x")
    assert path.read_text() == "x"
