"""`cutaway export`: what was recorded, as files that other programs read. Nothing is ever overwritten."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from secrets import token_hex
from typing import Final, Literal, get_args

from cutaway.core.errors import ExistsError, InputError, MissingExtraError, NotFoundError
from cutaway.store.exports.arrays import export_scalar_arrays, export_statistic_arrays, export_value_arrays
from cutaway.store.exports.selection import Chosen
from cutaway.store.exports.tables import (
    export_note_table,
    export_sample_table,
    export_scalar_table,
    export_statistic_table,
    export_value_table,
)
from cutaway.store.reading.archive import Archive

Format = Literal["npy", "safetensors", "csv", "parquet"]
What = Literal["values", "statistics", "scalars", "notes", "samples"]
_TEXTUAL: Final = {
    "notes": "notes are text: format='csv' or 'parquet' keep them",
    "samples": "samples are kept as tables: format='csv' or 'parquet' (images and other arrays of samples: "
    "what='values' with of='sample/array')",
}


@dataclass(frozen=True, slots=True)
class Exported:
    """What `export` wrote."""

    path: str
    files: tuple[str, ...]
    """Their names below `path`."""
    n_items: int
    """Tensors, or rows of a table."""
    n_bytes: int
    problems: tuple[str, ...] = ()
    """What could not be read, and is therefore not there."""


def export(
    path: str | os.PathLike[str],
    to: str | os.PathLike[str],
    *,
    format: Format,
    what: What = "values",
    at: str = "**",
    steps: slice | int | None = None,
    of: str = "value",
) -> Exported:
    """Write a part of an archive into a new folder.

        export("runs/base", "out", format="npy", what="values", at="encoder.*", steps=slice(100, 200))

    Args:
        to: a folder that is not there yet, or is empty.
        format: npy and safetensors for arrays, csv and parquet for tables.
        at: which tensors; for scalars, which names.
        steps: one step, or the steps from the first to before the second.
        of: "value", "grad", "update"…
    """
    write = _writer(format, what)
    target = os.path.abspath(os.fspath(to))
    if os.path.lexists(target) and (not os.path.isdir(target) or os.listdir(target)):
        raise ExistsError(f"{to} is there already, and nothing is overwritten: give the name of a new folder.")
    chosen = Chosen.of_archive(Archive(path), at=at, steps=steps, of=of)
    beside = f"{target}.part-{token_hex(4)}"
    os.makedirs(beside)
    try:
        n_items = write(chosen, beside)
        if not n_items:
            raise NotFoundError(f"there are no {what} to export from {os.fspath(path)} with this choice.")
        _rename(beside, target)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    files = sorted(
        os.path.relpath(os.path.join(folder, name), target) for folder, _, names in os.walk(target) for name in names
    )
    n_bytes = sum(os.path.getsize(os.path.join(target, name)) for name in files)
    return Exported(
        os.fspath(to),
        tuple(files),
        n_items,
        n_bytes,
        tuple(dict.fromkeys([*chosen.problems, *chosen.archive.problems])),
    )


def _writer(format: str, what: str) -> Callable[[Chosen, str], int]:
    if format not in get_args(Format):
        raise InputError(f"there is no format {format!r}: {', '.join(get_args(Format))} are known.")
    if what not in get_args(What):
        raise InputError(f"{what!r} cannot be exported: {', '.join(get_args(What))} can.")
    if format == "parquet":
        try:
            import pyarrow  # noqa: F401
        except ImportError as error:
            raise MissingExtraError("parquet files are written with pyarrow: pip install pyarrow") from error
    if format in ("npy", "safetensors"):
        if what in _TEXTUAL:
            raise InputError(f"{_TEXTUAL[what]}, not {format}.")
        arrays = {
            "values": export_value_arrays,
            "statistics": export_statistic_arrays,
            "scalars": export_scalar_arrays,
        }[what]
        return lambda chosen, folder: arrays(chosen, folder, is_npy=format == "npy")
    tables = {
        "values": export_value_table,
        "statistics": export_statistic_table,
        "scalars": export_scalar_table,
        "notes": export_note_table,
        "samples": export_sample_table,
    }[what]
    return lambda chosen, folder: tables(chosen, folder, is_csv=format == "csv")


def _rename(beside: str, target: str) -> None:
    try:
        os.rename(beside, target)  # onto an empty folder this works, onto any other it fails
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise ExistsError(f"{target} has come to be meanwhile, and nothing is overwritten.") from error
        raise
