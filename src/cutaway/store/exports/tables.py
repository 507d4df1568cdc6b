"""Tables out of an archive: CSV, and Parquet where pyarrow is installed; some rows at a time."""

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
from cutaway.store.exports.selection import Chosen, Tensor

_AT_ONCE = 65_536


@dataclass(frozen=True, slots=True)
class Same:
    """A column in which all rows hold the same."""

    value: Any
    n: int

    def __len__(self) -> int:
        return self.n


Column = Sequence[Any] | np.ndarray[Any, Any] | Same
Columns = Mapping[str, Column]


class TableFile:
    """A table that grows by some rows at a time; a `with`.

    Args:
        types: column → the pyarrow type it has, by name: "int64", "string", "float32"…
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
        if self._n_waiting >= _AT_ONCE:
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
    """Numbers as the shortest text that gives them back in their own dtype."""
    if isinstance(column, Same):
        return repeat(column.value, column.n)
    if isinstance(column, np.ndarray):
        return list((column.astype(str) if column.dtype.kind == "f" else column).tolist())
    return column


def _arrow(column: Column, kind: Any) -> Any:
    import pyarrow

    if isinstance(column, Same):
        return pyarrow.repeat(pyarrow.scalar(_clean(column.value), kind), column.n)
    if isinstance(column, np.ndarray):
        return pyarrow.array(column, kind)
    return pyarrow.array([_clean(value) for value in column], kind)


def _clean(value: Any) -> Any:
    """Half a surrogate pair is no text to pyarrow."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


# values

_TEXTS = ("kind", "site", "of")
_OF_TENSOR = {
    name: "string" if name in _TEXTS else "int64" for name in ("step", "kind", "site", "of", "iteration", "pass")
}


def export_value_table(chosen: Chosen, folder: str, *, is_csv: bool) -> int:
    """One row for each number: where it stands in the flattened tensor, and what it is.

    Parquet has one file for each dtype, so that no number is converted.
    """
    tensors = list(chosen.tensors())
    kinds = {tensor.dtype: _numpy_of(tensor) for tensor in tensors}
    types = sorted({kind.name for kind in kinds.values()})
    files: dict[str, TableFile] = {}
    n_rows = 0
    try:
        for tensor in progress(tensors, len(tensors), "tensors exported"):
            try:
                array = tensor.read().array().reshape(-1)
            except DamagedError as error:
                chosen.problem(f"{tensor.name}: {error}")
                continue
            kind = "" if is_csv else array.dtype.name
            if kind not in files:
                name = "values" if is_csv or len(types) == 1 else f"values-{kind}"
                files[kind] = TableFile(folder, name, _value_types(array, is_csv=is_csv), is_csv=is_csv)
            for first in range(0, len(array), _AT_ONCE):
                files[kind].add(_value_rows(tensor, array[first : first + _AT_ONCE], first))
            n_rows += len(array)
    finally:
        for file in files.values():
            file.__exit__(None, None, None)
    return n_rows


def _numpy_of(tensor: Tensor) -> np.dtype[Any]:
    if "complex" in tensor.dtype:
        raise InputError(
            f"{tensor.name} holds complex numbers, for which tables have no column: format='npy' or 'safetensors'."
        )
    return Raw(tensor.dtype, (0,), b"").array().dtype


def _value_types(array: np.ndarray[Any, Any], *, is_csv: bool) -> dict[str, str]:
    name = "bool_" if array.dtype.kind == "b" else array.dtype.name
    return {**_OF_TENSOR, "index": "int64", "value": "string" if is_csv else name}


def _value_rows(tensor: Tensor, values: np.ndarray[Any, Any], first: int) -> Columns:
    n, row = len(values), tensor.row
    return {
        "step": Same(tensor.step, n),
        "kind": Same(tensor.kind, n),
        "site": Same(row.base, n),
        "of": Same(row.of, n),
        "iteration": Same(row.iteration, n),
        "pass": Same(row.pass_, n),
        "index": np.arange(first, first + n),
        "value": values,
    }


# statistics, scalars, notes, samples


def export_statistic_table(chosen: Chosen, folder: str, *, is_csv: bool) -> int:
    """One row for each tensor, pass and step, with a column for each statistic."""
    run = chosen.run
    series = chosen.series()
    dtype = "float64" if any(schema.dtype == "float64" for s in run.sessions for schema in s.schemas.values()) else ""
    types = {**_OF_TENSOR, **dict.fromkeys(run.statistics, dtype or "float32")}
    with TableFile(folder, "statistics", types, is_csv=is_csv) as file:
        for one in progress(series, len(series), "tensors exported"):
            is_chosen = np.array([chosen.has_step(step) for step in one.steps.tolist()], bool)
            n = int(is_chosen.sum())
            kinds = [kind for kind, is_in in zip(one.kinds, is_chosen, strict=True) if is_in]
            columns: dict[str, Any] = {"step": one.steps[is_chosen], "kind": kinds}
            columns |= {"site": Same(one.site, n), "of": Same(one.of, n)}
            columns |= {"iteration": Same(one.iteration, n), "pass": Same(one.pass_, n)}
            for name in run.statistics:
                try:
                    columns[name] = one.stats(name)[is_chosen]
                except DamagedError as error:
                    chosen.problem(f"{name} of {one.site}: {error}")
                    columns[name] = np.full(n, np.nan, dtype or "float32")
            file.add(columns)
        return file.n_rows


def export_scalar_table(chosen: Chosen, folder: str, *, is_csv: bool) -> int:
    """One row for each scalar and step."""
    types = {"step": "int64", "name": "string", "value": "float64", "elapsed": "float64"}
    with TableFile(folder, "scalars", types, is_csv=is_csv) as file:
        for name, curve in chosen.run.scalars.items():
            if chosen.has_name(name):
                is_in = np.array([chosen.has_step(step) for step in curve.steps.tolist()], bool)
                columns = {"step": curve.steps[is_in], "value": curve.values[is_in], "elapsed": curve.elapsed[is_in]}
                file.add({**columns, "name": Same(name, int(is_in.sum()))})
        return file.n_rows


def export_note_table(chosen: Chosen, folder: str, *, is_csv: bool) -> int:
    """One row a note."""
    types = {"step": "int64", "time": "float64", "level": "string", "text": "string", "about": "string"}
    notes = [note for note in chosen.run.notes if chosen.has_step(note.step)]
    with TableFile(folder, "notes", types, is_csv=is_csv) as file:
        if notes:
            columns = {name: [getattr(note, name) for note in notes] for name in ("step", "time", "level", "text")}
            file.add({**columns, "about": [json.dumps(dict(note.about), default=repr) for note in notes]})
        return file.n_rows


def export_sample_table(chosen: Chosen, folder: str, *, is_csv: bool) -> int:
    """One row a sample, with a column for each field; arrays (images) are left out, lists are JSON."""
    rows = list(_samples(chosen))
    fields = list(dict.fromkeys(name for _, _, _, sample in rows for name in sample))
    types = {"step": "int64", "kind": "string", "number": "int64", **dict.fromkeys(fields, "string")}
    with TableFile(folder, "samples", types, is_csv=is_csv) as file:
        if rows:
            columns: dict[str, list[Any]] = {name: [sample.get(name) for *_, sample in rows] for name in fields}
            heads = {name: [row[place] for row in rows] for place, name in enumerate(("step", "kind", "number"))}
            file.add({**columns, **heads})
        return file.n_rows


def _samples(chosen: Chosen) -> Iterator[tuple[int, str, int, dict[str, str]]]:
    for step in chosen.moments():
        try:
            if not step.has_samples:
                continue
            samples = step.samples
        except DamagedError as error:
            chosen.problem(f"samples of step {step.step}: {error}")
            continue
        for number in range(len(samples)):
            fields = {
                name: value if isinstance(value, str) else json.dumps(value)
                for name, value in samples[number].items()
                if not isinstance(value, np.ndarray)
            }
            yield step.step, step.kind, number, fields
