"""What the store costs: steps written, tensors, statistics and whole runs read, bytes on disk.

Times are CPU times of all threads, because other work on the machine shares its cores; wall times stand beside them.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from shutil import rmtree
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import Figure, short
from benchmarks.store import formats
from benchmarks.store.formats import PLAIN, Format
from cutaway.core.arrays import Raw
from cutaway.store.backends.backend import backend_for
from cutaway.store.backends.file_handles import FILE_HANDLES
from cutaway.store.format.records import Row, Schema
from cutaway.store.format.segments import Limits
from cutaway.store.format.statistic_segments import StatisticsSegment
from cutaway.store.reading.archive import Archive
from cutaway.store.runs.run import Run
from cutaway.store.writing.writer import Writer

WRITE = "a step written and acknowledged"
READ = "one tensor read"
CURVE = "one statistic of one tensor over all steps"
MATRIX = "all statistics of one step"
OPEN = "a run opened in a new process, without torch"
DISK = "on disk beyond the bytes of the arrays"
SEAL = "a full segment of statistics sealed"
LIVE = "a live run"
OURS = "Cutaway"

STATISTICS = ("mean", "std", "min", "max", "abs_mean", "norm", "zeros", "nans", "q05", "q25", "q75", "q95")
Times = list[tuple[float, float]]
"""Wall and CPU seconds of each repeat."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is written and how often it is measured."""

    n_tensors: int = 300
    shape: tuple[int, ...] = (32, 128)
    n_written: int = 200
    """Steps with values, written in turn by every format."""
    n_steps: int = 10_000
    """Steps of the long run."""
    n_repeats: int = 200
    with_values: bool = True
    """Whether the long run is also made with a (tiny) value of every tensor at every step."""

    @property
    def title(self) -> str:
        return f"{self.n_tensors} tensors of {'×'.join(map(str, self.shape))}"


FULL = Size()
QUICK = Size(n_written=40, n_repeats=60, with_values=False)


def figures(size: Size, *, peers: bool) -> tuple[list[Figure], tuple[str, ...]]:
    """All figures, and what could not be measured."""
    found, missing = formats.chosen(peers=peers)
    with TemporaryDirectory(prefix="cutaway-bench-") as name:
        folder = Path(name)
        rows = list(
            chain(
                step_by_step(size, found, folder),
                long_run(size, folder),
                other_curves(size, found, folder),
                sealing(size, folder),
            )
        )
    return sorted(rows, key=lambda row: list(dict.fromkeys(r.work for r in rows)).index(row.work)), missing


# values: a step written, a tensor read


def step_by_step(size: Size, found: Mapping[str, Callable[[Path], Format]], folder: Path) -> Iterator[Figure]:
    """The same steps in every format, in turn; then the same tensors read from each, in turn."""
    stores = {title: made(_folder(folder, title)) for title, made in found.items()}
    arrays = _arrays(size)
    matrix = np.ones((size.n_tensors, len(STATISTICS)), np.float32)
    raws = {number: Raw.of(array) for number, array in enumerate(arrays.values())}
    times: dict[str, Times] = {title: [] for title in (OURS, *stores)}
    touch(2 * size.n_written * (len(stores) + 1) * sum(array.nbytes for array in arrays.values()))
    with Writer(folder / "ours", kind="run") as writer:
        schema = writer.schema([Row(name) for name in arrays], STATISTICS)

        def ours(step: int) -> None:
            writer.step(step, schema=schema, matrix=matrix, values=raws)
            writer.flush()

        for step in range(size.n_written):
            times[OURS].append(timed(ours, step))
            for title, store in stores.items():
                if step < _n_steps_of(title, size):
                    times[title].append(timed(store.write, step, arrays))
        yield from _written(times, size)
        yield from reading(folder / "ours", stores, size, "while it is written")
    for store in stores.values():
        store.close()
    yield from reading(folder / "ours", stores, size, "")
    each = sum(array.nbytes for array in arrays.values())
    yield _disk(folder / "ours", f"{OURS}: values of {size.title}", size.n_written * (each + matrix.nbytes), 5.0)
    for title in stores:
        if title != PLAIN:
            raw = each * _n_steps_of(title, size)
            yield _disk(folder / _slug(title), f"{title}: the same", raw, None)
    for title in ("ours", *map(_slug, stores)):
        rmtree(folder / title)


def _written(times: Mapping[str, Times], size: Size) -> Iterator[Figure]:
    for title, found in times.items():
        on = f"{title}: {size.title}" if title == OURS else title
        yield _figure(WRITE, on, found, 6.0 if title == OURS else None)


def reading(place: Path, stores: Mapping[str, Format], size: Size, state: str) -> Iterator[Figure]:
    """One tensor at a time, of a random step, from each format in turn."""
    run = Run(Archive(place))
    rng = np.random.default_rng(0)
    names = list(_arrays(size))
    times: dict[str, Times] = {title: [] for title in ("file open", "file closed", *stores)}
    for _ in range(size.n_repeats):
        step, name = int(rng.integers(size.n_written)), names[rng.integers(len(names))]
        other = names[rng.integers(len(names))]
        _value(run, step, other)  # opens the file
        for way, wanted in (("file open", name), ("file closed", other)):
            if way == "file closed":
                FILE_HANDLES.clear()
            times[way].append(timed(_value, run, step, wanted))
        for title, store in stores.items():
            times[title].append(timed(store.read, step % _n_steps_of(title, size), name))
    for title, found in times.items():
        is_ours = title not in stores
        if not is_ours and state:
            continue
        on = f"{OURS}, {title}{', ' if state else ''}{state}" if is_ours else title
        yield _figure(READ, on, found, 1.0 if is_ours else None)


# statistics: a long run


def long_run(size: Size, folder: Path) -> Iterator[Figure]:
    """A run of many steps, first while it is written, then closed."""
    place = folder / "long"
    n_before = size.n_steps - 50
    with Writer(place, kind="run") as writer:
        schema = writer.schema(_rows(size), STATISTICS)
        _write_statistics(writer, schema, size, 0, n_before)
        yield from live(writer, schema, place, size, n_before)
        yield from curves(place, size, "the last segment still growing")
    yield from curves(place, size, "all sealed")
    raw = size.n_steps * size.n_tensors * len(STATISTICS) * 4
    yield _disk(place, f"{OURS}: {len(STATISTICS)} statistics of {size.n_tensors} tensors", raw, 5.0)
    yield from opening(place, f"{size.n_steps:,} steps × {size.n_tensors} tensors, statistics")
    rmtree(place)
    yield from small(size, folder)
    if size.with_values:
        yield from valued(size, folder)


def live(writer: Writer, schema: int, place: Path, size: Size, first: int) -> Iterator[Figure]:
    """What a reader of a long run that grows by a step each time has to do, and how late it is."""
    run = Run(Archive(place))
    len(run)
    idle = [timed(run.refresh) for _ in range(50)]
    busy: Times = []
    late: list[float] = []
    for step in range(first, size.n_steps):
        began = perf_counter()
        _write_statistics(writer, schema, size, step, step + 1)
        busy.append(timed(_refreshed, run))
        late.append(perf_counter() - began)
    assert run.steps[-1] == size.n_steps - 1
    on = f"of {size.n_steps:,} steps"
    yield _figure(LIVE, f"{on}: refresh, nothing new", idle)
    yield _figure(LIVE, f"{on}: refresh, one new step", busy)
    remark = f"wall; fastest quarter {_quarter(late)}, p99 {_p99(late)} ms; run.follow adds up to its `every`"
    yield Figure(LIVE, f"{on}: from writer.step to run.steps", 1e3 * median(late), "ms", remark=remark)


def curves(place: Path, size: Size, state: str) -> Iterator[Figure]:
    """Each tensor asked for once, so that nothing is in the reader's memory; the system may have it."""
    run = Run(Archive(place))
    assert len(run) == size.n_steps
    order = np.random.default_rng(1).permutation(size.n_tensors)[: size.n_repeats]
    sites = [run.sites[number] for number in order]
    expected = _statistics(size, np.arange(size.n_steps))
    times: Times = []
    for number, site in zip(order, sites, strict=True):
        times.append(timed(_curve, run, site))
        assert np.array_equal(_curve(run, site), expected[:, number, 1])
    on = f"{size.n_steps:,} steps, {state}"
    yield _figure(CURVE, on, times, 50.0)
    matrices: Times = []
    for _ in range(min(size.n_repeats, 20)):
        fresh = Run(Archive(place))
        len(fresh)
        matrices.append(timed(_last_matrix, fresh))
    yield _figure(MATRIX, f"the last step, {state}", matrices)


def other_curves(size: Size, found: Mapping[str, Callable[[Path], Format]], folder: Path) -> Iterator[Figure]:
    """The same from other formats that keep one matrix a step: each step has to be read."""
    for title, made in found.items():
        if title not in formats.ALWAYS:
            continue
        store = made(_folder(folder, f"matrices-{title}"))
        for step in range(size.n_steps):
            store.write(step, {"statistics": _statistics(size, step)})

        def curve(store: Format = store) -> NDArray[np.float32]:
            return np.stack([store.read(step, "statistics")[1, 1] for step in range(size.n_steps)])

        times = [timed(curve) for _ in range(3)]
        yield _figure(CURVE, f"{title}, a matrix each", times)
        store.close()
        rmtree(folder / _slug(f"matrices-{title}"))


def opening(place: Path, on: str) -> Iterator[Figure]:
    """In processes of their own: time from `load` to the steps and sites being known, and the most memory held."""
    script = (
        "import json, re, sys, time\n"
        "import cutaway, numpy\n"
        "peak = lambda: 1024 * int(re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1])\n"
        "before = peak()\n"
        "wall, cpu = time.perf_counter(), time.process_time()\n"
        f"run = cutaway.load({str(place)!r})\n"
        "n = len(run.steps), len(run.sites), len(run.scalars)\n"
        "spent = time.perf_counter() - wall, time.process_time() - cpu\n"
        "assert 'torch' not in sys.modules\n"
        "print(json.dumps([*spent, before, peak()]))\n"
    )
    found = []
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        found.append(json.loads(done.stdout))
    wall, cpu, before, after = (median(column) for column in zip(*found, strict=True))
    yield Figure(OPEN, on, cpu, "s", 1.0, remark=f"wall {short(wall)} s; five processes")
    remark = f"most memory of the process, {before / 1e6:.0f} MB of it before the run was opened"
    yield Figure(OPEN, on, after / 1e6, "MB", 300.0, remark=remark)


def small(size: Size, folder: Path) -> Iterator[Figure]:
    """Few tensors: what a step costs beyond them weighs most here."""
    few, place = Size(n_tensors=20, n_steps=min(size.n_steps, 4096)), folder / "small"
    with Writer(place, kind="run") as writer:
        _write_statistics(writer, writer.schema(_rows(few), STATISTICS), few, 0, few.n_steps)
    raw = few.n_steps * few.n_tensors * len(STATISTICS) * 4
    yield _disk(place, f"{OURS}: {len(STATISTICS)} statistics of {few.n_tensors} tensors", raw, None)
    rmtree(place)


def valued(size: Size, folder: Path) -> Iterator[Figure]:
    """The index of a run that kept every tensor at every step; the tensors are single numbers, to spare the disk."""
    place = folder / "valued"
    values = {number: Raw.of(np.array(number, np.float32)) for number in range(size.n_tensors)}
    with Writer(place, kind="run") as writer:
        schema = writer.schema(_rows(size), STATISTICS)
        for step in range(size.n_steps):
            writer.step(step, schema=schema, matrix=_statistics(size, step), values=values)
    yield from opening(place, f"{size.n_steps:,} steps × {size.n_tensors} tensors, values of all kept")
    rmtree(place)


def sealing(size: Size, folder: Path) -> Iterator[Figure]:
    """The pause of the writing thread when a segment is full; the program goes on meanwhile."""
    limits = Limits()
    schema = Schema(1, tuple(_rows(size)), STATISTICS)
    backend = backend_for(folder / "sealing")
    n_steps = min(limits.steps, size.n_steps)
    matrix = _statistics(size, 0)
    times: Times = []
    for number in range(1, 6):
        segment = StatisticsSegment(backend, f"{number}", number, limits)
        for step in range(n_steps):
            segment.write(schema, step, matrix)
        times.append(timed(_sealed, segment))
    n_bytes = n_steps * schema.matrix_bytes
    yield _figure(SEAL, f"{n_steps:,} steps × {size.n_tensors} tensors, {n_bytes / 1e6:.0f} MB", times)
    rmtree(folder / "sealing")


# measuring


def timed(work: Callable[..., Any], *args: Any) -> tuple[float, float]:
    """Wall and CPU seconds, those of all threads; the freeing of the result does not count."""
    wall, cpu = perf_counter(), process_time()
    result = work(*args)
    spent = perf_counter() - wall, process_time() - cpu
    del result
    return spent


def touch(n_bytes: int) -> None:
    """Use free memory once: a virtual machine gets it from its host when it is first used, and a write waits."""
    gc.collect()
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    used = bytearray(min(n_bytes, free // 2))
    used[::4096] = b"\1" * len(range(0, len(used), 4096))


def _value(run: Run, step: int, name: str) -> NDArray[Any]:
    return run.at(step)[name].value


def _curve(run: Run, site: str) -> NDArray[Any]:
    return run[site].stats("std")


def _last_matrix(run: Run) -> NDArray[Any]:
    return run.at(-1).matrix


def _refreshed(run: Run) -> int:
    run.refresh()
    return int(run.steps[-1])


def _sealed(segment: StatisticsSegment) -> None:
    segment.seal(fsync=False)
    segment.drop()


def _figure(work: str, on: str, times: Times, aim: float | None = None) -> Figure:
    walls, cpus = zip(*times, strict=True)
    wall = f"{short(1e3 * median(walls))}, fastest quarter {_quarter(walls)}, p99 {_p99(walls)} ms"
    remark = f"CPU fastest quarter {_quarter(cpus)}; wall {wall}"
    return Figure(work, on, 1e3 * median(cpus), "ms", aim, remark=remark)


def _p99(times: Sequence[float]) -> str:
    return short(1e3 * float(np.percentile(times, 99)))


def _quarter(times: Sequence[float]) -> str:
    return short(1e3 * float(np.percentile(times, 25)))


def _disk(place: Path, on: str, raw: int, aim: float | None) -> Figure:
    share = 100 * (_bytes_in(place) / raw - 1)
    return Figure(DISK, on, share, "%", aim, remark=f"{raw / 1e6:.0f} MB")


# what is written


def _rows(size: Size) -> list[Row]:
    return [Row(f"encoder.layers.{number}.attention.out") for number in range(size.n_tensors)]


def _arrays(size: Size) -> dict[str, NDArray[np.float32]]:
    rng = np.random.default_rng(0)
    return {row.site: rng.normal(size=size.shape).astype(np.float32) for row in _rows(size)}


def _statistics(size: Size, step: int | NDArray[np.int64]) -> NDArray[np.float32]:
    """`[row, statistic]`, or `[step, row, statistic]`: numbers that tell step, row and statistic."""
    places = np.arange(size.n_tensors * len(STATISTICS), dtype=np.float32)
    grid = places.reshape(size.n_tensors, len(STATISTICS))
    return (grid + np.asarray(step, np.float32)[..., None, None] * 0.25).astype(np.float32)


def _write_statistics(writer: Writer, schema: int, size: Size, first: int, stop: int) -> None:
    for step in range(first, stop):
        writer.step(step, schema=schema, kind="train", matrix=_statistics(size, step))
        writer.scalars(step, {"loss": 1 / (step + 1)})
    writer.flush()


def _n_steps_of(title: str, size: Size) -> int:
    return min(size.n_written, formats.MOST_STEPS.get(title, size.n_written))


def _folder(folder: Path, title: str) -> Path:
    place = folder / _slug(title)
    place.mkdir()
    return place


def _slug(title: str) -> str:
    return title.split(",")[0].replace(" ", "-")


def _bytes_in(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
