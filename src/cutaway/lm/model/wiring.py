"""Queries on a trace by node number: parents, module calls, weights, and the sites of nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from torch import nn

from cutaway.capture.model.tree import module_addresses
from cutaway.graph.tables import BUFFER, CONSTANT, INPUT, OP, PARAMETER, CallRow
from cutaway.graph.trace import Trace

_RESHAPES = frozenset(
    {"view", "reshape", "contiguous", "to", "float", "type", "clone", "unsqueeze", "squeeze", "flatten", "unflatten"}
    # Cutaway itself puts "made_unseen" and "edit" into a trace.
    | {"detach", "type_as", "view_as", "long", "int", "made_unseen", "edit"}
)
"""Functions that return the same numbers in the same order, in another shape or dtype."""


@dataclass(eq=False)
class Wiring:
    """A trace with queries by node number."""

    trace: Trace
    model: nn.Module
    _ancestors: dict[int, set[int]] = field(default_factory=dict)

    @property
    def rows(self) -> list[CallRow]:
        return self.trace.tables.calls

    def name(self, node: int) -> str:
        """The function that computed it, without underscores; "" for a source."""
        nodes = self.trace.tables.nodes
        # add_ and __iadd__ add as well.
        return nodes.name[node].strip("_") if nodes.kind[node] == OP else ""

    def parents(self, node: int) -> tuple[int, ...]:
        return self.trace.tables.nodes.parents[node]

    def shape(self, node: int) -> tuple[int, ...] | None:
        meta = self.trace.tables.nodes.meta_of(node)
        return None if meta is None else meta.shape

    def is_float(self, node: int) -> bool:
        """Whether it holds floating-point numbers."""
        meta = self.trace.tables.nodes.meta_of(node)
        return meta is not None and "float" in meta.dtype

    def is_weight(self, node: int) -> bool:
        """Whether it is a parameter, a reshaped one, computed from parameters only, or an expert's slice of one."""
        stack, has_parameter = [node], False
        nodes = self.trace.tables.nodes
        while stack:
            each = stack.pop()
            kind = nodes.kind[each]
            if kind == PARAMETER:
                has_parameter = True
            elif kind == OP and nodes.parents[each]:
                stack.extend(nodes.parents[each][:1] if self._is_expert_lookup(each) else nodes.parents[each])
            elif kind == OP or kind not in (BUFFER, CONSTANT):
                return False
        return has_parameter

    def is_expert_weight(self, weight: int) -> bool:
        """Whether these weights belong to one expert, indexed from those of all."""
        nodes = self.trace.tables.nodes
        while nodes.kind[weight] == OP and nodes.parents[weight]:
            if self._is_expert_lookup(weight):
                return True
            weight = nodes.parents[weight][0]
        return False

    def _is_expert_lookup(self, node: int) -> bool:
        parents = self.parents(node)
        is_lookup = self.name(node) in ("getitem", "index_select") and bool(parents)
        return (
            is_lookup
            and len(self.shape(parents[0]) or ()) == 3
            and self.trace.tables.nodes.kind[parents[0]] == PARAMETER
        )

    def parameter_behind(self, node: int) -> str | None:
        """The address of the parameter that a weight comes from."""
        nodes = self.trace.tables.nodes
        while nodes.kind[node] == OP and nodes.parents[node]:
            node = nodes.parents[node][0]
        return nodes.path[node] if nodes.kind[node] == PARAMETER else None

    def is_plain_input(self, node: int) -> bool:
        """Whether it is an input of the model, reshaped at most."""
        nodes = self.trace.tables.nodes
        while nodes.kind[node] == OP and nodes.name[node].strip("_") in _RESHAPES and nodes.parents[node]:
            node = nodes.parents[node][0]
        return nodes.kind[node] == INPUT

    def same_numbers(self, node: int) -> int:
        """The node before all reshapes that keep the last dimension."""
        nodes = self.trace.tables.nodes
        while nodes.kind[node] == OP and nodes.name[node].strip("_") in _RESHAPES and nodes.parents[node]:
            before = nodes.parents[node][0]
            if (self.shape(before) or (0,))[-1:] != (self.shape(node) or (1,))[-1:]:
                break
            node = before
        return node

    def ancestors(self, node: int) -> set[int]:
        """All nodes that it was computed from."""
        known = self._ancestors.get(node)
        if known is None:
            known = set()
            stack = list(self.parents(node))
            while stack:
                each = stack.pop()
                if each not in known:
                    known.add(each)
                    stack.extend(self.parents(each))
            self._ancestors[node] = known
        return known

    def address(self, call: int) -> str:
        return self.trace.names.address(call)

    def address_of(self, node: int) -> str:
        """The address of the module it ran in."""
        return self.trace.names.address(self.trace.tables.nodes.call[node])

    def calls_around(self, node: int) -> list[int]:
        """The module calls it ran in, innermost first."""
        return self.calls_from(self.trace.tables.nodes.call[node])

    def calls_from(self, call: int) -> list[int]:
        calls = []
        while call:
            calls.append(call)
            call = self.rows[call].parent
        return calls

    @cached_property
    def n_runs(self) -> dict[str, int]:
        """Address → how often that module ran."""
        counts: dict[str, int] = {}
        for call in range(1, len(self.rows)):
            address = self.address(call)
            counts[address] = counts.get(address, 0) + 1
        return counts

    @cached_property
    def _addresses(self) -> dict[int, tuple[str, ...]]:
        return module_addresses(self.model)

    def addresses_of_module(self, module: nn.Module | None) -> tuple[str, ...]:
        """All addresses of a module of the traced model."""
        return self._addresses.get(id(module), ())

    def logits(self) -> int:
        """The node of the logits: the output of that name, or the first output."""
        outputs = self.trace.tables.outputs
        named = [node for path, node in outputs if path.split(".")[-1] == "logits"]
        return named[0] if named else outputs[0][1]

    def norm_after(self, node: int) -> str | None:
        """The address of the first module after the blocks that takes this stream and keeps its shape."""
        for call in range(1, len(self.rows)):
            row = self.rows[call]
            given = [each for _, each in row.inputs]
            outputs = [each for _, each in row.outputs]
            if row.first_node > node and given[:1] == [node] and len(outputs) == 1 and outputs[0] != node:
                is_same = self.shape(outputs[0]) == self.shape(node)
                # A square projection keeps the shape too, but multiplies with weights.
                has_product = any(
                    self.name(each) in LINEAR
                    for each in {*self.ancestors(outputs[0]), outputs[0]} - self.ancestors(node)
                )
                return self.address(call) if is_same and not has_product else None
        return None


LINEAR = frozenset({"linear", "addmm", "matmul", "mm", "bmm", "baddbmm", "grouped_mm", "conv1d", "einsum"})


def site_out(wiring: Wiring, node: int, *, within: int | None = None, call: int | None = None) -> str:
    """A site for the value of a node: the output of a module if it is one, else an op.

    Args:
        within: a module call that contains the module; the outermost module inside it is used.
        call: the module call that returned the value.
    """
    calls = [call] if call is not None else wiring.calls_around(node)
    if within is not None and within in calls:
        calls = calls[: calls.index(within)]
    elif call is None:
        calls = calls[:1]
    for each in reversed(calls):
        paths = [path for path, output in wiring.rows[each].outputs if output == node]
        if paths:
            return _site(wiring, each, "out", paths[0], n=len(wiring.rows[each].outputs))
    return str(wiring.trace.names.site(node))


def site_in(wiring: Wiring, call: int, node: int) -> str:
    """A site for a node at the input of a module call."""
    paths = [path for path, given in wiring.rows[call].inputs if given == node]
    return _site(wiring, call, "in", paths[0]) if paths else str(wiring.trace.names.site(node))


def cheaper_site(wiring: Wiring, node: int, within: int) -> str | None:
    """The input of a module inside a call that takes this node: observing it costs a hook, not a traced run."""
    for call in range(within + 1, len(wiring.rows)):
        takes = any(given == node for _, given in wiring.rows[call].inputs)
        if takes and within in wiring.calls_from(wiring.rows[call].parent):
            return site_in(wiring, call, node)
    return None


def _site(wiring: Wiring, call: int, side: str, path: str, n: int = 2) -> str:
    address = wiring.address(call)
    end = f":{wiring.rows[call].pass_}" if wiring.n_runs[address] > 1 else ""
    if side == "out" and not path:
        return address + end
    return f"{address}@{side}.{path}{end}" if path else f"{address}@{side}{end}"


def is_linear(wiring: Wiring, node: int) -> bool:
    """Whether it is a product of an activation with weights."""
    if wiring.name(node) not in LINEAR:
        return False
    weights = [parent for parent in wiring.parents(node) if wiring.is_weight(parent)]
    return any(len(wiring.shape(weight) or ()) >= 2 for weight in weights)


def linear_operand(wiring: Wiring, node: int) -> int:
    """The activation that a linear op multiplies."""
    return next(each for each in wiring.parents(node) if not wiring.is_weight(each) and wiring.is_float(each))


def weight_of(wiring: Wiring, node: int) -> int:
    """The weights of a linear op."""
    return next(w for w in wiring.parents(node) if wiring.is_weight(w) and len(wiring.shape(w) or ()) >= 2)


def linear_input(wiring: Wiring, linear: int) -> str:
    """The site of the activation that a linear op takes: the input of its module, if it is one."""
    number = wiring.trace.tables.nodes.call[linear]
    row = wiring.rows[number]
    taken = wiring.same_numbers(linear_operand(wiring, linear))
    given = [node for _, node in row.inputs]
    while taken not in given and wiring.name(taken) in ("view", "reshape") and wiring.parents(taken)[0] in given:
        taken = wiring.parents(taken)[0]
    if taken not in given:
        return str(wiring.trace.names.site(taken))
    around = wiring.rows[number].parent
    while around and taken in [node for _, node in wiring.rows[around].inputs]:  # an adapter around it
        number, around = around, wiring.rows[around].parent
    return site_in(wiring, number, taken)
