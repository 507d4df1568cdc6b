"""Reads NeuroX activations, HDF5 or JSON lines, in one file or one per layer."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from cutaway.core.arrays import Array
from cutaway.core.errors import DamagedError, InputError, MissingExtraError, NotFoundError
from cutaway.core.formatting import listed
from cutaway.store.activations.sources import CollectionInfo, MemorySource
from cutaway.store.activations.windows import CollectedSite
from cutaway.store.activations.writer import ActivationsWriter, Dtype, Rows

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
Sentences = Sequence[Sequence[str] | str]
INDEX: Final = "sentence_to_index"
SITES: Final = "cutaway_sites"
"""An attribute of HDF5 files that Cutaway writes: NeuroX files do not name their layers."""
_OCCURRENCE = re.compile(r" \(Occurrence [0-9]+\)$")
_LAYER = re.compile(r"-layer([0-9]+)\.(?:hdf5|json)$")
_WINDOW_BYTES: Final = 16 << 20
_MAX_LISTED: Final = 5


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of a NeuroX file."""

    text: str | None
    """Its words joined by spaces; None if `words` has them."""
    words: tuple[str, ...]
    layers: Array
    """`[layer, word, unit]`"""


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    sites: tuple[str, ...]
    """The names of its layers; empty if not stored."""
    widths: tuple[int, ...]
    """The number of units of each layer."""


def read_neurox(path: Paths, *, sentences: Sentences | None = None) -> MemorySource:
    """Read the files into memory."""
    files = _files(path)
    sites = _site_names(files)
    parts: list[list[Array]] = [[] for _ in sites]
    words: list[str] = []
    items: list[int] = []
    within: list[int] = []
    n_items = 0
    for item, (texts, arrays) in enumerate(_aligned(files, sentences)):
        for part, array in zip(parts, arrays, strict=True):
            part.append(array)
        words += texts
        items += [item] * len(texts)
        within += range(len(texts))
        n_items = item + 1
    joined = tuple(np.concatenate(part) for part in parts)
    for array in joined:
        array.flags.writeable = False
    collected = tuple(CollectedSite(site, array.shape[1]) for site, array in zip(sites, joined, strict=True))
    return MemorySource(
        collected, joined, Rows.of(items, word=within), words, CollectionInfo(n_items, "", _provenance(files))
    )


def convert(path: Paths, to: str | os.PathLike[str], *, sentences: Sentences | None = None) -> None:
    """Convert the files to a folder of activations, a few sentences at a time."""
    files = _files(path)
    sites = _site_names(files)
    pending: list[tuple[list[str], list[Array]]] = []
    n_bytes = 0
    writer: ActivationsWriter | None = None
    try:
        for texts, arrays in _aligned(files, sentences):
            if writer is None:
                dtype: Dtype = "float16" if all(array.dtype == np.float16 for array in arrays) else "float32"
                collected = [CollectedSite(site, array.shape[1]) for site, array in zip(sites, arrays, strict=True)]
                writer = ActivationsWriter(to, collected, dtype=dtype, provenance=_provenance(files))
            pending.append((texts, arrays))
            n_bytes += sum(array.nbytes for array in arrays)
            if n_bytes >= _WINDOW_BYTES:
                _write(writer, sites, pending)
                pending, n_bytes = [], 0
        if writer is not None:
            if pending:
                _write(writer, sites, pending)
            writer.finish()
    finally:
        if writer is not None:
            writer.close()


def _write(writer: ActivationsWriter, sites: Sequence[str], gathered: Sequence[tuple[list[str], list[Array]]]) -> None:
    lengths = [len(texts) for texts, _ in gathered]
    items = np.repeat(np.arange(writer.n_items, writer.n_items + len(gathered)), lengths)
    within = np.concatenate([np.arange(length) for length in lengths])
    arrays = {site: np.concatenate([layers[number] for _, layers in gathered]) for number, site in enumerate(sites)}
    words = [word for texts, _ in gathered for word in texts]
    writer.window(arrays, Rows.of(items, word=within), words, n_items=len(gathered))


def _provenance(files: Sequence[_File]) -> dict[str, Any]:
    return {"source": "NeuroX", "files": [os.path.basename(file.path) for file in files]}


# Files


def _files(path: Paths) -> list[_File]:
    given = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    paths = [os.fspath(file) for file in given]
    if len(paths) == 1 and not os.path.exists(paths[0]):
        paths = _per_layer_files(paths[0]) or paths
    if not paths:
        raise InputError("got no file.")
    return [_open_file(file) for file in paths]


def _per_layer_files(path: str) -> list[str]:
    """The per-layer files of a name, in layer order."""
    folder, name = os.path.split(path)
    stem, ending = os.path.splitext(name)
    pattern = re.compile(rf"{re.escape(stem)}-layer([0-9]+){re.escape(ending)}")
    names = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
    by_layer = {int(match[1]): match[0] for match in map(pattern.fullmatch, names) if match}
    return [os.path.join(folder, by_layer[number]) for number in sorted(by_layer)]


def _open_file(path: str) -> _File:
    if not os.path.isfile(path):
        raise NotFoundError(f"{path} does not exist, and neither does a {os.path.splitext(path)[0]}-layer0 file.")
    for sentence in _sentences(path):
        if len(sentence.layers):  # a JSON line without words does not show the layers
            return _File(path, _stored_sites(path), tuple(layer.shape[1] for layer in sentence.layers))
    raise InputError(f"{path} has no sentence with words.")


def _stored_sites(path: str) -> tuple[str, ...]:
    if not path.endswith(".hdf5"):
        return ()
    with import_h5py().File(path, "r") as file:
        try:
            sites = json.loads(file.attrs.get(SITES, "[]"))
        except (TypeError, ValueError):
            return ()
    return tuple(sites) if isinstance(sites, list) and all(isinstance(site, str) for site in sites) else ()


def _site_names(files: Sequence[_File]) -> list[str]:
    """Layer names: as stored, else by number."""
    names: list[str] = []
    for file in files:
        number = _LAYER.search(file.path)
        if len(file.sites) == len(file.widths):
            names += file.sites
        elif number and len(file.widths) == 1:
            names.append(f"layer.{number[1]}")
        else:
            names += [f"layer.{len(names) + layer}" for layer in range(len(file.widths))]
    # Two files may name their layers alike.
    return names if len(set(names)) == len(names) else [f"layer.{number}" for number in range(len(names))]


def _sentences(path: str) -> Iterator[Sentence]:
    if path.endswith(".hdf5"):
        return _read_hdf5(path)
    if path.endswith(".json"):
        return _read_json(path)
    raise InputError(
        f"{path} is neither .hdf5 nor .json. Older NeuroX files (.pt, .acts, .t7) are pickles, "
        "which can run arbitrary code and are not read. Extract again, or convert them with NeuroX."
    )


def _read_hdf5(path: str) -> Iterator[Sentence]:
    try:
        file = import_h5py().File(path, "r")
    except OSError as error:
        raise DamagedError(f"cannot read {path} as HDF5: {error}.") from error
    with closing(file):
        texts = _texts(file, path)
        # HDF5 lists names as text: "10" comes before "2".
        names = sorted((name for name in file if name.isdecimal()), key=int)
        if [int(name) for name in names] != list(range(len(names))):
            raise DamagedError(f"{path} lacks sentences: their numbers must run from 0 without a gap.")
        for name in names:
            layers = np.asarray(file[name])
            if layers.ndim != 3 or layers.dtype.kind != "f":
                raise DamagedError(
                    f"{path}: sentence {name} is {layers.dtype} {list(layers.shape)}, expected [layer, word, unit]."
                )
            yield Sentence(texts.get(name), (), _narrow(layers))


def _texts(file: Any, path: str) -> dict[str, str]:
    """Sentence number → its text, if stored."""
    if INDEX not in file:
        return {}
    try:
        raw = file[INDEX][0]
        numbers = json.loads(raw.decode() if isinstance(raw, bytes) else raw)
        return {str(number): text for text, number in numbers.items()}
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise DamagedError(f"{path}: {INDEX!r} is not a JSON object of sentences: {error}.") from error


def _read_json(path: str) -> Iterator[Sentence]:
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    yield _parse_line(json.loads(line))
                except (KeyError, TypeError, ValueError, RecursionError) as error:
                    raise DamagedError(f"{path}, line {number} is not a NeuroX sentence: {error!r}.") from error


def _parse_line(content: Any) -> Sentence:
    features = content["features"]
    words = tuple(str(feature["token"]) for feature in features)
    values = [[layer["values"] for layer in feature["layers"]] for feature in features]
    layers = np.array(values, np.float32)  # (word, layer, unit)
    if not features:
        return Sentence(None, (), np.empty((0, 0, 0), np.float32))
    if layers.ndim != 3:
        raise ValueError("its words differ in layers or units")
    return Sentence(None, words, layers.transpose(1, 0, 2))


def _narrow(layers: Array) -> Array:
    return layers if layers.dtype in (np.float16, np.float32) else layers.astype(np.float32)


# Words and rows


def _aligned(files: Sequence[_File], sentences: Sentences | None) -> Iterator[tuple[list[str], list[Array]]]:
    """For each sentence, its words and an array `[word, unit]` per layer. One error names all mismatches."""
    n = 0
    wrong: list[str] = []
    widths = [width for file in files for width in file.widths]
    streams = [_sentences(file.path) for file in files]
    try:
        for number, parts in enumerate(zip(*streams, strict=True)):
            n = number + 1
            lengths = sorted({part.layers.shape[1] for part in parts})
            words = _words(parts[0], sentences, number)
            if lengths != [len(words)]:
                wrong.append(f"sentence {number} ({len(words)} words, {' and '.join(map(str, lengths))} rows)")
            layers = [layer for part in parts for layer in part.layers]
            # A sentence without words has no rows from which the width could be read.
            if not words:
                layers = [np.empty((0, width), np.float32) for width in widths]
            if [layer.shape[1] for layer in layers] != widths:
                actual = [layer.shape[1] for layer in layers]
                raise DamagedError(
                    f"{files[0].path}: sentence {number} has layers of {actual} units, the first has {widths}."
                )
            if not wrong:
                yield words, layers
    except ValueError as error:
        if isinstance(error, DamagedError) or "zip()" not in str(error):
            raise
        raise InputError(
            f"the files differ in their number of sentences: they agree up to sentence {n - 1}."
        ) from error
    if sentences is not None and len(sentences) != n:
        raise InputError(f"got {len(sentences):,} sentences, but {files[0].path} has {n:,}.")
    if wrong:
        raise InputError(
            f"words and rows do not match in {len(wrong):,} of {n:,} sentences of {files[0].path}: "
            f"{listed(wrong, _MAX_LISTED)}. Pass the words of every sentence as sentences=."
        )


def _words(sentence: Sentence, sentences: Sentences | None, number: int) -> list[str]:
    n = sentence.layers.shape[1]
    if sentences is not None:
        given = sentences[number] if number < len(sentences) else ()
        return given.split() if isinstance(given, str) else list(given)
    if sentence.text is None:
        return list(sentence.words) if sentence.words or not n else [""] * n
    if not n:
        return []
    # NeuroX marks the second of two equal sentences like this; but a sentence may also really end so.
    words = sentence.text.split(" ")
    return words if len(words) == n else _OCCURRENCE.sub("", sentence.text).split(" ")


def import_h5py() -> Any:
    """Import h5py, or raise MissingExtraError."""
    try:
        import h5py
    except ModuleNotFoundError as error:
        raise MissingExtraError("NeuroX HDF5 files need h5py: pip install cutaway[neurox]") from error
    return h5py
