"""Which call runs the autograd engine now: `backward()`, whose gradients train, or `torch.autograd.grad`.

Both call the hooks of a tensor, and torch does not say which one it was. But every call of the engine from Python goes
through one function (in torch 2.6 to 2.13), and the frame of that function holds its arguments for as long as the
engine runs. They are read from there: nothing is patched, and nothing has to be installed.

torch's own `torch.autograd._is_checkpoint_valid` does not tell: it is True in the hooks of the very tensors that
`torch.autograd.grad` was asked about, and False for `backward(inputs=…)`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from threading import get_ident
from types import FrameType
from typing import Any

import torch
from torch.autograd import graph as _graph

_ENGINE: Any = getattr(getattr(_graph, "_engine_run_backward", None), "__code__", None)
"""The code of the function through which every call of the engine goes."""


@dataclass(frozen=True, slots=True)
class BackwardCall:
    """One call of the autograd engine."""

    accumulates: bool
    """Whether its gradients are added to `.grad`: True for `backward()`, False for `torch.autograd.grad`."""
    retains_graph: bool
    """Whether another call may go through the same graph."""


class BackwardCalls:
    """The calls of the engine during one step.

    Args:
        thread: the thread that runs the step.
    """

    def __init__(self, thread: int) -> None:
        self._thread = thread
        self._known: dict[int, BackwardCall | None] = {}

    def current(self) -> BackwardCall | None:
        """The call that the hook which asks belongs to; None if that is not known. Never raises."""
        task = torch._C._current_graph_task_id()
        if task not in self._known:
            try:
                self._known[task] = self._find()
            except Exception:  # a later torch that calls its engine otherwise
                self._known[task] = None
        return self._known[task]

    def _find(self) -> BackwardCall | None:
        # The CPU part of a backward pass runs in the thread that called it, that of a GPU in a thread of its own,
        # while the one that called it waits.
        here = list(_calls(sys._getframe()))
        waiting = [] if get_ident() == self._thread else list(_calls(sys._current_frames().get(self._thread)))
        calls = here + waiting
        if not calls or (not here and len({call.accumulates for call in waiting}) > 1):
            return None  # called from C++; or one call inside the other, and this thread works for either
        # A re-entrant checkpoint makes its graph anew in each backward pass: it may come again if the outer one may.
        return BackwardCall(calls[0].accumulates, any(call.retains_graph for call in calls))


def _calls(frame: FrameType | None) -> Iterator[BackwardCall]:
    """The calls of the engine on a stack, the innermost first."""
    while frame is not None:
        if frame.f_code is _ENGINE:
            given = frame.f_locals
            # args: gradients of the outputs, retain_graph, create_graph, inputs
            yield BackwardCall(bool(given["kwargs"]["accumulate_grad"]), bool(given["args"][1]))
        frame = frame.f_back
