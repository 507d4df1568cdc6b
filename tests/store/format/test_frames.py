"""Frames: what is written is read, and damage costs only itself."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.store.mutations import BOMBS, frame, framed

from cutaway.core.errors import InputError
from cutaway.store.format.frames import MAX_CONTAINERS, MAX_ENTRIES, MOST_BYTES, decode, encode, scan

SETTINGS = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False), st.text(), st.binary()
)
plain = st.recursive(
    scalars, lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(), inside, max_size=4), max_leaves=20
)
records = st.builds(lambda fields: {**fields, "type": "x"}, st.dictionaries(st.text(), plain, max_size=4))


@given(st.lists(records, max_size=5))
@SETTINGS
def test_what_is_written_is_read(written: list[dict[str, object]]) -> None:
    data = b"".join(map(encode, written))
    found = scan(data)
    assert found.records == written
    assert (found.damages, found.n_read) == ([], len(data))
    assert [data[offset : offset + 4] for offset in found.offsets] == [b"CUT1"] * len(written)


@given(st.lists(records, min_size=1, max_size=4), st.data())
@SETTINGS
def test_a_file_cut_anywhere_gives_all_whole_frames(written: list[dict[str, object]], data: st.DataObject) -> None:
    frames = list(map(encode, written))
    cut = data.draw(st.integers(0, sum(map(len, frames))))
    found = scan(b"".join(frames)[:cut])
    ends = [sum(map(len, frames[: n + 1])) for n in range(len(frames))]
    n_whole = sum(end <= cut for end in ends)
    assert found.records == written[:n_whole]
    assert found.damages == [], "a torn tail is no damage"
    assert found.n_read == (ends[n_whole - 1] if n_whole else 0)


@given(st.lists(records, min_size=3, max_size=5), st.data())
@SETTINGS
def test_a_changed_byte_costs_one_frame(written: list[dict[str, object]], data: st.DataObject) -> None:
    frames = list(map(encode, written))
    hit = data.draw(st.integers(0, len(frames) - 2))
    payload = len(msgpack.packb(written[hit], unicode_errors="surrogatepass"))
    place = data.draw(st.integers(0, 11 + payload))
    damaged = bytearray(frames[hit])
    damaged[place] ^= data.draw(st.integers(1, 255))
    found = scan(b"".join([*frames[:hit], bytes(damaged), *frames[hit + 1 :]]))
    assert found.records == [*written[:hit], *written[hit + 1 :]]
    assert len(found.damages) == 1


@given(st.lists(records, max_size=4), st.integers(8, 200))
@SETTINGS
def test_read_in_pieces_it_is_the_same(written: list[dict[str, object]], size: int) -> None:
    """As an index is read: a piece at a time, keeping what is not whole yet; damage among it."""
    whole = b"".join([bytes(16), *map(encode, written), b"CUT1\xff\xff\0\0" + bytes(8), *map(encode, written)])
    size -= size % 8
    found, keep, at = [], b"", 0
    while True:
        piece = whole[at : at + size]
        at += len(piece)
        keep += piece
        is_last = len(piece) < size
        scanned = scan(keep, is_last=is_last)
        found += scanned.records
        keep = keep[scanned.n_read :]
        if is_last:
            break
    assert found == written * 2 == scan(whole).records


@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: f"{bomb[:12]!r}…{len(bomb)}")
def test_what_is_no_record_is_left_out_alone(bomb: bytes) -> None:
    before, after = {"type": "a"}, {"type": "b"}
    found = scan(encode(before) + framed(bomb) + encode(after))
    others = [record for record in found.records if record not in (before, after)]
    assert (found.records[0], found.records[-1]) == (before, after)
    assert len(others) + len(found.damages) == 1


def test_extension_types_numbers_as_keys_and_lists_without_end_are_refused() -> None:
    for content in (msgpack.ExtType(5, b""), msgpack.ExtType(5, b"abc"), msgpack.Timestamp(5), {1: 2}, [0] * 70_000):
        with pytest.raises(ValueError, match=r"."):
            decode(msgpack.packb({"type": "x", "content": content}))
    many = [b"\xdc\xff\xff" + b"\x90" * 65_535] * (MAX_CONTAINERS // 65_535 + 1)
    with pytest.raises(ValueError, match="more than 1,048,576 lists and maps"):
        decode(b"\x82\xa4type\xa1x\xa1c\xdc" + len(many).to_bytes(2, "big") + b"".join(many))
    just = {"type": "x", "content": [[] for _ in range(60_000)]}
    assert decode(msgpack.packb(just)) == just


def test_of_two_equal_keys_the_later_one_counts() -> None:
    assert decode(b"\x82\xa4type\xa1a\xa4type\xa1b") == {"type": "b"}


@pytest.mark.parametrize(
    "content",
    [
        {1: 2}, [0] * (MAX_ENTRIES + 1), {str(n): 0 for n in range(MAX_ENTRIES + 1)}, object(), 2**64,
        msgpack.ExtType(1, b""),
    ],
    ids=["number as key", "long list", "long dict", "object", "large number", "extension"],
)  # fmt: skip
def test_what_could_not_be_read_is_not_written(content: object) -> None:
    with pytest.raises(InputError, match="cannot write a record of type 'document'"):
        encode({"type": "document", "content": content})


def test_what_is_nested_without_end_or_too_long_is_not_written() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(InputError, match="cannot write"):
        encode({"type": "document", "content": endless})
    with pytest.raises(InputError, match="Store large data as arrays"):
        encode({"type": "document", "content": bytes(MOST_BYTES)})


def test_half_a_surrogate_pair_survives() -> None:
    assert scan(encode({"type": "note", "text": "\ud800"})).records == [{"type": "note", "text": "\ud800"}]


def test_frames_hidden_in_a_payload_are_not_taken_for_frames() -> None:
    inner = encode({"type": "inner"})
    record = {"type": "outer", "padding": b"12345", "content": inner * 3}
    assert scan(encode(record)).records == [record]


def test_a_search_in_vain_is_given_up() -> None:
    """Each of a million beginnings claims what follows, all of it: summing up each would take hours."""
    beginnings = (b"CUT1" + (7 << 20).to_bytes(4, "little")) * (1 << 20)
    found = scan(beginnings)
    assert (found.records, len(found.damages)) == ([], 1)
    assert frame({"type": "x"}) == encode({"type": "x"})
