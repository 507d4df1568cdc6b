"""Measures the work of a call without a clock: the function calls that it makes, or the lines that it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


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


def count_lines(function: Callable[[], object]) -> int:
    """How many lines of Python calling a function runs in this thread; also loops that call nothing."""
    n_lines = 0

    def on_event(frame: object, event: str, argument: object) -> Any:
        nonlocal n_lines
        n_lines += event == "line"
        return on_event

    before = sys.gettrace()
    sys.settrace(on_event)
    try:
        function()
    finally:
        sys.settrace(before)
    return n_lines
