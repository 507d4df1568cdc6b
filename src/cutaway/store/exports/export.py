"""`export`: writes part of an archive as files for other programs. Never overwrites anything."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from secrets import token_hex
from typing import Final, Literal, get_args

from cutaway.core.errors import ExistsError, InputError, MissingExtraError, NotFoundError
from cutaway.core.formatting import hint
from cutaway.store.exports.arrays import export_scalar_arrays, export_statistic_arrays, export_value_arrays
from cutaway.store.exports.selection import Selection
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
    "notes": "notes are text: use format='csv' or 'parquet'",
    "samples": "samples are exported as tables: use format='csv' or 'parquet' (for images and other arrays: "
    "what='values' with of='sample/array')",
}


@dataclass(frozen=True, slots=True)
class ExportReport:
    """The result of `export`."""

    path: str
    files: tuple[str, ...]
    """File names relative to `path`."""
    n_items: int
    """Number of tensors, or of table rows."""
    n_bytes: int
    damage: tuple[str, ...] = ()
    """What could not be read and is missing from the export."""


def export(
    path: str | os.PathLike[str],
    to: str | os.PathLike[str],
    *,
    format: Format,
    what: What = "values",
    at: str = "**",
    steps: slice | int | None = None,
    of: str = "value",
) -> ExportReport:
    """Write part of an archive to a new folder.

        export("runs/base", "out", format="npy", what="values", at="encoder.*", steps=slice(100, 200))

    Args:
        path: the archive to export from.
        to: a folder that does not exist yet, or is empty.
        format: "npy" or "safetensors" for arrays, "csv" or "parquet" for tables.
        what: "values", "statistics", "scalars", "notes" or "samples".
        at: the tensors, as a site pattern; for scalars, the names.
        steps: one step, or a slice of steps.
        of: "value", "grad", "update"…
    """
    write = _writer(format, what)
    target = os.path.abspath(os.fspath(to))
    if os.path.lexists(target) and (not os.path.isdir(target) or os.listdir(target)):
        raise ExistsError(f"{to} already exists and is not overwritten. Choose a new folder.")
    selection = Selection.from_archive(Archive(path), at=at, steps=steps, of=of)
    # Beside the target, not in /tmp: a rename works only within one file system.
    temporary = f"{target}.part-{token_hex(4)}"
    os.makedirs(temporary)
    try:
        n_items = write(selection, temporary)
        if not n_items:
            raise NotFoundError(f"this selection of {os.fspath(path)} has no {what} to export.")
        _rename(temporary, target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    files = sorted(
        os.path.relpath(os.path.join(folder, name), target) for folder, _, names in os.walk(target) for name in names
    )
    n_bytes = sum(os.path.getsize(os.path.join(target, name)) for name in files)
    return ExportReport(
        os.fspath(to),
        tuple(files),
        n_items,
        n_bytes,
        tuple(dict.fromkeys([*selection.damage, *selection.archive.damage])),
    )


def _writer(format: str, what: str) -> Callable[[Selection, str], int]:
    if format not in get_args(Format):
        raise InputError(
            f"unknown format {format!r}.{hint(format, get_args(Format))} Use {', '.join(get_args(Format))}."
        )
    if what not in get_args(What):
        raise InputError(f"cannot export {what!r}.{hint(what, get_args(What))} Use {', '.join(get_args(What))}.")
    if format == "parquet":
        try:
            import pyarrow  # noqa: F401
        except ImportError as error:
            raise MissingExtraError("Parquet export needs pyarrow: pip install pyarrow") from error
    if format in ("npy", "safetensors"):
        if what in _TEXTUAL:
            raise InputError(f"{_TEXTUAL[what]}, not {format}.")
        arrays = {
            "values": export_value_arrays,
            "statistics": export_statistic_arrays,
            "scalars": export_scalar_arrays,
        }[what]
        return lambda selection, folder: arrays(selection, folder, is_npy=format == "npy")
    tables = {
        "values": export_value_table,
        "statistics": export_statistic_table,
        "scalars": export_scalar_table,
        "notes": export_note_table,
        "samples": export_sample_table,
    }[what]
    return lambda selection, folder: tables(selection, folder, is_csv=format == "csv")


def _rename(temporary: str, target: str) -> None:
    try:
        os.rename(temporary, target)  # succeeds onto an empty folder, fails onto any other
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise ExistsError(f"{target} was created meanwhile and is not overwritten.") from error
        raise
