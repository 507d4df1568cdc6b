"""Derives which dimensions of every value count units, samples and positions.

In order of execution, each op's rule derives the factors of its results from those of its arguments. The sample
dimension of an input is found by trial: the first dimension is assumed, and if the model computes across it, the graph
is walked again with the next one. Most models need one walk, sequence-first ones two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cutaway.core.pytree import replace
from cutaway.core.units.calls import ACTIVATION, CONSTANT, PARAMETER, Call, InferenceState, Kind, Value
from cutaway.core.units.factors import OPEN, SAMPLE, Dims, Factor
from cutaway.core.units.layout import UnitLayout
from cutaway.core.units.readout import layout_of
from cutaway.core.units.rules import is_constructor, rule_of
from cutaway.graph import tables as kinds
from cutaway.graph.tables import CallRow, Tables

# The integers of a quantized tensor stand for floats.
_FLOATS = ("float", "bfloat", "half", "double", "complex", "quint", "qint")
_KINDS: dict[str, Kind] = {kinds.INPUT: ACTIVATION, kinds.PARAMETER: PARAMETER}
_PLAIN = frozenset([int, float, bool, str, type(None)])
_UNUSUAL = (IndexError, TypeError, ValueError, KeyError, AttributeError, ZeroDivisionError, StopIteration)
"""Errors that a rule raises for an unknown signature."""


def unit_layouts(tables: Tables, sample_dims: Mapping[int, int | None] | None = None) -> list[UnitLayout | None]:
    """One layout for each node of a trace; None if a node is not a tensor.

    Args:
        sample_dims: input node → its sample dimension, if the caller knows it.
    """
    return _walk(tables, sample_dims).read()


def tied_layouts(tables: Tables) -> dict[tuple[int, str], UnitLayout]:
    """For parameters with several addresses: (node, address) → the layout for the module that owns the address.

    The weight that an embedding shares with the output layer has its units in columns under one address and in rows
    under the other.
    """
    tied = [row for row in tables.parameters if len(row.addresses) > 1 and row.node >= 0]
    walk = _walk(tables, None) if tied else None
    found: dict[tuple[int, str], UnitLayout] = {}
    for row in tied:
        value = None if walk is None else walk.values[row.node]
        if walk is not None and value is not None:
            for address in row.addresses:
                found[row.node, address] = layout_of(walk.state, value, (), walk.owner(row.node, address))
    return found


def _walk(tables: Tables, sample_dims: Mapping[int, int | None] | None) -> Walk:
    """Walk the graph until the assumed sample dimension of every input is one that the model never computes across."""
    given = dict(sample_dims or {})
    tried: dict[int, int | None] = {node: given.get(node, 0) for node in input_nodes(tables)}
    # Each round moves a wrong dimension one further, and after the last one to None, so the loop ends.
    while True:
        walk = Walk(tables, tried)
        wrong = [node for node in walk.inputs_computed_across() if node not in given]
        if not wrong:
            return walk
        for node in wrong:
            tried[node] = _next_dim(walk, node, tried[node])


def _next_dim(walk: Walk, node: int, dim: int | None) -> int | None:
    value = walk.values[node]
    return None if value is None or dim is None or dim + 1 >= value.n_dims else dim + 1


class Walk:
    """One walk over a graph.

    Args:
        sample_dims: input node → the assumed sample dimension.
    """

    def __init__(self, tables: Tables, sample_dims: Mapping[int, int | None]) -> None:
        self.tables, self.state = tables, InferenceState()
        self.values: list[Value | None] = []
        self._samples = sample_dims
        self._is_input = set(input_nodes(tables)).__contains__
        self._opened: list[int] = []
        """The inputs with new factors; an input that an earlier call of the model computed keeps its factors."""
        nodes = tables.nodes
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
        value.kind = _KINDS.get(self.tables.nodes.kind[node], CONSTANT)
        if self._is_input(node):
            self._open_input(value)
        elif value.kind == PARAMETER:  # keeps its factors of size 1: a single head still counts heads
            value.settle(tuple((Factor(size, OPEN),) for size in value.shape))
            for (factor,) in value.dims:
                factor.is_parameter = True
        else:
            value.settle(tuple((Factor(size, OPEN),) if size != 1 else () for size in value.shape))
        return value

    def _open_input(self, value: Value) -> None:
        """Set the factors of an input: open, except for the samples. A batch of size 1 still has samples."""
        value.kind = ACTIVATION
        self._opened.append(value.number)
        value.settle(tuple((Factor(size, OPEN),) for size in value.shape))
        samples = self._samples.get(value.number)
        for dim, (factor,) in enumerate(value.dims):
            factor.is_input = True
            factor.role = SAMPLE if dim == samples else OPEN

    def _blank(self, node: int) -> Value | None:
        meta = self.tables.nodes.meta_of(node)
        if meta is None or meta.shape is None:
            return None
        return Value(node, meta.shape, (), meta.dtype.startswith(_FLOATS), meta.dtype == "bool")

    # calls

    def _call(self, results: range, event: tuple[Any, ...]) -> None:
        made = [self._blank(node) for node in results]
        call = self._arguments(results.start, event, [value.shape for value in made if value is not None])
        self.state.reader = results.start
        created = not call.tensors or is_constructor(call.function)
        found = () if created else _by_rule(call)
        if not found and not created:
            self._reduce_all(call)
        dims = iter(found)
        for value in made:
            if value is not None:
                self._finish(value, next(dims, None), call, created)
            self.values.append(value)

    def _arguments(self, node: int, event: tuple[Any, ...], shapes: Sequence[tuple[int, ...]]) -> Call:
        nodes, is_tensor = self.tables.nodes, self.tables.is_tensor
        values = [self.values[parent] for parent in nodes.parents[node]]
        order = iter(values)

        def value_of(_: Any) -> Value | None:
            return next(order, None)

        args = [arg if type(arg) in _PLAIN else replace(arg, value_of, is_tensor) for arg in event[1]]
        kwargs = {
            name: arg if type(arg) in _PLAIN else replace(arg, value_of, is_tensor)
            for name, arg in (event[2] or {}).items()
        }
        return Call(
            self.state, nodes.name[node], args, kwargs, shapes, [value for value in values if value is not None]
        )

    def _finish(self, value: Value, dims: Dims | None, call: Call, created: bool) -> None:
        if dims is not None and value.fits(dims):
            value.settle(dims)
        else:
            value.ruleless = "" if created else call.function
            value.settle(tuple((Factor(size, OPEN),) if size != 1 else () for size in value.shape))
            if dims is not None:
                self._reduce_all(call)
        if created:
            value.step = call.step()
        given = _given(call)
        for each in given:
            value.had_units |= each.had_units
            value.is_contradictory |= each.is_contradictory and not each.has_units
        value.is_contradictory = call.is_contradictory or (value.is_contradictory and not value.has_units)
        # Learned queries that a layer has projected are activations, although computed from parameters only.
        value.kind = ACTIVATION if call.is_layer else CONSTANT if created else _kind_of(given)
        if value.kind == CONSTANT and self._is_input(value.number):
            # Computed outside the model, from tensors that are no inputs: a batch sliced from the data.
            value.ruleless, value.is_contradictory = "", False
            self._open_input(value)

    def _reduce_all(self, call: Call) -> None:
        """Assume that a function without a rule computes across every dimension."""
        for value in call.tensors:
            self.state.reduced.extend(_factors(value.dims))

    # samples

    def inputs_computed_across(self) -> Iterator[int]:
        """The inputs whose assumed sample dimension is wrong."""
        self._mark_mixed()
        for node in self._opened:
            value, dim = self.values[node], self._samples.get(node)
            if (
                value is not None
                and dim is not None
                and (dim >= value.n_dims or (value.dims[dim] and _is_mixed(value.dims[dim][0])))
            ):
                yield node

    def _mark_mixed(self) -> None:
        """Mark reduced dimensions as mixed if no output has them; those that an output still has were normalized."""
        if not self.state.reduced:
            return
        outputs = [self.values[node] for node in _output_nodes(self.tables)]
        reached: set[int] = set()
        waiting = [factor for value in outputs if value is not None for factor in _factors(value.dims)]
        while waiting:
            for head in _with_all(waiting.pop()):
                if id(head) not in reached:
                    reached.add(id(head))
                    waiting.extend(head.sources)
        for factor in self.state.reduced:
            if not any(id(head) in reached for head in _with_all(factor)):
                factor.mix()

    # reading

    def read(self) -> list[UnitLayout | None]:
        late = self._late()
        return [
            None
            if value is None
            else layout_of(self.state, value, late.get(value.number, ()), self.owner(value.number))
            for value in self.values
        ]

    def owner(self, node: int, address: str = "") -> Callable[[int], bool] | None:
        """For a parameter, a test whether an op ran in the module that owns an address, by default the first."""
        nodes, calls, modules = self.tables.nodes, self.tables.calls, self.tables.modules
        if nodes.kind[node] != kinds.PARAMETER:
            return None
        owner = (address or nodes.path[node]).rpartition(".")[0] or "."

        def is_owner(reader: int) -> bool:
            module = calls[nodes.call[reader]].module
            return 0 <= module < len(modules) and owner in modules[module].addresses

        return is_owner

    def _late(self) -> dict[int, list[Factor]]:
        """For values that lost their units, the factors that a later layer reads as its units.

        This applies only on the path to that layer: a value gets them from its users, and only if these have no units
        either.
        """
        late: dict[int, list[Factor]] = {}
        parents = self.tables.nodes.parents
        # From users to producers: children come after their parents.
        for value in reversed(self.values):
            if value is None or value.has_units or not value.had_units:
                continue
            direct = [factor for factors in self.state.reads.get(value.number, ())[:1] for factor in factors]
            if direct:
                late[value.number] = direct
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


# inputs and outputs


def input_nodes(tables: Tables) -> list[int]:
    """The inputs of the model, and of its modules that were called directly."""
    given = [*tables.inputs, *(end for row in _outermost(tables) for end in row.inputs)]
    owned = (kinds.PARAMETER, kinds.BUFFER)
    return [node for node in dict.fromkeys(node for _, node in given) if tables.nodes.kind[node] not in owned]


def _output_nodes(tables: Tables) -> list[int]:
    if tables.outputs:
        return [node for _, node in tables.outputs]
    return [node for row in _outermost(tables) for _, node in row.outputs]


def _outermost(tables: Tables) -> Iterator[CallRow]:
    """The module calls without a parent."""
    return (row for number, row in enumerate(tables.calls) if number and not row.parent)


def _by_rule(call: Call) -> Sequence[Dims | None]:
    rule = rule_of(call.function)
    if rule is None or not call.shapes:
        return ()
    try:
        dims = rule(call)
    except _UNUSUAL:  # the factors of the result are then open, and its layout says that no rule applied
        return ()
    return [dims] if isinstance(dims, tuple) else dims


def _given(call: Call) -> Sequence[Value]:
    """The arguments that determine a result; scalars that index or scale a parameter do not count."""
    large = [value for value in call.tensors if value.shape]
    return large if large and all(value.kind == PARAMETER for value in large) else call.tensors


def _kind_of(given: Sequence[Value]) -> Kind:
    found: Kind = CONSTANT
    for value in given:
        if value.kind == ACTIVATION:
            return ACTIVATION
        if value.kind == PARAMETER:
            found = PARAMETER
    return found


def _factors(dims: Dims) -> Iterator[Factor]:
    for dim in dims:
        yield from dim


def _with_all(factor: Factor) -> Iterator[Factor]:
    yield from factor.with_parts()
    yield from factor.with_wholes()


def _is_mixed(factor: Factor) -> bool:
    return any(each.is_mixed for each in _with_all(factor))
