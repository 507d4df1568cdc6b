"""Reads and writes safetensors headers, with limits that protect against malicious files.

A file is `u64 N | N bytes of JSON | the tensors back to back`. A torch dtype that the format lacks is stored as one
with the same bytes (complex128 as F64 with a last dimension of 2); `__metadata__` then names the torch dtype.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii
from typing import Any, NoReturn

from cutaway.core.arrays import DTYPES, Dtype, nbytes_of, short_repr
from cutaway.core.errors import DamagedError, InputError

MAX_HEADER_BYTES = 16 << 20
"""Longer headers are rejected; one entry takes about a hundred bytes."""
_METADATA = "__metadata__"
_TRUE_DTYPE = "cutaway.dtype:"
"""Key in the metadata: `cutaway.dtype:name` → the torch dtype of the tensor `name`."""

_TORCH_DTYPES = {
    dtype.stored: name for name, dtype in reversed(DTYPES.items()) if dtype.n_parts == 1 or dtype.stored == "F4"
}
"""Stored dtype → the torch dtype it means by default: the first in `DTYPES`."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor of a file: its torch dtype, its shape, and its byte range, counted from the end of the header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


def header(entries: Iterable[Entry], metadata: Mapping[str, str] | None = None) -> bytes:
    """Encodes these tensors as a JSON header, without the length prefix.

    >>> header([Entry("w", "float32", (2,), 0, 8)], {"by": "me"})
    b'{"__metadata__":{"by":"me"},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    """
    pairs: list[str] = []
    for key, value in (metadata or {}).items():
        if key.startswith(_TRUE_DTYPE):
            raise InputError(
                f"the metadata key {key!r} is reserved: keys that begin with {_TRUE_DTYPE!r} store dtypes."
            )
        pairs.append(f"{_quote(key)}:{_quote(value)}")
    texts: list[str] = []
    names: set[str] = set()
    for entry in entries:
        text, pair = _encode(entry)
        texts.append(text)
        if pair:
            pairs.append(pair)
        names.add(entry.name)
        if len(names) < len(texts):
            raise InputError(f"two tensors are named {entry.name!r}: names must be unique within a file.")
    return "".join([f'{{"{_METADATA}":{{', ",".join(pairs), "}", *texts, "}"]).encode("ascii")


def entry_length(entry: Entry) -> int:
    """Bytes that this tensor adds to a header that already has some metadata.

    >>> entry = Entry("w", "complex128", (2,), 0, 32)
    >>> len(header([entry], {"by": "me"})) - len(header([], {"by": "me"})) == entry_length(entry)
    True
    """
    text, pair = _encode(entry)
    return len(text) + len(pair) + bool(pair)


def parse(raw_header: bytes, n_data_bytes: int) -> tuple[dict[str, Entry], dict[str, str]]:
    """Decodes the tensors and metadata of a header, in file order; raises `DamagedError` if anything is wrong.

    The tensors must cover the data without gaps or overlaps, as the format requires.

    >>> parse(b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', 8)[0]["w"]
    Entry(name='w', dtype='float32', shape=(2,), start=0, stop=8)
    """
    content = _read_json(raw_header)
    metadata = content.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        _damaged(f"its {_METADATA} is not an object with string values")
    true_dtypes = {key: metadata.pop(key) for key in list(metadata) if key.startswith(_TRUE_DTYPE)}
    entries = {
        name: _read_entry(name, fields, true_dtypes.pop(_TRUE_DTYPE + name, None)) for name, fields in content.items()
    }
    if true_dtypes:
        _damaged(
            f"it has a dtype for {short_repr(next(iter(true_dtypes))[len(_TRUE_DTYPE) :])}, which is not in the file"
        )
    _check_cover(entries, n_data_bytes)
    return entries, metadata


def _encode(entry: Entry) -> tuple[str, str]:
    """The entry as JSON, with a leading comma, and its key-value pair in the metadata, if any."""
    dtype = DTYPES.get(entry.dtype)
    if dtype is None:
        raise InputError(f"{entry.dtype!r} cannot be stored; the supported dtypes are {', '.join(DTYPES)}.")
    if math.prod(entry.shape) * dtype.itemsize != entry.stop - entry.start or entry.start < 0:
        raise InputError(
            f"tensor {entry.name!r}, {entry.dtype} of shape {list(entry.shape)}, cannot span bytes {entry.start} to "
            f"{entry.stop}."
        )
    if entry.name == _METADATA:
        raise InputError(f"a tensor cannot be named {_METADATA}: safetensors files reserve this name.")
    quoted = _quote(entry.name)
    stored, shape = _stored_as(dtype, entry.shape)
    sizes = ",".join(map(str, shape))
    text = f',{quoted}:{{"dtype":"{stored}","shape":[{sizes}],"data_offsets":[{entry.start},{entry.stop}]}}'
    if _TORCH_DTYPES[stored] == entry.dtype:
        return text, ""
    return text, f'"{_TRUE_DTYPE}{quoted[1:]}:"{entry.dtype}"'


def _quote(text: str) -> str:
    try:
        if not text.isascii():
            text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{text!r} contains a lone surrogate, which other safetensors readers reject: use another name."
        ) from error
    return encode_basestring_ascii(text)


def _stored_as(dtype: Dtype, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    """The dtype and shape written to the file."""
    if dtype.n_parts == 1:
        return dtype.stored, shape
    if dtype.stored != "F4":
        return dtype.stored, (*shape, dtype.n_parts)
    # The format counts 4-bit numbers where torch counts bytes; a 0-d tensor has no dimension to double.
    return (dtype.stored, (*shape[:-1], 2 * shape[-1])) if shape else ("U8", shape)


def _read_json(raw_header: bytes) -> dict[str, Any]:
    if len(raw_header) > MAX_HEADER_BYTES:
        _damaged(f"it is {len(raw_header):,} bytes long; the limit is {MAX_HEADER_BYTES:,}")
    try:
        content = json.loads(
            raw_header.decode("utf-8"), object_pairs_hook=_unique_keys, parse_constant=_reject_constant
        )
    except DamagedError:
        raise
    except UnicodeDecodeError as error:
        _damaged(f"it is not UTF-8: {error.reason} at byte {error.start}", error)
    except RecursionError as error:
        _damaged("it is nested too deeply", error)
    except ValueError as error:  # json.JSONDecodeError, or an integer with thousands of digits
        _damaged(f"it is not JSON: {short_repr(str(error))}", error)
    if not isinstance(content, dict):
        _damaged("it is JSON, but not an object")
    return content


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # `json` silently takes the last of two equal keys, so two readers could see different tensors.
    content = dict(pairs)
    if len(content) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        _damaged(f"{short_repr(twice)} occurs twice")
    return content


def _reject_constant(text: str) -> NoReturn:
    # `json` accepts NaN and Infinity, which other readers reject.
    _damaged(f"it contains {text}, which is not valid JSON")


def _read_entry(name: str, fields: Any, true_dtype: str | None) -> Entry:
    if not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name):
        _damaged(f"the name {short_repr(name)} is not valid text: it contains a lone surrogate")
    tensor = f"its tensor {short_repr(name)}"
    if not isinstance(fields, dict):
        _damaged(f"{tensor} is {short_repr(fields)}, not an object with dtype, shape and data_offsets")
    stored, shape, offsets = fields.get("dtype"), fields.get("shape"), fields.get("data_offsets")
    if not isinstance(stored, str) or stored not in _TORCH_DTYPES:
        _damaged(f"{tensor} has the dtype {short_repr(stored)}, which is not one of {', '.join(_TORCH_DTYPES)}")
    if not isinstance(shape, list):
        _damaged(f"{tensor} has the shape {short_repr(shape)}, which is not a list")
    # `type(…) is int`, because a bool is an instance of int.
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(type(place) is int for place in offsets):
        _damaged(f"{tensor} has the data_offsets {short_repr(offsets)}, which are not two integers")
    start, stop = offsets
    dtype = true_dtype or _TORCH_DTYPES[stored]
    try:
        sizes = _torch_shape(dtype, stored, tuple(shape))
        expected = nbytes_of(dtype, sizes)
    except DamagedError as error:
        _damaged(f"{tensor} is invalid: {str(error).rstrip('.')}", error)
    if not 0 <= start <= stop or stop - start != expected:
        _damaged(
            f"{tensor}, {dtype} of shape {short_repr(list(sizes))}, takes {short_repr(expected)} bytes, "
            f"but its data_offsets are {short_repr(start)} to {short_repr(stop)}"
        )
    return Entry(name, dtype, sizes, start, stop)


def _torch_shape(dtype: str, stored: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The torch shape of a tensor, from the shape in the file."""
    known = DTYPES.get(dtype)
    if known is None:
        raise DamagedError(f"{short_repr(dtype)} is not a dtype that this version of Cutaway knows.")
    if stored == "F4":
        if dtype != "float4_e2m1fn_x2" or not shape or type(shape[-1]) is not int or shape[-1] % 2:
            raise DamagedError(
                f"{short_repr(list(shape))} is not a shape for two numbers per byte: the last size must be even."
            )
        return (*shape[:-1], shape[-1] // 2)
    if _stored_as(known, ())[0] != stored:
        raise DamagedError(f"{dtype} numbers are stored as {_stored_as(known, ())[0]}, not as {stored}.")
    if known.n_parts == 1 or known.stored == "F4":
        return shape
    if shape[-1:] != (known.n_parts,):
        raise DamagedError(f"the last size of {short_repr(list(shape))} must be {known.n_parts} for {dtype}.")
    return shape[:-1]


def _check_cover(entries: Mapping[str, Entry], n_data_bytes: int) -> None:
    reached, before = 0, ""
    for entry in sorted(entries.values(), key=lambda entry: (entry.start, entry.stop)):
        if entry.start != reached:
            what = "overlaps the tensor before it" if entry.start < reached else "leaves a gap before it"
            _damaged(
                f"its tensor {short_repr(entry.name)} begins at byte {entry.start} and {what}, {short_repr(before)}"
            )
        reached, before = entry.stop, entry.name
    if reached != n_data_bytes:
        _damaged(f"its tensors take {reached:,} bytes, but the file has {n_data_bytes:,} bytes of data")


def _damaged(why: str, cause: BaseException | None = None) -> NoReturn:
    raise DamagedError(f"this is not a valid safetensors header: {why}.") from cause
