"""Verification: every byte is looked at, and what is said about the cost is true."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.store.recorded import OPTIONS, STEPS, fill, matrix_of, record, record_and_be_killed, values_of

import cutaway
from cutaway.core.errors import DamagedError, NotFoundError
from cutaway.store.backends.local import LocalBackend
from cutaway.store.format.frames import encode
from cutaway.store.runs.run import Run
from cutaway.store.verification.verify import verify
from cutaway.store.writing.writer import Writer


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("verified") / "base"
    record(path)
    return path


@pytest.fixture
def base(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "base"))


def flip(file: Path, place: int, bits: int = 1) -> None:
    data = bytearray(file.read_bytes())
    data[place] ^= bits
    file.write_bytes(bytes(data))


def files(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file())


def test_a_whole_run_is_true_and_every_byte_and_tensor_was_counted(whole: Path) -> None:
    found = verify(whole)
    assert found, str(found)
    assert found.damage == ()
    assert found.n_files == len(files(whole))
    assert found.n_bytes == sum(file.stat().st_size for file in files(whole))
    assert found.n_tensors == sum(len(values_of(step)) for step in STEPS)
    assert found.n_matrices == len(STEPS)
    assert found.remarks == ()
    assert found.cost == "Everything is intact."


def test_any_flipped_bit_in_any_file_is_found(whole: Path, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    copy = tmp_path / "copy"
    shutil.copytree(whole, copy)
    unnoticed = []
    for file in files(copy):
        if file.suffix == ".lease":
            continue  # it beats: there is no checksum in it
        data = file.read_bytes()
        for place in {0, len(data) - 1, *generator.integers(0, len(data), 6).tolist()}:
            flip(file, place, 1 << int(generator.integers(8)))
            if verify(copy):
                unnoticed.append((file.name, place))
            file.write_bytes(data)
    assert not unnoticed
    assert verify(copy)


def test_any_file_cut_short_is_found(base: Path) -> None:
    for file in files(base):
        data = file.read_bytes()
        for size in (0, len(data) // 2, len(data) - 2):
            file.write_bytes(data[:size])
            assert not verify(base), (file.name, size)
        file.write_bytes(data)
    assert verify(base)


def test_any_missing_file_is_found(base: Path) -> None:
    for file in files(base):
        data = file.read_bytes()
        file.unlink()
        assert not verify(base), file.name
        file.write_bytes(data)
    assert verify(base)


def test_one_damaged_tensor_is_named_and_nothing_else_is_lost(base: Path) -> None:
    wanted = bytes(memoryview(values_of(40)[0].data))
    hits = [(file, file.read_bytes().find(wanted)) for file in files(base) if wanted in file.read_bytes()]
    ((file, place),) = hits
    flip(file, place + 5)
    found = verify(base)
    (entry,) = found.damage
    assert entry.where == f"rank-0/{file.name}"
    assert entry.cost == "values of 1 tensor (encoder.0) at step 40 cannot be read"
    assert found.cost == "Values of 1 tensor (encoder.0) at step 40 cannot be read; everything else is intact."
    run = cutaway.load(base)
    assert isinstance(run, Run)
    with pytest.raises(DamagedError):
        _ = run.at(40)["encoder.0"].value
    for step in STEPS:
        for row, raw in values_of(step).items():
            kept = run.at(step).rows[row]
            if (step, row) != (40, 0):
                again = run.at(step).raw(kept)
                assert again is not None
                assert bytes(memoryview(again.data)) == bytes(memoryview(raw.data))


def test_a_damaged_row_of_statistics_is_named_with_its_steps(base: Path) -> None:
    file = base / "rank-0" / "0001-s0001.safetensors"
    row = np.stack([matrix_of(step) for step in STEPS[:8]], axis=-1)[1]  # [statistic, step]
    place = file.read_bytes().find(row.tobytes())
    assert place > 0
    flip(file, place + 4 * 3)
    found = verify(base)
    assert [entry.cost for entry in found.damage] == [
        "the curves of encoder.1 at steps 0–35 (8 of them) and all statistics of step 15 cannot be read"
    ]
    run = cutaway.load(base)
    assert isinstance(run, Run)
    np.testing.assert_array_equal(run["encoder.0"].stats("std"), [matrix_of(step)[0, 1] for step in STEPS])
    is_lost = np.isnan(run["encoder.1"].stats("std"))
    assert run.steps[is_lost].tolist() == list(STEPS[:8])
    for step in STEPS:
        if step == 15:
            with pytest.raises(DamagedError):
                _ = run.at(step).matrix
        else:
            np.testing.assert_array_equal(run.at(step).matrix, matrix_of(step))


def test_a_damaged_record_of_a_step_is_named(base: Path) -> None:
    index = base / "rank-0" / "0001.index"
    data = index.read_bytes()
    place = data.find(b"\xa4type\xa4step\xa4step" + bytes([45]))
    assert place > 0
    flip(index, place + 40)
    found = verify(base)
    assert any("step 45 cannot be read" in entry.cost for entry in found.damage), str(found)
    assert len(found.damage) == 1
    run = cutaway.load(base)
    assert isinstance(run, Run)
    assert 45 not in run.steps.tolist()
    assert len(run) == len(STEPS) - 1


def test_a_missing_segment_says_which_steps_it_costs(base: Path) -> None:
    (base / "rank-0" / "0001-v0002.safetensors").unlink()
    (base / "rank-0" / "0001-s0003.safetensors").unlink()
    found = verify(base)
    assert [entry.what for entry in found.damage] == ["the file is missing"] * 2
    run = cutaway.load(base)
    assert isinstance(run, Run)
    lost = []
    for step in STEPS:
        try:
            _ = run.at(step)["encoder.0"].value
        except DamagedError:
            lost.append(step)
    assert lost
    assert f"steps {lost[0]}–{lost[-1]} ({len(lost)} of them)" in found.damage[0].cost
    assert found.damage[1].cost == "statistics of steps 80–95 (4 of them) cannot be read"


def test_what_a_kill_leaves_is_no_damage_and_said(tmp_path: Path) -> None:
    record_and_be_killed(tmp_path / "base")
    found = verify(tmp_path / "base")
    assert found, str(found)
    assert any("was not closed" in remark for remark in found.remarks)
    assert found.n_matrices == len(STEPS)
    index = tmp_path / "base" / "rank-0" / "0001.index"
    with index.open("ab") as file:
        file.write(encode({"type": "note", "text": "unfinished"})[:-9])
    growing = next((tmp_path / "base" / "rank-0").glob("0001-v*.part"))
    with growing.open("ab") as file:
        file.write(b"half a tensor")
    found = verify(tmp_path / "base")
    assert found, str(found)
    assert sum("normal after a kill" in remark for remark in found.remarks) == 2
    data = growing.read_bytes()
    place = data.find(bytes(memoryview(values_of(STEPS[-1])[0].data)))
    flip(growing, place)
    assert "at step 95 cannot be read" in verify(tmp_path / "base").cost


def test_a_run_that_is_being_written_is_checked_as_far_as_it_is(tmp_path: Path) -> None:
    with Writer(tmp_path / "base", kind="run", options=OPTIONS) as writer:
        fill(writer, STEPS)
        found = verify(tmp_path / "base")
        assert found, str(found)
        assert found.is_live
        assert "being written" in found.remarks[-1]
    assert verify(tmp_path / "base").is_live is False


def test_a_resumed_run_is_checked_session_by_session(base: Path) -> None:
    record(base, (60, 65, 70), resume=True)
    found = verify(base)
    assert found, str(found)
    assert found.n_matrices == len(STEPS) + 3
    (base / "rank-0" / "0001.index").unlink()
    assert "nothing of session 1 can be read" in " ".join(entry.cost for entry in verify(base).damage)


def test_files_of_others_are_said_but_are_no_damage(base: Path) -> None:
    (base / "README.txt").write_text("mine")
    (base / "pictures").mkdir()
    (base / "pictures" / "a.png").write_bytes(b"12345")
    found = verify(base)
    assert found
    assert sum("not a Cutaway file" in remark for remark in found.remarks) == 2
    assert found.n_bytes == sum(file.stat().st_size for file in files(base))


def test_a_lease_that_cannot_be_read_costs_nothing_but_is_said(base: Path) -> None:
    (base / "rank-0" / "0001.lease").write_bytes(b"\0" * 10)
    found = verify(base)
    assert [entry.where for entry in found.damage] == ["rank-0/0001.lease"]
    assert found.cost == "All recorded data is intact."


def test_a_trace_is_checked_too(tmp_path: Path) -> None:
    import torch

    cutaway.trace(torch.nn.Linear(3, 2), torch.ones(1, 3)).save(tmp_path / "net")
    found = verify(tmp_path / "net")
    assert found, str(found)
    assert found.n_tensors > 3
    segment = next((tmp_path / "net" / "rank-0").glob("*.safetensors"))
    flip(segment, segment.stat().st_size - 1)
    assert "array" in verify(tmp_path / "net").cost


def test_a_run_in_memory_is_checked_too() -> None:
    record("memory://verified")  # type: ignore[arg-type]
    assert verify("memory://verified").n_matrices == len(STEPS)


def test_nothing_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no Cutaway archive at"):
        verify(tmp_path / "nothing")


def test_a_disk_that_gives_no_bytes_costs_only_what_lies_there(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = next(file for file in files(base) if file.name.startswith("0001-v0001"))
    place = segment.read_bytes().find(bytes(memoryview(values_of(10)[2].data)))
    real = LocalBackend.read

    def read(self: LocalBackend, name: str, start: int, n: int) -> bytes:
        if name.endswith(segment.name) and start <= place < start + n:
            raise OSError(errno.EIO, "Input/output error")
        return real(self, name, start, n)

    monkeypatch.setattr(LocalBackend, "read", read)
    found = verify(base)
    assert found.cost == "Values of 1 tensor (grad of encoder.0) at step 10 cannot be read; everything else is intact."


def test_a_file_that_leads_out_of_the_archive_is_damage_and_not_followed(base: Path, tmp_path: Path) -> None:
    segment = next(file for file in files(base) if file.name.startswith("0001-v0001"))
    elsewhere = tmp_path / "elsewhere"
    segment.rename(elsewhere)
    segment.symlink_to(elsewhere)
    found = verify(base)
    assert "link out of the archive" in str(found)
    assert not found
