"""`trace.patch_path`: path patching. An edit that only some readers see, and that reaches them only along some paths.

Two replays: the first applies the edit and freezes what must keep its value; the second starts from the original trace
and gives the readers what they read in the first.
"""

from __future__ import annotations

from typing import Any

from cutaway.capture.interventions.new_values import parse_changes
from cutaway.capture.interventions.regions import Region
from cutaway.capture.replay.call import function_calls
from cutaway.capture.replay.edges import Boundaries
from cutaway.capture.replay.replay import Replay, check_replayable, in_separated_trace
from cutaway.capture.replay.separate import TwoNames
from cutaway.core.errors import CannotReplayError, EditError, InputError
from cutaway.core.sites import Site
from cutaway.graph.op import Op
from cutaway.graph.selection import rows_of
from cutaway.graph.tables import IDENTITY, OP
from cutaway.graph.trace import Trace


def patch_path(trace: Trace, at: object, to: object, *, into: object, frozen: object, **part: Any) -> Trace:
    """A trace with an edit along some paths; `Trace.patch_path` documents and types the options."""
    check_replayable(trace, at, "patch_path")
    region = Region.of(**part)
    changes = list(parse_changes(at, to, "trace.patch_path({at}, 0)"))
    try:
        return _patch(Replay(trace).register(changes, region), into, frozen)
    except TwoNames as why:
        other = in_separated_trace(trace, changes, (into, frozen), why)
        return _patch(Replay(other.trace, sites=other.sites).register(other.changes, region), *other.others)


def _patch(first: Replay, into: object, frozen: object) -> Trace:
    first.frozen = _frozen_nodes(first, frozen)
    first.compute()
    if into is None:
        return first.result()
    edges = _edges_into(first.trace, into)
    _check_reached(first, edges, into)
    read: dict[tuple[int, int], Any] = {}
    for user, parent in edges:
        if (user, parent) in first.patched:
            read[user, parent] = first.patched[user, parent]
        elif parent in first.new:
            read[user, parent] = first.new[parent]
    return Replay(first.trace, read=read).compute().result()


def _frozen_nodes(replay: Replay, frozen: object) -> frozenset[int]:
    """The nodes of frozen modules and ops.

    Without the modules around a sender: the change leaves them through their outputs.
    """
    trace, boundaries, kept = replay.trace, replay.boundaries, set()
    around = boundaries.with_parents(replay.sender_calls)
    for where in _each(frozen):
        rows = rows_of(trace, where)
        if boundaries.module_site(where) is not None:
            if Site.parse(str(where)).side == "in":
                raise InputError(f"frozen={where!r} is an input: freeze the module or op that computes it.")
            if "**" not in str(where):  # which names the ops inside, too
                rows = boundaries.computed_inside(where, without=around)
        kept |= {node for node in rows if trace.tables.nodes.kind[node] == OP}
    return frozenset(kept)


def _edges_into(trace: Trace, into: object) -> set[tuple[int, int]]:
    """The edges to the readers, as (user, parent); the user of a call with several results is its first node."""
    nodes, boundaries = trace.tables.nodes, Boundaries(trace)
    edges: set[tuple[int, int]] = set()
    first = {node: call.nodes[0] for call in function_calls(trace.tables) for node in call.nodes}
    for where in _each(into):
        inside = boundaries.into(where)
        if inside is not None:
            edges |= inside
            continue
        for node in rows_of(trace, where):
            label = trace.names.label(node)
            if node not in first:
                raise InputError(f"into={label!r} is no op and reads nothing: name a module, its input (@in) or an op.")
            if nodes.flags[node] & IDENTITY:
                raise CannotReplayError(f"{label} returns its input tensor unchanged: name the ops that read it.")
            edges |= {(node, parent) for parent in nodes.parents[node]}
    return {(first[user], parent) for user, parent in edges}


def _check_reached(replay: Replay, edges: set[tuple[int, int]], into: object) -> None:
    """Raises if no path leads from the senders to the readers: the result would be the trace itself."""
    senders = set(replay.changes)
    users = {user for user, _ in replay.patched}
    queue, seen = [*senders, *users], senders | users
    while queue:
        for child in replay.trace.children_of(queue.pop()):
            if child not in seen and child not in replay.frozen:
                seen.add(child)
                queue.append(child)
    if not any(parent in seen or edge in replay.patched for edge in edges for parent in edge[1:]):
        raise EditError(f"no path leads from the change to {_text(into)}: all are frozen, or there is none.")


def _each(what: object) -> list[object]:
    if what is None:
        return []
    if isinstance(what, (str, Site, Op)) or not isinstance(what, (list, tuple, set)):
        return [what]
    return [inner for each in what for inner in _each(each)]


def _text(into: object) -> str:
    return " or ".join(
        repr(each if isinstance(each, (str, Site)) else getattr(each, "label", each)) for each in _each(into)
    )
