"""Saves a fitted probe to one safetensors file, with parameters as JSON in the header. No pickle."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core import io, safetensors
from cutaway.core.errors import DamagedError, ExistsError, InputError, NotFoundError, VersionError
from cutaway.core.formatting import human_bytes
from cutaway.core.safetensors import Entry

Array = NDArray[Any]
_VERSION = 1
_KEY = "cutaway.probe"
_ALIGNED = 8
_STORED_NAMES = {"standardize": "standardise"}
"""Parameters that files name differently: format 1 has the British spelling, and readers of it know no other."""


@dataclass(frozen=True, slots=True, eq=False)
class SavedProbe:
    """The contents of a probe file."""

    kind: str
    """Class name of the probe."""
    parameters: Mapping[str, Any]
    """The output of `get_params`."""
    learned: Mapping[str, Any]
    """Learned attributes that are not arrays, as JSON."""
    arrays: Mapping[str, Array]
    names: Sequence[str] | None = None
    """The sites of the units."""


def write(saved: SavedProbe, path: str | os.PathLike[str]) -> None:
    """Write a probe file; raises `ExistsError` if the path exists."""
    place = Path(path)
    if place.exists():
        raise ExistsError(f"{str(path)!r} already exists and is not overwritten: choose another path, or remove it.")
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
        raise InputError(f"cannot save the probe as JSON: {error}. Labels must be strings or numbers.") from error
    arrays = {name: np.ascontiguousarray(array) for name, array in saved.arrays.items()}
    entries, start = [], 0
    for name, array in arrays.items():
        entries.append(Entry(name, str(array.dtype), array.shape, start, start + array.nbytes))
        start += array.nbytes
    head = safetensors.header(entries, {_KEY: text})
    # safetensors pads its header with spaces, so that the arrays are aligned.
    head += b" " * (-len(head) % _ALIGNED)
    if len(head) > safetensors.MAX_HEADER_BYTES:
        raise InputError(
            f"unit names and labels of this probe take {human_bytes(len(head))}, more than a safetensors header allows."
        )
    io.write(place, b"".join([len(head).to_bytes(8, "little"), head, *(array.tobytes() for array in arrays.values())]))


def read(path: str | os.PathLike[str], kind: str) -> SavedProbe:
    """Read a probe file; raises `DamagedError` if it is damaged."""
    place = Path(path)
    if not place.is_file():
        raise NotFoundError(f"no file {str(path)!r}.")
    # frombuffer gives read-only views of the whole file, hence the copies below.
    raw = place.read_bytes()
    size = int.from_bytes(raw[:8], "little") if len(raw) >= 8 else -1
    if not 0 <= size <= len(raw) - 8:
        raise DamagedError(f"{str(path)!r} is not a safetensors file: it ends before the end of its header.")
    entries, metadata = safetensors.parse(raw[8 : 8 + size], len(raw) - 8 - size)
    if _KEY not in metadata:
        raise NotFoundError(f"{str(path)!r} is a safetensors file, but not of a probe.")
    try:
        about = json.loads(metadata[_KEY])
        version, saved_kind = about["version"], about["kind"]
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"cannot read the description of the probe in {str(path)!r}: {error}.") from error
    if version > _VERSION:
        raise VersionError(
            f"{str(path)!r} was written by a newer Cutaway (format {version}; this one reads {_VERSION})."
        )
    if saved_kind != kind:
        raise InputError(f"{str(path)!r} is a {saved_kind} probe, not {kind}: use cutaway.probes.{saved_kind}.load.")
    arrays = {
        entry.name: np.frombuffer(raw, np.dtype(entry.dtype), offset=8 + size + entry.start, count=_count(entry))
        .reshape(entry.shape)
        .copy()
        for entry in entries.values()
    }
    current = {stored: name for name, stored in _STORED_NAMES.items()}
    parameters = {current.get(name, name): value for name, value in about["parameters"].items()}
    return SavedProbe(saved_kind, parameters, about["learned"], arrays, about["names"])


def labels_as_json(labels: Array) -> dict[str, Any]:
    """Classes as JSON, with their dtype."""
    kinds = {type(label).__name__ for label in labels.tolist()}
    if not kinds <= {"str", "int", "float", "bool"}:
        raise InputError(f"cannot save labels of type {', '.join(sorted(kinds))}: use strings or numbers.")
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
    raise TypeError(f"{value!r} is not JSON")
