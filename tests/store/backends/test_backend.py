"""A path means a place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cutaway.core.errors import InputError
from cutaway.store.backends.backend import backend_for


def test_a_plain_path_a_path_object_and_a_file_url_mean_one_place(tmp_path: Path) -> None:
    folder = tmp_path / "runs é %41"
    backend_for(folder).put("x", b"1")
    for way in (str(folder), str(folder) + "/", folder.as_uri(), "file://localhost" + folder.as_uri()[7:]):
        assert backend_for(way).read("x", 0, 1) == b"1"
        assert backend_for(way).url == str(folder)


def test_a_relative_path_stays_where_it_was_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    backend = backend_for("runs/base")
    os.chdir("/")
    backend.put("x", b"1")
    assert (tmp_path / "runs/base/x").read_bytes() == b"1"


def test_names_of_memory_are_tidied() -> None:
    assert backend_for("memory://a//b/").url == backend_for("MEMORY://a/b").url == "memory://a/b"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("s3://bucket/run", r"unsupported scheme s3://.*'runs/base'.*'memory://"),
        ("https://x.org/run", "unsupported scheme https://"),
        ("file://host/run", "file:///absolute/path"),
        ("file://runs", "file:///absolute/path"),
        ("file:///a%00b", "file:///absolute/path"),
        ("memory://", "needs a name"),
        ("memory://a/../b", "a part between slashes"),
        (Path("memory://x"), "pass the text 'memory://x'"),
        ("", "not a path"),
        ("a\0b", "not a path"),
    ],
)
def test_what_cannot_be_opened_says_what_works(path: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        backend_for(path)


def test_what_is_no_path_at_all_is_refused() -> None:
    for wrong in (None, 7):
        with pytest.raises(TypeError):
            backend_for(wrong)


def test_a_folder_may_have_a_colon_in_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    backend_for("a:b/c").put("x", b"1")
    assert (tmp_path / "a:b/c/x").exists()
