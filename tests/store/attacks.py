"""Archives that were made to do harm, each written by a function of its name: `attack(folder)`.

`python -m tests.store.attacks FOLDER` opens and reads each in a process that may not grow, and prints what came of it.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from tests.call_count import count_calls
from tests.store.mutations import Questions, frame, framed

from cutaway.store.format import frames
from cutaway.store.format.manifest import Head
from cutaway.store.reading import segment_reader

MOST_BYTES = 1 << 30
"""Of addresses: the interpreter, NumPy, pandas and xarray alone take a good half."""
SESSION = {
    "type": "session",
    "number": 1,
    "kind": "run",
    "version": 1,
    "cutaway": "0",
    "rank": 0,
    "world_size": 1,
    "time": 0.0,
}
NAN = np.full(1, np.nan, "<f4").tobytes()


def schema(n_rows: int, n_statistics: int, id_: int = 1) -> bytes:
    rows, statistics = [[f"site.{n}"] for n in range(n_rows)], [f"s{n}" for n in range(n_statistics)]
    return frame({"type": "schema", "id": id_, "rows": rows, "statistics": statistics, "dtype": "float32"})


def step(number: int, **about: object) -> bytes:
    return frame({"type": "step", "step": number, "kind": "", "time": 0.0, "elapsed": 0.0, "schema": 1, **about})


def index(folder: Path, *frames: bytes) -> Path:
    (folder / "rank-0").mkdir(parents=True)
    (folder / "cutaway.json").write_bytes(Head.new("run").packed())
    place = folder / "rank-0" / "0001.index"
    place.write_bytes(b"".join([frame(SESSION), *frames]))
    return place


def a_frame_of_four_gibibytes(folder: Path) -> None:
    index(folder, b"CUT1\xff\xff\xff\xff" + bytes(8), step(1), b"CUT1\0\0\0\4" + bytes(8))


def magics_that_all_claim_much(folder: Path) -> None:
    index(folder, (b"CUT1" + (16 << 20).to_bytes(4, "little")) * (3 << 20), step(1))


def magics_that_claim_all_that_is_left(folder: Path) -> None:
    n = 3 << 20
    claims = np.empty((n, 2), "<u4")
    claims[:, 0] = int.from_bytes(b"CUT1", "little")
    claims[:, 1] = 8 * (n - np.arange(n)) - 12
    index(folder, claims.tobytes(), step(1))


def an_index_that_is_one_great_hole(folder: Path) -> None:
    os.truncate(index(folder, step(1)), 10 << 30)


def segments_that_are_great_holes(folder: Path) -> None:
    zero = crc32(bytes(4))
    shape = {"dtype": "F32", "shape": [1, 1, 1 << 30], "data_offsets": [8 << 30, 12 << 30]}
    header = {"steps/1": {"dtype": "I64", "shape": [1 << 30], "data_offsets": [0, 8 << 30]}, "statistics/1/0": shape}
    layout = {"type": "layout", "id": 1, "schema": 1, "rows": bytes(4), "dtypes": ["float32"], "dtype_of": b"\0",
              "shapes": [[1 << 31]]}  # fmt: skip
    steps = [step(n, matrix=[1, 0, zero], block=[1, 1, 0, bytes(4)]) for n in range(9)]
    index(folder, schema(1, 1), frame(layout), *steps, step(10, matrix=[2, 2**62, 0]), step(11, matrix=[2, 0, zero]))
    text = json.dumps(header).encode()
    (folder / "rank-0" / "0001-s0001.safetensors").write_bytes(len(text).to_bytes(8, "little") + text)
    os.truncate(folder / "rank-0" / "0001-s0001.safetensors", 8 + len(text) + (12 << 30))
    for name in ("0001-s0002.part", "0001-v0001.part"):
        (folder / "rank-0" / name).touch()
        os.truncate(folder / "rank-0" / name, 10 << 30)


def a_matrix_beyond_all_measure(folder: Path) -> None:
    index(folder, schema(65_000, 65_000), *(step(n) for n in range(3)))


def many_tensors(folder: Path) -> None:
    index(folder, schema(1_000, 1), *(step(n) for n in range(3)))


def many_steps_that_share_their_statistics(folder: Path) -> None:
    data = np.zeros(60_000, "<f4").tobytes()
    index(folder, schema(1, 60_000), *(step(n, matrix=[1, 0, crc32(data)]) for n in range(5000)))
    (folder / "rank-0" / "0001-s0001.part").write_bytes(data)


def statistics_that_lie_backwards(folder: Path) -> None:
    places = [(1, 8), (2, 0), (3, 4), (4, 2**63 - 1), (5, 1)]
    index(folder, schema(1, 1), *(step(n, matrix=[1, at, crc32(NAN)]) for n, at in places))
    (folder / "rank-0" / "0001-s0001.part").write_bytes(NAN * 3)


def layouts_of_rows_and_shapes_that_cannot_be(folder: Path) -> None:
    frames = []
    shapes = [[2**63 - 1] * 60, [2**40, 2**40, 0], [0] * 65, [1, -1], [2**32], [], [2**63 - 1, 0]]
    for number, shape in enumerate(shapes, 1):
        row = np.asarray([number % 3], "<u4").tobytes()
        layout = {"type": "layout", "id": number, "schema": 1, "rows": row, "dtypes": ["float32"], "dtype_of": b"\0"}
        block = [number, 1, 0, bytes(4)]
        frames += [frame({**layout, "shapes": [shape]}), step(number, block=block)]
    index(folder, schema(2, 1), *frames, step(90, block=[1, 1, 2**63 - 1, bytes(4)]))
    (folder / "rank-0" / "0001-v0001.part").write_bytes(bytes(800))


def steps_out_of_order(folder: Path) -> None:
    index(folder, schema(1, 1), *map(step, (5, 3, 5, 7, 2**63 - 1, 0)), step(8, schema=9))


def records_that_unfold(folder: Path) -> None:
    begin = b"\x82\xa4type\xa8document\xa7content"
    lists = b"\xdc\x03\xff" + (b"\xdc\xff\xff" + b"\x90" * 65_535) * 256
    maps = b"\xdc\x03\xff" + (b"\xdc\xff\xff" + b"\x80" * 65_535) * 256
    deep = b"\xdc\xff\xff" * 1000 + bytes(70_000)
    index(folder, *(framed(begin + payload) for payload in (lists, maps, deep, b"\x91" * 100_000, b"\x81\xa1a" * 1000)))


def headers_that_unfold(folder: Path) -> None:
    index(folder, schema(1, 1), *(step(n, matrix=[n, 0, 0]) for n in (1, 2, 3)))
    texts = [b'{"a":' * 100_000, b"[" * (1 << 20), b'{"steps/1":{"dtype":"I64","shape":[' + b"9" * 5000 + b"]}}"]
    for number, text in enumerate(texts, 1):
        place = folder / "rank-0" / f"0001-s{number:04d}.safetensors"
        place.write_bytes(len(text).to_bytes(8, "little") + text)


def a_head_that_unfolds(folder: Path) -> None:
    index(folder, step(1))
    (folder / "cutaway.json").write_bytes(b'{"format":"cutaway","x":' + b"[" * 900 + b"]" * 900 + b"}")
    (folder / "rank-0" / "0001.lease").write_bytes(b"[" * 100_000)


def pipes_for_files(folder: Path) -> None:
    place = index(folder, schema(1, 1), step(1, matrix=[1, 0, 0], block=[1, 1, 0, b""]))
    os.mkfifo(folder / "rank-0" / "0002.index")
    os.mkfifo(folder / "rank-0" / "0003.lease")
    os.mkfifo(folder / "rank-0" / "0001-s0001.part")
    os.mkfifo(folder / "rank-0" / "0001-v0001.safetensors")
    (folder / "cutaway.json").unlink()
    os.mkfifo(folder / "cutaway.json")
    assert place.is_file()


def folders_for_files(folder: Path) -> None:
    index(folder, schema(1, 1), step(1, matrix=[1, 0, 0], block=[1, 1, 0, b""]))
    for name in ("0002.index", "0001.lease", "0001-s0001.safetensors", "0001-v0001.part"):
        (folder / "rank-0" / name).mkdir()
    (folder / "cutaway.json").unlink()
    (folder / "cutaway.json").mkdir()
    (folder / "rank-1").write_text("a file where a folder should be")


def links_that_lead_out(folder: Path) -> None:
    index(folder, schema(1, 1), step(1, matrix=[1, 0, 0]))
    for name, to in {"0001-s0001.part": "/etc/passwd", "0002.index": "/dev/zero", "0003.index": "0003.index"}.items():
        (folder / "rank-0" / name).symlink_to(to)
    (folder / "rank-1").symlink_to("/")
    (folder / "rank-2").symlink_to(folder / "rank-2")


def folders_with_odd_names(folder: Path) -> None:
    index(folder, step(1))
    names = ["rank--1", "rank-01", "rank-٣", "rank-1e9", "rank-999999999999", "rank-", "RANK-1", "rank-1 ", "rank-7\n"]
    for name in names:
        (folder / name).mkdir()
        (folder / name / "0001.index").write_bytes(frame(SESSION))
    for name in ("1.index", "00001.index", "-001.index", "٠٠٠١.index", "0001.index.index", "9999999999.index"):
        (folder / "rank-0" / name).write_bytes(b"?")


ATTACKS: list[Callable[[Path], None]] = [
    a_frame_of_four_gibibytes, magics_that_all_claim_much, magics_that_claim_all_that_is_left,
    an_index_that_is_one_great_hole, segments_that_are_great_holes, a_matrix_beyond_all_measure, many_tensors,
    many_steps_that_share_their_statistics, statistics_that_lie_backwards, layouts_of_rows_and_shapes_that_cannot_be,
    steps_out_of_order, records_that_unfold, headers_that_unfold, a_head_that_unfolds, pipes_for_files,
    folders_for_files, links_that_lead_out, folders_with_odd_names,
]  # fmt: skip


def main(folder: Path) -> None:
    import pandas
    import xarray

    assert pandas
    assert xarray
    for attack in ATTACKS:
        attack(folder / attack.__name__)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    n_summed = 0

    def counted(data: Any, value: int = 0) -> int:
        nonlocal n_summed
        n_summed += memoryview(data).nbytes
        return crc32(data, value)

    for module in (frames, segment_reader):
        module.crc32 = counted
    for attack in ATTACKS:
        n_summed, questions, n_read = 0, Questions(n_most=20), bytes_read()
        if attack is many_steps_that_share_their_statistics:  # as many calls as answers; counting takes seconds
            questions.about(folder / attack.__name__)
            n_calls = 0
        else:
            n_calls = count_calls(lambda: questions.about(folder / attack.__name__))
        work = {"calls": n_calls, "bytes_read": bytes_read() - n_read, "bytes_summed": n_summed}
        errors = {type(error).__name__: str(error)[:300] for error in questions.errors}
        found = {"attack": attack.__name__, "work": work, "errors": errors}
        print(json.dumps({**found, "n_answers": questions.n_answers}), flush=True)


def bytes_read() -> int:
    """What this process has read so far, from files and elsewhere."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["rchar"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
