"""`cutaway export`: the options reach `store.exporting`, whose own tests look at the files."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas
import pytest
from tests.cli.conftest import Ask
from tests.store.recorded import matrix_of, values_of


def test_values_are_exported_as_asked(ask: Ask, base: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    answer = ask("export", base, out, "--format", "npy", "--at", "encoder.*", "--steps", "10:20", "--of", "grad")
    assert answer.code == 0
    assert answer.lines[0].startswith(f"{out}: 2 tensors in 3 files")
    np.testing.assert_array_equal(np.load(out / "15" / "grad" / "encoder.0.npy"), values_of(15)[2].array())


def test_the_result_is_printed_as_json(ask: Ask, base: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = ask("export", base, out, "--format", "csv", "--what", "statistics", "--at", "half", "--json").document
    assert found["files"] == ["statistics.csv"]
    assert found["n_items"] == 20
    table = pandas.read_csv(out / "statistics.csv")
    assert table["max"].astype(np.float32).tolist() == [float(matrix_of(step)[4, 2]) for step in table.step]


def test_an_existing_folder_is_left_alone(ask: Ask, base: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    answer = ask("export", base, tmp_path, "--format", "csv", "--what", "notes")
    assert answer.code == 2
    assert "is not overwritten" in answer.err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_parquet_without_pyarrow_is_one_sentence(
    ask: Ask, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    answer = ask("export", base, tmp_path / "out", "--format", "parquet")
    assert answer.code == 2
    assert answer.err == "cutaway: Parquet export needs pyarrow: pip install pyarrow\n"
