"""Exports the graph of a trace as JSON for Google's Model Explorer.

It has every op, in layers that follow the nesting of modules. Model Explorer folds and lays out the graph itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import takewhile
from typing import TypedDict

from cutaway.core.formatting import human_bytes, human_number, human_seconds
from cutaway.graph.modules import ModuleCall, ParameterCount
from cutaway.graph.op import Op
from cutaway.graph.tables import BUFFER, INPUT, OP, PARAMETER
from cutaway.graph.trace import Trace
from cutaway.layout.graph_view import GraphView, Measure
from cutaway.views.draw.color_scale import ColorScale, amount
from cutaway.views.draw.labels import module_name, shape_text


class KeyValue(TypedDict):
    """An attribute and its value."""

    key: str
    value: str


class IncomingEdge(TypedDict):
    """A tensor that a node reads: the source node, which of its outputs, and as which input."""

    sourceNodeId: str
    sourceNodeOutputId: str
    targetNodeInputId: str


class Metadata(TypedDict):
    """Attributes of one output or input."""

    id: str
    attrs: list[KeyValue]


class Node(TypedDict, total=False):
    """An op with all its results, or a source. The keys are those of Model Explorer."""

    id: str
    label: str
    namespace: str
    attrs: list[KeyValue]
    incomingEdges: list[IncomingEdge]
    outputsMetadata: list[Metadata]
    inputsMetadata: list[Metadata]
    style: dict[str, str]


def model_explorer(trace: Trace, view: GraphView, measure: Measure | None = None) -> str:
    """The whole graph as JSON text.

    Args:
        measure: a number for each node of the view, to color the nodes by.
    """
    builder = _GraphBuilder(trace, {} if measure is None else _color_by_row(view, measure))
    nodes = [builder.node(rows) for rows in builder.results.values()]
    graph = {
        "id": trace.model_name or "code without a model",
        "nodes": [*nodes, *builder.outputs()],
        "groupNodeAttributes": builder.layers(),
    }
    return json.dumps({"label": "Cutaway", "graphs": [graph]}, ensure_ascii=False, indent=1) + "\n"


def _color_by_row(view: GraphView, measure: Measure) -> dict[int, tuple[KeyValue, str]]:
    """Row → its value as text, and its color."""
    color_scale = ColorScale(measure, measure.values)
    colors = {}
    for row, value, fill in zip(view.nodes.row, measure.values, color_scale.fills, strict=True):
        if value is not None and fill is not None:
            colors[row] = (_fact(measure.title, amount(value, measure.unit)), fill)
    return colors


class _GraphBuilder:
    def __init__(self, trace: Trace, painted: Mapping[int, tuple[KeyValue, str]]) -> None:
        self.trace, self.painted = trace, painted
        columns = trace.tables.nodes
        read = {parent for row in trace.op_nodes for parent in columns.parents[row]}
        sources = {row for row in read if columns.kind[row] not in (OP, PARAMETER)}
        sources.update(row for _, row in trace.tables.inputs)
        self.results: dict[int, list[int]] = {row: [row] for row in sorted(sources)}
        """First result of a call, or a source → all results of the call."""
        self.place: dict[int, tuple[int, int]] = {row: (row, 0) for row in sources}
        """Row → the first result of its call, and its index among the results."""
        first = -1
        for row in trace.op_nodes:
            is_same = first >= 0 and columns.event[row] is not None and columns.event[row] is columns.event[first]
            first = first if is_same else row
            rows = self.results.setdefault(first, [])
            self.place[row] = (first, len(rows))
            rows.append(row)

    def id(self, row: int) -> str:
        return self.trace.names.label(self.place[row][0])

    def node(self, rows: list[int]) -> Node:
        op = Op(self.trace, rows[0])
        edges = [edge for edge in op.edges if edge.parent.node in self.place]
        node: Node = {
            "id": self.id(rows[0]),
            "label": op.function if op.kind == OP else op.site if op.kind == BUFFER else op.label,
            "namespace": self.home(op),
            "attrs": self.facts(op),
            "incomingEdges": [
                {
                    "sourceNodeId": self.id(edge.parent.node),
                    "sourceNodeOutputId": str(self.place[edge.parent.node][1]),
                    "targetNodeInputId": str(number),
                }
                for number, edge in enumerate(edges)
            ],
            "inputsMetadata": [
                {"id": str(number), "attrs": [_fact("__tensor_tag", edge.argument)]}
                for number, edge in enumerate(edges)
            ],
            "outputsMetadata": [
                {"id": str(number), "attrs": _tensor(Op(self.trace, row))} for number, row in enumerate(rows)
            ],
        }
        colors = [self.painted[row] for row in rows if row in self.painted]
        if colors:
            node["attrs"].append(colors[0][0])
            node["style"] = {"backgroundColor": colors[0][1]}
        return node

    def facts(self, op: Op) -> list[KeyValue]:
        facts = [_fact("site", op.site)]
        if op.kind != OP:
            return [*facts, _fact("kind", op.kind)]
        facts += [_fact("time", human_seconds(op.seconds))]
        facts += [_fact("FLOPs", human_number(op.flops))] if op.flops else []
        facts += [_fact("parameter", f"{parameter.label} {shape_text(parameter)}") for parameter in op.parameters]
        facts += [_fact("source", f"{op.source.file}:{op.source.line}")] if op.source is not None else []
        return facts

    def outputs(self) -> list[Node]:
        """One node for all outputs of the model."""
        outputs = [(path, row) for path, row in self.trace.tables.outputs if row in self.place]
        if not outputs:
            return []
        edges: list[IncomingEdge] = [
            {
                "sourceNodeId": self.id(row),
                "sourceNodeOutputId": str(self.place[row][1]),
                "targetNodeInputId": str(number),
            }
            for number, (_, row) in enumerate(outputs)
        ]
        tags: list[Metadata] = [
            {"id": str(number), "attrs": [_fact("__tensor_tag", path or "output")]}
            for number, (path, _) in enumerate(outputs)
        ]
        return [{"id": "outputs", "label": "outputs", "namespace": "", "incomingEdges": edges, "inputsMetadata": tags}]

    # layers

    def home(self, op: Op) -> str:
        """The layer of an op; for a buffer or constant, the innermost layer that contains all its users."""
        if op.kind == OP:
            return self.namespace(self.trace.tables.nodes.call[op.node])
        if op.kind == INPUT:
            return ""
        users = [self.home(user).split("/") for user in op.children]
        same = takewhile(lambda parts: len(set(parts)) == 1, zip(*users, strict=False))
        return "/".join(parts[0] for parts in same)

    def namespace(self, call: int) -> str:
        """The module calls around an op, outermost first, without the root."""
        parts: list[str] = []
        while call and not self.trace.tables.calls[call].is_root:
            above = self.trace.tables.calls[call].parent
            parts.append(self._layer(call, above))
            call = above
        return "/".join(reversed(parts))

    def _layer(self, call: int, above: int) -> str:
        """The name of a module relative to the one around it."""
        name = module_name(ModuleCall(self.trace, call))
        around = ModuleCall(self.trace, above).address if above else "."
        return name.removeprefix(f"{around}.").replace("/", "∕")

    def layers(self) -> dict[str, dict[str, str]]:
        """Attributes of each module call by its namespace; those of the whole model have the empty one."""
        trace = self.trace
        attributes = {
            "": {
                "ops": f"{len(trace):,}",
                "values": human_bytes(trace.bytes),
                "FLOPs": human_number(trace.flops),
                "time": human_seconds(trace.seconds),
                **_parameter_facts(trace.n_parameters),
            }
        }
        for number in range(1, len(trace.tables.calls)):
            call = ModuleCall(trace, number)
            namespace = self.namespace(number)
            if namespace:
                about = {"class": call.class_name, "address": call.address, "time": human_seconds(call.seconds)}
                attributes[namespace] = {**about, **_parameter_facts(call.total)}
        return attributes


def _parameter_facts(count: ParameterCount) -> dict[str, str]:
    frozen = {"frozen parameters": f"{count.frozen:,}"} if count.frozen else {}
    return {"parameters": f"{count.total:,}", **frozen} if count.total else {}


def _tensor(op: Op) -> list[KeyValue]:
    attributes = [_fact("__tensor_tag", op.label)]
    facts = {"tensor_shape": shape_text(op), "dtype": op.dtype, "device": op.device, "bytes": human_bytes(op.bytes)}
    return [*attributes, *(_fact(name, value) for name, value in facts.items() if value)]


def _fact(key: str, value: str) -> KeyValue:
    return {"key": key, "value": value}
