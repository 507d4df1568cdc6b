"""`Step`: the context manager around one training step."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cutaway.recording.recorder import Recorder
    from cutaway.recording.step import RecordedStep


class Step:
    """Context manager around one training step; `run.step()` returns one."""

    __slots__ = (
        "_run", "batch_size", "has_late_kind", "is_counted", "is_discarded", "is_entered", "kind", "number",
        "number_given", "recorded",
    )  # fmt: skip

    def __init__(self, run: Recorder, kind: str | None, number: int | None, batch_size: int | None) -> None:
        self._run = run
        self.kind = kind
        """The kind of the step. You may set it inside the block if it was None."""
        self.number_given = number
        self.number = -1
        self.batch_size = batch_size
        self.recorded: RecordedStep | None = None
        self.is_entered = False
        self.is_counted = False
        self.is_discarded = False
        self.has_late_kind = False

    def discard(self) -> None:
        """Do not write this step."""
        self.is_discarded = True

    def __enter__(self) -> Step:
        self.is_entered = True
        try:
            self._run._enter(self)
        except Exception as error:
            self._run.guard.report(error)
        except BaseException:  # Ctrl-C: __exit__ will not run, because the block was never entered
            self.is_discarded = True
            self._run._leave(self, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_counted:
            try:
                self._run._leave(self, error)
            except Exception as failure:
                self._run.guard.report(failure)
                self._run._release(self, self.recorded)
