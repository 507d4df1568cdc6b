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
from cutaway.graph.nodes import Tables

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
        self.inputs, self.outputs = _ends(tables)
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
        kind = kinds.INPUT if node in self.inputs else self.tables.nodes.kind[node]
        value.kind = _KINDS.get(kind, CONSTANT)  # type: ignore[assignment]
        is_input = kind == kinds.INPUT
        # Inputs and parameters keep their factors of size 1: one sample or one head counts samples or heads all the same.
        value.dims = tuple(
            (_of_source(size, SAMPLE if self._samples.get(node) == dim and is_input else OPEN, is_input),)
            if size != 1 or value.kind != CONSTANT
            else ()
            for dim, size in enumerate(value.shape)
        )
        return value

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
                if value.kind == CONSTANT and value.number in self.inputs:
                    # Made inside the watched block, of nothing that the model was given: `model(torch.ones(2, 3))`.
                    value = self._source(value.number)
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


def _ends(tables: Tables) -> tuple[frozenset[int], list[int]]:
    """The nodes of what the model was given and of what it returned; where only modules of it ran, of the outermost."""
    outermost = [call for call in tables.calls if call.module >= 0 and tables.calls[call.parent].module < 0]
    given = tables.inputs or [end for call in outermost for end in call.inputs]
    returned = tables.outputs or [end for call in outermost for end in call.outputs]
    known = (kinds.PARAMETER, kinds.BUFFER)
    inputs = frozenset(node for _, node in given if tables.nodes.kind[node] not in known)
    return inputs, [node for _, node in returned]


def _kind_of(call: Call, given: Sequence[Value], is_created: bool) -> Any:
    if is_created or all(value.kind == CONSTANT for value in given):
        return ACTIVATION if call.is_layer else CONSTANT
    if call.is_layer or any(value.kind == ACTIVATION for value in given):
        return ACTIVATION
    return PARAMETER


def _of_source(size: int, role: Role, is_input: bool) -> Factor:
    factor = Factor(size, role)
    factor.is_input = is_input
    return factor


def _factors(dims: Dims) -> Iterator[Factor]:
    for dim in dims:
        yield from dim


# samples


def _is_from_input(factor: Factor) -> bool:
    """Whether it is a dimension of what the model was given, not of what one of its modules made of that."""
    return bool(factor.head.is_input)


def _sample_dims(walk: Walk) -> Iterator[tuple[int, int | None]]:
    """Of each input, the first dimension that the model never computes across."""
    _mix_what_was_reduced_away(walk)
    for node in sorted(walk.inputs):
        value = walk.values[node]
        if value is None or value.kind != ACTIVATION or not all(map(_is_from_input, _factors(value.dims))):
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
    outputs = [walk.values[node] for node in walk.outputs]
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
