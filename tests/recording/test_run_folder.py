"""`resume=`: a taken path gets a number, is continued or is an error, and ranks of one job agree on the folder."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import distributed, nn

import cutaway
from cutaway.core.errors import ExistsError, InputError
from cutaway.recording import run_folder
from cutaway.recording.run_folder import claim_run_folder
from cutaway.store.writing.writer import Writer

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    run_folder._n_claims.clear()
    for name in ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "CUTAWAY_RUN_ID"):
        monkeypatch.delenv(name, raising=False)


def train(path: Path, n_steps: int = 2, **options: object) -> str:
    model = nn.Linear(2, 2)
    with cutaway.record(path, model, every=1, **options) as run:  # type: ignore[arg-type]
        for _ in range(n_steps):
            with run.step():
                model(torch.ones(1, 2))
    return run.path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_taken_path_gets_a_number_which_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = tmp_path / "base"
    assert train(base) == str(base)
    assert capsys.readouterr().out == ""
    before = contents(base)
    assert train(base, 3) == f"{base}-2"
    assert capsys.readouterr().out == f"cutaway: {base} is taken, recording to {base}-2\n"
    assert train(base, 4) == f"{base}-3"
    assert contents(base) == before
    assert [len(cutaway.load(f"{base}{end}")) for end in ("-2", "-3")] == [3, 4]


def test_true_continues_exactly_this_path_and_never_raises_an_error(tmp_path: Path) -> None:
    base = tmp_path / "base"
    train(base)
    train(base)
    assert train(base, resume=True) == str(base)
    with pytest.warns(UserWarning, match="base-2 was recorded later"):
        assert len(cutaway.load(base)) == 4
    with pytest.raises(ExistsError, match="already has a run and is not overwritten"):
        train(base, resume="never")
    assert train(tmp_path / "new", resume="never") == str(tmp_path / "new")
    assert not (tmp_path / "base-3").exists()


def test_a_run_that_cannot_begin_leaves_its_name_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("cutaway.store.writing.lease.Lease.take", full)
        with pytest.raises(OSError, match="No space"):
            train(tmp_path / "base")
    assert train(tmp_path / "base") == str(tmp_path / "base")


def test_a_recorder_that_is_off_claims_nothing(tmp_path: Path) -> None:
    assert train(tmp_path / "base", enabled=False) == str(tmp_path / "base")
    assert not (tmp_path / "base").exists()


def claim(path: Path, rank: int) -> str:
    """The claim of a rank with a process of its own."""
    run_folder._n_claims.clear()
    return claim_run_folder(str(path), rank, 2)


def test_ranks_learn_the_name_from_the_store_of_the_process_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Writer(tmp_path / "base", kind="run").close()
    store = distributed.HashStore()
    monkeypatch.setattr(run_folder, "_process_group_store", lambda: store)
    assert claim(tmp_path / "base", 0) == claim(tmp_path / "base", 1) == str(tmp_path / "base-2")
    run_folder._n_claims[str(tmp_path / "base")] = 1  # the second run of the same name in this job
    assert claim_run_folder(str(tmp_path / "base"), 0, 2) == str(tmp_path / "base-3")
    (tmp_path / "other").write_text("mine")
    for rank, message in ((0, "is a file"), (1, "rank 0 could not begin the run: .*is a file")):
        with pytest.raises(ExistsError, match=message):
            claim(tmp_path / "other", rank)


def test_a_rank_whose_rank_0_does_not_record_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = distributed.HashStore()
    monkeypatch.setattr(run_folder, "_process_group_store", lambda: store)
    monkeypatch.setattr(run_folder, "_PATIENCE", 0.1)
    monkeypatch.setattr(run_folder, "_QUIET", 0.0)
    with pytest.raises(InputError, match=r"rank 1 waited .* for rank 0 .* pass resume='never'"):
        claim(tmp_path / "base", 1)
    assert capsys.readouterr().err == f"cutaway: rank 1 waits for rank 0 to record to {tmp_path / 'base'}\n"


@pytest.mark.parametrize("variable", ["TORCHELASTIC_RUN_ID", "CUTAWAY_RUN_ID"])
def test_ranks_learn_the_name_from_the_id_of_their_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    base = tmp_path / "base"
    for number, end in enumerate(("", "-2")):
        monkeypatch.setenv(variable, f"job {number}")
        assert claim(base, 0) == claim(base, 1) == f"{base}{end}"
    if variable == "TORCHELASTIC_RUN_ID":  # all ranks start again after one has failed
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
        assert claim(base, 0) == claim(base, 1) == f"{base}-3"


@pytest.mark.parametrize("id_", [None, "none"])
def test_without_either_the_other_ranks_say_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, id_: str | None
) -> None:
    if id_ is not None:
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", id_)  # what torchrun calls every job without --rdzv-id
    assert claim(tmp_path / "base", 0) == str(tmp_path / "base"), "rank 0 may be the only one that records"
    with pytest.raises(InputError, match=r"rank 1 of 2 cannot know.*init_process_group\(\).*CUTAWAY_RUN_ID"):
        claim(tmp_path / "base", 1)
