"""A small run whose every number follows from its step, and what can go wrong while it is written.

As a program (`python faults.py`), it forks children that write such runs, to be killed.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import cutaway
from cutaway.core.arrays import Raw
from cutaway.core.errors import CutawayError
from cutaway.store.backends.backend import backend_for
from cutaway.store.format.records import Row
from cutaway.store.format.segments import Limits
from cutaway.store.runs.run import Run
from cutaway.store.writing import writer as writing
from cutaway.store.writing.writer import Options, Writer

ROWS = (Row("encoder.0"), Row("encoder.1"), Row("encoder.0", of="grad"))
STATISTICS = ("mean", "std")
SMALL = Limits(steps=3, header=2048)
FOLDER = "rank-0"

# what is true


def matrix_of(step: int, n_rows: int = len(ROWS)) -> np.ndarray:
    rows, columns = np.arange(n_rows)[:, None], np.arange(len(STATISTICS))
    return (step * 8 + rows * 2 + columns).astype(np.float32)


def values_of(step: int) -> dict[int, np.ndarray]:
    """Shapes change now and then, and one array is empty: there are several layouts."""
    return {
        0: np.full((2, 1 + step % 2), step, np.float32),
        2: np.arange(step, step + 3, dtype=np.int16) if step % 4 else np.empty((0, 3), np.int16),
    }


def kind_of(step: int) -> str:
    return "long" if step % 3 == 0 else "short"


def write_step(writer: Writer, step: int) -> None:
    """Hand in all that belongs to a step, the step itself last: what it acknowledges came before."""
    schema = writer.schema(ROWS, STATISTICS)
    if step % 3 == 0:
        writer.note(f"note {step}", step=step)
    if step % 4 == 0:
        writer.document(f"document {step}", {"step": step})
    writer.document("latest", step)
    writer.scalars(step, {"loss": 1 / (step + 1)})
    values = {row: Raw.of(array) for row, array in values_of(step).items()}
    matrix = matrix_of(step)
    writer.step(step, schema=schema, kind=kind_of(step), matrix=matrix, values=values, about={"twice": 2 * step})


def write_run(
    path: str | os.PathLike[str], steps: Sequence[int], *, options: Options | None = None, **how: Any
) -> None:
    with Writer(path, kind="run", options=options or Options(limits=SMALL), **how) as writer:
        for step in steps:
            write_step(writer, step)


def load(path: str | os.PathLike[str]) -> Run:
    run = cutaway.load(path)
    assert isinstance(run, Run)
    return run


# what is found


@dataclass
class Found:
    """All that a run says when it is asked for everything: a thing, or the error that came instead."""

    run: Run
    things: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, CutawayError] = field(default_factory=dict)

    def ask(self, key: str, question: Callable[[], Any]) -> None:
        try:
            self.things[key] = question()
        except CutawayError as error:
            self.errors[key] = error


def survey(run: Run, steps: Sequence[int]) -> Found:
    """Ask a run for everything. Only errors of our own are caught: any other is a crash."""
    found = Found(run)
    found.things["steps"] = run.steps.tolist()
    for step in steps:
        found.ask(f"kind {step}", lambda: run.at(step).kind)
        found.ask(f"about {step}", lambda: dict(run.at(step).about))
        found.ask(f"matrix {step}", lambda: run.at(step).matrix)
        for row in values_of(step):
            found.ask(f"value {step} {row}", lambda: _value(run, step, ROWS[row]))
    for number, row in enumerate(ROWS):
        for statistic in STATISTICS:
            found.ask(f"curve {number} {statistic}", lambda: _curve(run, row, statistic))
    for step in steps:
        found.ask(f"loss {step}", lambda: _scalar(run, step))
    found.things["notes"] = sorted((note.text, note.step) for note in run.notes)
    found.things["documents"] = dict(run.documents)
    return found


def _value(run: Run, step: int, row: Row) -> np.ndarray:
    moment = run.at(step)[row.site].other(row.of)
    assert moment is not None
    return moment.value


def _curve(run: Run, row: Row, statistic: str) -> dict[int, float]:
    curve = run[row.site].other(row.of).curve(statistic)
    return dict(zip(curve.steps.tolist(), curve.values.tolist(), strict=True))


def _scalar(run: Run, step: int) -> float:
    curve = run.scalars["loss"]
    found = curve.values[curve.steps == step]
    if len(found) == 0:
        raise cutaway.core.errors.NotFoundError(f"no loss at {step}")
    assert len(found) == 1
    return float(found[0])


def check(found: Found, steps: Sequence[int], *, is_whole: bool = True) -> set[str]:
    """Hold everything that was found against the truth, and give what is missing.

    Args:
        is_whole: whether all of these steps must be there. If not, nothing may be wrong, but things may be missing.
    """
    missing = set(found.errors)
    there = found.things["steps"]
    assert there == sorted(set(there)), "steps in order, each once"
    assert set(there) <= set(steps), "no step that was not written"
    missing |= {f"step {step}" for step in set(steps) - set(there)}
    for step in steps:
        _same(found, f"kind {step}", kind_of(step))
        _same(found, f"about {step}", {"twice": 2 * step})
        _same(found, f"matrix {step}", matrix_of(step))
        for row, value in values_of(step).items():
            _same(found, f"value {step} {row}", value)
        _same(found, f"loss {step}", 1 / (step + 1))
    for number in range(len(ROWS)):
        for column, statistic in enumerate(STATISTICS):
            curve: Mapping[int, float] = found.things.get(f"curve {number} {statistic}", {})
            for step in there:
                value = curve.get(step, np.nan)
                if np.isnan(value):
                    missing.add(f"curve {number} {statistic} at {step}")
                else:
                    assert value == matrix_of(step)[number, column], f"curve {number} {statistic} at {step}"
    notes = {(f"note {step}", step) for step in steps if step % 3 == 0}
    documents = {f"document {step}": {"step": step} for step in steps if step % 4 == 0}
    missing |= {text for text, _ in notes - set(found.things["notes"])}
    for name, content in documents.items():
        if name not in found.things["documents"]:
            missing.add(name)
        else:
            assert found.things["documents"][name] == content
    if is_whole:
        missing -= {key for key in missing if key.startswith("curve") and not there}
        assert not missing, (sorted(missing), list(map(str, found.errors.values()))[:3], found.run.damage)
    return missing


def _same(found: Found, key: str, truth: Any) -> None:
    if key in found.things:
        assert np.array_equal(found.things[key], truth), f"{key}: {found.things[key]} instead of {truth}"
        assert np.shape(found.things[key]) == np.shape(truth), key


def verified(run: Run, steps: Sequence[int]) -> None:
    """Everything of these steps is there and right."""
    later = [step for step in run.steps.tolist() if step not in set(steps)]
    found = survey(run, steps)
    found.things["steps"] = [step for step in found.things["steps"] if step not in set(later)]
    check(found, steps)


# what goes wrong


@dataclass
class Fault:
    """Counts the calls that change files, and does something at one of them."""

    at: int = -1
    """The number of the call; -1 for none."""
    how: str = "error"
    """"error", or "kill" before it, "half" through a write, or "after" it."""
    until: int | None = None
    """The number of the call from which on all is well again; only the one call fails if not given."""
    n_calls: int = 0
    code: int = errno.ENOSPC
    room: int | None = None
    """Bytes that the disk still takes; None if it is large."""
    calls: list[tuple[str, str]] = field(default_factory=list)
    slow: Callable[[], None] = lambda: None

    def __call__(self, what: str, name: str, act: Callable[[], Any], half: Callable[[], Any] | None, size: int) -> Any:
        number = self.n_calls
        self.n_calls += 1
        self.calls.append((what, name))
        self.slow()
        is_hit = self.at >= 0 and self.at <= number < (self.at + 1 if self.until is None else self.until)
        if is_hit and self.how == "error":
            raise OSError(self.code, os.strerror(self.code), name)
        if is_hit and self.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if is_hit and self.how == "half":
            if half is not None:
                half()
            os.kill(os.getpid(), signal.SIGKILL)
        if self.room is not None:
            if size > self.room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
            self.room -= size
        result = act()
        if is_hit and self.how == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return result


class FaultyBackend:
    """A backend at whose calls a fault happens."""

    def __init__(self, path: str | os.PathLike[str], fault: Fault) -> None:
        self.inner = backend_for(path)
        self.url = self.inner.url
        self.fault = fault
        self.names, self.size, self.read = self.inner.names, self.inner.size, self.inner.read

    def put(self, name: str, data: bytes, *, new: bool = False, sync: bool = True) -> None:
        self.fault("put", name, lambda: self.inner.put(name, data, new=new, sync=sync), None, len(data))

    def append(self, name: str) -> FaultyAppender:
        return FaultyAppender(self.fault("append", name, lambda: self.inner.append(name), None, 0), name, self.fault)

    def rename(self, old: str, new: str, *, sync: bool = False) -> None:
        self.fault("rename", new, lambda: self.inner.rename(old, new, sync=sync), None, 0)

    def remove(self, name: str) -> None:
        self.fault("remove", name, lambda: self.inner.remove(name), None, 0)


class FaultyAppender:
    """A growing file at whose calls a fault happens."""

    def __init__(self, inner: Any, name: str, fault: Fault) -> None:
        self.inner, self.name, self.fault = inner, name, fault
        self.close = inner.close

    @property
    def size(self) -> int:
        return int(self.inner.size)

    def write(self, parts: Sequence[Any]) -> int:
        whole = b"".join(bytes(part) for part in parts)
        half = lambda: self.inner.write([whole[: len(whole) // 2]])  # noqa: E731
        return int(self.fault("write", self.name, lambda: self.inner.write(parts), half, len(whole)))

    def patch(self, offset: int, data: Any) -> None:
        half = lambda: self.inner.patch(offset, bytes(data)[: len(bytes(data)) // 2])  # noqa: E731
        self.fault("patch", self.name, lambda: self.inner.patch(offset, data), half, 0)

    def sync(self) -> None:
        self.fault("sync", self.name, self.inner.sync, None, 0)


@contextmanager
def faulty(fault: Fault) -> Iterator[Fault]:
    """Writers that are opened inside meet this fault."""
    with mock.patch.object(writing, "backend_for", lambda path: FaultyBackend(path, fault)):
        yield fault


# children that are killed


class Nursery:
    """A process that forks children which write a run; they come in milliseconds, and can be killed."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def start(self, path: Path, first: int, n_steps: int, *, fault: Fault | None = None) -> int:
        """Have a child write steps, resuming what is there, and close the run. Its process id."""
        assert self._server.stdin is not None
        at, how = (fault.at, fault.how) if fault else (-1, "none")
        print(path, first, n_steps, at, how, file=self._server.stdin, flush=True)
        pid = self._line()
        assert pid.startswith("pid "), pid
        return int(pid.split()[1])

    def first(self) -> int:
        """Wait until the child says that a step was acknowledged."""
        line = self._line()
        assert line.startswith("ack "), line
        return int(line.split()[1])

    def said(self, acknowledged: int | None = None) -> tuple[int | None, str]:
        """Wait for the end of the child: the last step that it saw acknowledged, and its last words."""
        last = ""
        while not (line := self._line()).startswith("dead"):
            if line.startswith("ack "):
                acknowledged = int(line.split()[1])
            else:
                last = line
        return acknowledged, last

    def _line(self) -> str:
        assert self._server.stdout is not None
        line = self._server.stdout.readline()
        assert line, "the nursery has died"
        return line.rstrip("\n")

    def close(self) -> None:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()


def _serve() -> None:
    for line in sys.stdin:
        path, first, n_steps, at, how = line.split()
        pid = os.fork()
        if not pid:
            try:
                _say(f"pid {os.getpid()}")
                _child(path, int(first), int(n_steps), Fault(int(at), how))
                if how == "none":
                    signal.pause()
            except BaseException as error:
                _say(f"{type(error).__name__}: {error}")
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        _say("dead")


def _child(path: str, first: int, n_steps: int, fault: Fault) -> None:
    with faulty(fault):
        writer = Writer(path, kind="run", resume=True, options=Options(limits=SMALL, beat_every=0.005))
    seen: int | None = None
    for step in range(first, first + n_steps):
        write_step(writer, step)
        if step % 5 == 4:
            writer.flush()
        if writer.acknowledged != seen:
            seen = writer.acknowledged
            _say(f"ack {seen}")
    writer.flush()
    _say(f"ack {writer.acknowledged}")
    _say("closing")
    writer.close()
    _say("closed" if not writer.problems else str(writer.problems))


def _say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


if __name__ == "__main__":
    _serve()
