"""Checks a graph for contradictions: order, passes, module calls, distances."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cutaway.graph.tables import OP, Tables

if TYPE_CHECKING:
    from cutaway.graph.trace import Trace

Problem = tuple[int, str]
"""(node, what is wrong with it); the node is -1 if the problem is not about one node."""


def problems(trace: Trace) -> Iterator[Problem]:
    """Every contradiction in a trace."""
    tables = trace.tables
    yield from _order(trace, tables)
    yield from _names(trace)
    yield from _modules(tables)
    yield from _passes(trace, tables)
    yield from _distances(trace, tables)


def _order(trace: Trace, tables: Tables) -> Iterator[Problem]:
    nodes = tables.nodes
    for node, parents in enumerate(nodes.parents):
        if any(not 0 <= parent < node for parent in parents):
            yield node, "a parent does not come before it"
        if (nodes.event[node] is None) != (nodes.kind[node] != OP):
            yield node, "an op has no call, or a source has one"
    listed = set(trace.op_nodes)
    children = {(parent, node) for node in listed for parent in nodes.parents[node]}
    for node in range(len(nodes)):
        for child in trace.children_of(node):
            if (node, child) not in children:
                yield child, f"it is listed as a child of {trace.names.label(node)}, which is not its parent"
            children.discard((node, child))
    for parent, node in children:
        yield node, f"its parent {trace.names.label(parent)} does not list it as a child"


def _names(trace: Trace) -> Iterator[Problem]:
    labels: dict[str, int] = {}
    for position, node in enumerate(trace.op_nodes):
        label = trace.names.label(node)
        if label in labels:
            yield node, f"another op is also called {label}"
        labels[label] = node
        if trace.names.position(node) != position:
            yield node, "its position is not its index in the order of execution"


def _modules(tables: Tables) -> Iterator[Problem]:
    """A call must be inside a call that began before it, and its inputs and outputs must exist."""
    calls, n = tables.calls, len(tables.nodes)
    for number, row in enumerate(calls):
        if number and not 0 <= row.parent < number:
            yield -1, f"module call {number} is inside call {row.parent}, which began after it"
        for path, node in (*row.inputs, *row.outputs):
            if not 0 <= node < n:
                yield -1, f"module call {number} has an unknown tensor at {path!r}"
    for node, call in enumerate(tables.nodes.call):
        if not 0 <= call < len(calls):
            yield node, f"it ran in module call {call}, which does not exist"
        elif tables.nodes.kind[node] == OP and call and calls[call].first_node > node:
            yield node, "it ran before its module call began"


def _passes(trace: Trace, tables: Tables) -> Iterator[Problem]:
    for module in tables.modules:
        numbers = [tables.calls[call].pass_ for call in module.calls]
        if numbers != list(range(1, len(numbers) + 1)):
            yield -1, f"the passes of module {module.addresses[0]!r} are numbered {numbers}"
    seen: dict[str, int] = {}
    for node in trace.op_nodes:
        site = str(trace.names.full_site(node))
        if site in seen:
            yield node, f"its site {site} is also that of {trace.names.label(seen[site])}"
        seen[site] = node


def _distances(trace: Trace, tables: Tables) -> Iterator[Problem]:
    """Recompute distances breadth first, which is independent of how they were computed."""
    parents = tables.nodes.parents
    children: list[list[int]] = [[] for _ in parents]
    for node, above in enumerate(parents):
        for parent in above:
            if 0 <= parent < len(parents):
                children[parent].append(node)
    known = trace.distances
    for what, given, starts, step in (
        ("from the inputs", known.from_input, tables.inputs, children),
        ("to the outputs", known.to_output, tables.outputs, parents),
    ):
        found: list[int | None] = [None] * len(parents)
        queue = deque(dict.fromkeys(node for _, node in starts))
        for node in queue:
            found[node] = 0
        while queue:
            node = queue.popleft()
            for other in step[node]:
                if found[other] is None:
                    found[other] = (found[node] or 0) + 1
                    queue.append(other)
        for node, distance in enumerate(found):
            if distance != given[node]:
                yield node, f"its distance {what} is {distance}, not {given[node]}"
