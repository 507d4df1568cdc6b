"""What ranking costs: memory and time on a set larger than memory should have to hold, and beside scikit-learn.

Each measurement of memory is made in a process of its own, which reads the set from disk.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import Figure, short
from cutaway.neurons.ranking.rank import rank
from cutaway.store.activations.windows import CollectedSite
from cutaway.store.activations.writer import ActivationsWriter, Rows

MEMORY = "ranking units of a set on disk, most memory of the process"
SPEED = "ranking units of an array in memory"
SITES = tuple(f"encoder.layer.{number}" for number in range(12))
WIDTH = 384
PLANTED = 17 + 3 * WIDTH
_IN_WINDOW = 8192

WORKER = """
import json, re, sys, threading, time
import numpy as np
from cutaway.neurons.ranking.rank import rank
from cutaway.store.load import load
def status(name): return 1024 * int(re.search(name + r':\\s*(\\d+)', open('/proc/self/status').read())[1])
path, method, n_units, planted = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
labels = np.load(path + '-labels.npy')
acts = load(path)
held, done = [0], threading.Event()
def watch():
    while not done.wait(0.02): held[0] = max(held[0], status('RssAnon'))
threading.Thread(target=watch, daemon=True).start()
before = status('VmRSS')
wall, cpu = time.perf_counter(), time.process_time()
units = None if not n_units else np.unique(np.append(np.arange(n_units - 1), planted))
found = rank(acts, labels, method, units=units)
spent = time.perf_counter() - wall, time.process_time() - cpu
done.set()
assert found.order[0] == planted, found
assert 'torch' not in sys.modules
print(json.dumps([*spent, before, status('VmHWM'), held[0]]))
"""


@dataclass(frozen=True, slots=True)
class Size:
    n_rows: int
    n_units_sorted: int
    """Methods that sort every unit are measured on so many."""


FULL = Size(1_000_000, 64)
QUICK = Size(60_000, 64)


def figures(size: Size) -> list[Figure]:
    """All figures."""
    with TemporaryDirectory(prefix="cutaway-bench-") as name:
        path = Path(name) / "acts"
        write(path, size.n_rows)
        found = [*memory(path, size)]
    return [*found, *speed()]


def write(path: Path, n_rows: int) -> None:
    """A set in float16, of noise but for one unit; drawn once, and shifted along for each window."""
    rng = np.random.default_rng(0)
    pool = rng.standard_normal((2 * _IN_WINDOW, WIDTH), np.float32).astype(np.float16)
    labels = rng.integers(0, 3, n_rows)
    sites = [CollectedSite(site, WIDTH) for site in SITES]
    with ActivationsWriter(path, sites, dtype="float16") as writer:
        for first in range(0, n_rows, _IN_WINDOW):
            n = min(_IN_WINDOW, n_rows - first)
            arrays = {site: pool[s : s + n] for site, s in zip(SITES, rng.integers(0, _IN_WINDOW, 12), strict=True)}
            arrays[SITES[3]] = _planted(arrays[SITES[3]], labels[first : first + n])
            writer.window(arrays, Rows.of(np.arange(first, first + n)), ["word"] * n, n_items=n)
            writer.flush()
    np.save(f"{path}-labels.npy", labels)


def _planted(values: NDArray[np.float16], labels: NDArray[np.int64]) -> NDArray[np.float16]:
    found = values.copy()
    found[:, PLANTED % WIDTH] -= 2 * (labels == 1)
    return found


def memory(path: Path, size: Size) -> Iterator[Figure]:
    """Each method in a new process."""
    n_units = len(SITES) * WIDTH
    disk = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    for method in ("probeless", "average_precision", "iou"):  # mean_select and selectivity make the pass of probeless
        is_sorting = method in ("average_precision", "iou")
        n_ranked = size.n_units_sorted if is_sorting else 0
        command = [sys.executable, "-c", WORKER, str(path), method, str(n_ranked), str(PLANTED)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        wall, cpu, before, peak, held = json.loads(done.stdout)
        on = f"{method}, {size.n_rows:,} words × {n_units:,} units, {disk / 1e9:.1f} GB"
        if is_sorting:
            on = f"{method}, {n_ranked} units of {size.n_rows:,} words"
        parts = f"{before / 1e6:.0f} MB before, {held / 1e6:.0f} MB without mapped files"
        remark = f"{parts}; CPU {short(cpu)} s, wall {short(wall)} s"
        yield Figure(MEMORY, on, peak / 1e6, "MB", 2000.0, remark=remark)


def speed(n_rows: int = 20_000, n_units: int = WIDTH) -> Iterator[Figure]:
    """All units at once, beside a loop over scikit-learn's average precision, which NeuroX has."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n_rows, n_units), np.float32)
    y = rng.integers(0, 6, n_rows)
    on = f"{n_rows:,} × {n_units}"
    rank(x[:100], y[:100], "average_precision")
    yield Figure(SPEED, f"probeless, {on}, 6 classes", _spent(x, y, "probeless"), "s")
    peer, note = _sklearn(x, y > 2)
    spent = _spent(x, y > 2, "average_precision")
    yield Figure(SPEED, f"average precision, {on}, 2 classes, both directions", spent, "s", None, 4 * peer, note)
    spent = _spent(x, y, "average_precision")
    yield Figure(SPEED, f"average precision, {on}, 6 classes, both directions", spent, "s", None, 12 * peer, note)


def _spent(x: NDArray[np.float32], y: NDArray[np.int64] | NDArray[np.bool_], method: str) -> float:
    times = []
    for _ in range(3):
        began = process_time()
        rank(x, y, method)
        times.append(process_time() - began)
    return sorted(times)[1]


def _sklearn(x: NDArray[np.float32], y: NDArray[np.bool_], n_units: int = 24) -> tuple[float, str]:
    """Seconds for one class and one direction, from some units."""
    from sklearn.metrics import average_precision_score

    began = process_time()
    for unit in range(n_units):
        average_precision_score(y, x[:, unit])
    return (process_time() - began) * x.shape[1] / n_units, f"(scikit-learn in a loop, from {n_units} units)"
