"""Writes arrays as `.npy` or `.safetensors`."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from cutaway.core.arrays import Array, Raw
from cutaway.core.errors import DamagedError
from cutaway.core.progress import progress
from cutaway.core.safetensors import Entry, header
from cutaway.store.exports.selection import Selection, Tensor, file_name
from cutaway.store.runs.series import Series

_MAX_TENSORS = 50_000
"""Tensors per safetensors file: keeps the header at a few megabytes."""


def export_value_arrays(selection: Selection, folder: str, *, is_npy: bool) -> int:
    """Write the values of tensors, with one tensor in memory at a time."""
    tensors = list(selection.tensors())
    return _values_as_npy(selection, folder, tensors) if is_npy else _values_as_safetensors(selection, folder, tensors)


def _values_as_npy(selection: Selection, folder: str, tensors: Sequence[Tensor]) -> int:
    names: set[str] = set()
    n_written = 0
    columns = ("file", "step", "kind", "site", "of", "iteration", "pass", "dtype", "shape")
    with open(os.path.join(folder, "index.csv"), "w", newline="", encoding="utf-8", errors="backslashreplace") as file:
        index = csv.writer(file)
        index.writerow(columns)
        for tensor in progress(tensors, len(tensors), "tensors exported"):
            try:
                array = tensor.read().array()
            except DamagedError as error:
                selection.add_damage(f"{tensor.name}: {error}")
                continue
            name = _unique_name(names, _npy_path(tensor))
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "xb") as out:
                # np.save would pickle object arrays, and pickles run code when they are loaded.
                np.lib.format.write_array(out, array, allow_pickle=False)
            row = tensor.row
            shape = "×".join(map(str, tensor.shape))
            which = [row.base, row.of, row.iteration, row.pass_]
            index.writerow([name, tensor.step, tensor.kind, *which, tensor.dtype, shape])
            n_written += 1
    return n_written


def _npy_path(tensor: Tensor) -> str:
    row = tensor.row
    if tensor.step is None:
        return file_name(row.site)
    of = f"{row.of}:{row.iteration}" if row.iteration else row.of
    return f"{tensor.step}/{file_name(of)}/{file_name(row.site)}"


def _unique_name(names: set[str], wanted: str) -> str:
    """A unique file name, also on case-insensitive file systems."""
    name, again = wanted, 1
    # Linux keeps "a.npy" and "A.npy" apart; macOS and Windows overwrite one with the other.
    while name.casefold() in names:
        again += 1
        name = f"{wanted}~{again}"
    names.add(name.casefold())
    return f"{name}.npy"


def _values_as_safetensors(selection: Selection, folder: str, tensors: Sequence[Tensor]) -> int:
    readable = list(_readable(selection, tensors))
    parts = [readable[first : first + _MAX_TENSORS] for first in range(0, len(readable), _MAX_TENSORS)]
    for number, part in enumerate(parts):
        name = "values" if len(parts) == 1 else f"values-{number + 1:05d}-of-{len(parts):05d}"
        entries = _entries((tensor.name, tensor.dtype, tensor.shape, tensor.nbytes) for tensor in part)
        with open(os.path.join(folder, f"{name}.safetensors"), "xb") as file:
            _write_head(file, entries, {"cutaway": "values"})
            for tensor in progress(part, len(part), "tensors exported"):
                file.write(memoryview(tensor.read().data))
    return len(readable)


def _readable(selection: Selection, tensors: Sequence[Tensor]) -> Iterator[Tensor]:
    """The tensors that can be read: the header is written first and must not name others."""
    for tensor in progress(tensors, len(tensors), "tensors checked"):
        try:
            tensor.read()
        except DamagedError as error:
            selection.add_damage(f"{tensor.name}: {error}")
        else:
            yield tensor


def _entries(tensors: Iterable[tuple[str, str, tuple[int, ...], int]]) -> list[Entry]:
    entries: list[Entry] = []
    names: set[str] = set()
    end = 0
    for wanted, dtype, shape, nbytes in tensors:
        # safetensors headers are UTF-8, which cannot hold lone surrogates.
        clean = wanted.encode("utf-8", "backslashreplace").decode()
        name, again = clean, 1
        while name in names or name == "__metadata__":
            again += 1
            name = f"{clean}~{again}"
        names.add(name)
        entries.append(Entry(name, dtype, shape, end, end + nbytes))
        end += nbytes
    return entries


def _write_head(file: BinaryIO, entries: Sequence[Entry], metadata: Mapping[str, str]) -> None:
    text = header(entries, metadata)
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)


# Statistics


def export_statistic_arrays(selection: Selection, folder: str, *, is_npy: bool) -> int:
    """Write `statistics` [tensor, statistic, step] and `steps`; the names of tensors and statistics go to JSON."""
    run, series = selection.run, selection.series()
    columns = np.flatnonzero([selection.has_step(step) for step in run.steps.tolist()])
    steps = np.ascontiguousarray(run.steps[columns])
    about = {
        "axes": ["tensor", "statistic", "step"],
        "tensors": [{"site": s.site, "of": s.of, "iteration": s.iteration, "pass": s.pass_} for s in series],
        "statistics": list(run.statistics),
    }
    schemas = [schema for index in run.sessions for schema in index.schemas.values()]
    dtype = "float64" if any(schema.dtype == "float64" for schema in schemas) else "float32"
    shape = (len(series), len(run.statistics), len(steps))
    if not shape[0] * shape[1] * shape[2]:
        return 0

    def rows() -> Iterator[NDArray[Any]]:
        for one_series in progress(series, len(series), "tensors exported"):
            yield _statistics_of(selection, one_series, dtype)[:, columns]

    if is_npy:
        with open(os.path.join(folder, "statistics.json"), "w", encoding="utf-8") as text:
            json.dump(about, text, indent=1)
        with open(os.path.join(folder, "steps.npy"), "xb") as out:
            np.lib.format.write_array(out, steps, allow_pickle=False)
        with open(os.path.join(folder, "statistics.npy"), "xb") as out:
            descr = np.lib.format.dtype_to_descr(np.dtype(dtype))
            np.lib.format.write_array_header_1_0(out, {"descr": descr, "fortran_order": False, "shape": shape})
            for row in rows():
                out.write(np.ascontiguousarray(row).data)
    else:
        nbytes = shape[0] * shape[1] * shape[2] * np.dtype(dtype).itemsize
        entries = _entries([("steps", "int64", steps.shape, steps.nbytes), ("statistics", dtype, shape, nbytes)])
        metadata = {key: json.dumps(value) for key, value in about.items()}
        with open(os.path.join(folder, "statistics.safetensors"), "xb") as out:
            _write_head(out, entries, {"cutaway": "exported statistics", **metadata})
            out.write(steps.data)
            for row in rows():
                out.write(np.ascontiguousarray(row).data)
    return len(series)


def _statistics_of(selection: Selection, series: Series, dtype: str) -> Array:
    """All statistics of one tensor over all steps of the run; NaN if not recorded."""
    run = selection.run
    values = np.full((len(run.statistics), len(run)), np.nan, dtype)
    at = np.searchsorted(run.steps, series.steps)
    for number, name in enumerate(run.statistics):
        try:
            values[number, at] = series.stats(name)
        except DamagedError as error:
            selection.add_damage(f"{name} of {series.site}: {error}")
    return values


# Scalars


def export_scalar_arrays(selection: Selection, folder: str, *, is_npy: bool) -> int:
    """Write `<name>/steps` and `<name>/values` of each scalar."""
    arrays: dict[str, Array] = {}
    n_scalars = 0
    for name, curve in selection.run.scalars.items():
        if not selection.has_name(name):
            continue
        is_selected = np.array([selection.has_step(step) for step in curve.steps.tolist()], bool)
        arrays[f"{name}/steps"] = np.ascontiguousarray(curve.steps[is_selected])
        arrays[f"{name}/values"] = np.ascontiguousarray(curve.values[is_selected])
        n_scalars += 1
    if not n_scalars:
        return 0
    if is_npy:
        names: set[str] = set()
        for name, array in arrays.items():
            scalar, _, part = name.rpartition("/")
            path = os.path.join(folder, _unique_name(names, f"{file_name(scalar)}.{part}"))
            with open(path, "xb") as out:
                np.lib.format.write_array(out, array, allow_pickle=False)
        return n_scalars
    raws = {name: Raw.of(array) for name, array in arrays.items()}
    entries = _entries((name, raw.dtype, raw.shape, raw.nbytes) for name, raw in raws.items())
    with open(os.path.join(folder, "scalars.safetensors"), "xb") as out:
        _write_head(out, entries, {"cutaway": "exported scalars"})
        for raw in raws.values():
            out.write(memoryview(raw.data))
    return n_scalars
