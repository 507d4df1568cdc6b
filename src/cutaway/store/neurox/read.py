"""Files that NeuroX extracted, HDF5 or JSON lines, as activations; also those with one file for each layer."""

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
from cutaway.store.activations.sources import About, MemorySource
from cutaway.store.activations.windows import CollectedSite
from cutaway.store.activations.writer import ActivationsWriter, Dtype, Rows

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
Sentences = Sequence[Sequence[str] | str]
INDEX: Final = "sentence_to_index"
SITES: Final = "cutaway_sites"
"""An attribute of our HDF5 files: NeuroX itself does not say what its layers are."""
_AGAIN = re.compile(r" \(Occurrence [0-9]+\)$")
_LAYER = re.compile(r"-layer([0-9]+)\.(?:hdf5|json)$")
_WINDOW_BYTES: Final = 16 << 20
_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of such a file."""

    text: str | None
    """Its words with spaces between; None where they are known one by one."""
    words: tuple[str, ...]
    layers: Array
    """`[layer, word, unit]`"""


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    sites: tuple[str, ...]
    """What its layers are called; empty where it does not say."""
    widths: tuple[int, ...]
    """How many units each layer has."""


def read_neurox(path: Paths, *, sentences: Sentences | None = None) -> MemorySource:
    """What the files hold, in memory."""
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
    return MemorySource(collected, joined, Rows.of(items, word=within), words, About(n_items, "", _provenance(files)))


def convert(path: Paths, to: str | os.PathLike[str], *, sentences: Sentences | None = None) -> None:
    """Write what the files hold into a folder of activations, some sentences at a time."""
    files = _files(path)
    sites = _site_names(files)
    gathered: list[tuple[list[str], list[Array]]] = []
    n_bytes = 0
    writer: ActivationsWriter | None = None
    try:
        for texts, arrays in _aligned(files, sentences):
            if writer is None:
                dtype: Dtype = "float16" if all(array.dtype == np.float16 for array in arrays) else "float32"
                collected = [CollectedSite(site, array.shape[1]) for site, array in zip(sites, arrays, strict=True)]
                writer = ActivationsWriter(to, collected, dtype=dtype, provenance=_provenance(files))
            gathered.append((texts, arrays))
            n_bytes += sum(array.nbytes for array in arrays)
            if n_bytes >= _WINDOW_BYTES:
                _write(writer, sites, gathered)
                gathered, n_bytes = [], 0
        if writer is not None:
            if gathered:
                _write(writer, sites, gathered)
            writer.finish()
    finally:
        if writer is not None:
            writer.close()


def _write(writer: ActivationsWriter, sites: Sequence[str], gathered: Sequence[tuple[list[str], list[Array]]]) -> None:
    lengths = [len(texts) for texts, _ in gathered]
    items = np.repeat(np.arange(writer.n_items, writer.n_items + len(gathered)), lengths)
    within = np.concatenate([np.arange(length) for length in lengths])
    arrays = {site: np.concatenate([found[number] for _, found in gathered]) for number, site in enumerate(sites)}
    words = [word for texts, _ in gathered for word in texts]
    writer.window(arrays, Rows.of(items, word=within), words, n_items=len(gathered))


def _provenance(files: Sequence[_File]) -> dict[str, Any]:
    return {"source": "NeuroX", "files": [os.path.basename(file.path) for file in files]}


# which files, and what is in them


def _files(path: Paths) -> list[_File]:
    given = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    paths = [os.fspath(one) for one in given]
    if len(paths) == 1 and not os.path.exists(paths[0]):
        paths = _decomposed(paths[0]) or paths
    if not paths:
        raise InputError("no file was named.")
    return [_opened(one) for one in paths]


def _decomposed(path: str) -> list[str]:
    """The files of one layer each that belong to a name, in order of the layers."""
    folder, name = os.path.split(path)
    stem, ending = os.path.splitext(name)
    pattern = re.compile(rf"{re.escape(stem)}-layer([0-9]+){re.escape(ending)}")
    there = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
    found = {int(match[1]): match[0] for match in map(pattern.fullmatch, there) if match}
    return [os.path.join(folder, found[number]) for number in sorted(found)]


def _opened(path: str) -> _File:
    if not os.path.isfile(path):
        raise NotFoundError(f"{path} is not there, nor any {os.path.splitext(path)[0]}-layer0 beside it.")
    for sentence in _sentences(path):
        if len(sentence.layers):  # a line of JSON without words tells no layers
            return _File(path, _own_sites(path), tuple(layer.shape[1] for layer in sentence.layers))
    raise InputError(f"{path} holds no sentence with a word in it.")


def _own_sites(path: str) -> tuple[str, ...]:
    if not path.endswith(".hdf5"):
        return ()
    with h5().File(path, "r") as file:
        try:
            said = json.loads(file.attrs.get(SITES, "[]"))
        except (TypeError, ValueError):
            return ()
    return tuple(said) if isinstance(said, list) and all(isinstance(site, str) for site in said) else ()


def _site_names(files: Sequence[_File]) -> list[str]:
    """What the layers are called: as the file says, else by their numbers."""
    found: list[str] = []
    for file in files:
        number = _LAYER.search(file.path)
        if len(file.sites) == len(file.widths):
            found += file.sites
        elif number and len(file.widths) == 1:
            found.append(f"layer.{number[1]}")
        else:
            found += [f"layer.{len(found) + layer}" for layer in range(len(file.widths))]
    return found if len(set(found)) == len(found) else [f"layer.{number}" for number in range(len(found))]


def _sentences(path: str) -> Iterator[Sentence]:
    if path.endswith(".hdf5"):
        return _of_hdf5(path)
    if path.endswith(".json"):
        return _of_json(path)
    raise InputError(
        f"{path} ends neither in .hdf5 nor in .json. Older files of NeuroX (.pt, .acts, .t7) are pickles, "
        "which can run any code and are not read: extract again, or convert them with NeuroX."
    )


def _of_hdf5(path: str) -> Iterator[Sentence]:
    try:
        file = h5().File(path, "r")
    except OSError as error:
        raise DamagedError(f"{path} cannot be read as HDF5: {error}.") from error
    with closing(file):
        texts = _texts(file, path)
        names = sorted((name for name in file if name.isdecimal()), key=int)
        if [int(name) for name in names] != list(range(len(names))):
            raise DamagedError(f"{path} lacks sentences: they are numbered from 0 without a gap.")
        for name in names:
            layers = np.asarray(file[name])
            if layers.ndim != 3 or layers.dtype.kind != "f":
                raise DamagedError(
                    f"{path}: sentence {name} is {layers.dtype} {list(layers.shape)}, not [layer, word, unit]."
                )
            yield Sentence(texts.get(name), (), _narrow(layers))


def _texts(file: Any, path: str) -> dict[str, str]:
    """Number of a sentence → its text, where the file tells it."""
    if INDEX not in file:
        return {}
    try:
        said = file[INDEX][0]
        found = json.loads(said.decode() if isinstance(said, bytes) else said)
        return {str(number): text for text, number in found.items()}
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise DamagedError(f"{path}: {INDEX!r} is not one JSON object of sentences: {error}.") from error


def _of_json(path: str) -> Iterator[Sentence]:
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    yield _of_line(json.loads(line))
                except (KeyError, TypeError, ValueError, RecursionError) as error:
                    raise DamagedError(
                        f"{path}, line {number}: it is not a sentence as NeuroX writes it: {error!r}."
                    ) from error


def _of_line(content: Any) -> Sentence:
    features = content["features"]
    words = tuple(str(feature["token"]) for feature in features)
    values = [[layer["values"] for layer in feature["layers"]] for feature in features]
    layers = np.array(values, np.float32)  # (word, layer, unit)
    if not features:
        return Sentence(None, (), np.empty((0, 0, 0), np.float32))
    if layers.ndim != 3:
        raise ValueError("its words have not all the same layers and units")
    return Sentence(None, words, layers.transpose(1, 0, 2))


def _narrow(layers: Array) -> Array:
    return layers if layers.dtype in (np.float16, np.float32) else layers.astype(np.float32)


# words and rows


def _aligned(files: Sequence[_File], sentences: Sentences | None) -> Iterator[tuple[list[str], list[Array]]]:
    """The words of each sentence, and an array `[word, unit]` for each layer. All that do not fit are named at once."""
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
            if not words:
                layers = [np.empty((0, width), np.float32) for width in widths]
            if [layer.shape[1] for layer in layers] != widths:
                found = [layer.shape[1] for layer in layers]
                raise DamagedError(
                    f"{files[0].path}: sentence {number} has layers of {found} units, the first {widths}."
                )
            if not wrong:
                yield words, layers
    except ValueError as error:
        if isinstance(error, DamagedError) or "zip()" not in str(error):
            raise
        raise InputError(
            f"the files do not hold the same number of sentences: they agree up to sentence {n - 1}."
        ) from error
    if sentences is not None and len(sentences) != n:
        raise InputError(f"{len(sentences):,} sentences were given, and {files[0].path} holds {n:,}.")
    if wrong:
        more = f" and {len(wrong) - _MOST_NAMED:,} more" if len(wrong) > _MOST_NAMED else ""
        raise InputError(
            f"the words of {len(wrong):,} of {n:,} sentences in {files[0].path} do not fit their rows: "
            f"{', '.join(wrong[:_MOST_NAMED])}{more}. Give the words of every sentence as sentences=."
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
    # The second of two equal sentences is marked so. A sentence may also end like that of its own.
    found = sentence.text.split(" ")
    return found if len(found) == n else _AGAIN.sub("", sentence.text).split(" ")


def h5() -> Any:
    """h5py, which reads and writes HDF5."""
    try:
        import h5py
    except ModuleNotFoundError as error:
        raise MissingExtraError("NeuroX's HDF5 files need h5py: pip install cutaway[neurox]") from error
    return h5py
