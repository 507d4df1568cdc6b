"""What recording costs: a step of a training beside a plain one, and beside comgra.

The writer has a thread of its own. Aims are held against the CPU time of the thread that trains; the CPU time of
all threads, until the step is on disk, stands beside it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time, thread_time
from typing import Any

import cutaway
from benchmarks.measure import CONTROL, Paired, Run, paired, timed
from benchmarks.peers.comgra import Comgra
from benchmarks.recording.trainings import TITLES, TRAININGS, Training, chain, mlp
from benchmarks.report import Figure, short
from cutaway.recording.recorder import Recorder

ATTACHED = "a step, attached but not recording"
EMPTY = "an empty step, attached but not recording"
LOGGED = "the same, with a loss logged"
CORE = "a recorded step, core statistics"
STILL = "a recorded step, core statistics without updates"
FULL = "a recorded step, full statistics"
VALUES = "a recorded step, core statistics and values of one sample"
FLIGHT = "a step watched by the flight recorder"
ON_DISK = "a step watched by the flight recorder, with its ring on disk"
DISK = "on disk, a step"
FIRST = "the first recorded step, traced for the graph"
OVERALL = "50 steps, of which one is recorded"
LINEAR = "added by recording, a tensor, in a chain of n modules"

VARIANTS: dict[str, dict[str, Any]] = {
    ATTACHED: {"every": [0]},
    LOGGED: {"every": [0]},
    CORE: {"every": 1},
    STILL: {"every": 1, "updates": False},
    FULL: {"every": 1, "statistics": "full"},
    VALUES: {"every": 1, "samples": 1},
    FLIGHT: {"every": None, "flight": True},
    ON_DISK: {"every": None, "flight": "disk"},
}
MODES = {ATTACHED: "attached", CORE: "statistics", FULL: "statistics, SVD", VALUES: "values"}
"""The mode of comgra that comes nearest."""

AIMS = {
    ("transformer", ATTACHED): 1.01,
    ("mlp", ATTACHED): 1.01,
    ("transformer", CORE): 1.15,
    ("transformer", FULL): 1.6,
    ("transformer", VALUES): 1.5,
    ("transformer", FLIGHT): 1.15,
    ("transformer", ON_DISK): 1.15,
}
MOST_KILOBYTES = {("transformer", VALUES): 6_000.0}


@dataclass(frozen=True, slots=True)
class Size:
    """How often it is measured."""

    n_pairs: Mapping[str, int]
    n_process_pairs: int
    n_rounds: int
    """Pairs of 50 steps."""
    chains: tuple[int, ...]
    peer_pairs: Mapping[str, int]
    peer_chains: tuple[int, ...]


FULL_SIZE = Size(
    {"mlp": 300, "transformer": 40}, 10, 3, (100, 500, 1_000, 2_000), {"mlp": 60, "transformer": 10}, (100, 500)
)
QUICK_SIZE = Size({"mlp": 40, "transformer": 6}, 3, 1, (100, 400), {"mlp": 10, "transformer": 2}, (100,))


def figures(size: Size, peer: Comgra) -> list[Figure]:
    """All figures of recording."""
    found: list[Figure] = []
    for name, n_pairs in size.n_pairs.items():
        print(f"measuring {TITLES[name]} …", file=sys.stderr, flush=True)
        with TemporaryDirectory(prefix="cutaway-bench-") as folder:
            found += of_training(name, peer, Path(folder), n_pairs=n_pairs, n_process_pairs=size.n_process_pairs)
            found += [first(name, Path(folder)), overall(name, Path(folder), size.n_rounds)]
    found += empty()
    print("measuring chains …", file=sys.stderr, flush=True)
    found += linearity(size.chains, peer)
    order = list(dict.fromkeys(figure.work for figure in found))
    return sorted(found, key=lambda figure: order.index(figure.work))


class Watched:
    """A training with a recorder attached to it."""

    def __init__(self, training: Training, folder: Path, options: Mapping[str, Any], *, logs: bool = True) -> None:
        self.folder = folder
        self.n_steps = 0
        self._training = training
        self._logs = logs
        self.recorder: Recorder = cutaway.record(folder, training.model, **options)

    def step(self) -> None:
        """One step, as a program would write it."""
        with self.recorder.step():
            loss = self._training.step()
            if self._logs:
                self.recorder.log(loss=loss)
        self.n_steps += 1

    def by_thread(self) -> float:
        """Seconds of this thread; what is left to the writer is waited for afterwards."""
        started = thread_time()
        self.step()
        spent = thread_time() - started
        self.recorder.flush()
        return spent

    def by_process(self) -> float:
        """Seconds of all threads, until the step is on disk."""
        started = process_time()
        self.step()
        self.recorder.flush()
        return process_time() - started

    def n_bytes(self) -> int:
        """What is on disk by now."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())


def of_training(name: str, peer: Comgra, folder: Path, *, n_pairs: int, n_process_pairs: int) -> Iterator[Figure]:
    """The ratios to a plain step, and bytes on disk."""
    training = TRAININGS[name]()
    watched = {
        work: Watched(training, folder / str(number), options, logs=work != ATTACHED)
        for number, (work, options) in enumerate(VARIANTS.items())
    }
    with ExitStack() as stack:
        for one in watched.values():
            stack.enter_context(one.recorder)
            for _ in range(2):
                one.by_thread()
        before = {work: (one.n_bytes(), one.n_steps) for work, one in watched.items()}
        runs = {work: one.by_thread for work, one in watched.items()}
        by_thread = paired(timed(training.step), runs, n_pairs=n_pairs, settle=training.is_small)
        runs = {work: one.by_process for work, one in watched.items()}
        by_process = paired(_by_process(training.step), runs, n_pairs=n_process_pairs, settle=training.is_small)
        control = by_thread[CONTROL]
        for work in watched:
            value, process = by_thread[work], by_process[work]
            ratio, note = peer.ratio(name, MODES[work]) if work in MODES else (None, "")
            remark = (
                f"{_spread(value)}; all threads {process.ratio:.2f}; control {control.ratio:.2f} ({_half(control)})"
            )
            yield Figure(work, TITLES[name], value.ratio, "×", AIMS.get((name, work)), ratio, note, remark)
        for work in (CORE, FULL, VALUES):
            one, (n_bytes, n_steps) = watched[work], before[work]
            taken = (one.n_bytes() - n_bytes) / (one.n_steps - n_steps) / 1e3
            theirs, note = peer.n_bytes(name, MODES[work])
            aim = MOST_KILOBYTES.get((name, work))
            yield Figure(DISK, f"{name}: {work}", taken, "kB", aim, None if theirs is None else theirs / 1e3, note)


def empty(n_steps: int = 2_000) -> Iterator[Figure]:
    """What a step adds where the machine's noise does not cover it."""
    training = mlp()
    loss = training.loss()
    with TemporaryDirectory(prefix="cutaway-bench-") as folder:
        recorder = cutaway.record(Path(folder, "run"), training.model, every=[])

        def steps(*, logs: bool) -> None:
            for _ in range(n_steps):
                with recorder.step():
                    if logs:
                        recorder.log(loss=loss)

        with recorder:
            for on, logs in (("the block alone", False), ("a loss logged in it", True)):
                run = timed(lambda logs=logs: steps(logs=logs))  # type: ignore[misc]
                yield Figure(EMPTY, on, min(run() for _ in range(5)) / n_steps * 1e6, "µs")


def first(name: str, folder: Path, n_times: int = 5) -> Figure:
    """A recorder's first step, which is traced, beside a plain one; setting the recorder up is told apart."""
    training = TRAININGS[name]()
    plain = timed(training.step)
    plain()
    pairs, set_up = [], []
    for number in range(n_times):
        started = thread_time()
        one = Watched(training, folder / f"first {number}", {"every": 1})
        set_up.append(thread_time() - started)
        with one.recorder:
            pairs.append((plain(), one.by_thread()))
    ratio = median(value / beside for beside, value in pairs)
    milliseconds = median(value for _, value in pairs) * 1e3
    remark = f"{short(milliseconds)} ms; the recorder set up in {short(median(set_up) * 1e3)} ms"
    return Figure(FIRST, TITLES[name], ratio, "×", remark=remark)


def overall(name: str, folder: Path, n_rounds: int) -> Figure:
    """What a training feels of which every 50th step is recorded; the first one, which is traced, lies before."""
    training = TRAININGS[name]()
    one = Watched(training, folder / "overall", {"every": 50})
    with one.recorder:
        found = paired(
            _times(timed(training.step), 50),
            {OVERALL: _times(timed(one.step), 50)},
            n_pairs=n_rounds,
            n_warm=1,
            settle=False,
        )
    return Figure(OVERALL, TITLES[name], found[OVERALL].ratio, "×", remark=_spread(found[OVERALL]))


def linearity(sizes: tuple[int, ...], peer: Comgra) -> Iterator[Figure]:
    """The cost of a tensor must not grow with their number."""
    smallest: float | None = None
    for n_modules in sizes:
        training = chain(n_modules)
        with TemporaryDirectory(prefix="cutaway-bench-") as folder:
            one = Watched(training, Path(folder, "run"), {"every": 1})
            with one.recorder:
                plain = timed(training.step)
                traced = one.by_thread() - plain()
                found = paired(plain, {LINEAR: one.by_thread}, n_pairs=9, settle=False)[LINEAR]
            n_rows = len(cutaway.load(one.folder).at(-1).rows)  # type: ignore[union-attr]
        added = found.added / n_rows * 1e6
        smallest = smallest or added
        remark = f"{n_rows:,} tensors, {short(found.added * 1e3)} ms, {found.ratio:.2f} × plain, "
        remark += f"{added / smallest:.2f} × the shortest chain; first step, traced: {traced / n_rows * 1e6:.0f} µs"
        theirs = peer.chain.get(str(n_modules))
        # comgra's step has about as many tensors: each output and its gradient.
        yield Figure(
            LINEAR, f"{n_modules:,} modules", added, "µs", None, theirs and theirs / n_rows * 1e3, remark=remark
        )


def _by_process(work: Callable[[], object]) -> Run:
    def run() -> float:
        started = process_time()
        work()
        return process_time() - started

    return run


def _times(run: Run, n_times: int) -> Run:
    return lambda: sum(run() for _ in range(n_times))


def _half(found: Paired) -> str:
    return f"{found.low:.2f}–{found.high:.2f}"


def _spread(found: Paired) -> str:
    return f"plain {short(found.plain * 1e3)} ms, half within {_half(found)}"
