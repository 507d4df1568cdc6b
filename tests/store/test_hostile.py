"""Files that were made to do harm give Cutaway's errors: never another exception, a hang, or a large allocation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from tests import ROOT
from tests.store import attacks
from tests.store.attacks import ATTACKS
from tests.store.mutations import Files, Joker, Questions, frame, golden, placed, tampered

import cutaway
from cutaway import CutawayError, Run
from cutaway.core.errors import DamagedError, InputError
from cutaway.core.safetensors import Entry, header
from cutaway.store.reading import segment_reader

GOLDEN = golden()
MOST_CALLS = 8_000_000
"""Of functions; a thousand tensors that are asked for everything take 3 million."""
MOST_BYTES = 1 << 30
"""Read, and summed up for checksums; the largest file is a hole of 10 GiB."""
QUICK = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
LONG = settings(max_examples=3_000, deadline=None, suppress_health_check=list(HealthCheck))


def ask_everything(files: Files, *, believing: bool) -> None:
    """Open and read all, with checksums that always hold or as they are."""
    with pytest.MonkeyPatch.context() as patch:
        if believing:
            patch.setattr(segment_reader, "crc32", lambda data: Joker())
        Questions().about(placed(files))


def test_the_golden_run_answers_everything() -> None:
    """Or the tests below would ask too little."""
    questions = Questions()
    questions.about(placed(GOLDEN))
    assert questions.n_answers > 1000
    assert {type(error).__name__ for error in questions.errors} <= {
        "NotFoundError",
        "SiteError",
        "AmbiguousSiteError",
        "NotSavedError",
        "InputError",
    }


@pytest.mark.parametrize("believing", [False, True])
def test_no_change_to_the_files_gets_more_than_an_error(believing: bool) -> None:
    @given(tampered(GOLDEN))
    @QUICK
    def check(files: Files) -> None:
        ask_everything(files, believing=believing)

    check()


@pytest.mark.slow
@pytest.mark.parametrize("believing", [False, True])
def test_no_change_to_the_files_gets_more_than_an_error_at_length(believing: bool) -> None:
    @given(tampered(GOLDEN))
    @LONG
    def check(files: Files) -> None:
        ask_everything(files, believing=believing)

    check()


def test_attacks_cost_neither_memory_nor_work(tmp_path: Path) -> None:
    """In a process that may take a gibibyte of addresses, of which it has half already."""
    command = [sys.executable, "-m", "tests.store.attacks", str(tmp_path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    found = {line["attack"]: line for line in map(json.loads, done.stdout.splitlines())}
    assert list(found) == [attack.__name__ for attack in ATTACKS]
    for name, line in found.items():
        work = line["work"]
        assert work["calls"] < MOST_CALLS, (name, work)
        assert max(work["bytes_read"], work["bytes_summed"]) < MOST_BYTES, (name, work)
    assert all(line["n_answers"] > 10 for line in found.values()), "an archive that is damaged in part can be asked"


def opened(folder: Path, attack: Callable[[Path], None]) -> Run:
    attack(folder)
    run = cutaway.load(folder)
    assert isinstance(run, Run)
    return run


def test_whole_frames_behind_a_great_claim_are_found(tmp_path: Path) -> None:
    run = opened(tmp_path / "a", attacks.a_frame_of_four_gibibytes)
    assert run.steps.tolist() == [1]
    assert len(run.damage) == 1, "what claims no more than a frame can have may be unfinished"


def test_a_hole_is_not_read_to_its_end(tmp_path: Path) -> None:
    run = opened(tmp_path / "a", attacks.an_index_that_is_one_great_hole)
    assert run.steps.tolist() == [1]
    assert "too much of it is damaged" in run.damage[-1]
    assert run.refresh() is False


def test_steps_that_do_not_grow_are_left_out(tmp_path: Path) -> None:
    run = opened(tmp_path / "a", attacks.steps_out_of_order)
    assert run.steps.tolist() == [5, 7, 2**63 - 1]
    assert len(run.damage) == 4


def test_what_can_be_read_of_statistics_is_read(tmp_path: Path) -> None:
    run = opened(tmp_path / "a", attacks.statistics_that_lie_backwards)
    assert run["site.0"].steps.tolist() == [1, 2, 3, 4, 5]
    assert np.isnan(run["site.0"].stats("s0")).all()
    assert len(run.damage) == 2, "steps 4 and 5 point to what is not theirs"


def test_links_pipes_and_folders_cost_only_themselves(tmp_path: Path) -> None:
    run = opened(tmp_path / "a", attacks.links_that_lead_out)
    assert run.steps.tolist() == [1]
    assert sum("link out of the archive" in problem for problem in run.damage) >= 2
    for attack in (attacks.pipes_for_files, attacks.folders_for_files):
        run = opened(tmp_path / attack.__name__, attack)
        assert run.steps.tolist() == [1]
        assert any("cutaway.json is not a plain file" in problem for problem in run.damage)
        with pytest.raises(DamagedError, match="not a plain file"):
            _ = run.at(1).matrix


def test_odd_names_are_nothing_of_ours(tmp_path: Path) -> None:
    run = opened(tmp_path / "a", attacks.folders_with_odd_names)
    assert (run.ranks, len(run.sessions), run.damage) == ((0,), 1, ())


@pytest.mark.parametrize(("n_steps", "n_tiled"), [(3, 2), (2, 3), (0, 1), (3, 0)])
def test_a_sealed_file_whose_steps_do_not_fit_is_damage(tmp_path: Path, n_steps: int, n_tiled: int) -> None:
    steps = [attacks.step(number, matrix=[1, 0, 0]) for number in range(3)]
    attacks.index(tmp_path / "a", attacks.schema(1, 1), *steps)
    entries = [Entry("steps/1", "int64", (n_steps,), 0, 8 * n_steps)]
    stop = 8 * n_steps + 4 * n_tiled
    entries.append(Entry("statistics/1/0", "float32", (1, 1, n_tiled), 8 * n_steps, stop))
    text = header(entries)
    data = np.arange(n_steps).tobytes() + bytes(4 * n_tiled)
    sealed = tmp_path / "a" / "rank-0" / "0001-s0001.safetensors"
    sealed.write_bytes(len(text).to_bytes(8, "little") + text + data)
    run = cutaway.load(tmp_path / "a")
    assert isinstance(run, Run)
    for ask in (lambda: run["site.0"].stats("s0"), lambda: run.at(2).matrix):
        with pytest.raises(DamagedError):
            ask()


def test_values_of_another_schema_are_refused(tmp_path: Path) -> None:
    layout = {"type": "layout", "id": 1, "schema": 2, "rows": b"\5\0\0\0", "dtypes": ["float32"], "dtype_of": b"\0"}
    frames = [attacks.schema(1, 1), attacks.schema(9, 1, id_=2), frame({**layout, "shapes": [[1]]})]
    attacks.index(tmp_path / "a", *frames, attacks.step(1, block=[1, 1, 0, bytes(4)]))
    run = cutaway.load(tmp_path / "a")
    assert isinstance(run, Run)
    with pytest.raises(DamagedError, match="step 1 has schema 1, but its values have 2"):
        _ = run.at(1)["site.0"].value
    assert repr(run.at(1)) == "<Step 1: damaged>"


@pytest.mark.parametrize(
    "path", ["a\0b", "x" * 5000, "", "/dev/null", "/proc/self/mem", "nowhere/at/all", "s3://bucket/run"]
)
def test_paths_that_lead_nowhere_say_so(path: str) -> None:
    with pytest.raises(CutawayError):
        cutaway.load(path)


@pytest.mark.parametrize("path", [None, 3, b"bytes", ["a"]])
def test_what_is_no_path_says_so(path: object) -> None:
    with pytest.raises(InputError):
        cutaway.load(path)  # type: ignore[arg-type]
