"""Equivalence classes of function calls, among which recurrence looks for passes of one op.

All results of one function call are one *event* here. Events are numbered in order of execution.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType
from typing import Any, Final

from cutaway.graph.tables import PARAMETER, Tables

_NO_DIMENSION: Final = -1
_PLACING: Final = dict.fromkeys(
    [
        *("getitem", "setitem", "view", "reshape", "expand", "repeat", "tile", "resize", "as_strided", "pad"),
        *("arange", "zeros", "ones", "full", "empty", "rand", "randn", "randint", "eye", "linspace"),
        *("new_zeros", "new_ones", "new_full", "new_empty", "constant_pad_nd", "slice_scatter", "diagonal"),
    ],
    _NO_DIMENSION,
) | {"select": 1, "narrow": 1, "unflatten": 1, "split": 2, "split_with_sizes": 2, "tensor_split": 2, "chunk": 2}
"""Functions whose integers are indices or sizes, which may vary from pass to pass. The value is the index of the
positional argument that is a dimension, which may not vary."""

_TENSOR, _ATOM, _NUMBER, _SEQUENCE, _SLICE, _MAPPING, _THING = range(7)


@dataclass(slots=True)
class Events:
    """One row for each function call of a trace."""

    results: list[list[int]] = field(default_factory=list)
    """The nodes of its results."""
    classes: list[int] = field(default_factory=list)
    """Events of one class may be passes of one op."""
    seeds: list[int] = field(default_factory=list)
    """Events of one seed use the same parameters in the same way: they are passes of one op; -1 for no parameters."""
    places: list[int] = field(default_factory=list)
    """Its place in the code, including the chain of calls that led there."""
    calls: list[int] = field(default_factory=list)
    above: list[list[int]] = field(default_factory=list)
    """Flat pairs (event, tie) for each tensor that another event passed to it."""
    below: list[list[int]] = field(default_factory=list)
    """Flat pairs (event, tie) for each use of its results; a tie identifies the output and the argument."""
    in_loop: list[bool] = field(default_factory=list)
    """Place → whether it is inside a loop."""
    spots: list[int] = field(default_factory=list)
    """Place → its position in the code of its module, whoever called the module."""
    repeats: list[int] = field(default_factory=list)
    """Events of one number are the same step of several calls of one module; -1 for none."""

    def __len__(self) -> int:
        return len(self.results)


def events_of(tables: Tables, op_nodes: list[int]) -> Events:
    """The events of these nodes, with their classes, places and neighbors."""
    nodes, events = tables.nodes, Events()
    of_node = [-1] * len(nodes)
    last: Any = None
    for node in op_nodes:
        event = nodes.event[node]
        if event is None or event is not last:
            events.results.append([])
            last = event
        events.results[-1].append(node)
        of_node[node] = len(events.results) - 1
    _link(events, nodes.parents, nodes.path, of_node)
    places = _Places(tables)
    for results in events.results:
        call = nodes.call[results[0]]
        events.calls.append(call)
        events.places.append(places.of(nodes.event[results[0]], call))
    events.in_loop, events.spots = places.in_loop, places.spots
    _classify(events, tables)
    events.repeats = _repeats(events, tables)
    return events


def _link(events: Events, parents: list[tuple[int, ...]], paths: list[str], of_node: list[int]) -> None:
    above: list[list[int]] = [[] for _ in events.results]
    below: list[list[int]] = [[] for _ in events.results]
    ties: dict[tuple[int, str], int] = {}
    for event, results in enumerate(events.results):
        for argument, parent in enumerate(parents[results[0]]):
            upper = of_node[parent]
            if upper >= 0 and upper != event:
                tie = ties.setdefault((argument, paths[parent]), len(ties))
                above[event] += (upper, tie)
                below[upper] += (event, tie)
    events.above, events.below = above, below


class _Places:
    """Numbers places in the code: the same expression reached through the same calls has the same number."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._numbers: dict[tuple[int, int, Any], int] = {}
        self._local: dict[tuple[int, int, Any], int] = {}
        self._positions: dict[tuple[int, int], tuple[Any, bool]] = {}
        self._of_call: dict[int, int] = {0: -1}
        self._of_group: dict[int, int] = {}
        self.in_loop: list[bool] = []
        self.spots: list[int] = []

    def of(self, event: tuple[Any, ...] | None, call: int) -> int:
        if event is None:
            return self._number(self._call(call), None, 0)
        if event[5]:
            return self._number(self._group(event[5]), event[6], event[7], is_inner=True)
        return self._number(self._call(call), event[6], event[7])

    def _call(self, call: int) -> int:
        chain = []
        while call not in self._of_call:
            chain.append(call)
            call = self._tables.calls[call].parent
        for inner in reversed(chain):
            row = self._tables.calls[inner]
            self._of_call[inner] = self._number(self._of_call[call], row.code, row.instruction)
            call = inner
        return self._of_call[call]

    def _group(self, group: int) -> int:
        place = self._of_group.get(group)
        if place is None:
            opened = self._tables.groups[group]
            outer = self._group(opened.parent) if opened.parent else self._call(opened.call)
            is_inner = opened.parent > 0
            place = self._of_group[group] = self._number(outer, opened.code, opened.instruction, is_inner=is_inner)
        return place

    def _number(self, outer: int, code: CodeType | None, instruction: int, *, is_inner: bool = False) -> int:
        """The place of an instruction that was reached from `outer`, inside a composite function or not."""
        # The tables keep all code objects alive, so an id is not reused.
        position = self._positions.get((id(code), instruction))
        if position is None:
            position = self._positions[id(code), instruction] = _position(code, instruction)
        key = (outer, id(code), position[0])
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers)
            self.in_loop.append(False)
            local = (self.spots[outer] if is_inner else -1, id(code), position[0])
            self.spots.append(self._local.setdefault(local, len(self._local)))
        if position[1] or (is_inner and self.in_loop[outer]):
            self.in_loop[number] = True
        return number


def _position(code: CodeType | None, instruction: int) -> tuple[Any, bool]:
    """Line and columns of an instruction, and whether it is inside a loop.

    The offset would not do: the condition of a `while` is compiled twice, before the loop and at its end.
    """
    if code is None:
        return None, False
    positions = _positions(code)
    position = positions[instruction // 2] if instruction // 2 < len(positions) else None
    known = position is not None and None not in position
    return (position if known else instruction), any(a <= instruction <= b for a, b in _loops(code))


@lru_cache(maxsize=1024)
def _positions(code: CodeType) -> tuple[Any, ...]:
    return tuple(code.co_positions())


@lru_cache(maxsize=1024)
def _loops(code: CodeType) -> tuple[tuple[int, int], ...]:
    """First and last instruction of each loop."""
    # Only loops jump backward in CPython bytecode since 3.11.
    jumps = [each for each in dis.get_instructions(code) if "JUMP_BACKWARD" in each.opname]
    return tuple((int(each.argval), each.offset) for each in jumps)


def _classify(events: Events, tables: Tables) -> None:
    nodes, rows = tables.nodes, tables.calls
    parameter = _parameters(tables)
    describe = _Describer(tables.is_tensor)
    strict: dict[Any, int] = {}
    loose: dict[Any, int] = {}
    seeds: dict[Any, int] = {}
    same: list[int] = []
    """Union-find: class → an equivalent class."""
    for results, place, call in zip(events.results, events.places, events.calls, strict=True):
        first = results[0]
        name = nodes.name[first]
        event = nodes.event[first]
        used = tuple([parameter[parent] for parent in nodes.parents[first] if parent in parameter])
        dimension = _PLACING.get(name.strip("_"))
        if used and dimension is None:
            # Rule 1 ignores module, place and other arguments: a shared layer is one op wherever it runs.
            key: Any = (name, used)
            events.seeds.append(seeds.setdefault(key, len(seeds)))
            number = strict.setdefault(key, len(same))
            if number == len(same):
                same.append(number)
            events.classes.append(number)
            continue
        paths = tuple([nodes.path[node] for node in results]) if nodes.path[first] else ()
        types, values = describe(event, dimension) if event is not None else ((), ())
        here = (name, rows[call].module, types, paths, used)
        if used:  # a slice of a parameter: other slices are other ops
            whole = describe(event, None)[1] if event is not None else ()
            events.seeds.append(seeds.setdefault((here, whole), len(seeds)))
        else:
            events.seeds.append(-1)
        number = strict.setdefault((here, values), len(same))
        if number == len(same):
            same.append(number)
        other = loose.setdefault((name, rows[call].module, place, used), number)
        if other != number:  # the same expression, evaluated again with different arguments
            unite(same, other, number)
        events.classes.append(number)
    events.classes = [root(same, number) for number in events.classes]


def _repeats(events: Events, tables: Tables) -> list[int]:
    """For each event, a number for its step in the calls of its module; see `Events.repeats`."""
    names, rows = tables.nodes.name, tables.calls
    n_calls = [len(module.calls) for module in tables.modules]
    reached: dict[tuple[int, int, str], int] = {}
    numbers: dict[tuple[int, int, str, int], int] = {}
    steps = []
    columns = zip(events.results, events.calls, events.places, events.seeds, strict=True)
    for results, call, place, seed in columns:
        module = rows[call].module
        # Of calls with parameters, the parameters decide.
        if module < 0 or n_calls[module] < 2 or seed >= 0:
            steps.append(-1)
            continue
        spot, name = events.spots[place], names[results[0]]
        # A loop inside the module reaches an expression several times in one call: those are several steps.
        ordinal = reached[call, spot, name] = reached.get((call, spot, name), 0) + 1
        steps.append(numbers.setdefault((module, spot, name, ordinal), len(numbers)))
    return steps


def _parameters(tables: Tables) -> dict[int, int]:
    """Node → the parameter that it is, or is a later version of."""
    found = {node: node for node, kind in enumerate(tables.nodes.kind) if kind == PARAMETER}
    rows = {address: row.node for row in tables.parameters if not row.is_buffer for address in row.addresses}
    for node, addresses in tables.nodes.writes.items():
        written = [rows[address] for address in addresses if rows.get(address, -1) >= 0]
        if written:
            found[node] = written[0]
    return found


def root(same: list[int], number: int) -> int:
    """The representative of a number (union-find)."""
    while same[number] != number:
        same[number] = same[same[number]]
        number = same[number]
    return number


def unite(same: list[int], a: int, b: int) -> None:
    """Merge the sets of two numbers (union-find)."""
    a, b = root(same, a), root(same, b)
    same[max(a, b)] = min(a, b)


class _Describer:
    """Describes the non-tensor arguments of an event: their types and values."""

    def __init__(self, is_tensor: Callable[[Any], bool]) -> None:
        self._is_tensor = is_tensor
        self._codes: dict[type, int] = {}

    def __call__(self, event: tuple[Any, ...], dimension: int | None) -> tuple[Any, Any]:
        """Types and values. Integers count as values unless `dimension` is given; see `_PLACING`."""
        types: list[Any] = []
        values: list[Any] = []
        for i, argument in enumerate(event[1]):
            self._add(argument, types, values, dimension is not None and i != dimension)
        if event[2]:
            for name, argument in event[2].items():
                types.append(name)
                self._add(argument, types, values, dimension is not None and name != "dim")
        return tuple(types), tuple(values)

    def _add(self, value: Any, types: list[Any], values: list[Any], placing: bool) -> None:
        kind = type(value)
        code = self._codes.get(kind)
        if code is None:
            code = self._codes[kind] = self._code(value)
        if code == _TENSOR:
            types.append(_TENSOR)
            return
        types.append(kind)
        if code == _ATOM or (code == _NUMBER and not placing):
            values.append(value)
        elif code == _SEQUENCE:
            types.append(len(value))
            for item in value:
                self._add(item, types, values, placing)
        elif code == _SLICE:
            for item in (value.start, value.stop, value.step):
                self._add(item, types, values, placing)
        elif code == _MAPPING:
            for name, item in value.items():
                types.append(str(name))
                self._add(item, types, values, placing)

    def _code(self, value: Any) -> int:
        if self._is_tensor(value):
            return _TENSOR
        if type(value) is int:
            return _NUMBER
        if isinstance(value, (list, tuple)):
            return _SEQUENCE
        if isinstance(value, slice):
            return _SLICE
        if isinstance(value, dict):
            return _MAPPING
        plain = isinstance(value, (str, bytes, float, complex, bool, type(None)))
        # dtypes, devices and the like compare by value; everything else only by its type.
        is_torchs = type(value).__module__.partition(".")[0] == "torch"
        return _ATOM if plain or (is_torchs and _hashes(value)) else _THING


def _hashes(value: Any) -> bool:
    try:
        return hash(value) is not None
    except Exception:
        return False
