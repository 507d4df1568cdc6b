"""Writes activations as NeuroX files, HDF5 or JSON lines, in one file or one per layer."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import IO, TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from cutaway.core.arrays import Array
from cutaway.core.errors import ExistsError, InputError
from cutaway.core.formatting import listed
from cutaway.store.neurox.read import INDEX, SITES, import_h5py

if TYPE_CHECKING:
    from cutaway.store.activations.activations import Activations

Format = Literal["hdf5", "json"]
_DECIMALS = 8


class _Writer(Protocol):
    def write(self, number: int, words: Sequence[str], layers: Array) -> None:
        """Append a sentence `[layer, word, unit]`."""

    def close(self) -> None: ...


def write_neurox(
    acts: Activations, path: str | os.PathLike[str], *, format: Format | None, per_layer: bool
) -> list[str]:
    """Write the files; see `Activations.to_neurox`."""
    name = os.fspath(path)
    stem, ending = os.path.splitext(name)
    kind = format or ending.removeprefix(".")
    if kind not in ("hdf5", "json"):
        raise InputError(f"NeuroX reads .hdf5 and .json, but {name!r} is neither. Pass format='hdf5' or format='json'.")
    stem = stem if ending == f".{kind}" else name
    sites = acts.sites
    if (np.diff(acts.items) < 0).any():
        raise InputError("rows must be in corpus order. Sort them: acts.rows(np.sort(indices)).")
    if not per_layer and len(set(acts.widths)) > 1:
        widths = listed(f"{site} has {width}" for site, width in zip(sites, acts.widths, strict=True))
        raise InputError(f"layers of one file need the same width, but {widths}. per_layer=True writes a file each.")
    groups = [(site,) for site in sites] if per_layer else [sites]
    paths = [f"{stem}-layer{number}.{kind}" if per_layer else f"{stem}.{kind}" for number in range(len(groups))]
    for file in paths:
        if os.path.lexists(file):
            raise ExistsError(f"{file} already exists and is not overwritten. Use another path.")
    dtype = np.dtype(np.float16 if acts.dtype == np.float16 else np.float32)
    open_writer: Callable[[str, Sequence[str]], _Writer] = (
        (lambda path, sites: _Hdf5(path, sites, dtype)) if kind == "hdf5" else (lambda path, sites: _Json(path))
    )
    with ExitStack() as files, ExitStack() as unfinished:
        writers = []
        for file, group in zip(paths, groups, strict=True):
            writers.append(open_writer(file, group))
            unfinished.callback(_remove, file)
            files.callback(writers[-1].close)
        _write(acts, writers, groups, dtype)
        # Nothing failed: the files are kept. Otherwise they are removed, because half a file looks like a short corpus.
        unfinished.pop_all()
    return paths


def _write(acts: Activations, writers: Sequence[_Writer], groups: Sequence[Sequence[str]], dtype: Any) -> None:
    starts = np.searchsorted(acts.items, np.arange(acts.n_items + 1))
    parts = [[acts.at(site) for site in group] for group in groups]
    for item in range(acts.n_items):
        rows = slice(int(starts[item]), int(starts[item + 1]))
        words = acts.words[rows]
        for writer, group in zip(writers, parts, strict=True):
            writer.write(item, words, np.stack([site.rows(rows).array(dtype) for site in group]))


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


class _Hdf5:
    """A dataset per sentence, and one that maps each text to its number."""

    def __init__(self, path: str, sites: Sequence[str], dtype: np.dtype[Any]) -> None:
        self._h5 = import_h5py()
        self._file = self._h5.File(path, "w-")
        self._file.attrs[SITES] = json.dumps(list(sites))
        self._dtype = dtype
        self._numbers: dict[str, str] = {}

    def write(self, number: int, words: Sequence[str], layers: Array) -> None:
        self._file.create_dataset(str(number), layers.shape, dtype=self._dtype, data=layers)
        text = name = " ".join(words)
        times = 1
        # NeuroX maps texts to numbers, so equal sentences need different texts; this is the suffix that it uses itself.
        while name in self._numbers:
            times += 1
            name = f"{text} (Occurrence {times})"
        self._numbers[name] = str(number)

    def close(self) -> None:
        try:
            index = self._file.create_dataset(INDEX, (1,), dtype=self._h5.special_dtype(vlen=str))
            index[0] = json.dumps(self._numbers)
        finally:
            self._file.close()


class _Json:
    """A line per sentence."""

    def __init__(self, path: str) -> None:
        self._file: IO[str] = open(path, "x", encoding="utf-8")  # noqa: SIM115

    def write(self, number: int, words: Sequence[str], layers: Array) -> None:
        features = [{"token": word, "layers": _layers(layers[:, position])} for position, word in enumerate(words)]
        self._file.write(json.dumps({"linex_index": number, "features": features}) + "\n")

    def close(self) -> None:
        self._file.close()


def _layers(values: Array) -> list[dict[str, Any]]:
    """JSON of the values `[layer, unit]` of a word."""
    return [
        {"index": number, "values": [round(value, _DECIMALS) for value in layer.tolist()]}
        for number, layer in enumerate(values)
    ]
