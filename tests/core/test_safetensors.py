"""Headers that other safetensors readers accept, and malicious headers that are rejected."""

from __future__ import annotations

import json
import string
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from safetensors.numpy import load as load_numpy
from tests.call_count import count_calls

from cutaway.core.arrays import DTYPES, nbytes_of
from cutaway.core.errors import DamagedError, InputError
from cutaway.core.safetensors import MAX_HEADER_BYTES, Entry, entry_length, header, parse

AS_THEY_ARE = [
    name
    for name, dtype in DTYPES.items()
    if dtype.n_parts == 1 and not name.startswith(("q", "bits")) and name.rstrip("1234567") not in ("int", "uint")
] + ["int16", "int32", "int64", "uint16", "uint32", "uint64"]
METADATA = {"by": "me"}


def file_of(entries: list[Entry], data: bytes) -> bytes:
    text = header(entries, METADATA)
    return len(text).to_bytes(8, "little") + text + data


def laid_out(tensors: list[tuple[str, str, tuple[int, ...]]]) -> list[Entry]:
    """The tensors back to back."""
    entries, end = [], 0
    for name, dtype, shape in tensors:
        start, end = end, end + nbytes_of(dtype, shape)
        entries.append(Entry(name, dtype, shape, start, end))
    return entries


EVERY = laid_out([(f"{name}/{shape}", name, shape) for name in DTYPES for shape in [(2, 3), (), (0, 2), (4,)]])
N_BYTES = EVERY[-1].stop
DATA = np.random.default_rng(0).integers(0, 2, N_BYTES).astype(np.uint8).tobytes()
"""Zeros and ones, for truth values are among them."""

names = st.text(st.characters(exclude_categories=("Cs",)), max_size=6).filter(lambda name: name != "__metadata__")
shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)
entries_of_any_kind = st.lists(
    st.tuples(names, st.sampled_from(sorted(DTYPES)), shapes), unique_by=lambda tensor: tensor[0], max_size=6
).map(laid_out)
metadata_of_any_kind = st.dictionaries(
    st.text(st.characters(exclude_categories=("Cs",)), max_size=6), names, max_size=3
)


@given(entries_of_any_kind, metadata_of_any_kind)
def test_what_is_written_is_read_back(entries: list[Entry], metadata: dict[str, str]) -> None:
    end = entries[-1].stop if entries else 0
    found, about = parse(header(entries, metadata), end)
    assert list(found.values()) == entries
    assert list(found) == [entry.name for entry in entries]
    assert about == metadata


@given(entries_of_any_kind)
def test_the_length_is_known_before(entries: list[Entry]) -> None:
    expected = len(header([], METADATA)) + sum(map(entry_length, entries))
    assert len(header(entries, METADATA)) == expected
    assert expected - 1 <= len(header(entries)) + len('"by":"me"') <= expected


@given(entries_of_any_kind, metadata_of_any_kind)
def test_the_stock_reader_accepts_every_header(entries: list[Entry], metadata: dict[str, str]) -> None:
    text = header(entries, metadata)
    data = bytes(entries[-1].stop if entries else 0)
    stock = dict(safetensors.deserialize(len(text).to_bytes(8, "little") + text + data))
    assert set(stock) == {entry.name for entry in entries}
    for entry in entries:
        assert len(stock[entry.name]["data"]) == entry.stop - entry.start


def test_the_stock_reader_finds_the_bytes_of_every_dtype() -> None:
    stock = dict(safetensors.deserialize(file_of(EVERY, DATA)))
    for entry in EVERY:
        assert bytes(stock[entry.name]["data"]) == DATA[entry.start : entry.stop], entry


@pytest.mark.parametrize("name", [*AS_THEY_ARE, "float4_e2m1fn_x2"])
def test_dtypes_that_the_format_has_come_out_of_stock_torch_as_they_are(name: str, tmp_path: Path) -> None:
    entries = laid_out([("a", name, (2, 3)), ("b", name, (0, 2))])
    path = tmp_path / "x.safetensors"
    data = bytes(i % 2 for i in range(entries[-1].stop))
    path.write_bytes(file_of(entries, data))
    with safetensors.safe_open(path, "pt") as file:
        for entry in entries:
            tensor = file.get_tensor(entry.name)
            assert (tensor.dtype, tuple(tensor.shape)) == (getattr(torch, name), entry.shape)
            if tensor.numel():
                assert tensor.reshape(-1).view(torch.uint8).numpy().tobytes() == data[entry.start : entry.stop]
        assert file.metadata() == METADATA


@pytest.mark.parametrize(
    ("name", "stored", "more"),
    [
        ("complex32", "float16", (2,)),
        ("complex128", "float64", (2,)),
        ("qint8", "int8", ()),
        ("quint8", "uint8", ()),
        ("qint32", "int32", ()),
        ("bits8", "uint8", ()),
        ("bits16", "uint16", ()),
        ("int4", "uint8", ()),
        ("uint7", "uint8", ()),
    ],
)
def test_other_dtypes_come_out_of_stock_numpy_as_the_same_bytes(name: str, stored: str, more: tuple[int, ...]) -> None:
    entries = laid_out([("a", name, (2, 3)), ("b", name, ())])
    data = bytes(range(entries[-1].stop))
    for entry in entries:
        array = load_numpy(file_of(entries, data))[entry.name]
        assert (array.dtype, array.shape) == (np.dtype(stored), entry.shape + more)
        assert array.tobytes() == data[entry.start : entry.stop]
    assert parse(header(entries), len(data))[0] == {entry.name: entry for entry in entries}


@pytest.mark.parametrize("name", [*AS_THEY_ARE, "float4_e2m1fn_x2"])
def test_files_of_stock_torch_are_read(name: str) -> None:
    from safetensors.torch import save

    tensor = torch.zeros(2, 3 * DTYPES[name].itemsize, dtype=torch.uint8).view(getattr(torch, name))
    raw = save({"x": tensor, "y": tensor[:0].clone()}, {"a": "b"})
    n = int.from_bytes(raw[:8], "little")
    found, metadata = parse(raw[8 : 8 + n], len(raw) - 8 - n)
    assert {key: (entry.dtype, entry.shape) for key, entry in found.items()} == {
        "x": (name, (2, 3)),
        "y": (name, (0, 3)),
    }
    assert metadata == {"a": "b"}


def test_ten_thousand_entries_take_little_work_each() -> None:
    entries = laid_out(
        [(f"{i}/out/encoder.layers.{i % 24}.attn/softmax", "float32", (1, 8, 64)) for i in range(10_000)]
    )
    assert count_calls(lambda: header(entries, METADATA)) < 20 * len(entries)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (Entry("a", "float3", (1,), 0, 4), "'float3' cannot be stored"),
        (Entry("a", "float32", (2,), 0, 4), "cannot span bytes 0 to 4"),
        (Entry("a", "float32", (2,), -8, 0), "cannot span bytes -8 to 0"),
        (Entry("__metadata__", "uint8", (2,), 0, 2), "cannot be named __metadata__"),
        (Entry("\ud800", "uint8", (2,), 0, 2), "lone surrogate"),
    ],
)
def test_entries_that_no_file_could_hold_are_refused(entry: Entry, message: str) -> None:
    with pytest.raises(InputError, match=message):
        header([entry])
    with pytest.raises(InputError, match=message):
        entry_length(entry)


def test_names_that_are_taken_are_refused() -> None:
    with pytest.raises(InputError, match="two tensors are named 'a'"):
        header([Entry("a", "uint8", (2,), 0, 2), Entry("a", "uint8", (2,), 2, 4)])
    with pytest.raises(InputError, match=r"'cutaway.dtype:a' is reserved"):
        header([], {"cutaway.dtype:a": "float32"})


def tensor(dtype: Any = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def own(dtype: str) -> dict[str, Any]:
    return {"cutaway.dtype:a": dtype}


HOSTILE: list[tuple[Any, str]] = [
    (b"", "not JSON"),
    (b"\xff\xfe", "not UTF-8"),
    (b"{", "not JSON"),
    (b"[]", "but not an object"),
    (b"3", "but not an object"),
    (b'{"a": NaN}', "NaN, which is not valid JSON"),
    (b'{"a": ' + b"9" * 10_000 + b"}", "not JSON"),
    (b'{"a":' * 100_000, "nested too deep"),
    (b"[" * 1_000_000, "nested too deep"),
    (b'{"a":1,"a":2}', "'a' occurs twice"),
    (b'{"a":{"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]}}', "'shape' occurs twice"),
    (b'{"\\ud800":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', "lone surrogate"),
    ({"__metadata__": 3}, "not an object with string values"),
    ({"__metadata__": {"a": 3}}, "not an object with string values"),
    ({"a": 3}, "'a' is 3, not an object"),
    ({"a": {}}, "has the dtype None"),
    ({"a": tensor(["F32"])}, r"has the dtype \['F32'\]"),
    ({"a": tensor("F31")}, "has the dtype 'F31'"),
    ({"a": tensor(shape=2)}, "has the shape 2, which is not a list"),
    ({"a": tensor(shape=["2"])}, "contains '2'"),
    ({"a": tensor(shape=[2.0])}, "contains 2.0"),
    ({"a": tensor(shape=[True, 2])}, "contains True"),
    ({"a": tensor(shape=[-2])}, "contains -2"),
    ({"a": tensor(shape=[[2]])}, r"contains \[2\]"),
    ({"a": tensor(shape=[-1, -2])}, "contains -1"),
    ({"a": tensor(shape=[2**64])}, "sizes must be integers"),
    ({"a": tensor(shape=[2**62, 2**62])}, "takes"),
    ({"a": tensor(shape=[2**62] * 64)}, "takes"),
    ({"a": tensor(shape=[1] * 100_000 + [2])}, "the limit is 64"),
    ({"a": tensor(shape=[3])}, "takes 12 bytes, but its data_offsets are 0 to 8"),
    ({"a": tensor(offsets=[0])}, "are not two integers"),
    ({"a": tensor(offsets=[0, 8, 8])}, "are not two integers"),
    ({"a": tensor(offsets=[0, 8.0])}, "are not two integers"),
    ({"a": tensor(offsets=[False, 8])}, "are not two integers"),
    ({"a": tensor(offsets={"0": 8})}, "are not two integers"),
    ({"a": tensor(offsets=[-8, 0])}, "are -8 to 0"),
    ({"a": tensor(offsets=[8, 0])}, "are 8 to 0"),
    ({"a": tensor(offsets=[10**29, 10**29 + 8])}, "gap"),
    ({"a": tensor(shape=[4], offsets=[0, 16])}, "take 16 bytes, but the file has 8"),
    ({"a": tensor(shape=[1], offsets=[0, 4])}, "take 4 bytes, but the file has 8"),
    ({"a": tensor(), "b": tensor()}, "overlaps"),
    ({"a": tensor(), "b": tensor(shape=[1], offsets=[4, 8])}, "overlaps"),
    ({"a": tensor(), "b": tensor(shape=[0], offsets=[4, 4])}, "overlaps"),
    ({"a": tensor(shape=[1], offsets=[4, 8])}, "gap"),
    ({}, "take 0 bytes, but the file has 8"),
    ({"a": tensor("F4", [3, 5], [0, 8])}, "two numbers per byte"),
    ({"a": tensor("F4", [], [0, 8])}, "two numbers per byte"),
    ({"__metadata__": own("complex64"), "a": tensor()}, "complex64 numbers are stored as C64, not as F32"),
    ({"__metadata__": own("complex128"), "a": tensor("F64", [1])}, "last size of .* must be 2"),
    ({"__metadata__": own("complex128"), "a": tensor("F64", [])}, "last size of .* must be 2"),
    ({"__metadata__": own("float3"), "a": tensor()}, "'float3' is not a dtype"),
    ({"__metadata__": own("int8"), "a": tensor("F4", [16])}, "two numbers per byte"),
    ({"__metadata__": {"cutaway.dtype:b": "int8"}, "a": tensor()}, "'b', which is not in the file"),
]


@pytest.mark.parametrize(("content", "message"), HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_headers_are_damage(content: Any, message: str) -> None:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    tracemalloc.start()
    try:
        with pytest.raises(DamagedError, match=message) as caught:
            parse(raw, 8)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
        assert len(str(caught.value)) < 1_000
    finally:
        tracemalloc.stop()


def test_a_header_beyond_the_limit_is_not_looked_at() -> None:
    with pytest.raises(DamagedError, match=r"16,777,217 bytes long; the limit is 16,777,216"):
        parse(bytes(MAX_HEADER_BYTES + 1), 0)


def test_spaces_and_unknown_keys_are_passed_over() -> None:
    text = json.dumps({"a": {**tensor(), "color": "red"}}, indent=2).encode() + b"   \n"
    assert parse(text, 8)[0] == {"a": Entry("a", "float32", (2,), 0, 8)}


@given(st.binary(max_size=64))
@example(b'{"":{}}')
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    try:
        found, _ = parse(raw, 0)
    except DamagedError:
        return
    assert all(entry.start == entry.stop == 0 for entry in found.values())


SMALL = laid_out(
    [("a", "float32", (2, 3)), ("b", "complex128", (1,)), ("c", "float4_e2m1fn_x2", (4,)), ("d", "bool", ())]
)
TEXT = header(SMALL, METADATA)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(string.printable, max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(string.printable, max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)


def sound(found: dict[str, Entry], n: int) -> bool:
    """Held against what `SMALL` takes, whatever was said about it."""
    pieces = sorted((entry.start, entry.stop) for entry in found.values())
    ends = [0, *(stop for _, stop in pieces)]
    return [start for start, _ in pieces] == ends[:-1] and ends[-1] == n


@given(st.integers(0, len(TEXT) - 1), st.integers(0, 255), st.sampled_from(["change", "drop", "insert", "cut"]))
def test_a_changed_byte_is_refused_or_leaves_a_sound_header(at: int, byte: int, how: str) -> None:
    new = {
        "change": bytes([byte]) + TEXT[at + 1 :],
        "drop": TEXT[at + 1 :],
        "insert": bytes([byte]) + TEXT[at:],
        "cut": b"",
    }
    try:
        found, _ = parse(TEXT[:at] + new[how], SMALL[-1].stop)
    except DamagedError:
        return
    assert sound(found, SMALL[-1].stop)


@given(st.sampled_from("abcd"), st.sampled_from(["dtype", "shape", "data_offsets", None]), ANY_JSON)
def test_any_other_content_is_refused_or_leaves_a_sound_header(name: str, key: str | None, content: Any) -> None:
    header_ = json.loads(TEXT)
    if key is None:
        header_[name] = content
    else:
        header_[name][key] = content
    try:
        found, _ = parse(json.dumps(header_).encode(), SMALL[-1].stop)
    except DamagedError:
        return
    assert sound(found, SMALL[-1].stop)
