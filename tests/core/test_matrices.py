"""Activations read the same from arrays, tensors and folders, and are never modified."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cutaway.core import matrices
from cutaway.core.errors import InputError
from cutaway.core.matrices import as_matrix
from cutaway.store.activations.activations import Activations

VALUES = np.random.default_rng(0).normal(size=(50, 7)).astype(np.float32)


def sources(path: Path) -> list[Any]:
    acts = Activations.of({"a": VALUES[:, :3], "b": VALUES[:, 3:]})
    acts.save(path / "acts")
    import cutaway

    return [VALUES, torch.from_numpy(VALUES), VALUES.tolist(), acts, cutaway.load(path / "acts")]


def test_every_source_gives_the_same_blocks_columns_and_units(tmp_path: Path) -> None:
    for source in sources(tmp_path):
        matrix = as_matrix(source)
        assert (matrix.n_rows, matrix.n_units) == (50, 7)
        blocks = list(matrix.blocks(16))
        assert [rows for rows, _ in blocks] == [slice(0, 16), slice(16, 32), slice(32, 48), slice(48, 50)]
        assert np.array_equal(np.concatenate([block for _, block in blocks]), VALUES)
        assert np.array_equal(matrix.array(), VALUES)
        assert np.array_equal(matrix.columns([5, 0]), VALUES[:, [5, 0]])
        for n_bytes in (1, 4 * 50 * 2, 10**6):
            columns = [block for _, block in matrix.column_blocks(n_bytes)]
            assert np.array_equal(np.concatenate(columns), VALUES.T)
        part = matrix.select_units(np.array([6, 2, 3]))
        assert np.array_equal(part.array(), VALUES[:, [6, 2, 3]])
        assert np.array_equal(part.columns([1]), VALUES[:, [2]])
        assert np.array_equal(part.select_units(np.array([2])).array(), VALUES[:, [3]])


def test_names_are_those_of_the_activations() -> None:
    matrix = as_matrix(Activations.of({"a": VALUES[:, :3], "b": VALUES[:, 3:]}))
    assert matrix.names is not None
    assert matrix.names[4] == "b#1"
    part = matrix.select_units(np.array([4, 0]))
    assert list(part.names or ()) == ["b#1", "a#0"]
    assert as_matrix(VALUES).names is None


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (np.float16, np.float32),
        (np.float32, np.float32),
        (np.float64, np.float64),
        (np.bool_, np.float32),
        (np.int16, np.float32),
        (np.int32, np.float64),
    ],
)
def test_numbers_are_read_without_loss(given: Any, read: Any) -> None:
    values = (VALUES * 10).astype(given)
    found = as_matrix(values).array()
    assert found.dtype == read
    assert np.array_equal(found, values)


def test_bfloat16_and_tensors_that_need_gradients_are_read() -> None:
    tensor = torch.tensor([[1.5, 2.0], [3.0, -4.0]], dtype=torch.bfloat16, requires_grad=True)
    assert as_matrix(tensor).array().tolist() == [[1.5, 2.0], [3.0, -4.0]]


def test_what_is_no_number_is_named_by_row_and_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    values = VALUES.copy()
    values[[3, 40], 2] = np.nan
    values[41, 5] = np.inf
    with pytest.raises(InputError, match=r"in rows 3, 40, 41, in units 2, 5"):
        list(as_matrix(values).blocks())
    monkeypatch.setattr(matrices, "BLOCK_BYTES", 4 * 7 * 10)
    with pytest.raises(InputError, match=r"in row 3, in unit 2 "):
        list(as_matrix(values).blocks())
    with pytest.raises(InputError, match=r"in rows 3, 40, in unit 2 "):
        as_matrix(values).columns([0, 2])
    part = as_matrix(values).select_units(np.array([4, 5]))
    with pytest.raises(InputError, match=r"in row 41, in unit 5 "):
        part.array()
    with pytest.raises(InputError, match=r"in row 41, in unit 5 "):
        list(part.column_blocks(1))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros(3), r"shape \[3\]"),
        (np.zeros((2, 3, 4)), r"make each position a row"),
        (np.array([["a", "b"]]), r"dtype <U1"),
    ],
)
def test_what_is_no_matrix_is_refused(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_matrix(given)


def test_methods_cannot_write_to_what_was_given() -> None:
    frozen = VALUES.copy()
    frozen.flags.writeable = False
    for _, block in as_matrix(frozen).blocks():
        assert not block.flags.writeable
    for _, columns in as_matrix(frozen).column_blocks():
        columns[:] = 0
    assert np.array_equal(frozen, VALUES)
