"""Tells two names of one tensor apart, by tracing the model again with a copy under one of them.

A trace records tensors, not variables: if a module returns one tensor twice, or its own input, it does not tell which
name a later op has read. An edit puts another tensor under one name only. So the model runs once more, with the same
state and with a copy of the value where the edit would be: what reads the copy sees the edit. Writes, too, go to the
copy, as they go to the new tensor of an edit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from cutaway.capture.api import watch
from cutaway.capture.interventions.edit import edit
from cutaway.capture.replay.call import MissingValue, saved_value
from cutaway.capture.replay.rerun import CannotRun, original_state
from cutaway.capture.torch_functions import EditFunction
from cutaway.capture.validation.compare import bit_equal
from cutaway.capture.validation.together import participants
from cutaway.core.errors import CannotReplayError, CutawayError
from cutaway.graph.op import Op
from cutaway.graph.selection import rows_of
from cutaway.graph.tables import ALIAS, IDENTITY
from cutaway.graph.trace import Trace

_CACHE = "_separated"


class TwoNames(CannotReplayError):
    """The trace does not tell who sees a change; the message says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}. Run the model in `with cutaway.edit(…):` instead.")
        self.reason = reason


def separated(trace: Trace, sites: Iterable[str], why: TwoNames) -> Trace:
    """A trace of the same run with an `edit` op, which copies its value, at each of these sites.

    It stays with the trace, so that a sweep over values runs the model once.
    """
    key = tuple(dict.fromkeys(sites))
    known: tuple[Any, Trace] | None = trace.__dict__.get(_CACHE)
    if known is not None and known[0] == key:
        return known[1]
    try:
        twin = _trace_with_copies(trace, key)
    except CannotRun as reason:
        raise CannotReplayError(f"{why.reason}, and the model cannot run again to find out: {reason}.") from None
    except CutawayError as reason:
        raise CannotReplayError(f"{why.reason}. An edit there raises: {reason}") from None
    _check(trace, twin, why)
    trace.__dict__[_CACHE] = key, twin
    return twin


def in_twin(trace: Trace, twin: Trace, node: int) -> int:
    """The node of the same op or source in the other trace."""
    rows = rows_of(twin, str(Op(trace, node).full_site))
    if len(rows) != 1:
        raise CannotReplayError(f"{trace.names.label(node)} did not run when the model ran again.")
    return next(iter(rows))


def is_copy(trace: Trace, node: int) -> bool:
    """Whether a node is the new tensor of an edit: only what was given this tensor has read it."""
    event = trace.tables.nodes.event[node]
    return event is not None and type(event[0]) is EditFunction


def copies_of_ops(twin: Trace) -> dict[int, int]:
    """The nodes of ops whose results were copied → the copies."""
    nodes, copies = twin.tables.nodes, {}
    for copy in (node for node in range(len(nodes)) if is_copy(twin, node)):
        before = copy - 1
        while before >= 0 and is_copy(twin, before):
            before -= 1
        # What an op that returns its input has returned is the tensor of its producer.
        is_identity = before >= 0 and nodes.flags[before] & IDENTITY
        copies[before if is_identity else nodes.parents[copy][0]] = copy
    return copies


def _trace_with_copies(trace: Trace, sites: tuple[str, ...]) -> Trace:
    with original_state(trace) as (model, args, kwargs):
        if participants(trace):
            raise CannotRun("several processes run it together")
        keep = "copy" if trace.tables.recipe.written else "reference"
        with edit(model, dict.fromkeys(sites, torch.clone)), watch(model, keep=keep, orphans=trace._orphans) as twin:
            returned = model(*args, **kwargs)
        twin.returned = returned
    return twin


def _check(trace: Trace, twin: Trace, why: TwoNames) -> None:
    """Raises if the second run did something else than the first, apart from the copies and what reads them."""
    mine, theirs = _functions(trace), _functions(twin)
    if mine != theirs:
        raise CannotReplayError(f"{why.reason}, and the model runs other ops when it runs again.")
    inputs = zip(trace.inputs, twin.inputs, strict=False)
    for a, b in inputs:
        try:
            if not bit_equal(saved_value(trace, a.node), saved_value(twin, b.node)):
                raise CannotReplayError(f"{why.reason}, and the model has other inputs when it runs again.")
        except MissingValue:
            continue


def _functions(trace: Trace) -> list[str]:
    nodes = trace.tables.nodes
    # A write to the copy does not change the other tensor, so that it has no `alias_write`.
    return [nodes.name[node] for node in trace.op_nodes if not nodes.flags[node] & ALIAS and not is_copy(trace, node)]
