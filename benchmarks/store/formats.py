"""Other ways of keeping the tensors of each step on disk, to be measured beside the store.

When `write` returns, each has handed the step to the system, as the store has; none waits for the disk itself.
"""

from __future__ import annotations

import importlib
import os
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[np.float32]]


class Format(Protocol):
    """One way of keeping steps: made of an empty folder."""

    def write(self, step: int, arrays: Arrays) -> None:
        """Keep the arrays of a step."""

    def read(self, step: int, name: str) -> NDArray[np.float32]:
        """One array of one step."""

    def close(self) -> None:
        """Finish what is open; everything can still be read."""


class PlainFile:
    """All bytes appended to one file, without names, checksums or an index: what the system asks for the bytes."""

    def __init__(self, folder: Path) -> None:
        self._fd = os.open(folder / "bytes", os.O_CREAT | os.O_EXCL | os.O_RDWR)
        self._end = 0
        self._places: dict[tuple[int, str], tuple[int, tuple[int, ...]]] = {}

    def write(self, step: int, arrays: Arrays) -> None:
        parts = [array.data.cast("B") for array in arrays.values()]
        for first in range(0, len(parts), 1024):
            os.pwritev(self._fd, parts[first : first + 1024], self._end)
            for name, array in list(arrays.items())[first : first + 1024]:
                self._places[step, name] = self._end, array.shape
                self._end += array.nbytes

    def read(self, step: int, name: str) -> NDArray[np.float32]:
        start, shape = self._places[step, name]
        return np.frombuffer(os.pread(self._fd, 4 * int(np.prod(shape)), start), np.float32).reshape(shape)

    def close(self) -> None:
        """The descriptor goes with the process."""


class SafetensorsPerStep:
    """One `.safetensors` file a step, by the package of that name. It has no checksums."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, step: int, arrays: Arrays) -> None:
        from safetensors.numpy import save_file

        save_file(dict(arrays), self._folder / f"{step:06d}.safetensors")

    def read(self, step: int, name: str) -> NDArray[np.float32]:
        from safetensors import safe_open

        with safe_open(self._folder / f"{step:06d}.safetensors", "numpy") as file:
            found: NDArray[np.float32] = file.get_tensor(name)
            return found

    def close(self) -> None:
        """Every file is whole already."""


class SQLiteBlobs:
    """One blob a tensor in a SQLite table, one transaction a step; write-ahead log, no waiting for the disk."""

    def __init__(self, folder: Path) -> None:
        self._database = sqlite3.connect(folder / "run.sqlite", isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=OFF")
        columns = "step INTEGER, name TEXT, shape TEXT, data BLOB, PRIMARY KEY (step, name)"
        self._database.execute(f"CREATE TABLE tensors ({columns}) WITHOUT ROWID")

    def write(self, step: int, arrays: Arrays) -> None:
        rows = [(step, name, str(array.shape), array.data) for name, array in arrays.items()]
        self._database.execute("BEGIN")
        self._database.executemany("INSERT INTO tensors VALUES (?, ?, ?, ?)", rows)
        self._database.execute("COMMIT")

    def read(self, step: int, name: str) -> NDArray[np.float32]:
        found = self._database.execute("SELECT shape, data FROM tensors WHERE step = ? AND name = ?", (step, name))
        shape, data = found.fetchone()
        sizes = [int(size) for size in shape.strip("()").split(",") if size.strip()]
        return np.frombuffer(data, np.float32).reshape(sizes)

    def close(self) -> None:
        self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


class HDF5:
    """One dataset a tensor in one HDF5 file, flushed each step."""

    def __init__(self, folder: Path) -> None:
        h5py: Any = importlib.import_module("h5py")
        self._file = h5py.File(folder / "run.h5", "w")

    def write(self, step: int, arrays: Arrays) -> None:
        group = self._file.create_group(str(step))
        for name, array in arrays.items():
            group.create_dataset(name, data=array)
        self._file.flush()

    def read(self, step: int, name: str) -> NDArray[np.float32]:
        found: NDArray[np.float32] = self._file[f"{step}/{name}"][...]
        return found

    def close(self) -> None:
        self._file.flush()


class Zarr:
    """One zarr array a tensor, one chunk a step, without compression."""

    def __init__(self, folder: Path) -> None:
        zarr: Any = importlib.import_module("zarr")
        self._root = zarr.open_group(str(folder / "run.zarr"), mode="w")
        self._arrays: dict[str, Any] = {}

    def write(self, step: int, arrays: Arrays) -> None:
        for name, array in arrays.items():
            if name not in self._arrays:
                sizes = {"shape": (0, *array.shape), "chunks": (1, *array.shape)}
                self._arrays[name] = self._root.create_array(name, dtype="f4", compressors=None, **sizes)
            self._arrays[name].resize((step + 1, *array.shape))
            self._arrays[name][step] = array

    def read(self, step: int, name: str) -> NDArray[np.float32]:
        return np.asarray(self._arrays[name][step])

    def close(self) -> None:
        """Every chunk is whole already."""


PLAIN = "a plain file"
ALWAYS: dict[str, Callable[[Path], Format]] = {
    PLAIN: PlainFile,
    "safetensors, one file a step": SafetensorsPerStep,
    "SQLite, one blob a tensor": SQLiteBlobs,
}
IF_THERE: dict[str, tuple[str, Callable[[Path], Format]]] = {
    "HDF5, one dataset a tensor": ("h5py", HDF5),
    "zarr, one chunk a tensor": ("zarr", Zarr),
}

MOST_STEPS = {"zarr, one chunk a tensor": 20}
"""Steps that are enough of a format which takes a second for each."""


def chosen(*, peers: bool) -> tuple[dict[str, Callable[[Path], Format]], tuple[str, ...]]:
    """The formats that can be measured here, and what is to be said of the others. A plain file always is."""
    if not peers:
        return {PLAIN: PlainFile}, ()
    found, missing = dict(ALWAYS), []
    for title, (package, kind) in IF_THERE.items():
        try:
            importlib.import_module(package)
            found[title] = kind
        except ImportError:
            missing.append(f"{package} is not installed and was left out")
    return found, tuple(missing)
