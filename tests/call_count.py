"""Counts the work of a call without a clock: the function calls that it makes."""

from __future__ import annotations

import sys
from collections.abc import Callable


def count_calls(function: Callable[[], object]) -> int:
    """How many function calls, Python's and C's, calling a function causes in this thread."""
    n_calls = 0

    def on_event(frame: object, event: str, argument: object) -> None:
        nonlocal n_calls
        n_calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(on_event)
    try:
        function()
    finally:
        sys.setprofile(before)
    return n_calls
