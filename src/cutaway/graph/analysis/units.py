"""The walk over a traced graph that tells what the dimensions of every value count.

Each op's rule gives the factors of its results from those of its arguments, in order of execution. The graph is walked
twice: the first walk finds which dimension of each input the model never computes across, which counts samples; the
second follows it like any other factor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cutaway.core.trees import replace
from cutaway.core.units.calls import ACTIVATION, CONSTANT, PARAMETER, Book, Call, Value
from cutaway.core.units.factors import OPEN, POSITION, SAMPLE, UNIT, Dims, Factor, Role
from cutaway.core.units.layout import UnitLayout
from cutaway.core.units.reading import consistent, read
from cutaway.core.units.rules import CREATED, rule_of
from cutaway.graph import nodes as kinds
from cutaway.graph.nodes import CallRow, Tables

_FLOATS = ("float", "bfloat", "half", "double", "complex", "quint", "qint")
_KINDS = {kinds.INPUT: ACTIVATION, kinds.PARAMETER: PARAMETER}


def unit_layouts(tables: Tables, sample_dims: Mapping[int, int | None] | None = None) -> list[UnitLayout | None]:
    """One layout for each node of a trace; None where a node is no tensor.

    Args:
        sample_dims: input node → the dimension of its samples, where the caller knows it.
    """
    samples = dict(_sample_dims(Walk(tables, {})))
    samples.update(sample_dims or {})
    return Walk(tables, samples).read()


class Walk:
    """One walk over a graph."""

    def __init__(self, tables: Tables, sample_dims: Mapping[int, int | None]) -> None:
        self.tables, self.book = tables, Book()
        self.values: list[Value | None] = []
        self._samples = sample_dims
        nodes = tables.nodes
        self.inputs = input_nodes(tables)
        is_input = set(self.inputs)
        self._is_input = is_input.__contains__
        node, n_nodes = 0, len(nodes)
        while node < n_nodes:
            event = nodes.event[node]
            if event is None or nodes.kind[node] != kinds.OP:
                self.values.append(self._source(node))
                node += 1
                continue
            last = node + 1
            while last < n_nodes and nodes.event[last] is event and nodes.kind[last] == kinds.OP:
                last += 1
            self._call(range(node, last), event)
            node = last

    # sources

    def _source(self, node: int) -> Value | None:
        value = self._blank(node)
        if value is None:
            return None
        is_input = self._is_input(node)
        kind = kinds.INPUT if is_input else self.tables.nodes.kind[node]
        value.kind = _KINDS.get(kind, CONSTANT)  # type: ignore[assignment]
        if is_input:
            self._open_input(value)
        else:
            # Parameters keep their factors of size 1: one head counts heads all the same.
            keeps = value.kind == PARAMETER
            value.dims = tuple((Factor(size, OPEN),) if size != 1 or keeps else () for size in value.shape)
        return value

    def _open_input(self, value: Value) -> None:
        """What the model is given: open, but for the samples. A batch of one sample has samples all the same."""
        samples = self._samples.get(value.number)
        value.dims = tuple(
            (_of_input(size, SAMPLE if dim == samples else OPEN),) for dim, size in enumerate(value.shape)
        )

    def _blank(self, node: int) -> Value | None:
        meta = self.tables.nodes.meta_of(node)
        if meta is None or meta.shape is None:
            return None
        return Value(node, meta.shape, (), meta.dtype.startswith(_FLOATS), meta.dtype == "bool")

    # calls

    def _call(self, results: range, event: tuple[Any, ...]) -> None:
        made = [self._blank(node) for node in results]
        shapes = [value.shape for value in made if value is not None]
        call = self._arguments(results.start, event, shapes)
        self.book.reader = results.start
        given = call.tensors()
        name = call.function.strip("_")
        is_created = name in CREATED
        dims = self._by_rule(call, is_created)
        numbered = iter(dims if dims is not None else ())
        for value in made:
            if value is not None:
                found = next(numbered, None)
                self._finish(value, found, call, given, is_created)
            self.values.append(value)

    def _arguments(self, node: int, event: tuple[Any, ...], shapes: Sequence[tuple[int, ...]]) -> Call:
        nodes = self.tables.nodes
        order = iter(nodes.parents[node])

        def value_of(_: Any) -> Value | None:
            parent = next(order, None)
            return None if parent is None else self.values[parent]

        is_tensor = self.tables.is_tensor
        args = replace(event[1], value_of, is_tensor)
        kwargs = replace(event[2] or {}, value_of, is_tensor)
        return Call(self.book, nodes.name[node], args, kwargs, shapes)

    def _by_rule(self, call: Call, is_created: bool) -> list[Dims] | None:
        rule = rule_of(call.function)
        if is_created or rule is None or not call.shapes:
            return None
        try:
            dims = rule(call)
        except (IndexError, TypeError, ValueError, KeyError, AttributeError, ZeroDivisionError, StopIteration):
            # An unusual signature: the result is open, and a reader is told that nothing is known of it.
            return None
        return [dims] if isinstance(dims, tuple) else dims

    def _finish(self, value: Value, dims: Dims | None, call: Call, given: Sequence[Value], is_created: bool) -> None:
        value.dims = dims if dims is not None else ()
        if dims is None or not consistent(value):
            value.ruleless = "" if is_created else call.function
            value.dims = tuple((Factor(size, OPEN),) if size != 1 else () for size in value.shape)
            for factor in (factor for each in given for dim in each.dims for factor in dim):
                if not is_created and factor.role == OPEN and dims is None:
                    factor.mix()
        value.is_contradictory = call.is_contradictory or (
            not value.has_units and any(each.is_contradictory and not each.has_units for each in given)
        )
        value.had_units = value.has_units or any(each.has_units or each.had_units for each in given)
        value.kind = _kind_of(call, given, is_created)
        if value.kind == CONSTANT and self._is_input(value.number):
            # Made outside the model, of what the model was not given: a batch cut out of the data.
            value.kind, value.ruleless, value.is_contradictory = ACTIVATION, "", False
            self._open_input(value)

    # reading

    def read(self) -> list[UnitLayout | None]:
        late = self._late()
        return [
            None if value is None else read(self.book, value, late.get(value.number, ()), self._owner(value.number))
            for value in self.values
        ]

    def _owner(self, node: int) -> Callable[[int], bool] | None:
        """Of a parameter with several addresses: whether an op ran in the module that its first one belongs to."""
        nodes, calls = self.tables.nodes, self.tables.calls
        if nodes.kind[node] != kinds.PARAMETER:
            return None
        address = nodes.path[node].rpartition(".")[0] or "."
        modules = {row for row, module in enumerate(self.tables.modules) if address in module.addresses}
        return lambda reader: calls[nodes.call[reader]].module in modules

    def _late(self) -> dict[int, list[Factor]]:
        """For values whose units are gone: the factors that a layer further on reads as its units.

        It counts on the path to that layer only: a value gets it from what was computed from it, and only if that has
        no units either.
        """
        late: dict[int, list[Factor]] = {}
        parents = self.tables.nodes.parents
        for value in reversed(self.values):
            if value is None or value.has_units or not value.had_units:
                continue
            own = [factor for factors in self.book.reads.get(value.number, ())[:1] for factor in factors]
            if own:
                late[value.number] = own
            wanted = late.get(value.number)
            if not wanted:
                continue
            for parent in parents[value.number]:
                above = self.values[parent]
                if above is not None and parent not in late and above.had_units and not above.has_units:
                    shared = [f for f in _factors(above.dims) if any(f.is_same(each) for each in wanted)]
                    if len(shared) == len(wanted):
                        late[parent] = shared
        return late


def _kind_of(call: Call, given: Sequence[Value], is_created: bool) -> Any:
    if is_created or all(value.kind == CONSTANT for value in given):
        return ACTIVATION if call.is_layer else CONSTANT
    if call.is_layer or any(value.kind == ACTIVATION for value in given):
        return ACTIVATION
    return PARAMETER


def _of_input(size: int, role: Role) -> Factor:
    factor = Factor(size, role)
    factor.is_input = True
    return factor


def _factors(dims: Dims) -> Iterator[Factor]:
    for dim in dims:
        yield from dim


# what goes in and comes out


def input_nodes(tables: Tables) -> list[int]:
    """What the model was given; where only parts of it were called, what those were given from outside."""
    if tables.inputs:
        return list(dict.fromkeys(node for _, node in tables.inputs))
    given = (node for row in _outermost(tables) for _, node in row.inputs)
    return [node for node in dict.fromkeys(given) if tables.nodes.kind[node] == kinds.CONSTANT]


def _output_nodes(tables: Tables) -> list[int]:
    if tables.outputs:
        return [node for _, node in tables.outputs]
    return [node for row in _outermost(tables) for _, node in row.outputs]


def _outermost(tables: Tables) -> Iterator[CallRow]:
    """The module calls that no other one made."""
    return (row for number, row in enumerate(tables.calls) if number and not row.parent)


# samples


def _sample_dims(walk: Walk) -> Iterator[tuple[int, int | None]]:
    """Of each input, the first dimension that the model never computes across."""
    _mix_what_was_reduced_away(walk)
    for node in walk.inputs:
        value = walk.values[node]
        if value is None:
            continue
        found = None
        for number, dim in enumerate(value.dims):
            if dim and all(_may_count_samples(factor) for factor in dim):
                found = number
                break
        yield node, found


def _may_count_samples(factor: Factor) -> bool:
    head = factor.head
    if any(each.is_mixed for each in (*head.with_parts(), *head.with_wholes())):
        return False
    return not head.claims and POSITION not in head.met and UNIT not in head.met


def _mix_what_was_reduced_away(walk: Walk) -> None:
    """A reduced dimension that no output has was computed across; one that an output still has was normalized."""
    outputs = [walk.values[node] for node in _output_nodes(walk.tables)]
    reached: set[int] = set()
    waiting = [factor for value in outputs if value is not None for factor in _factors(value.dims)]
    while waiting:
        for head in (*waiting[-1].with_parts(), *waiting.pop().with_wholes()):
            if id(head) not in reached:
                reached.add(id(head))
                waiting.extend(head.sources)
    for factor in walk.book.reduced:
        if not any(id(head) in reached for head in (*factor.with_parts(), *factor.with_wholes())):
            factor.mix()
