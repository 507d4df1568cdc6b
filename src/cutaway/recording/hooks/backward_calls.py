"""Tells `backward()` from `torch.autograd.grad` inside a gradient hook.

Both call the hooks of a tensor, and torch does not say which one it was. But every engine call from Python goes
through one function (in torch 2.6 to 2.13), and the frame of that function holds its arguments while the engine runs.
This module reads them from the frame: nothing is patched or installed.

`torch.autograd._is_checkpoint_valid` does not help: it is True in the hooks of the very tensors that
`torch.autograd.grad` was asked about, and False for `backward(inputs=…)`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import get_ident
from types import FrameType
from typing import Any

import torch
from torch.autograd import graph as _graph

from cutaway.recording.facts.losses import LossNode, loss_nodes

_ENGINE: Any = getattr(getattr(_graph, "_engine_run_backward", None), "__code__", None)
"""Code object of the function that every engine call goes through."""


@dataclass(frozen=True, slots=True)
class BackwardCall:
    """One call of the autograd engine."""

    accumulates: bool
    """Whether gradients are added to `.grad`: True for `backward()`, False for `torch.autograd.grad`."""
    retains_graph: bool
    """Whether another call may use the same graph."""
    losses: frozenset[LossNode] = frozenset()
    """What it was called on: the nodes of its roots and of their terms."""


class BackwardCalls:
    """The engine calls of one step.

    Args:
        thread: id of the thread that runs the step.
    """

    def __init__(self, thread: int) -> None:
        self._thread = thread
        self._known: dict[int, BackwardCall | None] = {}
        self._outer: list[tuple[BackwardCall, bool]] = []
        """Each `backward()` call of the program, and whether it was seen only through a call inside of it."""
        self.on_backward: Callable[[], None] = lambda: None
        """Callback: a `backward()` call was seen for the first time."""

    @property
    def n_backward(self) -> int | None:
        """How often the program called `backward()`; None if a call is of unknown origin."""
        return None if None in self._known.values() else len(self._outer)

    @property
    def losses(self) -> frozenset[LossNode]:
        """What `backward()` was called on."""
        return frozenset().union(*(call.losses for call, _ in self._outer))

    def current(self) -> BackwardCall | None:
        """The engine call that the current hook runs in; None if unknown. Never raises."""
        task = torch._C._current_graph_task_id()
        if task not in self._known:
            try:
                self._known[task] = self._find()
            except Exception:  # a future torch may call its engine differently
                self._known[task] = None
        return self._known[task]

    def _find(self) -> BackwardCall | None:
        # On the CPU the engine runs in the calling thread. On a GPU it runs in a thread of its own, while the
        # calling thread waits.
        here = list(_calls(sys._getframe()))
        waiting = [] if get_ident() == self._thread else list(_calls(sys._current_frames().get(self._thread)))
        calls = here + waiting
        if not calls or (not here and len({call.accumulates for call in waiting}) > 1):
            return None  # called from C++, or nested calls of both kinds that this thread may work for
        self._count(calls[-1], is_inside=len(calls) > 1)
        # A re-entrant checkpoint rebuilds its graph in each backward pass: it may repeat if the outer call may.
        return BackwardCall(calls[0].accumulates, any(call.retains_graph for call in calls))

    def _count(self, outer: BackwardCall, *, is_inside: bool) -> None:
        """Count a call of the program once, however many checkpoints call the engine inside of it."""
        if not outer.accumulates:
            return
        if self._outer and self._outer[-1][0].losses == outer.losses and (is_inside or self._outer[-1][1]):
            self._outer[-1] = outer, is_inside
            return
        self._outer.append((outer, is_inside))
        self.on_backward()


def backward_roots(thread: int) -> list[Any]:
    """The tensors that the running `backward()` began with, asked inside a gradient hook; empty if unknown.

    Args:
        thread: id of the thread that runs the step.
    """
    stacks = [sys._getframe()]
    if get_ident() != thread:
        stacks += filter(None, [sys._current_frames().get(thread)])
    for frame in stacks:
        while frame is not None:
            if frame.f_code is _ENGINE:
                given = frame.f_locals
                return list(given["t_outputs"]) if given["kwargs"]["accumulate_grad"] else []
            frame = frame.f_back  # type: ignore[assignment]
    return []


def _calls(frame: FrameType | None) -> Iterator[BackwardCall]:
    """The engine calls on a stack, innermost first."""
    while frame is not None:
        if frame.f_code is _ENGINE:
            given = frame.f_locals
            # args: grad_outputs, retain_graph, create_graph, inputs
            losses = loss_nodes(given["t_outputs"]) if given["kwargs"]["accumulate_grad"] else frozenset()
            yield BackwardCall(bool(given["kwargs"]["accumulate_grad"]), bool(given["args"][1]), losses)
        frame = frame.f_back
