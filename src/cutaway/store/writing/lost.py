"""Collects what could not be written until the index can record it."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from time import time

from cutaway.store.format.records import Loss

# A disk that stays full for days must not fill the memory with step numbers.
_MAX_STEPS = 100_000
_MAX_REASONS = 100
_REASONS = {
    errno.ENOENT: "the folder of the run was deleted or moved",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file would become larger than the system allows",
    errno.EROFS: "the file system is read-only",
    errno.EIO: "the disk reported an error",
    errno.ESTALE: "the network file system lost the file",
}


def reason_of(error: BaseException) -> str:
    """The reason of a failed write.

    >>> reason_of(OSError(errno.ENOSPC, "No space left on device"))
    'the disk is full (OSError: [Errno 28] No space left on device)'
    """
    message = f"{type(error).__name__}: {error}"
    known = _REASONS.get(getattr(error, "errno", None) or 0)
    return f"{known} ({message})" if known else message


def kind_of(error: BaseException) -> str:
    """A key for the cause of a failure: one warning per cause is enough."""
    known = getattr(error, "errno", None) if isinstance(error, OSError) else None
    return f"errno {known}" if known else type(error).__name__


@dataclass(slots=True)
class LossBuffer:
    """Losses, until the index has recorded them and afterwards."""

    written: list[Loss] = field(default_factory=list)
    """Losses that the index has recorded."""
    _steps: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    def add(self, what: str, steps: Iterable[int], reason: str) -> None:
        """Add a loss; losses of the same kind and reason share a record."""
        # Reasons can contain file names, so their number is not bounded otherwise.
        if (what, reason) not in self._steps and len(self._steps) >= _MAX_REASONS:
            reason = "various reasons"
        known = self._steps.setdefault((what, reason), [])
        known += islice(steps, _MAX_STEPS - len(known))

    def __bool__(self) -> bool:
        return bool(self._steps)

    def write_all(self, write: Callable[[Loss], None]) -> None:
        """Write each loss; a loss that is written is removed."""
        for (what, reason), steps in list(self._steps.items()):
            loss = Loss(what, tuple(steps), reason, time())
            write(loss)
            self.written.append(loss)
            del self._steps[what, reason]

    @property
    def all(self) -> tuple[Loss, ...]:
        """Every loss so far; those that the index has not recorded yet come last."""
        now = time()
        pending = [Loss(what, tuple(steps), reason, now) for (what, reason), steps in list(self._steps.items())]
        return (*self.written, *pending)
