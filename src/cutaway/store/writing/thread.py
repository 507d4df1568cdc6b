"""The thread that writes: it works through a queue, gives signs of life, and outlives every failure of the disk."""

from __future__ import annotations

import logging
import os
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from threading import Lock, Thread, current_thread
from time import monotonic

from cutaway.core.errors import LeaseError
from cutaway.store.writing.lease import Lease
from cutaway.store.writing.lost import Losses, kind_of, reason_of
from cutaway.store.writing.queue import BoundedQueue
from cutaway.store.writing.scalar_buffer import Batch, Gathered
from cutaway.store.writing.session_files import Log

_SCALARS_EVERY = 0.25
"""Seconds within which a scalar reaches the disk, and a loss or a second try does once the disk takes bytes again."""
_AGAIN_EVERY = 1.0
"""Seconds between two tries to write what failed, while everything fails."""
_JOB_BYTES = 1024
"""What a job takes in memory beside its arrays, about."""
_MOST_AGAIN_BYTES = 64 << 20
_MOST_PROBLEMS = 100

_logger = logging.getLogger("cutaway.store")


@dataclass(frozen=True, slots=True)
class Job:
    """One thing to be written."""

    what: str
    write: Callable[[], None]
    n_bytes: int = 0
    steps: tuple[int, ...] = ()
    """The steps that are lost with it."""
    again: bool = False
    """Whether it is small and cannot be had again, so that it is worth another try later."""


class Worker:
    """Writes jobs in order. A job that fails is noted as lost, and the next one is tried all the same."""

    def __init__(self, log: Log, lease: Lease, queue_bytes: int, beat_every: float) -> None:
        self.acknowledged: int | None = None
        self.problems: deque[str] = deque(maxlen=_MOST_PROBLEMS)
        self.n_lost = 0
        """Jobs that were given up for good."""
        self._log = log
        self._lease = lease
        self._beat_every = beat_every
        self._queue = BoundedQueue[Job](queue_bytes)
        self._losses = Losses()
        self._again: deque[Job] = deque()
        self._again_bytes = 0
        self._why = ("", "")
        """Why the last try to write what failed before has failed, and what kind of failure that was."""
        self._stopped = ""
        self._last_beat = self._last_caught_up = self._last_scalars = monotonic()
        self._gathered = Gathered()
        self._warned: set[str] = set()
        self._complaining = Lock()
        self._pid = os.getpid()
        self._thread = Thread(target=self._run, name="cutaway-writer", daemon=True)
        self._thread.start()

    # from the thread of the program

    def put(self, job: Job) -> None:
        """Hand in a job; waits while too much is waiting already."""
        if not self._queue.put(job, job.n_bytes + _JOB_BYTES):
            self.n_lost += bool(job.what)
            reason = self._stopped or "the writer was closed before"
            self._complain(f"{_named(job.what, job.steps)} could not be written: {reason}", key=reason)

    def scalars(self, step: int, values: Mapping[str, float], elapsed: float) -> None:
        """Hand in some numbers; they are written together with others."""
        is_first, full = self._gathered.add(step, values, elapsed)
        if full is not None:
            self.put(self._scalars_job(full))
        elif is_first:
            self.put(_WAKE)

    @property
    def seconds_waited(self) -> float:
        return self._queue.seconds_waited

    @property
    def n_waiting_bytes(self) -> int:
        return self._queue.n_bytes

    def flush(self, timeout: float | None) -> bool:
        """Wait until all that was put in before is written, or known to be lost."""
        if self._thread.is_alive():
            self._queue.put(Job("", self._write_scalars), 0)
        return self._queue.join(timeout)

    def stop(self) -> None:
        """Let nothing more in, and leave the thread to work off the queue by itself."""
        self._queue.close()

    def close(self) -> None:
        """Work off the queue and end the thread. In a forked child this does nothing: it has no such thread."""
        if os.getpid() == self._pid:
            self.stop()
            if current_thread() is not self._thread:
                self._thread.join()

    # in the thread of its own

    def _run(self) -> None:
        try:
            while not self._queue.is_finished:
                job = self._queue.take(_SCALARS_EVERY if self._gathered or self._again else self._beat_every)
                self._tend()
                if job is not None:
                    try:
                        self._do(job)
                    finally:
                        self._queue.done()
        except BaseException as error:  # whatever is wrong here, the program goes on
            _logger.exception("the thread that writes has failed")
            self._stop(f"the writer stopped: {reason_of(error)}")
        finally:
            try:
                for job in self._queue.abandon():
                    self._lose(job.what, job.steps, self._stopped)
            finally:
                self._finish()

    def _do(self, job: Job) -> None:
        if self._stopped:
            self._lose(job.what, job.steps, self._stopped)
            return
        if job.again and self._again:
            self._catch_up()  # what was handed in earlier comes first: a later document takes its place
            if self._again:
                if not self._try_later(job):
                    self._lose(job.what, job.steps, *self._why)
                return
        is_step = bool(job.steps) and not job.again
        try:
            if is_step:
                self._write_scalars()
            job.write()
        except LeaseError as error:
            self._stop(f"the writer stopped: {error}")
            self._lose(job.what, job.steps, self._stopped)
        except Exception as error:
            if job.again and self._try_later(job):
                reason = reason_of(error)
                self._complain(f"{_named(job.what, job.steps)} could not be written yet: {reason}", key=kind_of(error))
            else:
                self._lose(job.what, job.steps, reason_of(error), kind_of(error))
        else:
            if is_step:
                self.acknowledged = job.steps[-1]
            if (self._again or self._losses) and monotonic() - self._last_caught_up >= _SCALARS_EVERY:
                self._catch_up()

    def _try_later(self, job: Job) -> bool:
        """Keep a job for another try; False if too many wait for one already."""
        size = job.n_bytes + _JOB_BYTES
        if self._again_bytes + size > _MOST_AGAIN_BYTES:
            return False
        self._again.append(job)
        self._again_bytes += size
        return True

    def _tend(self) -> None:
        """What is to be done now and then: a sign of life, scalars, what failed before."""
        now = monotonic()
        while self._log.problems:
            self._complain(*self._log.problems.popleft())
        if now - self._last_beat >= self._beat_every and not self._stopped:
            self._last_beat = now
            try:
                self._lease.beat()
            except LeaseError as error:
                self._stop(f"the writer stopped: {error}")
            except Exception as error:
                _logger.info("no sign of life could be given: %s", reason_of(error))
        if now - self._last_caught_up >= _AGAIN_EVERY and not self._stopped:
            self._catch_up()
        if self._gathered and now - self._last_scalars >= _SCALARS_EVERY:
            self._write_scalars()

    def _stop(self, why: str) -> None:
        self._stopped = why
        self._complain(why)

    def _write_scalars(self) -> None:
        self._last_scalars = monotonic()
        batch = self._gathered.take()
        if batch is not None:
            self._do(self._scalars_job(batch))

    def _scalars_job(self, batch: Batch) -> Job:
        def write() -> None:
            while batch:
                self._log.record(batch.first().packed())
                batch.drop_first()

        return Job("scalars", write, batch.n_bytes, batch.steps, again=True)

    def _catch_up(self) -> None:
        """Try again what failed, and write down what is lost for good."""
        if not self._again and not self._losses:
            return
        self._last_caught_up = monotonic()
        try:
            while self._again and not self._stopped:
                self._again[0].write()
                self._again_bytes -= self._again.popleft().n_bytes + _JOB_BYTES
            self._losses.tell(lambda loss: self._log.record(loss.packed()))
        except Exception as error:
            self._why = (reason_of(error), kind_of(error))
            _logger.info("what failed before still cannot be written: %s", reason_of(error))

    def _finish(self) -> None:
        self._write_scalars()
        self._catch_up()
        while self._again:
            job = self._again.popleft()
            self._lose(job.what, job.steps, *((self._stopped,) if self._stopped else self._why))
        self._catch_up()
        try:
            if self._stopped:
                self._log.let_go()
            else:
                self._log.close(is_whole=not self._losses)
        except Exception as error:
            message = f"the run could not be closed properly, and stays readable: {reason_of(error)}"
            self._complain(message, key=kind_of(error))
        while self._log.problems:
            self._complain(*self._log.problems.popleft())
        try:
            self._lease.close()
        except Exception as error:
            _logger.info("the lease could not be given back: %s", reason_of(error))

    def _lose(self, what: str, steps: Iterable[int], reason: str, key: str = "") -> None:
        if not what:
            return
        known = tuple(steps)
        self.n_lost += 1
        self._losses.add(what, known, reason)
        self._complain(f"{_named(what, known)} could not be written: {reason}", key=key or reason)

    def _complain(self, message: str, key: str = "") -> None:
        """Keep a message; say it aloud the first time. Nothing here may stop the program."""
        with self._complaining:
            self.problems.append(message)
            is_known = (key or message) in self._warned
            self._warned.add(key or message)
        if is_known:
            return
        _logger.warning("%s", message)
        try:
            warnings.warn(f"cutaway: {message}", RuntimeWarning, stacklevel=2)
        except Exception:
            pass  # the program turns warnings into errors: then it reads them in `problems`


def _named(what: str, steps: tuple[int, ...]) -> str:
    if not steps:
        return what
    return f"{what} (step {steps[0]})" if len(steps) == 1 else f"{what} (steps {steps[0]}–{steps[-1]})"


_WAKE = Job("", lambda: None)
