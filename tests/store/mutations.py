"""Runs that somebody has tampered with, and a reader that asks them everything."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from zlib import crc32

import hypothesis.strategies as st
import msgpack
import pytest

import cutaway
from cutaway import Run
from cutaway.core.errors import CutawayError
from cutaway.store.backends.memory import _FOLDERS, MemoryBackend
from cutaway.store.format.frames import scan
from cutaway.store.runs.run_set import Runs
from cutaway.store.runs.series import Series
from cutaway.store.runs.step import Moment, Step

Files = dict[str, bytes]
GOLDEN = Path(__file__).parent / "golden" / "v1" / "run"
URL = "memory://tampered/run"


def golden() -> Files:
    """The files of the golden run."""
    return {str(path.relative_to(GOLDEN)): path.read_bytes() for path in sorted(GOLDEN.rglob("*")) if path.is_file()}


def placed(files: Files) -> str:
    """Where these files lie now, in memory."""
    _FOLDERS.pop(URL, None)
    backend = MemoryBackend("tampered/run")
    for name, data in files.items():
        backend.put(name, data)
    return URL


def frame(record: Any) -> bytes:
    """A frame of whatever msgpack can write; its checksum holds."""
    return framed(msgpack.packb(record, unicode_errors="surrogatepass"))


def framed(payload: bytes) -> bytes:
    length = len(payload).to_bytes(4, "little")
    return b"CUT1" + length + crc32(length + payload).to_bytes(4, "little") + payload + bytes(-(12 + len(payload)) % 8)


class Joker(int):
    """Equal to everything: a checksum that holds, whatever was written."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


# what can be done to a run

NUMBERS = [-1, 0, 1, 2, 3, 7, 63, 65, 255, 2**16, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
TEXTS = [
    "", "x", "value", "float32", "bfloat16", "float4_e2m1fn_x2", "grad", "sample/starts", "sample/bytes",
    "../../etc/passwd", "a\0b", "\ud800", ":" + "9" * 5000, "**", "x" * 3000,
]  # fmt: skip
OTHERS: list[Any] = [
    None, True, False, 1.5, float("nan"), float("inf"), b"", b"\xff" * 4, b"\xff" * 8, b"\0" * 12,
    [], [1], [0, 0, 0], [[]], [[[]]], [-1], [2**63 - 1] * 3, [2**20] * 3, [0] * 70, [2**40, 0],
    {}, {"a": 1}, {"a": [1, {"b": None}]}, {b"a": 1}, {"x": b""}, {"type": "step"},
    msgpack.ExtType(5, b""), msgpack.ExtType(5, b"12"),
]  # fmt: skip
nasty = st.one_of(st.sampled_from(NUMBERS), st.sampled_from(TEXTS), st.sampled_from(OTHERS))


def paths(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places in nested lists and maps."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inside:
        yield (*above, key)
        yield from paths(part, (*above, key))


def changed(value: Any, path: tuple[Any, ...], to: Any, *, drop: bool = False) -> Any:
    """The same but for one place."""
    if not path:
        return to
    copy = dict(value) if isinstance(value, dict) else list(value)
    if drop and len(path) == 1:
        del copy[path[0]]
    else:
        copy[path[0]] = changed(copy[path[0]], path[1:], to, drop=drop)
    return copy


@st.composite
def tampered(draw: st.DrawFn, files: Files) -> Files:
    """The files after one to four changes."""
    found = dict(files)
    for _ in range(draw(st.integers(1, 4))):
        draw(st.sampled_from(CHANGES))(draw, found)
    return found


def _records(files: Files, name: str) -> list[Any]:
    return list(scan(files[name]).records)


def _index(draw: st.DrawFn, files: Files) -> str | None:
    names = [name for name in files if name.endswith(".index") and _records(files, name)]
    return draw(st.sampled_from(names)) if names else None


def _change_record(draw: st.DrawFn, files: Files) -> None:
    name = _index(draw, files)
    if name is None:
        return
    records = _records(files, name)
    for _ in range(draw(st.integers(1, 12))):
        type_ = draw(st.sampled_from(sorted({record["type"] for record in records})))  # or most would be of one
        number = draw(st.sampled_from([n for n, record in enumerate(records) if record["type"] == type_]))
        path: tuple[Any, ...] = (draw(st.sampled_from([key for key in records[number] if key != "type"] or ["type"])),)
        inside = list(paths(records[number][path[0]]))
        if inside and draw(st.booleans()):
            path += draw(st.sampled_from(inside))
        to = draw(_like(at(records[number], path)))
        new = changed(records[number], path, to, drop=draw(st.integers(0, 9)) == 0)
        if isinstance(new.get("type"), str):
            records[number] = new
    files[name] = b"".join(map(frame, records))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def _like(value: Any) -> st.SearchStrategy[Any]:
    """Mostly something of the same kind: what passes the first check goes further."""
    if isinstance(value, bool) or not isinstance(value, (int, str, bytes)):
        return nasty
    if isinstance(value, int):
        return st.one_of(st.integers(0, 4), st.integers(0, 4), st.sampled_from(NUMBERS), nasty)
    if isinstance(value, str):
        return st.one_of(st.sampled_from(TEXTS), nasty)
    numbers = st.lists(st.sampled_from([0, 1, 2, 3, 2**16, 2**31]), min_size=len(value) // 4, max_size=len(value) // 4)
    return st.one_of(numbers.map(lambda found: b"".join(n.to_bytes(4, "little") for n in found)), nasty)


POINTERS: list[tuple[str, tuple[Any, ...]]] = [
    ("step", ("schema",)), ("step", ("matrix", 0)), ("step", ("matrix", 1)), ("step", ("block", 0)),
    ("step", ("block", 1)), ("step", ("block", 2)), ("layout", ("id",)), ("layout", ("schema",)), ("schema", ("id",)),
    ("block", ("block", 0)), ("block", ("block", 1)), ("seal", ("segment",)), ("seal", ("is_statistics",)),
]  # fmt: skip


def _mislead(draw: st.DrawFn, files: Files) -> None:
    """Let records point to others than theirs, or be longer and shorter than those think that point to them."""
    name = _index(draw, files)
    if name is None:
        return
    records = _records(files, name)
    for _ in range(draw(st.integers(1, 8))):
        type_, path = draw(st.sampled_from(POINTERS))
        fitting = [n for n, record in enumerate(records) if record["type"] == type_ and path[0] in record]
        if draw(st.booleans()):
            lists = [(n, key) for n, record in enumerate(records) for key in record if isinstance(record[key], list)]
            number, key = draw(st.sampled_from(lists or [(0, "type")]))
            old = records[number][key]
            new = draw(st.sampled_from([old[:-1], old[1:], old + old[-1:], old[::-1]])) if lists else old
            records[number] = {**records[number], key: new}
        elif fitting:
            number = draw(st.sampled_from(fitting))
            try:
                records[number] = changed(records[number], path, draw(st.integers(0, 3)))
            except (TypeError, LookupError):
                continue  # it was changed before
    files[name] = b"".join(map(frame, records))


def _move_record(draw: st.DrawFn, files: Files) -> None:
    source, target = _index(draw, files), _index(draw, files)
    if source is None or target is None:
        return
    record = draw(st.sampled_from(_records(files, source)))
    records = _records(files, target)
    at = draw(st.integers(0, len(records)))
    stop = at + draw(st.integers(0, 2))
    files[target] = b"".join(map(frame, [*records[:at], record, *records[stop:]]))


def _add_raw(draw: st.DrawFn, files: Files) -> None:
    name = _index(draw, files)
    if name is None:
        return
    payload = draw(st.one_of(st.binary(max_size=60), st.sampled_from(BOMBS)))
    files[name] = files[name] + framed(payload)


def _flip(draw: st.DrawFn, files: Files) -> None:
    name = draw(st.sampled_from(sorted(files)))
    data = bytearray(files[name])
    if data:
        for _ in range(draw(st.integers(1, 3))):
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    files[name] = bytes(data)


def _splice(draw: st.DrawFn, files: Files) -> None:
    name, other = draw(st.sampled_from(sorted(files))), draw(st.sampled_from(sorted(files)))
    start = draw(st.integers(0, len(files[name])))
    stop = start + draw(st.sampled_from([0, 0, 1, 8, 100, 10**6]))
    part = draw(st.one_of(st.binary(max_size=24), st.just(files[other]), st.just(b"CUT1" * 8), st.just(bytes(64))))
    files[name] = files[name][:start] + part + files[name][stop:]


def _swap(draw: st.DrawFn, files: Files) -> None:
    one, other = draw(st.sampled_from(sorted(files))), draw(st.sampled_from(sorted(files)))
    files[one], files[other] = files[other], files[one]


def _remove(draw: st.DrawFn, files: Files) -> None:
    if len(files) > 1:
        del files[draw(st.sampled_from(sorted(files)))]


def _rename(draw: st.DrawFn, files: Files) -> None:
    name = draw(st.sampled_from(sorted(files)))
    new = draw(st.sampled_from(NAMES))
    above = any(other.startswith(f"{new}/") or new.startswith(f"{other}/") for other in files if other != name)
    if not above:
        files[new] = files.pop(name)


def _change_json(draw: st.DrawFn, files: Files) -> None:
    """Of the head, a lease, or the header of a sealed segment."""
    names = [name for name in files if name.endswith((".json", ".lease", ".safetensors"))]
    if not names:
        return
    name = draw(st.sampled_from(names))
    is_sealed = name.endswith(".safetensors")
    stop = 8 + int.from_bytes(files[name][:8], "little") if is_sealed else len(files[name])
    try:
        fields = json.loads(files[name][8 if is_sealed else 0 : stop])
        path = draw(st.sampled_from(list(paths(fields))))
        to = draw(nasty.filter(lambda value: not isinstance(value, (bytes, msgpack.ExtType)) and value not in BINARY))
        fields = changed(fields, path, to, drop=draw(st.integers(0, 5)) == 0)
    except (ValueError, IndexError):
        return
    if "checksum" in fields and draw(st.booleans()):
        del fields["checksum"]
        fields["checksum"] = crc32(json.dumps(fields, sort_keys=True).encode())
    text = json.dumps(fields).encode()
    text += b" " * (-len(text) % 8)
    files[name] = len(text).to_bytes(8, "little") + text + files[name][stop:] if is_sealed else text


BINARY: list[Any] = [{b"a": 1}, {"x": b""}]
NAMES = [
    "rank-0/0004.index", "rank-0/0002.index", "rank-2/0001.index", "rank-0/0001-v0001.part", "rank-0/0001-s0001.part",
    "rank-0/0002-s0001.safetensors", "rank-00/0001.index", "rank-0/00001.index", "rank--1/0001.index",
    "rank-0/0000.index", "rank-0/999999999.index", "rank-0", "cutaway.json", "rank-0/0009.lease", "rank-1/0002.index",
    "rank-0/0001.index/x",
]  # fmt: skip
MAP = b"\x82\xa4type\xa8document\xa4name"
BOMBS = [
    MAP,
    b"\x82\xa4type\xa1x\xa1c" + b"\x91" * 2000,
    b"\x82\xa4type\xa1x\xa1c" + b"\xdc\xff\xff" * 1000,
    b"\x82\xa4type\xa1x\xa1c" + b"\xdd\xff\xff\xff\xff" * 20,
    b"\x82\xa4type\xa1x\xa1c" + b"\xdf\xff\xff\xff\xff" * 20,
    b"\x82\xa4type\xa1x\xa1c" + b"\xdc\xff\xff" * 100 + b"\xc0" * 70_000,
    b"\x82\xa4type\xa1x\xa1c\xdb\xff\xff\xff\xff",
    b"\x82\xa4type\xa1x\xa1c\xc6\xff\xff\xff\xff",
    b"\x82\xa4type\xa1x\xa1c\xc9\xff\xff\xff\xff\x05",
    b"\x82\xa4type\xa4note\x01\x02",
    b"\x83\xa4type\xa8document\xa4name\xa1x\xa7content\x81\xc4\x01a\x01",
    b"\x84\xa4type\xa4note\xa4text\xa1a\xa4text\xa1b\xa4time\x01",
    b"\x81\xa4type\xc4\x04step",
    b"\x81\xa4type\xa4note" * 3,
    b"\xc1",
    b"",
]
CHANGES: list[Callable[[st.DrawFn, Files], None]] = [
    *[_change_record] * 4, *[_mislead] * 4, *[_move_record] * 2, *[_change_json] * 2,
    _add_raw, _flip, _splice, _swap, _remove, _rename,
]  # fmt: skip


# asking everything


class Questions:
    """Asks, and counts answers. Cutaway's own errors are answers; any other passes on."""

    def __init__(self, n_most: int = 100) -> None:
        self.n_most = n_most
        """Of tensors and steps that are asked."""
        self.n_answers = 0
        self.errors: list[CutawayError] = []

    def ask(self, question: Callable[[], Any]) -> Any:
        try:
            found = question()
        except CutawayError as error:
            self.errors.append(error)
            return None if str(error) else pytest.fail("an error says what is the matter")
        self.n_answers += 1
        return found

    def about(self, path: str | Path) -> None:
        found = self.ask(lambda: cutaway.load(path))
        if isinstance(found, Run):
            self.about_run(found)
        elif isinstance(found, Runs):
            for name in found:
                run = self.ask(lambda: found[name])
                if run is not None:
                    self.about_run(run)
            self.ask(found.table)
        elif found is not None:
            self.ask(lambda: repr(found))

    def about_run(self, run: Run, *, deep: bool = True) -> None:
        for name in ("name", "path", "steps", "kinds", "sites", "rows", "statistics", "scalars", "notes", "documents",
                     "config", "environment", "losses", "problems", "damage", "ranks", "is_live",
                     "sessions"):  # fmt: skip
            self.ask(lambda name=name: getattr(run, name))
        self.ask(lambda: repr(run))
        for step in islice(run, self.n_most if deep else 3):
            self.about_step(step)
        for asked in (-1, 0, 10, 10**30, -(10**30)):
            self.ask(lambda asked=asked: run.at(asked))
        for number, series in enumerate((self.ask(lambda: run.match("**")) or ())[: self.n_most]):
            self.about_series(series)
            if deep and number == 1 and len(run.statistics) <= self.n_most:
                self.ask(series.table)
                self.ask(series.to_xarray)
        for name in ("no such site", "encoder.*", "", ":" + "9" * 5000):
            self.ask(lambda name=name: run[name])
        for name in self.ask(lambda: list(run.scalars)) or ():
            self.ask(lambda name=name: run.scalars[name])
        if deep:
            self.ask(lambda: run.at(-1).table())
            self.ask(run.scalars.table)
            if len(run.sites) <= self.n_most and len(run.statistics) <= self.n_most:
                self.ask(run.table)
                self.ask(run.to_xarray)
        self.ask(run.refresh)
        self.ask(lambda: list(run.follow(every=0, timeout=0)))
        for name, block in (self.ask(lambda: run.archive.blocks) or {}).items():
            for array in self.ask(lambda block=block: block.names) or ():
                self.ask(lambda block=block, array=array: (name, block[array], block.shape(array), block.dtype(array)))
        if deep:
            for index in run.sessions:
                self.about_run(run.session(index.number), deep=False)
            for rank in run.ranks:
                self.about_run(run.rank(rank), deep=False)

    def about_step(self, step: Step) -> None:
        repr(step)
        for name in ("step", "kind", "time", "elapsed", "session", "about", "rows", "sites", "statistics", "matrix"):
            self.ask(lambda name=name: getattr(step, name))
        samples = self.ask(lambda: step.samples)
        if samples is not None:
            for number in range(min(len(samples), 5)):
                self.ask(lambda number=number: samples[number])
            self.ask(lambda: samples.find("cat"))
        self.ask(lambda: "embed" in step)
        for moment in (self.ask(lambda: list(step)) or ())[: self.n_most]:
            self.about_moment(moment)
            for other in ("grad", "update"):
                found = self.ask(lambda moment=moment, other=other: getattr(moment, other))
                if found is not None:
                    self.about_moment(found)

    def about_moment(self, moment: Moment) -> None:
        repr(moment)
        for name in ("role", "has_value", "dtype", "shape", "value", "raw", "stats", "iteration", "pass_", "passes"):
            self.ask(lambda name=name: getattr(moment, name))
        self.ask(lambda: moment.values)

    def about_series(self, series: Series) -> None:
        self.ask(lambda: repr(series))
        for name in ("row", "role", "names", "has", "iterations", "grad", "update", "steps", "kinds", "passes"):
            self.ask(lambda name=name: getattr(series, name))
        for statistic in series.run.statistics[:4]:
            self.ask(lambda statistic=statistic: series.curve(statistic))
            self.ask(lambda statistic=statistic: series.band(statistic))
        for kind in series.run.kinds[:3]:
            self.ask(lambda kind=kind: series.where(kind=kind).stats("mean"))
