"""The wall between recording and the program: what is ours runs unseen, and its failures stay with us."""

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

_DIGITS = re.compile(r"\d+")


class ErrorGuard:
    """Runs what it is given without gradients, unseen by modes, and without any error getting out.

    Args:
        note: writes a failure into the run.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self.seconds = 0.0
        """Time spent in here so far."""
        self._note = note
        self._reported: set[str] = set()
        self._thread = 0
        """The thread that is in here."""

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
            with torch._C.DisableTorchFunction(), _without_modes():
                if was_on:
                    torch._C._set_grad_enabled(False)
                function(*args)
        except Exception as error:
            self.report(error)
        finally:
            self._thread = before
            if was_on:
                torch._C._set_grad_enabled(True)
            self.seconds += perf_counter() - began

    def is_new(self, what: str) -> bool:
        """Whether this is said for the first time; numbers in it do not count."""
        key = _DIGITS.sub("#", what)[:200]
        if key in self._reported:
            return False
        self._reported.add(key)
        return True

    def report(self, error: Exception) -> None:
        """Note a failure of ours in the run, and say it aloud: once for each kind of failure."""
        try:
            what = f"{type(error).__name__}: {error}"
            if self.is_new(what):
                self._note(f"recording failed, and the training goes on: {what}"[:4000])
                warnings.warn(f"cutaway: recording failed, and the training goes on: {what}", RuntimeWarning, 2)
        except Exception:
            pass  # a program that turns warnings into errors goes on, too


def _without_modes() -> AbstractContextManager[object]:
    """Whatever watches all operations (flop counters, selective checkpointing) is not to see ours."""
    return _disable_current_modes() if torch._C._len_torch_dispatch_stack() else nullcontext()
