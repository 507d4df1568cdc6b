"""Matches sources, modules and parameters of two traces with aligned ops."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cutaway.core.sites import ROOT
from cutaway.graph.tables import BUFFER, CONSTANT, INPUT, PARAMETER, ModuleRow
from cutaway.graph.trace import Trace

Pair = tuple[int, int]
"""A row of the first trace and its counterpart in the second; -1 if there is none."""
MISSING = -1


def sources_of(a: Trace, b: Trace, ops: list[Pair]) -> tuple[Pair, ...]:
    """Match inputs by path, others by the aligned ops that read them, then by address."""
    one, two = a.tables.nodes, b.tables.nodes
    found = {
        mine: other for _, mine, other in by_path(a.tables.inputs, b.tables.inputs) if MISSING not in (mine, other)
    }
    taken = set(found.values())
    edges = [edge for mine, other in ops for edge in zip(one.parents[mine], two.parents[other], strict=False)]
    kinds = (PARAMETER, BUFFER, CONSTANT)
    edges = [(m, t) for m, t in edges if one.kind[m] == two.kind[t] and one.kind[m] in kinds]
    same_address = [(m, t) for m, t in edges if one.path[m] == two.path[t]]
    addresses = {two.path[t]: t for t, kind in enumerate(two.kind) if kind in (PARAMETER, BUFFER)}
    rest = [(m, addresses[one.path[m]]) for m, k in enumerate(one.kind) if k in kinds and one.path[m] in addresses]
    # Equal addresses first, so that no other reader of a tied parameter takes its counterpart.
    for mine, other in (*same_address, *edges, *rest):
        if mine not in found and other not in taken:
            found[mine] = other
            taken.add(other)
    return (*found.items(), *_unmatched(one.kind, two.kind, found, taken))


def by_path(mine: list[tuple[str, int]], theirs: list[tuple[str, int]]) -> list[tuple[str, int, int]]:
    """Match inputs or outputs of two traces by path and, if the model ran several times, by run."""
    one, two = _numbered(mine), _numbered(theirs)
    return [(path, one.get((path, n), MISSING), two.get((path, n), MISSING)) for path, n in {**one, **two}]


def _numbered(ends: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
    found: dict[tuple[str, int], int] = {}
    counts: dict[str, int] = {}
    for path, node in ends:
        counts[path] = counts.get(path, 0) + 1
        found[path, counts[path]] = node
    return found


def _unmatched(mine: list[str], theirs: list[str], found: dict[int, int], taken: set[int]) -> Iterator[Pair]:
    yield from ((node, MISSING) for node, kind in enumerate(mine) if kind in (INPUT, CONSTANT) and node not in found)
    yield from ((MISSING, node) for node, kind in enumerate(theirs) if kind in (INPUT, CONSTANT) and node not in taken)


_CRITERIA: tuple[Callable[[ModuleRow, ModuleRow], bool], ...] = (
    lambda mine, other: mine.class_name == other.class_name and mine.addresses[0] == other.addresses[0],
    lambda mine, other: mine.class_name == other.class_name,
    lambda mine, other: mine.addresses[0] == other.addresses[0],
)
"""When two modules with aligned ops match, most reliable criterion first."""


def modules_of(a: Trace, b: Trace, ops: list[Pair], walked: list[Pair]) -> tuple[Pair, ...]:
    """Match modules by aligned calls and ops, the rest by address, unless both ran and have different classes."""
    one, two = a.tables, b.tables
    votes: list[Pair] = []
    seen: set[Pair] = set()
    ran: tuple[set[int], set[int]] = (set(), set())
    for calls in (*walked, *((one.nodes.call[mine], two.nodes.call[other]) for mine, other in ops)):
        # Call 0 is the code outside all modules.
        while all(calls) and calls not in seen:
            seen.add(calls)
            votes.append((one.calls[calls[0]].module, two.calls[calls[1]].module))
            calls = one.calls[calls[0]].parent, two.calls[calls[1]].parent
    found: dict[int, int] = {}
    taken: set[int] = set()
    for alike in _CRITERIA:
        for rows in votes:
            if rows[0] not in found and rows[1] not in taken and alike(one.modules[rows[0]], two.modules[rows[1]]):
                found[rows[0]] = rows[1]
                taken.add(rows[1])
    for side, trace in zip(ran, (a, b), strict=True):
        side.update(trace.tables.calls[call].module for call in trace.ops_by_call if call)
    addresses = {address: row for row, module in enumerate(two.modules) for address in module.addresses}

    def may(mine: int, other: int) -> bool:
        same_class = one.modules[mine].class_name == two.modules[other].class_name
        return same_class or mine not in ran[0] or other not in ran[1]

    names = [module.addresses for module in one.modules]
    _follow(names, [module.addresses[0] for module in two.modules], addresses, found, may)
    return _by_address(names, addresses, found, len(two.modules), may)


def _follow(
    mine: list[tuple[str, ...]],
    names: list[str],
    theirs: dict[str, int],
    found: dict[int, int],
    may: Callable[[int, int], bool],
) -> None:
    """Match containers without ops by the match of their parent module."""
    rows = {addresses[0]: row for row, addresses in enumerate(mine)}
    taken = set(found.values())
    for row, (address, *_) in enumerate(mine):
        upper, _, name = address.rpartition(".")
        above = found.get(rows.get(upper or ROOT, MISSING))
        if row in found or above is None or address == ROOT:
            continue
        other = theirs.get(name if names[above] == ROOT else f"{names[above]}.{name}")
        if other is not None and other not in taken and may(row, other):
            found[row] = other
            taken.add(other)


def parameters_of(a: Trace, b: Trace, sources: dict[int, int]) -> tuple[Pair, ...]:
    """Match parameters by their nodes, the rest by address."""
    of_node = {row.node: i for i, row in enumerate(b.tables.parameters) if row.node >= 0}
    found = {
        i: of_node[sources[row.node]]
        for i, row in enumerate(a.tables.parameters)
        if row.node >= 0 and sources.get(row.node) in of_node
    }
    addresses = {address: i for i, row in enumerate(b.tables.parameters) for address in row.addresses}
    return _by_address([row.addresses for row in a.tables.parameters], addresses, found, len(b.tables.parameters))


def _by_address(
    mine: list[tuple[str, ...]],
    theirs: dict[str, int],
    found: dict[int, int],
    n_theirs: int,
    may: Callable[[int, int], bool] = lambda mine, other: True,
) -> tuple[Pair, ...]:
    """Complete a matching by addresses, and add rows without a counterpart."""
    taken = set(found.values())
    for row, names in enumerate(mine):
        others = [theirs[name] for name in names if name in theirs and theirs[name] not in taken]
        if row not in found and others and may(row, others[0]):
            found[row] = others[0]
            taken.add(others[0])
    pairs = [(row, found.get(row, MISSING)) for row in range(len(mine))]
    return (*pairs, *((MISSING, row) for row in range(n_theirs) if row not in taken))
