"""Writes tables as CSV, or Parquet if pyarrow is installed, in batches of rows."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from types import TracebackType
from typing import Any

import numpy as np

from cutaway.core.arrays import Raw
from cutaway.core.errors import DamagedError, InputError
from cutaway.core.progress import progress
from cutaway.store.exports.selection import Selection, Tensor

_BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class Constant:
    """A column with the same value in every row."""

    value: Any
    n: int

    def __len__(self) -> int:
        return self.n


Column = Sequence[Any] | np.ndarray[Any, Any] | Constant
Columns = Mapping[str, Column]


class TableFile:
    """A table written in batches of rows; a context manager.

    Args:
        types: column → name of its pyarrow type: "int64", "string", "float32"…
    """

    def __init__(self, folder: str, name: str, types: Mapping[str, str], *, is_csv: bool) -> None:
        self.n_rows = 0
        self._types = dict(types)
        path = os.path.join(folder, f"{name}.{'csv' if is_csv else 'parquet'}")
        self._waiting: list[Any] = []
        self._n_waiting = 0
        self._text: Any = None
        self._parquet: Any = None
        if is_csv:
            self._text = open(path, "x", newline="", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
            self._rows = csv.writer(self._text)
            self._rows.writerow(self._types)
        else:
            import pyarrow
            import pyarrow.parquet

            fields = [(column, getattr(pyarrow, kind)()) for column, kind in self._types.items()]
            self._schema = pyarrow.schema(fields)
            self._parquet = pyarrow.parquet.ParquetWriter(path, self._schema)

    def add(self, columns: Columns) -> None:
        """Append rows, column by column."""
        lists = [columns[name] for name in self._types]
        n_rows = len(lists[0])
        self.n_rows += n_rows
        if self._text is not None:
            self._rows.writerows(zip(*map(_texts, lists), strict=True))
            return
        import pyarrow

        arrays = [_arrow(column, field.type) for column, field in zip(lists, self._schema, strict=True)]
        self._waiting.append(pyarrow.table(arrays, schema=self._schema))
        self._n_waiting += n_rows
        # Each write_table makes a row group; many small ones make a Parquet file large and slow to read.
        if self._n_waiting >= _BATCH_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            import pyarrow

            self._parquet.write_table(pyarrow.concat_tables(self._waiting))
            self._waiting, self._n_waiting = [], 0

    def __enter__(self) -> TableFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._text is not None:
            self._text.close()
        else:
            if kind is None:
                self._flush()
            self._parquet.close()


def _texts(column: Column) -> Iterable[Any]:
    """Format floats as the shortest text that round-trips in their own dtype."""
    if isinstance(column, Constant):
        return repeat(column.value, column.n)
    if isinstance(column, np.ndarray):
        # tolist() would turn float32 into float64 and print 0.1 as 0.10000000149011612.
        return list((column.astype(str) if column.dtype.kind == "f" else column).tolist())
    return column


def _arrow(column: Column, kind: Any) -> Any:
    import pyarrow

    if isinstance(column, Constant):
        return pyarrow.repeat(pyarrow.scalar(_clean(column.value), kind), column.n)
    if isinstance(column, np.ndarray):
        return pyarrow.array(column, kind)
    return pyarrow.array([_clean(value) for value in column], kind)


def _clean(value: Any) -> Any:
    """Escape lone surrogates, which pyarrow rejects."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


# Values

_TEXTS = ("kind", "site", "of")
_TENSOR_COLUMNS = {
    name: "string" if name in _TEXTS else "int64" for name in ("step", "kind", "site", "of", "iteration", "pass")
}


def export_value_table(selection: Selection, folder: str, *, is_csv: bool) -> int:
    """One row per number: its index in the flattened tensor, and its value.

    Parquet gets one file per dtype, so that no number is converted.
    """
    tensors = list(selection.tensors())
    kinds = {tensor.dtype: _numpy_of(tensor) for tensor in tensors}
    types = sorted({kind.name for kind in kinds.values()})
    files: dict[str, TableFile] = {}
    n_rows = 0
    try:
        for tensor in progress(tensors, len(tensors), "tensors exported"):
            try:
                array = tensor.read().array().reshape(-1)
            except DamagedError as error:
                selection.add_damage(f"{tensor.name}: {error}")
                continue
            kind = "" if is_csv else array.dtype.name
            if kind not in files:
                name = "values" if is_csv or len(types) == 1 else f"values-{kind}"
                files[kind] = TableFile(folder, name, _value_types(array, is_csv=is_csv), is_csv=is_csv)
            for first in range(0, len(array), _BATCH_ROWS):
                files[kind].add(_value_rows(tensor, array[first : first + _BATCH_ROWS], first))
            n_rows += len(array)
    finally:
        for file in files.values():
            file.__exit__(None, None, None)
    return n_rows


def _numpy_of(tensor: Tensor) -> np.dtype[Any]:
    if "complex" in tensor.dtype:
        raise InputError(
            f"{tensor.name} has complex numbers, which tables cannot hold. Use format='npy' or 'safetensors'."
        )
    return Raw(tensor.dtype, (0,), b"").array().dtype


def _value_types(array: np.ndarray[Any, Any], *, is_csv: bool) -> dict[str, str]:
    name = "bool_" if array.dtype.kind == "b" else array.dtype.name
    return {**_TENSOR_COLUMNS, "index": "int64", "value": "string" if is_csv else name}


def _value_rows(tensor: Tensor, values: np.ndarray[Any, Any], first: int) -> Columns:
    n, row = len(values), tensor.row
    return {
        "step": Constant(tensor.step, n),
        "kind": Constant(tensor.kind, n),
        "site": Constant(row.base, n),
        "of": Constant(row.of, n),
        "iteration": Constant(row.iteration, n),
        "pass": Constant(row.pass_, n),
        "index": np.arange(first, first + n),
        "value": values,
    }


# Statistics, scalars, notes, samples


def export_statistic_table(selection: Selection, folder: str, *, is_csv: bool) -> int:
    """One row per tensor, pass and step, with a column per statistic."""
    run = selection.run
    series = selection.series()
    dtype = "float64" if any(schema.dtype == "float64" for s in run.sessions for schema in s.schemas.values()) else ""
    types = {**_TENSOR_COLUMNS, **dict.fromkeys(run.statistics, dtype or "float32")}
    with TableFile(folder, "statistics", types, is_csv=is_csv) as file:
        for each in progress(series, len(series), "tensors exported"):
            is_selected = np.array([selection.has_step(step) for step in each.steps.tolist()], bool)
            n = int(is_selected.sum())
            kinds = [kind for kind, is_in in zip(each.kinds, is_selected, strict=True) if is_in]
            columns: dict[str, Any] = {"step": each.steps[is_selected], "kind": kinds}
            columns |= {"site": Constant(each.site, n), "of": Constant(each.of, n)}
            columns |= {"iteration": Constant(each.iteration, n), "pass": Constant(each.pass_, n)}
            for name in run.statistics:
                try:
                    columns[name] = each.stats(name)[is_selected]
                except DamagedError as error:
                    selection.add_damage(f"{name} of {each.site}: {error}")
                    columns[name] = np.full(n, np.nan, dtype or "float32")
            file.add(columns)
        return file.n_rows


def export_scalar_table(selection: Selection, folder: str, *, is_csv: bool) -> int:
    """One row per scalar and step."""
    types = {"step": "int64", "name": "string", "value": "float64", "elapsed": "float64"}
    with TableFile(folder, "scalars", types, is_csv=is_csv) as file:
        for name, curve in selection.run.scalars.items():
            if selection.has_name(name):
                is_in = np.array([selection.has_step(step) for step in curve.steps.tolist()], bool)
                columns = {"step": curve.steps[is_in], "value": curve.values[is_in], "elapsed": curve.elapsed[is_in]}
                file.add({**columns, "name": Constant(name, int(is_in.sum()))})
        return file.n_rows


def export_note_table(selection: Selection, folder: str, *, is_csv: bool) -> int:
    """One row per note."""
    types = {"step": "int64", "time": "float64", "level": "string", "text": "string", "about": "string"}
    notes = [note for note in selection.run.notes if selection.has_step(note.step)]
    with TableFile(folder, "notes", types, is_csv=is_csv) as file:
        if notes:
            columns = {name: [getattr(note, name) for note in notes] for name in ("step", "time", "level", "text")}
            file.add({**columns, "about": [json.dumps(dict(note.about), default=repr) for note in notes]})
        return file.n_rows


def export_sample_table(selection: Selection, folder: str, *, is_csv: bool) -> int:
    """One row per sample, with a column per field; arrays (images) are left out, lists become JSON."""
    rows = list(_samples(selection))
    fields = list(dict.fromkeys(name for _, _, _, sample in rows for name in sample))
    types = {"step": "int64", "kind": "string", "number": "int64", **dict.fromkeys(fields, "string")}
    with TableFile(folder, "samples", types, is_csv=is_csv) as file:
        if rows:
            columns: dict[str, list[Any]] = {name: [sample.get(name) for *_, sample in rows] for name in fields}
            keys = {name: [row[column] for row in rows] for column, name in enumerate(("step", "kind", "number"))}
            file.add({**columns, **keys})
        return file.n_rows


def _samples(selection: Selection) -> Iterator[tuple[int, str, int, dict[str, str]]]:
    for step in selection.selected_steps():
        try:
            if not step.has_samples:
                continue
            samples = step.samples
        except DamagedError as error:
            selection.add_damage(f"samples of step {step.step}: {error}")
            continue
        for number in range(len(samples)):
            fields = {
                name: value if isinstance(value, str) else json.dumps(value)
                for name, value in samples[number].items()
                if not isinstance(value, np.ndarray)
            }
            yield step.step, step.kind, number, fields
