"""Writer thread: works off the queue, sends heartbeats, survives disk errors."""

from __future__ import annotations

import logging
import os
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from threading import Lock, Thread, current_thread
from time import monotonic, time

from cutaway.core.errors import LeaseError
from cutaway.store.format.problems import BY_CUTAWAY, lost_text
from cutaway.store.format.records import STEPS, Loss, Note
from cutaway.store.writing.lease import Lease
from cutaway.store.writing.lost import LossBuffer, kind_of, reason_of
from cutaway.store.writing.queue import BoundedQueue
from cutaway.store.writing.scalar_buffer import ScalarBatch, ScalarBuffer
from cutaway.store.writing.session_files import SessionFiles

_SCALARS_EVERY = 0.25
"""Seconds until a scalar reaches the disk; also the retry interval once writes succeed again."""
_RETRY_EVERY = 1.0
"""Seconds between retries while all writes fail."""
_JOB_BYTES = 1024
"""Approximate memory of a job without its arrays."""
_MAX_RETRY_BYTES = 64 << 20
_MAX_PROBLEMS = 100

_HOW_TO_SEE = "run.problems lists what is lost."

_logger = logging.getLogger("cutaway.store")


@dataclass(frozen=True, slots=True)
class Job:
    """One write operation."""

    what: str
    write: Callable[[], None]
    n_bytes: int = 0
    steps: tuple[int, ...] = ()
    """The steps that are lost if it fails."""
    retry: bool = False
    """Whether to retry it: it is small and irreplaceable."""


class WriterThread:
    """Writes jobs in order. A failed job is recorded as lost, and the next one is still tried."""

    def __init__(self, log: SessionFiles, lease: Lease, queue_bytes: int, beat_every: float) -> None:
        self.acknowledged: int | None = None
        self.notes: list[Note] = []
        """Failures without data loss, which the index records as notes."""
        self.unrecorded: deque[str] = deque(maxlen=_MAX_PROBLEMS)
        """Failures that the index cannot record, because it is closed or belongs to another session."""
        self.earlier_losses: list[Loss] = []
        """Losses of earlier sessions that this one has found."""
        self.n_lost = 0
        """Number of jobs given up for good."""
        self._log = log
        self._lease = lease
        self._beat_every = beat_every
        self._queue = BoundedQueue[Job](queue_bytes)
        self._losses = LossBuffer()
        self._retries: deque[Job] = deque()
        self._retry_bytes = 0
        self._retry_failure = ("", "")
        """(reason, cause) of the last failed retry."""
        self._stopped = ""
        self._last_beat = self._last_retry = self._last_scalars = monotonic()
        self._scalar_buffer = ScalarBuffer()
        self._warned: set[str] = set()
        self._report_lock = Lock()
        self._pid = os.getpid()
        self._thread = Thread(target=self._run, name="cutaway-writer", daemon=True)
        self._thread.start()

    # Called from the program's threads

    def put(self, job: Job) -> None:
        """Add a job; waits while the queue is full."""
        if job.steps and not job.retry:
            self._queue_scalars()
        self._put(job)

    def _put(self, job: Job) -> None:
        if not self._queue.put(job, job.n_bytes + _JOB_BYTES):
            self.n_lost += bool(job.what)
            reason = self._stopped or "the writer is already closed"
            self._report_unrecorded(f"{lost_text(job.what, job.steps)} could not be written: {reason}", key=reason)

    def scalars(self, step: int, values: Mapping[str, float], elapsed: float) -> None:
        """Add scalars; they are written together with others."""
        is_first, full = self._scalar_buffer.add(step, values, elapsed)
        if full is not None:
            self._put(self._scalars_job(full))
        # The thread may sleep until the next heartbeat; it wakes up to write this scalar within 0.25 seconds.
        elif is_first:
            self._put(_WAKE)

    def _queue_scalars(self) -> None:
        """Queue the scalars so far. Whatever is queued later is written after them."""
        batch = self._scalar_buffer.take()
        if batch is not None:
            self._put(self._scalars_job(batch))

    def lose(self, steps: tuple[int, ...], reason: str) -> None:
        """Record that an earlier session has lost steps; queued, so that it comes before the steps of this one."""
        loss = Loss(STEPS, steps, reason, time())
        self.earlier_losses.append(loss)
        self._put(Job("loss", lambda: self._log.record(loss.to_record()), retry=True))

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What could not be written so far."""
        return (*self.earlier_losses, *self._losses.all)

    @property
    def seconds_waited(self) -> float:
        return self._queue.seconds_waited

    @property
    def n_waiting_bytes(self) -> int:
        return self._queue.n_bytes

    def flush(self, timeout: float | None) -> bool:
        """Wait until everything added so far is written or lost."""
        if self._thread.is_alive():
            self._queue_scalars()
        return self._queue.join(timeout)

    def stop(self) -> None:
        """Accept no more jobs, and let the thread finish by itself."""
        self._queue.close()

    def close(self) -> None:
        """Work off the queue and end the thread. Does nothing in a forked child, which has no such thread."""
        if os.getpid() == self._pid:
            self.stop()
            if current_thread() is not self._thread:
                self._thread.join()

    # Called in the writer thread

    def _run(self) -> None:
        try:
            while not self._queue.is_finished:
                job = self._queue.take(_SCALARS_EVERY if self._scalar_buffer or self._retries else self._beat_every)
                self._housekeep()
                if job is not None:
                    try:
                        self._run_job(job)
                    finally:
                        self._queue.done()
        except BaseException as error:  # whatever fails here, the program must go on
            _logger.info("the writer thread failed", exc_info=True)
            self._stop(reason_of(error))
        finally:
            try:
                for job in self._queue.abandon():
                    self._record_loss(job.what, job.steps, self._stopped)
            finally:
                self._finish()

    def _run_job(self, job: Job) -> None:
        if self._stopped:
            self._record_loss(job.what, job.steps, self._stopped)
            return
        if job.retry and self._retries:
            self._retry()  # keep the order: a later document replaces an earlier one
            if self._retries:
                if not self._keep_for_retry(job):
                    self._record_loss(job.what, job.steps, *self._retry_failure)
                return
        is_step = bool(job.steps) and not job.retry
        try:
            job.write()
        except LeaseError as error:
            self._stop(str(error), job)
        except FileNotFoundError as error:  # the files of this session no longer exist, so nothing can be written
            self._stop(reason_of(error), job)
        except Exception as error:
            if job.retry and self._keep_for_retry(job):
                reason = reason_of(error)
                # Not among the problems: a retry may still write it, and if none does, it becomes a loss.
                self._report(
                    f"{lost_text(job.what, job.steps)} could not be written yet: {reason}. It is tried again, but "
                    f"steps that are recorded meanwhile are lost. {_HOW_TO_SEE}",
                    key=kind_of(error),
                )
            else:
                self._record_loss(job.what, job.steps, reason_of(error), kind_of(error))
        else:
            if is_step:
                # The flight recorder writes earlier steps after later ones.
                self.acknowledged = max(job.steps[-1], -1 if self.acknowledged is None else self.acknowledged)
            if (self._retries or self._losses) and monotonic() - self._last_retry >= _SCALARS_EVERY:
                self._retry()

    def _keep_for_retry(self, job: Job) -> bool:
        """Keep a job for a retry; False if too many are waiting."""
        size = job.n_bytes + _JOB_BYTES
        if self._retry_bytes + size > _MAX_RETRY_BYTES:
            return False
        self._retries.append(job)
        self._retry_bytes += size
        return True

    def _housekeep(self) -> None:
        """Periodic work: heartbeat, scalars, retries."""
        now = monotonic()
        while self._log.problems:
            message, key = self._log.problems.popleft()
            # Once per cause: on a disk that cannot sync, each note would itself cause the next.
            if self._report(message, key):
                self._note(message)
        if now - self._last_beat >= self._beat_every and not self._stopped:
            self._last_beat = now
            try:
                self._lease.beat()
            except LeaseError as error:
                self._stop(str(error))
            except Exception as error:
                _logger.info("cannot send a heartbeat: %s", reason_of(error))
        if now - self._last_retry >= _RETRY_EVERY and not self._stopped:
            self._retry()
        if self._scalar_buffer and now - self._last_scalars >= _SCALARS_EVERY:
            self._write_scalars()

    def _stop(self, why: str, job: Job | None = None) -> None:
        """Write nothing more, from this job on."""
        self._stopped = f"the writer stopped: {why}"
        self.unrecorded.append(self._stopped)
        since = "" if self.acknowledged is None else f" after step {self.acknowledged}"
        # With the key of the losses that follow: they have the same cause.
        self._report(f"{self._stopped}. What is recorded{since} is lost; training continues.", key=self._stopped)
        if job is not None:
            self._record_loss(job.what, job.steps, self._stopped)

    def _note(self, message: str) -> None:
        if self._stopped:
            self.unrecorded.append(message)
            return
        note = Note(message, None, time(), "error", BY_CUTAWAY)
        self.notes.append(note)
        self._run_job(Job("note", lambda: self._log.record(note.to_record()), retry=True))

    def _write_scalars(self) -> None:
        self._last_scalars = monotonic()
        batch = self._scalar_buffer.take()
        if batch is None:
            return
        job = self._scalars_job(batch)
        # Scalars must not overtake steps that were queued before them: after a kill, a resumed run goes on behind the
        # last scalar, and would leave a hole.
        if self._queue.n_items:
            self._queue.push(job, job.n_bytes + _JOB_BYTES)
        else:
            self._run_job(job)

    def _scalars_job(self, batch: ScalarBatch) -> Job:
        def write() -> None:
            while batch:
                self._log.record(batch.first().to_record())
                batch.drop_first()

        return Job("scalars", write, batch.n_bytes, batch.steps, retry=True)

    def _retry(self) -> None:
        """Retry failed jobs, and record what is lost for good."""
        if not self._retries and not self._losses:
            return
        self._last_retry = monotonic()
        try:
            while self._retries and not self._stopped:
                self._retries[0].write()
                self._retry_bytes -= self._retries.popleft().n_bytes + _JOB_BYTES
            self._losses.write_all(lambda loss: self._log.record(loss.to_record()))
        except Exception as error:
            self._retry_failure = (reason_of(error), kind_of(error))
            _logger.info("retry failed: %s", reason_of(error))
            self._record_losses_in_reserve()

    def _record_losses_in_reserve(self, *, is_last: bool = False) -> None:
        """On a full disk, give room back and use it to record what is lost."""
        if self._losses and not self._stopped and self._log.reserve.release(is_last=is_last):
            try:
                self._losses.write_all(lambda loss: self._log.record(loss.to_record()))
            except Exception as error:
                _logger.info("cannot record what is lost: %s", reason_of(error))

    def _finish(self) -> None:
        self._write_scalars()
        self._retry()
        while self._retries:
            job = self._retries.popleft()
            self._record_loss(job.what, job.steps, *((self._stopped,) if self._stopped else self._retry_failure))
        self._retry()
        is_full = bool(self._losses)
        self._record_losses_in_reserve(is_last=True)
        try:
            if self._stopped:
                self._log.close_files()
            else:
                # An end record promises that every loss is recorded; without one, readers expect missing data.
                self._log.close(is_whole=not self._losses, is_full=is_full)
        except Exception as error:
            message = f"the run could not be closed properly but stays readable: {reason_of(error)}"
            self._report_unrecorded(message, key=kind_of(error))
        while self._log.problems:
            self._report_unrecorded(*self._log.problems.popleft())
        try:
            self._lease.close()
        except Exception as error:
            _logger.info("cannot release the lease: %s", reason_of(error))

    def _record_loss(self, what: str, steps: Iterable[int], reason: str, key: str = "") -> None:
        # Jobs without a name, such as a wake-up or a flush, lose nothing.
        if not what:
            return
        known = tuple(steps)
        self.n_lost += 1
        self._losses.add(what, known, reason)
        message = f"{lost_text(what, known)} could not be written: {reason}"
        if what == STEPS:
            message = f"{message}. Steps are lost until writing succeeds again; training continues. {_HOW_TO_SEE}"
        self._report(message, key=key or reason)

    def _report_unrecorded(self, message: str, key: str = "") -> None:
        self.unrecorded.append(message)
        self._report(message, key)

    def _report(self, message: str, key: str = "") -> bool:
        """Warn once per cause; returns whether the cause is new. Must never stop the program."""
        with self._report_lock:
            is_known = (key or message) in self._warned
            self._warned.add(key or message)
        if is_known:
            return False
        _logger.info("%s", message)  # not a warning, which would be printed beside the one below
        try:
            warnings.warn(f"cutaway: {message}", RuntimeWarning, stacklevel=2)
        except Exception:
            pass  # warnings are errors in this program: `Writer.problems` has the message anyway
        return True


_WAKE = Job("", lambda: None)
