"""A taken path gets a number, of several processes that start at once each has its own, and nothing is overwritten."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from uuid import uuid4

import pytest
from tests import warm_python

import cutaway
from cutaway.core.errors import ExistsError
from cutaway.store.backends.backend import backend_for
from cutaway.store.format.manifest import Head
from cutaway.store.writing.folders import claim_free_folder, find_folder_of_job, newer_siblings, release_folder
from cutaway.store.writing.writer import Writer


def test_the_first_free_number_is_claimed(tmp_path: Path) -> None:
    base = str(tmp_path / "base")
    assert [claim_free_folder(base, "run") for _ in range(3)] == [base, f"{base}-2", f"{base}-3"]
    assert claim_free_folder(f"{base}-2", "run") == f"{base}-2-2", "a number may be part of a name"
    (tmp_path / "base-4").write_text("mine")
    (tmp_path / "base-5").mkdir()
    (tmp_path / "base-5" / "file").write_text("mine")
    assert claim_free_folder(base + "/", "run") == f"{base}-6"
    assert (tmp_path / "base-4").read_text() == (tmp_path / "base-5" / "file").read_text() == "mine"
    url = f"memory://{uuid4()}"
    assert [claim_free_folder(url, "run") for _ in range(2)] == [url, f"{url}-2"]


def test_a_relative_path_is_numbered_beside_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert claim_free_folder(".", "run") == "."
    assert claim_free_folder(".", "run") == str(tmp_path / "here-2")


def test_the_first_folder_must_be_free_or_of_this_kind(tmp_path: Path) -> None:
    Writer(tmp_path / "trace", kind="trace").close()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name, message in (("trace", "is a trace, not a run"), ("full", r"other files \(mine"), ("file", "is a file")):
        with pytest.raises(ExistsError, match=message):
            claim_free_folder(str(tmp_path / name), "run")
        assert not (tmp_path / f"{name}-2").exists()


def test_a_damaged_or_headless_run_is_taken(tmp_path: Path) -> None:
    Writer(tmp_path / "a", kind="run").close()
    (tmp_path / "a" / "cutaway.json").unlink()
    Writer(tmp_path / "b", kind="run").close()
    (tmp_path / "b" / "cutaway.json").write_bytes(b"{")
    for name in "ab":
        assert claim_free_folder(str(tmp_path / name), "run") == str(tmp_path / f"{name}-2")
    assert (tmp_path / "b" / "cutaway.json").read_bytes() == b"{"


def test_processes_that_start_at_once_claim_different_folders(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom cutaway.store.writing.folders import claim_free_folder\n"
        "sys.stdin.readline()\n"
        "for _ in range(12): print(claim_free_folder(sys.argv[1], 'run'))\n"
    )
    command = ["-c", code, str(tmp_path / "base")]
    children = [warm_python.start(command, skips_teardown=True) for _ in range(3)]
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    claimed = [line for child in children for line in child.communicate(timeout=60)[0].split()]
    expected = {str(tmp_path / "base"), *(str(tmp_path / f"base-{number}") for number in range(2, 37))}
    assert len(claimed) == 36
    assert set(claimed) == expected


def test_a_claim_is_undone_only_while_nothing_was_written(tmp_path: Path) -> None:
    base = claim_free_folder(str(tmp_path / "base"), "run")
    release_folder(base)
    assert claim_free_folder(base, "run") == base
    Writer(base, kind="run").close()
    release_folder(base)
    assert (tmp_path / "base" / "cutaway.json").exists()


def test_the_other_ranks_find_the_folder_of_their_job(tmp_path: Path) -> None:
    base = str(tmp_path / "base")
    assert find_folder_of_job(base, "job-1", 1) is None
    assert claim_free_folder(base, "run", job="job-0") == base
    assert find_folder_of_job(base, "job-1", 1) is None
    claimed = claim_free_folder(base, "run", job="job-1")
    assert find_folder_of_job(base, "job-1", 1) == claimed == f"{base}-2"
    Writer(claimed, kind="run", rank=1, world_size=2).close()
    assert find_folder_of_job(base, "job-1", 1) is None, "this rank has written there: an earlier start of the job"
    assert find_folder_of_job(base, "job-1", 2) == claimed


def test_old_readers_accept_the_new_keys_and_plain_runs_have_none(tmp_path: Path) -> None:
    base = claim_free_folder(str(tmp_path / "base"), "run")
    assert set(json.loads((tmp_path / "base" / "cutaway.json").read_text())) == {
        "format", "version", "kind", "id", "created", "checksum",
    }  # fmt: skip
    claim_free_folder(base, "run", job="j")
    head = Head.read((tmp_path / "base-2" / "cutaway.json").read_bytes())
    assert (head.asked, head.job, head.version) == ("base", "j", 1)


def test_load_names_the_newest_run_of_the_same_name_once(tmp_path: Path) -> None:
    base = str(tmp_path / "base")
    for _ in range(3):
        Writer(claim_free_folder(base, "run"), kind="run").close()
    Writer(tmp_path / "base-9", kind="run").close()  # the name is the user's own choice
    with pytest.warns(UserWarning, match=r"base is not the newest run of this name: .*base-3 was recorded later"):
        cutaway.load(base)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cutaway.load(base)
        cutaway.load(f"{base}-2")
        cutaway.load(f"{base}-9")
    head = Head.read(backend_for(base).read("cutaway.json", 0, 1 << 20))
    assert newer_siblings(base, head) == [f"{base}-2", f"{base}-3"]
