"""`trace.replay`: recomputes only the ops that a change affects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from cutaway.capture.interventions.new_values import Change, fit_to, name_site_in_errors, parse_changes, value_from
from cutaway.capture.interventions.op_edit import call_replacement
from cutaway.capture.interventions.rebuild import with_tensors
from cutaway.capture.interventions.regions import Region
from cutaway.capture.model.rng_state import preserve_rng
from cutaway.capture.replay.call import (
    FunctionCall,
    MissingValue,
    after_alias_write,
    function_calls,
    generators_of,
    inputs_of,
    replay_call,
    saved_value,
)
from cutaway.capture.replay.edges import Boundaries, Boundary
from cutaway.capture.replay.separate import TwoNames, copies_of_ops, in_twin, is_copy, separated
from cutaway.capture.torch_functions import BACKWARD, Opaque
from cutaway.capture.validation.compare import bit_equal
from cutaway.core.errors import CannotReplayError, EditError, InputTypeError, SiteError
from cutaway.core.pytree import leaves
from cutaway.core.sites import Site
from cutaway.core.units.layout import UnitLayout
from cutaway.graph.op import Op
from cutaway.graph.selection import rows_of
from cutaway.graph.tables import ALIAS, IDENTITY, INPLACE, LEFT_TORCH, OPAQUE, Nodes
from cutaway.graph.trace import Trace

_MISSING: Any = object()
VIEWS = frozenset(
    [
        *(
            "T",
            "mT",
            "H",
            "mH",
            "real",
            "imag",
            "data",
            "t",
            "view",
            "view_as",
            "reshape",
            "flatten",
            "ravel",
            "detach",
        ),
        *("transpose", "swapaxes", "swapdims", "permute", "movedim", "moveaxis", "squeeze", "unsqueeze", "adjoint"),
        *("expand", "expand_as", "diagonal", "narrow", "select", "getitem", "unfold", "as_strided", "unflatten"),
        *("split", "split_with_sizes", "tensor_split", "hsplit", "vsplit", "dsplit", "chunk", "unbind", "values"),
        *("view_as_real", "view_as_complex", "positive", "contiguous", "alias"),
    ]
)
"""Functions whose result may share the memory of their first argument."""


def replay(trace: Trace, at: object, to: object, **part: Any) -> Trace:
    """A trace with the values that a change affects recomputed; `Trace.replay` documents and types the options."""
    check_replayable(trace, at, "replay")
    region = Region.of(**part)
    changes = list(parse_changes(at, to, "trace.replay({at}, 0)"))
    try:
        return Replay(trace).register(changes, region).compute().result()
    except TwoNames as why:
        other = in_separated_trace(trace, changes, (), why)
        return Replay(other.trace, sites=other.sites).register(other.changes, region).compute().result()


def check_replayable(trace: Trace, at: object, verb: str) -> None:
    """Raises if a trace has no functions, or if a model was given."""
    if trace.tables.read_from:
        raise CannotReplayError(
            f"this trace was loaded from {trace.tables.read_from}: functions are not stored, so it cannot be replayed."
        )
    if isinstance(at, nn.Module):
        raise InputTypeError(f"trace.{verb} takes no model: no model runs. Write trace.{verb}(site, value).")


@dataclass(frozen=True, slots=True)
class Separated:
    """A trace that tells two names of a tensor apart, and what was asked, in its ops."""

    trace: Trace
    changes: list[tuple[object, Change]]
    others: tuple[object, ...]
    """Further names of ops."""
    sites: dict[int, Site]
    """Copies of results of ops → the sites of these ops."""


def in_separated_trace(
    trace: Trace, changes: list[tuple[object, Change]], others: tuple[object, ...], why: TwoNames
) -> Separated:
    boundaries = Boundaries(trace)
    copied = [site for where, change in changes if not change.swaps for site in _sites_to_copy(boundaries, where)]
    if not copied:
        raise why
    twin = separated(trace, copied, why)
    copies = copies_of_ops(twin)
    names = _TwinNames(boundaries, twin, copies)
    return Separated(
        twin,
        [(names.of(where, is_changed=not change.swaps), change) for where, change in changes],
        tuple(names.of(where) if where is not None else None for where in others),
        {copy: Op(twin, node).full_site for node, copy in copies.items()},
    )


def _sites_to_copy(boundaries: Boundaries, where: object) -> list[str]:
    """The inputs and outputs of modules in one `at=`, and its ops whose result is, or may share, their input."""
    if isinstance(where, (list, tuple)):
        return [site for each in where for site in _sites_to_copy(boundaries, each)]
    site = boundaries.module_site(where)
    if site is not None:
        return [site]
    nodes = boundaries.trace.tables.nodes
    rows = sorted(rows_of(boundaries.trace, where))
    shared = [node for node in rows if nodes.flags[node] & IDENTITY or nodes.name[node] in VIEWS]
    return [str(Op(boundaries.trace, node).full_site) for node in shared]


@dataclass(frozen=True, slots=True)
class _TwinNames:
    """Names of ops for the other trace of the same run, whose labels differ."""

    boundaries: Boundaries
    twin: Trace
    copies: dict[int, int]

    def of(self, where: object, *, is_changed: bool = False) -> object:
        """The same ops; with `is_changed`, their copies, where they have one."""
        if isinstance(where, (list, tuple)):
            return [self.of(each, is_changed=is_changed) for each in where]
        if self.boundaries.module_site(where) is not None:
            return where
        unit = next(iter(_units(where) or ()), None)
        rows = sorted(rows_of(self.boundaries.trace, where))
        found = [in_twin(self.boundaries.trace, self.twin, node) for node in rows]
        return [Op(self.twin, self.copies.get(node, node) if is_changed else node, unit) for node in found]


class Replay:
    """One replay in progress.

    Args:
        sites: copies of values → the sites that they stand for.
        read: (user, parent) → the value that this user reads instead of its parent's.
    """

    def __init__(
        self,
        trace: Trace,
        *,
        sites: Mapping[int, Site] = MappingProxyType({}),
        read: Mapping[tuple[int, int], Any] = MappingProxyType({}),
    ) -> None:
        self.read = read
        self.frozen: frozenset[int] = frozenset()
        """Nodes that keep their values, unless a change is at them."""
        self.sender_calls: set[int] = set()
        """The module calls in which, or at which, something changes."""
        self.trace, self.nodes = trace, trace.tables.nodes
        self.changes: dict[int, list[tuple[Change, Region]]] = {}
        self.new: dict[int, Any] = {}
        """Node → its new value, if it differs from the saved one."""
        self.calls: dict[int, FunctionCall] = {}
        self.boundaries = Boundaries(trace)
        self.edges: dict[int, list[tuple[Boundary, Change, Region]]] = {}
        """Node → the changes that only some of its users see."""
        self.patched = dict(trace.tables.patched)
        self.sites = dict(sites)

    def register(self, changes: list[tuple[object, Change]], region: Region) -> Replay:
        for where, change in changes:
            self.at(where, change, region)
        return self

    def compute(self) -> Replay:
        with torch._C.DisableTorchFunction(), preserve_rng(*generators_of(self.trace.tables)):
            self.run()
        return self

    def at(self, where: object, change: Change, region: Region) -> None:
        """Registers a change for every op and every edge it applies to."""
        if isinstance(where, (list, tuple)):
            for each in where:
                self.at(each, change, region)
            return
        rows = rows_of(self.trace, where)
        if not rows:
            raise SiteError(f"{where!r} matches nothing in this trace of {self.trace.model_name}.")
        boundaries = self.boundaries.at(where)
        region = region.with_units(_units(where))
        for boundary in boundaries:
            self.sender_calls.add(boundary.call)
            if not boundary.is_input:
                self.check_identity(boundary.node)
            if is_copy(self.trace, boundary.node):
                self.sites[boundary.node] = self.boundaries.site_of(boundary)
            if boundary.is_partial and change.swaps is None:
                self.edges.setdefault(boundary.node, []).append((boundary, change, region))
            else:
                self.changes.setdefault(boundary.node, []).append((change, region))
        for node in sorted(rows - {boundary.node for boundary in boundaries}):
            self.check_identity(node)
            self.sender_calls.add(self.nodes.call[node])
            self.changes.setdefault(node, []).append((change, region))

    def check_identity(self, node: int) -> None:
        if self.nodes.flags[node] & IDENTITY:
            raise TwoNames(f"{self.label(node)} returns its input tensor unchanged")

    def run(self) -> None:
        for node in sorted(self.changes):
            # Sources first: they precede all calls.
            if self.nodes.event[node] is None:
                self.change(node, self.value(node))
        parents = self.nodes.parents
        for call in function_calls(self.trace.tables):
            self.calls.update(dict.fromkeys(call.nodes, call))
            if self.nodes.flags[call.nodes[0]] & INPLACE and self.is_through_edited_view(call.nodes[0]):
                raise TwoNames(
                    f"{self.label(call.nodes[0])} writes through a view that the change replaces, so the write would "
                    "not reach the base tensor"
                )
            # Parents precede their children, so that one pass in order suffices.
            targeted = [node for node in call.nodes if node in self.changes]
            reached = self.is_patched(call) or not self.new.keys().isdisjoint(parents[call.nodes[0]])
            if not targeted and (not reached or self.frozen.issuperset(call.nodes)):
                continue
            swap = next((c.swaps for node in targeted for c, _ in self.changes[node] if c.swaps is not None), None)
            if reached or swap is not None:
                self.call(call, swap)
            for node in targeted:
                self.change(node, self.new.get(node, _MISSING))

    def is_patched(self, call: FunctionCall) -> bool:
        """Computes the values that this call reads at changed edges; returns whether any differs from the saved one."""
        user, reached = call.nodes[0], False
        for parent in set(self.nodes.parents[user]) if self.read else ():
            if (user, parent) in self.read:
                if self.nodes.flags[user] & (INPLACE | ALIAS):
                    self.refuse_write(user)
                self.patched[user, parent] = self.read[user, parent]
                reached = True
        for parent in set(self.nodes.parents[user]) & self.edges.keys():
            crossed = [edge for edge in self.edges[parent] if self.boundaries.reaches(edge[0], user)]
            if not crossed:
                continue
            if self.nodes.flags[user] & (INPLACE | ALIAS):
                self.refuse_write(user)
            value = self.at_edge(parent, crossed, user)
            if not bit_equal(value, self.value(parent)):
                self.patched[user, parent] = value
                reached = True
        return reached

    def at_edge(self, node: int, crossed: list[tuple[Boundary, Change, Region]], user: int) -> Tensor:
        """The value of a node after the boundaries that it crosses on its way to a user."""
        value = self.new[node] if node in self.new else self.value(node)
        changes = [(change, region) for _, change, region in sorted(crossed, key=lambda edge: edge[0].order)]
        new = self.apply(changes, node, value, before=user)
        if _shape(new) != _shape(value):
            self.refuse(node, f"its shape would be {_shape(new)} instead of {_shape(value)}")
        return new.detach()

    def change(self, node: int, value: Any) -> None:
        """Applies all changes of one node."""
        value = self.value(node) if value is _MISSING else value
        self.keep(node, self.apply(self.changes[node], node, value, before=node + 1))

    def apply(self, changes: list[tuple[Change, Region]], node: int, given: Any, *, before: int) -> Tensor:
        """The value after some changes, which may read the values of nodes before a given one."""
        if not isinstance(given, Tensor):
            raise EditError(f"{self.label(node)} is {given!r}, a Python number: change the op it was read from.")
        value: Tensor = given
        op = Op(self.trace, node)
        for change, region in changes:
            if change.swaps is not None:
                continue
            layout = _layout_for(op, region, value)
            others = (layout.check(op.site),) if change.takes_layout else self.others(change, op, before)
            with name_site_in_errors("replay", op.label):
                value = region.put(fit_to(change(value, *others), value), value, None, layout)
        return value

    def others(self, change: Change, op: Op, before: int) -> tuple[Any, ...]:
        """The values that a change needs besides the one it replaces; values at sites come from this replay."""
        if change.source is not None:
            return (value_from(change.source, self.sites.get(op.node, op.full_site)),)
        values = []
        for site in change.needs:
            (node,) = sorted(rows_of(self.trace, site))[:1] or [-1]
            if not 0 <= node < before:
                raise EditError(f"{str(site)!r} runs after {op.label}, so its value cannot be used there.")
            values.append(self.new[node] if node in self.new else self.value(node))
        return tuple(values)

    def call(self, call: FunctionCall, swap: Any) -> None:
        """Calls one function again, on the new values of its parents."""
        node = call.nodes[0]
        flags = self.nodes.flags[node]
        if flags & ALIAS:
            self.alias(call)
            return
        if flags & OPAQUE or type(call.event[0]) is Opaque or call.function.role == BACKWARD:
            self.refuse(node, "it represents code that cannot be replayed alone")
        try:
            values: dict[int, Any] = {**inputs_of(self.trace, call, known=self.new)}
            values |= {parent: self.patched[node, parent] for parent in values if (node, parent) in self.patched}
        except MissingValue as reason:
            self.refuse(node, f"one of its inputs is not available: {reason}")
        if swap is not None:
            call = FunctionCall(call.nodes, (_replacement(swap, call), *call.event[1:]))
        try:
            results = replay_call(self.trace, call, values)
        except (EditError, CannotReplayError):
            raise
        except Exception as error:
            self.refuse(node, f"replayed on the new values, it raised {type(error).__name__}: {error}")
        for each, value in results.items():
            self.keep(each, value)

    def alias(self, call: FunctionCall) -> None:
        """Recomputes a value that changes through another tensor in the same memory."""
        node = call.nodes[0]
        if self.nodes.parents[node][0] in self.edges:
            self.refuse_write(node)
        try:
            value = after_alias_write(self.trace, call, self.calls, self.new)
        except MissingValue as reason:
            self.refuse(node, f"one of its inputs is not available: {reason}")
        if value is None:
            self.refuse(node, "the writes through other tensors cannot be reconstructed")
        self.keep(node, value)

    def is_through_edited_view(self, node: int) -> bool:
        """Whether a write goes through an edited view: in a full run it would no longer be a view."""
        while self.nodes.flags[node] & INPLACE or self.nodes.name[node] in VIEWS:
            if node in self.changes and not self.nodes.flags[node] & INPLACE:
                return True
            above = self.nodes.parents[node]
            if not above:
                return False
            if any(self.boundaries.reaches(edge[0], node) for edge in self.edges.get(above[0], ())):
                return True  # the view is one of the new tensor
            node = above[0]
        return False

    def keep(self, node: int, value: Any) -> None:
        """Stores a value that differs from the saved one; an equal value does not propagate."""
        if node in self.frozen and node not in self.changes:
            return
        try:
            before = saved_value(self.trace, node)
        except MissingValue:
            before = _MISSING
        if self.nodes.flags[node] & LEFT_TORCH:
            if before is _MISSING or not bit_equal(value, before):
                was = "" if before is _MISSING else f" instead of {before!r:.40}"
                self.refuse(node, f"it would return {value!r:.40}{was} to the program, whose reaction is unknown")
            return
        value = value.detach() if isinstance(value, Tensor) else value
        # Shapes are plain Python values: nobody sees where the program read the old one.
        if before is not _MISSING and _shape(value) != _shape(before):
            self.refuse(
                node,
                f"its shape would be {_shape(value)} instead of {_shape(before)}, and the program may depend on it",
            )
        if before is not _MISSING and bit_equal(value, before):
            self.new.pop(node, None)
        else:
            self.new[node] = value

    def value(self, node: int) -> Any:
        try:
            return saved_value(self.trace, node)
        except MissingValue as reason:
            self.refuse(node, str(reason))

    def refuse(self, node: int, reason: str) -> Any:
        source = Op(self.trace, node).source
        where = f" at {source}" if source is not None else ""
        raise CannotReplayError(
            f"the change affects {self.label(node)}{where}, and {reason}. "
            "Run the model in `with cutaway.edit(…):` instead."
        )

    def refuse_write(self, node: int) -> Any:
        raise TwoNames(f"{self.label(node)} writes to a tensor of which only some users see the change")

    def label(self, node: int) -> str:
        return self.trace.names.label(node)

    def result(self) -> Trace:
        """The trace with the new values."""
        tables, nodes = self.trace.tables, self.nodes
        value, version, meta = list(nodes.value), list(nodes.version), list(nodes.meta)
        for node, new in self.new.items():
            # New tensors belong to the replay alone, so there is no version to compare.
            value[node], version[node], meta[node] = new, None, None
        columns = {name: getattr(nodes, name) for name in Nodes.__dataclass_fields__}
        changed = Nodes(**{**columns, "value": value, "version": version, "meta": meta, "grads": {}})
        result = Trace()
        result.fill(
            replace(
                tables,
                nodes=changed,
                recipe=None,
                n_backwards=0,
                is_replay=True,
                recomputed=tuple(sorted(self.new)),
                patched=self.patched,
            ),
            orphans=self.trace._orphans,
        )
        result.returned = self.returned()
        return result

    def returned(self) -> Any:
        """The model's output with the new values."""
        other = {path: item.detach() for path, item in leaves(self.trace.returned, lambda t: isinstance(t, Tensor))}
        for path, op in zip(self.trace.output_paths, self.trace.outputs, strict=True):
            if path not in other:
                continue
            edges = self.edges.get(op.node, ())
            crossed = [edge for edge in edges if self.boundaries.reaches_output(edge[0], path)]
            if crossed:
                other[path] = self.at_edge(op.node, crossed, len(self.nodes))
            elif op.node in self.new:
                other[path] = self.new[op.node]
        return with_tensors(self.trace.returned, other) if other else self.trace.returned


def _shape(value: Any) -> list[int] | None:
    return list(value.shape) if isinstance(value, Tensor) and not value.is_nested else None


def _replacement(function: Any, call: FunctionCall) -> Any:
    return lambda *args, **kwargs: call_replacement(function, call.function.name, args, kwargs)


def _units(where: object) -> list[int] | None:
    """The unit that a site or an op names, if any."""
    if isinstance(where, Op):
        return [where.unit] if where.unit is not None else None
    if isinstance(where, str) and "#" in where:
        return [int(where.rpartition("#")[2])]
    return None


def _layout_for(op: Op, region: Region, value: Tensor) -> UnitLayout:
    """The layout that the caller states with `unit_dim=`, otherwise the one from the trace."""
    layout = op.unit_layout
    if region.unit_dim is None:
        return layout.check(op.site) if region.needs_units else layout
    return layout.for_shape(value.shape).with_units(region.unit_dim)
