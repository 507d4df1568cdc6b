"""Builds the `GraphView` of a trace: nodes, groups and edges with their labels."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from cutaway.core.formatting import human_bytes, human_number, human_seconds, short
from cutaway.graph.labels import kind_of
from cutaway.graph.modules import ModuleCall
from cutaway.graph.op import Op
from cutaway.graph.tables import BUFFER, IDENTITY, INPUT, OP, PARAMETER
from cutaway.graph.trace import Trace
from cutaway.layout.fold import fold, fold_to_depth
from cutaway.layout.graph_view import (
    CONDITION,
    FAILED,
    LIGHT,
    OUTPUT,
    EdgeColumns,
    Form,
    GraphView,
    GroupColumns,
    Kind,
    NodeColumns,
)
from cutaway.layout.picture import Picture
from cutaway.layout.repeated_blocks import with_runs
from cutaway.views.draw.labels import module_name, parameter_text, shape_text, size_text
from cutaway.views.graph.conditions import decision_lines
from cutaway.views.graph.identity_ops import identity_sources
from cutaway.views.graph.module_groups import Groups
from cutaway.views.graph.node_signature import NodeSignature

_MAX_LABELED = 12
"""An op with more inputs than this, such as a stack over time, gets no edge labels: they would overlap."""
_COMMUTATIVE = frozenset(
    [
        *("add", "iadd", "radd", "mul", "imul", "rmul", "multiply", "eq", "ne", "and", "or", "xor"),
        *("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"),
        *("maximum", "minimum", "hypot", "logaddexp"),
    ]
)


def graph_view(trace: Trace) -> GraphView:
    """The graph view of a trace, without measures.

    >>> graph_view(trace).groups.label        # doctest: +SKIP
    ('', 'encoder', 'encoder.0', 'head')
    """
    builder = _GraphBuilder(trace)
    count = trace.n_parameters
    parameters = f"{count.trainable:,} trainable and {count.frozen:,} frozen parameters"
    nodes, groups = builder.nodes(), builder.groups_columns()
    n_rolled = sum(rep == i for i, rep in enumerate(nodes.rolled))
    view = GraphView(
        title=trace.model_name or "code without a model",
        subtitle=f"{human_bytes(trace.bytes)} of values · {parameters}",
        facts=_facts(trace),
        error="" if trace.error is None else _error(trace),
        nodes=nodes,
        groups=groups,
        runs=(),
        edges=builder.edges(),
        is_rolled=len(nodes.rolled) > 2 * n_rolled,
    )
    signature = NodeSignature(trace)
    return with_runs(view, lambda node: signature.of(nodes.row[node]) if nodes.row[node] >= 0 else ())


def _error(trace: Trace) -> str:
    message = str(trace.error).strip().partition("\n")[0]
    return f"{type(trace.error).__name__}: {message}" if message else type(trace.error).__name__


def _facts(trace: Trace) -> tuple[tuple[str, str], ...]:
    count = trace.n_parameters
    facts = [
        ("ops", f"{len(trace):,}"),
        ("values", human_bytes(trace.bytes)),
        ("parameters", f"{count.total:,}"),
        ("trainable", f"{count.trainable:,}"),
        ("frozen", f"{count.frozen:,}"),
        ("weights", human_bytes(count.bytes)),
        ("FLOPs", human_number(trace.flops)),
        ("time", human_seconds(trace.seconds)),
        ("modules", f"{len(trace.tables.modules):,}"),
    ]
    if trace.n_backwards:
        facts.append(("backward passes", f"{trace.n_backwards:,}"))
    return tuple(facts)


class _GraphBuilder:
    """The nodes in drawing order: ops as they ran, sources at the head of the group that contains all their users."""

    def __init__(self, trace: Trace) -> None:
        self.trace, self.table = trace, trace.tables.nodes
        self.failed = trace.tables.failed_op
        self.groups = Groups(trace)
        drawn = set(trace.op_nodes)
        kind = self.table.kind
        self.parents = {
            node: [p for p in self.table.parents[node] if kind[p] != PARAMETER and (kind[p] != OP or p in drawn)]
            for node in trace.op_nodes
        }
        self.identity_sources = identity_sources(trace.tables, trace.op_nodes, self.parents)
        self.order = self._drawing_order()
        self.index = {row: i for i, row in enumerate(self.order)}
        self.first, self.end = self._spans()
        self.sizes: dict[int, str] = {}
        """Size text by function call, for calls with several results."""

    def _drawing_order(self) -> list[int]:
        """Rows of the trace in drawing order; -1 for the op that failed."""
        table, groups = self.table, self.groups
        # Inputs are drawn even if no op reads them.
        users: dict[int, list[int]] = {row: [] for _, row in self.trace.tables.inputs if table.kind[row] == INPUT}
        for row in self.trace.op_nodes:
            for parent in self.parents[row]:
                if table.kind[parent] != OP:
                    users.setdefault(parent, []).append(groups.of_row(row))
        if self.failed is not None:
            for parent in self.failed.parents:
                if table.kind[parent] not in (OP, PARAMETER):
                    users.setdefault(parent, []).append(groups.of_call[self.failed.call])
        heads: dict[int, list[int]] = {}
        self.home = {row: 0 if table.kind[row] == INPUT else groups.common(of) for row, of in users.items()}
        for row in sorted(users):
            heads.setdefault(self.home[row], []).append(row)
        order, entered = list(heads.get(0, ())), {0}
        for row in [*self.trace.op_nodes, *([-1] if self.failed else ())]:
            group = groups.of_row(row) if row >= 0 else groups.of_call[self.failed.call] if self.failed else 0
            self.home[row] = group
            path = []
            while group not in entered:
                path.append(group)
                entered.add(group)
                group = groups.parent[group]
            for inner in reversed(path):
                order.extend(heads.get(inner, ()))
            order.append(row)
        return order

    def _spans(self) -> tuple[list[int], list[int]]:
        """The first node and the end of each group."""
        n = len(self.groups.parent)
        first, end = [len(self.order)] * n, [0] * n
        for i, row in enumerate(self.order):
            group = self.home[row]
            while group >= 0:
                first[group], end[group] = min(first[group], i), i + 1
                group = self.groups.parent[group]
        return first, end

    # nodes

    def nodes(self) -> NodeColumns:
        rows = self.order
        ops = [Op(self.trace, row) if row >= 0 else None for row in rows]
        outputs = [(path, self.index[row]) for path, row in self.trace.tables.outputs if row in self.index]
        self.returned = {node for _, node in outputs}
        rolled = [self.index[self._first_pass(row)] if row >= 0 else i for i, row in enumerate(rows)]
        described = [self._describe(i, op) for i, op in enumerate(ops)]
        several = {rep for i, rep in enumerate(rolled) if rep != i}
        failed = self.failed.function if self.failed else ""
        return NodeColumns(
            row=tuple(rows),
            label=tuple(self._label(op) if op else failed for op in ops),
            lines=tuple(lines for lines, _, _, _ in described),
            kind=tuple(kind for _, kind, _, _ in described),
            form=tuple(form for _, _, form, _ in described),
            flags=tuple(flags for _, _, _, flags in described),
            group=tuple(self.home[row] for row in rows),
            function=tuple(op.function if op else failed for op in ops),
            site=tuple(op.site if op else "" for op in ops),
            event=tuple(self._events()),
            rolled=tuple(rolled),
            pass_=tuple(self.trace.rolled.number_of(op.node) if op and op.kind == OP else 1 for op in ops),
            rolled_lines={i: self._lines(Op(self.trace, rows[i]), is_rolled=True) for i in sorted(several)},
            outputs=tuple(outputs),
        )

    def _first_pass(self, row: int) -> int:
        return self.trace.rolled.nodes_of(row)[0] if self.table.kind[row] == OP else row

    def _events(self) -> Iterable[int]:
        first: dict[int, int] = {}
        for i, row in enumerate(self.order):
            # Results of one call share the event object, which has no other identity.
            event = self.table.event[row] if row >= 0 else None
            yield i if event is None else first.setdefault(id(event), i)

    def _label(self, op: Op) -> str:
        """The label of an op. A buffer has its address relative to its frame, whose title names the rest."""
        if op.kind != BUFFER:
            return short(op.label)
        call = self.groups.call[self.home[op.node]]
        around = f"{ModuleCall(self.trace, call).address}." if call else ""
        return short(self.table.path[op.node].removeprefix(around) or op.label)

    def _describe(self, i: int, op: Op | None) -> tuple[tuple[str, ...], Kind, Form, int]:
        """The text lines, kind, form and flags of a node."""
        if op is None:
            lines = ("raised here", self.failed.source, self.failed.text) if self.failed else ()
            return tuple(short(line) for line in lines if line), "failed", "function", FAILED
        is_output = OUTPUT if i in self.returned else 0
        if op.kind != OP:
            kind: Kind = "input" if op.kind == INPUT else "buffer" if op.kind == BUFFER else "constant"
            return (size_text([op]),), kind, "function" if op.kind == INPUT else "small", is_output
        decided = op.is_condition
        is_light = self._is_identity(op) or (op.shape is None and not self.trace.children_of(op.node) and not decided)
        flags = is_output | (CONDITION if decided else 0) | (LIGHT if is_light and not is_output else 0)
        # Parameters are no boxes of their own: the op that reads them lists them.
        has_parameters = any(self.table.kind[p] == PARAMETER for p in self.table.parents[op.node])
        kind = "parametric" if has_parameters else "plain" if self.table.parents[op.node] else "made"
        return self._lines(op), kind, "leaf" if self._leaf(op) else "function", flags

    def _is_identity(self, op: Op) -> bool:
        return bool(self.table.flags[op.node] & IDENTITY)

    def _leaf(self, op: Op) -> ModuleCall | None:
        """The module call that ran this op and no other; None if there is none."""
        call = op.module
        return call if call is not None and self.groups.n_ops[call.number] == 1 else None

    def _lines(self, op: Op, *, is_rolled: bool = False) -> tuple[str, ...]:
        passes = self.trace.rolled.nodes_of(op.node) if is_rolled else (op.node,)
        call, leaf = op.module, self._leaf(op)
        parameters = [parameter_text(parent, call) for parent in op.parents if parent.kind == PARAMETER]
        lines = [self._size(op, passes)]
        lines += [" · ".join(parameters[i : i + 2]) for i in range(0, len(parameters), 2)]
        if leaf is not None:
            name = leaf.address if is_rolled else module_name(leaf)
            lines.append(short(f"{name} ({leaf.class_name})"))
        lines += map(short, decision_lines(self.trace, passes))
        if self._is_identity(op):
            lines.append("returns its input")
        return tuple(line for line in lines if line)

    def _size(self, op: Op, passes: Sequence[int]) -> str:
        """Shape and bytes of one pass, for all results of the call together."""
        if len({Op(self.trace, node).shape for node in passes}) > 1:
            return f"{shape_text(op)} to {shape_text(Op(self.trace, passes[-1]))}"
        if not op.output_path:
            return size_text([op])
        # Cached, because all results of a call have the same text and an unbind may have thousands.
        event = id(self.table.event[op.node])
        if event not in self.sizes:
            results = [sibling for sibling in op.siblings if sibling.node in self.index]
            several = f"{len(results)} results: " if len(results) > 1 else ""
            self.sizes[event] = several + size_text(results)
        return self.sizes[event]

    # groups

    def groups_columns(self) -> GroupColumns:
        groups, trace = self.groups, self.trace
        calls = [ModuleCall(trace, call) if call else None for call in groups.call]
        totals = [call.total if call else trace.n_parameters for call in calls]
        rolled, pass_ = groups.rolled(trace)
        is_cut = trace.error is not None
        return GroupColumns(
            parent=tuple(groups.parent),
            label=tuple(short(module_name(call)) if call else "" for call in calls),
            rolled_label=tuple(short(call.address) if call else "" for call in calls),
            class_name=tuple(call.class_name if call else "" for call in calls),
            size=tuple(size_text(call.outputs.values()) if call else "" for call in calls),
            parameters=tuple(_count(total.total, total.frozen) for total in totals),
            kind=tuple("parametric" if total.total else "plain" for total in totals),
            flags=tuple(FAILED if is_cut and call and not call.is_finished else 0 for call in calls),
            depth=tuple(groups.depth),
            first=tuple(self.first),
            end=tuple(self.end),
            n_ops=tuple(groups.n_ops[call] if call else len(trace) for call in groups.call),
            rolled=tuple(rolled),
            pass_=tuple(pass_),
            run=(-1,) * len(calls),
            place=(0,) * len(calls),
            call=tuple(groups.call),
        )

    # edges

    def edges(self) -> EdgeColumns:
        parent: list[int] = []
        child: list[int] = []
        argument: list[str] = []
        branch_starts: list[int] = []
        starts = self.trace.conditionals.starts
        for i, row in enumerate(self.order):
            if row < 0:
                rows = self.failed.parents if self.failed else ()
                drawn = [(p, "") for p in rows if p in self.index]
            else:
                drawn = self._arguments(row) if self.table.kind[row] == OP else []
            for upper, name in drawn:
                if (upper, row) in starts:
                    branch_starts.append(len(parent))
                parent.append(self.index[self.identity_sources.get((upper, row), upper)])
                child.append(i)
                argument.append(name)
        return EdgeColumns(tuple(parent), tuple(child), tuple(argument), tuple(branch_starts))

    def _arguments(self, row: int) -> list[tuple[int, str]]:
        """The drawn parents, each with its argument name where the edge needs a label."""
        parents = self.parents[row]
        if not 2 <= len(parents) <= _MAX_LABELED or kind_of(self.table.name[row]) in _COMMUTATIVE:
            return [(parent, "") for parent in parents]
        kinds = self.table.kind
        edges = [edge for edge in Op(self.trace, row).edges if kinds[edge.parent.node] != PARAMETER]
        named = [(edge.parent.node, edge.argument) for edge in edges if edge.parent.node in self.index]
        return named if [node for node, _ in named] == parents else [(parent, "") for parent in parents]


def _count(total: int, frozen: int) -> str:
    return f"{total:,} parameters" + (f", {frozen:,} frozen" if frozen else "") if total else ""


def picture(
    trace: Trace, *, depth: int | None = None, rolled: bool = False, bright: Collection[int] | None = None
) -> Picture:
    """The picture of a trace, with the module calls `depth` levels below the root folded into one box each.

    Args:
        depth: None draws every op, 1 the children of the root and its direct ops, 0 the model as one box.
        rolled: whether to draw repetitions once: the passes of an op, and identical blocks.
        bright: rows to draw as usual, with all others faded; None fades nothing.
    """
    view = graph_view(trace)
    chosen = None if bright is None else {i for i, row in enumerate(view.nodes.row) if row in bright}
    return fold(view, fold_to_depth(view, depth, rolled=rolled), bright=chosen)
