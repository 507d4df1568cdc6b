"""A fitted probe as one safetensors file: its arrays, and the rest as JSON in the header. No pickle."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core import safetensors
from cutaway.core.errors import DamagedError, ExistsError, InputError, NotFoundError, VersionError
from cutaway.core.safetensors import Entry

Array = NDArray[Any]
_VERSION = 1
_KEY = "cutaway.probe"
_ALIGNED = 8
_STORED_NAMES = {"standardize": "standardise"}
"""Parameters that files name differently: format 1 has the British spelling, and readers of it know no other."""


@dataclass(frozen=True, slots=True, eq=False)
class SavedProbe:
    """What stands in the file of a probe."""

    kind: str
    """The name of its class."""
    parameters: Mapping[str, Any]
    """As `get_params` gives them."""
    learned: Mapping[str, Any]
    """What was learned and is no array of numbers: JSON."""
    arrays: Mapping[str, Array]
    names: Sequence[str] | None = None
    """The sites of the units."""


def write(saved: SavedProbe, path: str | os.PathLike[str]) -> None:
    """Write it; what lies at the path already is left alone, and is an error."""
    place = Path(path)
    if place.exists():
        raise ExistsError(f"{str(path)!r} exists already and is not overwritten: choose another path, or remove it.")
    about = {
        "version": _VERSION,
        "kind": saved.kind,
        "parameters": {_STORED_NAMES.get(name, name): value for name, value in saved.parameters.items()},
        "learned": saved.learned,
        "names": None if saved.names is None else list(saved.names),
    }
    try:
        text = json.dumps(about, allow_nan=False, default=_plain)
    except (TypeError, ValueError) as error:
        raise InputError(f"the probe cannot be written as JSON: {error}. Labels must be texts or numbers.") from error
    arrays = {name: np.ascontiguousarray(array) for name, array in saved.arrays.items()}
    entries, start = [], 0
    for name, array in arrays.items():
        entries.append(Entry(name, str(array.dtype), array.shape, start, start + array.nbytes))
        start += array.nbytes
    head = safetensors.header(entries, {_KEY: text})
    head += b" " * (-len(head) % _ALIGNED)
    if len(head) > safetensors.MOST_BYTES:
        raise InputError(f"the names and labels of this probe take {len(head):,} bytes: too many for one file.")
    beside = place.with_name(place.name + ".part")
    with open(beside, "wb") as file:
        file.write(len(head).to_bytes(8, "little"))
        file.write(head)
        for array in arrays.values():
            file.write(array.tobytes())
    beside.rename(place)


def read(path: str | os.PathLike[str], kind: str) -> SavedProbe:
    """Read it back; anything amiss is a `DamagedError`."""
    place = Path(path)
    if not place.is_file():
        raise NotFoundError(f"there is no file {str(path)!r}.")
    raw = place.read_bytes()
    size = int.from_bytes(raw[:8], "little") if len(raw) >= 8 else -1
    if not 0 <= size <= len(raw) - 8:
        raise DamagedError(f"{str(path)!r} is no safetensors file: it ends before its header does.")
    entries, metadata = safetensors.parse(raw[8 : 8 + size], len(raw) - 8 - size)
    if _KEY not in metadata:
        raise NotFoundError(f"{str(path)!r} is a safetensors file, but holds no probe.")
    try:
        about = json.loads(metadata[_KEY])
        version, found = about["version"], about["kind"]
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"{str(path)!r} holds a probe whose description cannot be read: {error}.") from error
    if version > _VERSION:
        raise VersionError(f"{str(path)!r} was written by a newer Cutaway (format {version}, known is {_VERSION}).")
    if found != kind:
        raise InputError(f"{str(path)!r} holds a probe of kind {found!r}, not {kind!r}: cutaway.probes.{found}.load.")
    arrays = {
        entry.name: np.frombuffer(raw, np.dtype(entry.dtype), offset=8 + size + entry.start, count=_count(entry))
        .reshape(entry.shape)
        .copy()
        for entry in entries.values()
    }
    current = {stored: name for name, stored in _STORED_NAMES.items()}
    parameters = {current.get(name, name): value for name, value in about["parameters"].items()}
    return SavedProbe(found, parameters, about["learned"], arrays, about["names"])


def labels_as_json(labels: Array) -> dict[str, Any]:
    """Classes as JSON, with the dtype that brings them back as they were."""
    kinds = {type(label).__name__ for label in labels.tolist()}
    if not kinds <= {"str", "int", "float", "bool"}:
        raise InputError(f"labels of type {', '.join(sorted(kinds))} cannot be saved: texts and numbers can.")
    return {"dtype": "object" if labels.dtype.kind == "O" else labels.dtype.str, "values": labels.tolist()}


def labels_from_json(content: Mapping[str, Any]) -> Array:
    """The inverse of `labels_as_json`."""
    return np.array(content["values"], np.dtype(content["dtype"]))


def _count(entry: Entry) -> int:
    n = 1
    for size in entry.shape:
        n *= size
    return n


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if type(value).__module__.startswith("torch"):  # a device
        return str(value)
    raise TypeError(f"{value!r} is no JSON")
