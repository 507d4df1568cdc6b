"""Aligns the ops of two traces.

Both traces are walked together, module call by module call. The ops and child calls of a call are a sequence, and two
sequences are matched in order with the greatest total similarity. So one additional op does not shift all that follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from cutaway.graph.argument_text import arguments_text
from cutaway.graph.control_flow.stored_code import fingerprint_of
from cutaway.graph.diff.match import MISSING, Pair, modules_of, parameters_of, sources_of
from cutaway.graph.diff.sequences import MOST_CELLS, common, ends, heaviest
from cutaway.graph.labels import kind_of
from cutaway.graph.tables import OP, PARAMETER
from cutaway.graph.trace import Trace


@dataclass(frozen=True, slots=True)
class Alignment:
    """Matching rows of two traces."""

    ops: tuple[Pair, ...]
    """All ops of both, in the order of the second trace; removed ops where they would have been."""
    sources: tuple[Pair, ...]
    """Nodes of inputs, parameters, buffers and constants that were read."""
    modules: tuple[Pair, ...]
    """Rows of the tables of modules."""
    parameters: tuple[Pair, ...]
    """Rows of the tables of parameters and buffers, read or not."""
    calls: tuple[Pair, ...] = ()
    """Module calls that were walked together."""


def align(a: Trace, b: Trace) -> Alignment:
    """Find the counterpart in `b` of each op, source, module and parameter of `a`."""
    numbers: dict[Any, int] = {}
    one, two = _Side(a, numbers), _Side(b, numbers)
    calls: list[Pair] = []
    pairs = _in_order([pair for events in _match_events(one, two, calls) for pair in _results(one, two, *events)])
    both = [pair for pair in pairs if MISSING not in pair]
    sources = sources_of(a, b, both)
    modules, parameters = modules_of(a, b, both, calls), parameters_of(a, b, dict(sources))
    return Alignment(pairs, sources, modules, parameters, tuple(calls))


@dataclass(slots=True)
class _Side:
    """One of the two traces as sequences of items: an event as its index, a module call as `~index`."""

    trace: Trace
    numbers: dict[Any, int]
    """Compared value → a number, shared by both sides."""
    events: list[list[int]] = field(default_factory=list)
    """The nodes of the results of each function call."""
    items: dict[int, list[int]] = field(default_factory=dict)
    """Module call → its direct items, in order; calls without ops are left out."""
    _signatures: dict[int, int] = field(default_factory=dict)
    _tokens: dict[tuple[int, int], int] = field(default_factory=dict)
    _arguments: dict[int, str] = field(default_factory=dict)
    _codes: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        nodes, rows = self.trace.tables.nodes, self.trace.tables.calls
        last: Any = None
        placed = {0}
        for node in self.trace.op_nodes:
            event = nodes.event[node]
            if event is not None and event is last:
                self.events[-1].append(node)
                continue
            last = event
            call = nodes.call[node]
            self.items.setdefault(call, []).append(len(self.events))
            self.events.append([node])
            # A module call stands where its first op ran.
            while call not in placed:
                placed.add(call)
                self.items.setdefault(rows[call].parent, []).append(~call)
                call = rows[call].parent
        for call in sorted(self.items, reverse=True):  # children first: a call has a higher index than its parent
            self._signatures[call] = self.number(self._shape_of(call))

    def number(self, token: Any) -> int:
        return self.numbers.setdefault(token, len(self.numbers))

    def tokens(self, items: Sequence[int], look: int) -> list[int]:
        """The tokens of items under one criterion; items with equal tokens may match."""
        known, found = self._tokens, []
        for item in items:
            token = known.get((item, look))
            if token is None:
                value = (_EVENTS[look](self, item), 0) if item >= 0 else (_CALLS[look](self, ~item), 1)
                token = known[item, look] = self.number((look, value))
            found.append(token)
        return found

    def flat(self, items: Sequence[int]) -> list[int]:
        """The events among the items and inside their calls, in order."""
        found: list[int] = []
        left = list(reversed(items))
        while left:
            item = left.pop()
            if item >= 0:
                found.append(item)
            else:
                left.extend(reversed(self.items[~item]))
        return found

    def below(self, call: int) -> Iterator[int]:
        """A call and all calls inside it."""
        left = [call]
        while left:
            call = left.pop()
            yield call
            left.extend(~item for item in reversed(self.items[call]) if item < 0)

    # properties of an event

    def kind(self, event: int) -> str:
        return kind_of(self.trace.tables.nodes.name[self.events[event][0]])

    def arguments(self, event: int) -> str:
        text = self._arguments.get(event)
        if text is None:
            text = self._arguments[event] = arguments_of(self.trace, self.events[event][0])
        return text

    def sizes(self, event: int) -> tuple[Any, ...]:
        """The shapes of its results and of the parameters it read."""
        nodes = self.trace.tables.nodes
        first = self.events[event][0]
        read = [node for node in nodes.parents[first] if nodes.kind[node] == PARAMETER]
        metas = [nodes.meta_of(node) for node in (*self.events[event], *read)]
        return (len(nodes.parents[first]), *(meta and meta.shape for meta in metas))

    def place(self, event: int) -> tuple[Any, ...]:
        """Its place in the code, through composite functions up to its module's forward."""
        tables = self.trace.tables
        row = tables.nodes.event[self.events[event][0]]
        if row is None:
            return ()
        found = [(self._code(row[6]), row[7])]
        group = row[5]
        while group:
            opened = tables.groups[group]
            found.append((self._code(opened.code), opened.instruction))
            group = opened.parent
        return tuple(found)

    def _code(self, code: Any) -> int:
        """A number for a code object; equal for equal code. Cached, because the fingerprint is expensive."""
        if id(code) not in self._codes:
            known = None if code is None else (code.co_filename, fingerprint_of(code))
            self._codes[id(code)] = self.number((known,))
        return self._codes[id(code)]

    def above(self, event: int) -> tuple[str, ...]:
        """The kinds of its parents."""
        nodes = self.trace.tables.nodes
        return tuple(
            kind_of(nodes.name[node]) if nodes.kind[node] == OP else nodes.path[node] or nodes.kind[node]
            for node in nodes.parents[self.events[event][0]]
        )

    # properties of a module call

    def address(self, call: int) -> str:
        return self.trace.names.address(call)

    def class_name(self, call: int) -> str:
        row = self.trace.tables.calls[call].module
        return self.trace.tables.modules[row].class_name if row >= 0 else ""

    def signature(self, call: int) -> int:
        """Equal for calls of equal structure: class, parameter shapes, kinds of ops, recursively."""
        return self._signatures[call]

    def _shape_of(self, call: int) -> tuple[Any, ...]:
        tables = self.trace.tables
        row = tables.calls[call].module
        parameters = tables.modules[row].parameters if row >= 0 else ()
        inside = [self.kind(item) if item >= 0 else self._signatures[~item] for item in self.items[call]]
        return (self.class_name(call), tuple(tables.parameters[i].shape for i in parameters), tuple(inside))


def _without_numbers(address: str) -> str:
    """An address without layer numbers, so that an additional layer makes no difference."""
    return ".".join("#" if part.isdecimal() else part for part in address.split("."))


_EVENTS: tuple[Callable[[_Side, int], Any], ...] = (
    lambda side, e: (side.kind(e), side.place(e), side.arguments(e), side.sizes(e), side.above(e)),
    lambda side, e: (side.kind(e), side.place(e)),
    lambda side, e: (side.kind(e), side.arguments(e), side.sizes(e)),
    lambda side, e: (side.kind(e), side.arguments(e)),
    lambda side, e: side.kind(e),
    lambda side, e: (id(side), e),
)
"""Criteria for ops, by index."""
_CALLS: tuple[Callable[[_Side, int], Any], ...] = (
    lambda side, call: (side.address(call), side.class_name(call), side.signature(call)),
    lambda side, call: (_without_numbers(side.address(call)), side.class_name(call), side.signature(call)),
    lambda side, call: (side.address(call), side.class_name(call)),
    lambda side, call: (_without_numbers(side.address(call)), side.class_name(call)),
    lambda side, call: (id(side), call),
    lambda side, call: side.address(call),
)
"""Criteria for module calls, by the same index; criterion 4 is for ops only, 5 for calls only."""
_WEIGHTS = {0: 2, 1: 8, 2: 2, 3: 2, 4: 6, 5: 2}
"""Criterion → its weight. The weights of all criteria that two items meet add up."""
_FLAT = {2: 1}
"""The criterion for the rest of two sequences, flattened to ops without modules."""


def _match_events(one: _Side, two: _Side, calls: list[Pair]) -> list[Pair]:
    """Every event of both, in pairs; -1 if it has no counterpart. Pairs of calls are added to `calls`."""
    found = list(_walk(one, two, calls))
    mine, theirs = ({pair[i] for pair in found} for i in (0, 1))
    rest = ([e for e in range(len(side.events)) if e not in seen] for side, seen in ((one, mine), (two, theirs)))
    return [*found, *_unmatched(*rest)]  # the rest: events around a model that is nested in the other


def _walk(one: _Side, two: _Side, calls: list[Pair]) -> Iterator[Pair]:
    """Walk both traces together, module call by module call."""
    left = [(0, 0)]
    while left:
        call_a, call_b = left.pop()
        calls.append((call_a, call_b))
        items_a, items_b = one.items.get(call_a, []), two.items.get(call_b, [])
        for matched, rest_a, rest_b in _stretches(one, two, items_a, items_b, _WEIGHTS):
            if matched:
                for a, b in zip(rest_a, rest_b, strict=True):
                    if a >= 0 and b >= 0:
                        yield a, b
                    else:
                        left.append((~a, ~b) if call_a or call_b else _unwrap(one, two, ~a, ~b))
            elif not rest_a or not rest_b:
                yield from _unmatched(one.flat(rest_a), two.flat(rest_b))
            else:
                yield from _match_flat(one, two, rest_a, rest_b)


def _unwrap(one: _Side, two: _Side, call_a: int, call_b: int) -> Pair:
    """Two calls of the models, or of one model and its copy nested in the other: a wrapper or a new head."""
    signatures = one.signature(call_a), two.signature(call_b)
    inside = next((call for call in two.below(call_b) if two.signature(call) == signatures[0]), call_b)
    if inside != call_b or signatures[0] == signatures[1]:
        return call_a, inside
    return next((call for call in one.below(call_a) if one.signature(call) == signatures[1]), call_a), call_b


def _match_flat(one: _Side, two: _Side, items_a: Sequence[int], items_b: Sequence[int]) -> Iterator[Pair]:
    """Match the rest by ops alone. Equally many ops with equal sizes in the same place count as changed ops."""
    for matched, rest_a, rest_b in _stretches(one, two, one.flat(items_a), two.flat(items_b), _FLAT):
        if not matched and len(rest_a) != len(rest_b):
            yield from _unmatched(rest_a, rest_b)
            continue
        for a, b in zip(rest_a, rest_b, strict=True):
            if matched or len(rest_a) == 1 or one.sizes(a) == two.sizes(b):
                yield a, b
            else:
                yield from _unmatched([a], [b])


def _unmatched(events_a: Sequence[int], events_b: Sequence[int]) -> Iterator[Pair]:
    yield from ((event, MISSING) for event in events_a)
    yield from ((MISSING, event) for event in events_b)


_Stretch = tuple[bool, Sequence[int], Sequence[int]]
"""Whether two stretches of items match one to one, and both stretches."""


def _stretches(
    one: _Side, two: _Side, items_a: Sequence[int], items_b: Sequence[int], weights: dict[int, int]
) -> list[_Stretch]:
    """Cut two sequences into stretches that match and stretches that do not."""
    look = min(weights)
    head, tail = ends(one.tokens(items_a, look), two.tokens(items_b, look))
    a, b = items_a[head : len(items_a) - tail], items_b[head : len(items_b) - tail]
    inner: list[_Stretch] = [(False, a, b)]
    if a and b and len(a) * len(b) <= MOST_CELLS:
        looks = [(one.tokens(a, look), two.tokens(b, look), weight) for look, weight in weights.items()]
        inner = _cut(a, b, heaviest(looks))
    elif a and b:
        for look in weights:  # most reliable criterion first; others only for the stretches between matches
            inner = [part for stretch in inner for part in _cut_by(one, two, stretch, look)]
    ahead, behind = items_a[:head], items_a[len(items_a) - tail :]
    found = [(True, ahead, items_b[:head]), *inner, (True, behind, items_b[len(items_b) - tail :])]
    return [stretch for stretch in found if stretch[1] or stretch[2]]


def _cut_by(one: _Side, two: _Side, stretch: _Stretch, look: int) -> list[_Stretch]:
    matched, a, b = stretch
    if matched or not a or not b:
        return [stretch]
    return _cut(a, b, common(one.tokens(a, look), two.tokens(b, look)))


def _cut(a: Sequence[int], b: Sequence[int], matches: list[tuple[int, int, int]]) -> list[_Stretch]:
    found: list[_Stretch] = []
    i = j = 0
    for at_a, at_b, n in matches:
        found += [(False, a[i:at_a], b[j:at_b]), (True, a[at_a : at_a + n], b[at_b : at_b + n])]
        i, j = at_a + n, at_b + n
    return [*found, (False, a[i:], b[j:])]


def _results(one: _Side, two: _Side, event_a: int, event_b: int) -> list[Pair]:
    """Match the results of two function calls by path."""
    mine = one.events[event_a] if event_a >= 0 else []
    theirs = two.events[event_b] if event_b >= 0 else []
    if len(mine) == len(theirs) == 1:
        return [(mine[0], theirs[0])]
    paths = two.trace.tables.nodes.path
    by_path = {paths[node]: node for node in theirs}
    found = [(node, by_path.pop(one.trace.tables.nodes.path[node], MISSING)) for node in mine]
    return found + [(MISSING, node) for node in by_path.values()]


def _in_order(pairs: list[Pair]) -> tuple[Pair, ...]:
    """Sort pairs by the second trace; a removed op follows its predecessor in the first trace."""
    found: list[tuple[int, int, Pair]] = []
    before = MISSING
    for a, b in sorted(pair for pair in pairs if pair[0] != MISSING):
        before = b if b != MISSING else before
        found.append((before, a if b == MISSING else MISSING, (a, b)))
    found += [(b, MISSING, (a, b)) for a, b in pairs if a == MISSING]
    return tuple(pair for _, _, pair in sorted(found))


def arguments_of(trace: Trace, node: int) -> str:
    """The text of the arguments of an op, with tensors as placeholders."""
    event = trace.tables.nodes.event[node]
    return "" if event is None else arguments_text(event[1], event[2] or {}, trace.tables.is_tensor)
