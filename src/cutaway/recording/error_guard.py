"""Runs recorder callbacks with hooks and modes disabled; logs exceptions instead of raising."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from threading import get_ident
from time import perf_counter
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from cutaway.core.errors import InputError, SiteError, SiteSyntaxError, UnitError

_DIGITS = re.compile(r"\d+")
_MISTAKES = (InputError, SiteError, SiteSyntaxError, UnitError)
"""Errors about a call of the user, whose messages say what to write instead; anything else is a failure of ours."""


class ErrorGuard:
    """Calls a function under no-grad with torch modes disabled, and reports its exceptions instead of raising.

    Args:
        note: writes a failure into the run.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self.seconds = 0.0
        """Time spent inside guarded calls."""
        self._note = note
        self._reported: set[str] = set()
        self._thread = 0
        """Id of the thread that is inside a guarded call, so that nested calls skip the set-up."""

    def __call__(self, function: Callable[..., object], *args: Any) -> None:
        thread = get_ident()
        if self._thread == thread:
            try:
                function(*args)
            except Exception as error:
                self.report(error)
            return
        began = perf_counter()
        was_on, before = torch.is_grad_enabled(), self._thread
        try:
            self._thread = thread
            with torch._C.DisableTorchFunction():
                if was_on:
                    torch._C._set_grad_enabled(False)
                if torch._C._len_torch_dispatch_stack():
                    with without_modes():
                        function(*args)
                else:  # this runs for every tensor: a context manager that does nothing would cost half a microsecond
                    function(*args)
        except Exception as error:
            self.report(error)
        finally:
            self._thread = before
            if was_on:
                torch._C._set_grad_enabled(True)
            self.seconds += perf_counter() - began

    def is_new(self, what: str) -> bool:
        """Whether a message is reported for the first time; digits in it are ignored."""
        # A failure that recurs with other step numbers or shapes is still the same failure.
        key = _DIGITS.sub("#", what)[:200]
        if key in self._reported:
            return False
        self._reported.add(key)
        return True

    def report(self, error: Exception) -> None:
        """Add a note to the run and warn, once for each distinct message."""
        try:
            what = _problem_text(error)
            if self.is_new(what):
                self._note(what[:4000])
                warnings.warn(f"cutaway: {what}", RuntimeWarning, 2)
        except Exception:
            pass  # the program may turn warnings into errors; training continues even then


def _problem_text(error: Exception) -> str:
    """
    >>> _problem_text(InputError("run.step(5) got an int as kind: pass number=5."))
    'mistake in the program: run.step(5) got an int as kind: pass number=5. Training continues.'
    >>> _problem_text(OSError("disk full"))
    'recording failed, training continues: OSError: disk full'
    """
    if isinstance(error, _MISTAKES):
        return f"mistake in the program: {str(error).removesuffix('.')}. Training continues."
    return f"recording failed, training continues: {type(error).__name__}: {error}"


def without_modes() -> AbstractContextManager[object]:
    """Hide recorder operations from dispatch modes: FLOP counters, selective checkpointing."""
    return _disable_current_modes() if torch._C._len_torch_dispatch_stack() else nullcontext()
