"""Encodes everything but the values of a trace as columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cutaway.core.arrays import Raw
from cutaway.core.events import GroupEvent, TensorMeta
from cutaway.graph.control_flow.source import source_of
from cutaway.graph.control_flow.stored_code import fingerprint_of
from cutaway.graph.op import Op
from cutaway.graph.tables import BUFFER, CONSTANT, INPUT, OP, PARAMETER, CallRow, FailedOp, Nodes, Tables
from cutaway.graph.trace import Trace
from cutaway.store.format.frames import Plain
from cutaway.store.traces.arguments import Encoder
from cutaway.store.traces.columns import ColumnWriter

EXPANDED_VERSION: Final = 2
"""Of a trace with arrays that are expanded; any other has version 1, so that older versions of Cutaway can read it."""
VERSION: Final = EXPANDED_VERSION
"""The newest version that this code reads."""
KINDS: Final = (OP, INPUT, PARAMETER, BUFFER, CONSTANT)
_MAX_MESSAGE, _MAX_FLOPS = 10_000, 2**63 - 1


@dataclass(slots=True)
class Structure:
    """A trace without its values."""

    document: dict[str, Plain]
    columns: ColumnWriter = field(default_factory=ColumnWriter)

    def arrays(self) -> dict[str, Raw]:
        return self.columns.arrays()


def structure_of(trace: Trace) -> Structure:
    """Encode everything but the values of a trace."""
    tables = trace.tables
    structure = Structure(_document(trace))
    columns = structure.columns
    codes = _Codes(columns)
    events = _events(tables, codes, columns)
    _nodes(tables.nodes, events, columns)
    _calls(tables.calls, codes, columns)
    _modules(tables, columns)
    _groups(tables, codes, columns)
    for name, ends in (("inputs", tables.inputs), ("outputs", tables.outputs), ("named", tables.named.items())):
        _named_nodes(name, ends, columns)
    columns.numbers("recomputed", list(tables.recomputed))
    columns.numbers("unexplained", list(tables.unexplained))
    if tables.notes:
        columns.texts("notes", list(tables.notes))
    _stored_facts(trace, columns)
    codes.write()
    return structure


def _document(trace: Trace) -> dict[str, Plain]:
    tables = trace.tables
    error = tables.error
    kind = type(error).__name__
    return {
        "version": 1,
        "n_nodes": len(tables.nodes),
        "model_name": tables.model_name,
        "is_compiled": tables.compiled,
        "seconds": float(tables.seconds),
        "saved_all": tables.saved_all,
        "error": None if error is None else [kind if kind.isidentifier() else "Exception", _message(error)],
        "failed": tables.failed,
        "failed_op": None if tables.failed_op is None else _failed_op(tables.failed_op),
        "n_backwards": tables.n_backwards,
        "is_transformed": tables.is_transformed,
        "is_replay": tables.is_replay,
        "orphans": trace._orphans,
        "origin": None if tables.origin is None else [tables.origin.run, tables.origin.step],
        "first_nonfinite": -1 if trace.first_nonfinite is None else trace.first_nonfinite.op.node,
    }


def _failed_op(op: FailedOp) -> dict[str, Plain]:
    return {
        "function": op.function,
        "parents": list(op.parents),
        "call": op.call,
        "source": op.source,
        "text": op.text,
    }


def _message(error: BaseException) -> str:
    try:
        return str(error)[:_MAX_MESSAGE]
    except Exception:  # __str__ of a user's exception
        return ""


class _Codes:
    """Numbers the code objects, and records which of their instructions ran."""

    def __init__(self, columns: ColumnWriter) -> None:
        self._columns = columns
        self._numbers: dict[int, int] = {}
        self._codes: list[Any] = []
        self._run: dict[tuple[int, int], None] = {}

    def number(self, code: Any, instruction: int) -> int:
        if code is None:
            return -1
        number = self._numbers.get(id(code))
        if number is None:
            number = self._numbers[id(code)] = len(self._codes)
            self._codes.append(code)
        self._run[number, instruction] = None
        return number

    def write(self) -> None:
        columns, codes = self._columns, self._codes
        columns.texts("codes/file", [code.co_filename for code in codes])
        columns.texts("codes/function", [code.co_qualname for code in codes])
        columns.texts("codes/fingerprint", [fingerprint_of(code) for code in codes])
        sources = [source_of(codes[number], instruction) for number, instruction in self._run]
        columns.numbers("lines/code", [number for number, _ in self._run])
        columns.numbers("lines/instruction", [instruction for _, instruction in self._run])
        columns.numbers("lines/number", [source.line if source else 0 for source in sources])
        columns.texts("lines/text", [source.text if source else "" for source in sources])


def _events(tables: Tables, codes: _Codes, columns: ColumnWriter) -> list[int]:
    """Write the function calls; returns the call that made each node, -1 for none."""
    numbers: dict[int, int] = {}
    rows: list[tuple[Any, ...]] = []
    of_node = []
    for event in tables.nodes.event:
        if event is None:
            of_node.append(-1)
            continue
        # By identity: an op with several results has one event, shared by several nodes.
        number = numbers.get(id(event))
        if number is None:
            number = numbers[id(event)] = len(rows)
            rows.append(event)
        of_node.append(number)
    encoder = Encoder(tables.is_tensor)
    # A loop calls its ops with the same arguments thousands of times; equal texts are stored once.
    distinct: dict[str, int] = {}
    texts = [encoder.arguments(event[1], event[2]) for event in rows]
    columns.numbers("events/arguments", [distinct.setdefault(text, len(distinct)) for text in texts])
    columns.texts("arguments", list(distinct))
    for name, position in (("call", 4), ("group", 5), ("instruction", 7), ("started", 8), ("ended", 9)):
        columns.numbers(f"events/{name}", [event[position] for event in rows])
    columns.numbers("events/code", [codes.number(event[6], event[7]) for event in rows])
    return of_node


def _nodes(nodes: Nodes, events: list[int], columns: ColumnWriter) -> None:
    kinds = {kind: number for number, kind in enumerate(KINDS)}
    columns.numbers("nodes/kind", [kinds[kind] for kind in nodes.kind])
    columns.texts("nodes/name", nodes.name)
    columns.numbers("nodes/event", events)
    columns.rows("nodes/parents", nodes.parents)
    columns.numbers("nodes/call", nodes.call)
    columns.texts("nodes/path", nodes.path)
    columns.numbers("nodes/flags", nodes.flags)
    metas: dict[TensorMeta, int] = {}
    node_metas = [nodes.meta_of(node) for node in range(len(nodes))]
    columns.numbers("nodes/meta", [-1 if meta is None else metas.setdefault(meta, len(metas)) for meta in node_metas])
    columns.numbers("metas/is_dense", [meta.shape is not None for meta in metas])
    columns.rows("metas/shape", [meta.shape or () for meta in metas])
    columns.texts("metas/dtype", [meta.dtype for meta in metas])
    columns.texts("metas/device", [meta.device for meta in metas])
    columns.numbers("writes/node", list(nodes.writes))
    columns.text_rows("writes/addresses", list(nodes.writes.values()))


def _named_nodes(name: str, ends: Iterable[tuple[str, int]], columns: ColumnWriter) -> None:
    pairs = list(ends)
    columns.texts(f"{name}/path", [path for path, _ in pairs])
    columns.numbers(f"{name}/node", [node for _, node in pairs])


def _calls(calls: Sequence[CallRow], codes: _Codes, columns: ColumnWriter) -> None:
    columns.numbers("calls/code", [codes.number(row.code, row.instruction) for row in calls])
    for name in ("module", "parent", "pass_", "training", "instruction", "is_finished", "is_root", "first_node"):
        columns.numbers(f"calls/{name}", [int(getattr(row, name)) for row in calls])
    columns.floats("calls/seconds", [row.seconds for row in calls])
    for side in ("inputs", "outputs"):
        ends = [getattr(row, side) for row in calls]
        columns.text_rows(f"calls/{side}/path", [[path for path, _ in row] for row in ends])
        columns.rows(f"calls/{side}/node", [[node for _, node in row] for row in ends])


def _modules(tables: Tables, columns: ColumnWriter) -> None:
    modules, parameters = tables.modules, tables.parameters
    columns.text_rows("modules/addresses", [row.addresses for row in modules])
    columns.texts("modules/class_name", [row.class_name for row in modules])
    columns.numbers("modules/has_forward", [row.has_forward for row in modules])
    for name in ("parameters", "children", "calls"):
        columns.rows(f"modules/{name}", [getattr(row, name) for row in modules])
    columns.text_rows("parameters/addresses", [row.addresses for row in parameters])
    columns.rows("parameters/shape", [row.shape for row in parameters])
    columns.texts("parameters/dtype", [row.dtype for row in parameters])
    for name in ("bytes", "numel", "is_buffer", "requires_grad", "node"):
        columns.numbers(f"parameters/{name}", [int(getattr(row, name)) for row in parameters])


def _groups(tables: Tables, codes: _Codes, columns: ColumnWriter) -> None:
    """The composites; 0 stands for none."""
    groups: list[tuple[int, GroupEvent]] = sorted(
        (item for item in tables.groups.items() if item[0]), key=lambda i: i[0]
    )
    columns.numbers("groups/number", [number for number, _ in groups])
    columns.texts("groups/function", [group.function for _, group in groups])
    for name in ("parent", "call", "instruction"):
        columns.numbers(f"groups/{name}", [getattr(group, name) for _, group in groups])
    columns.numbers("groups/code", [codes.number(group.code, group.instruction) for _, group in groups])


def _stored_facts(trace: Trace, columns: ColumnWriter) -> None:
    """What a reader could not work out again, without the code and the values."""
    outcomes = trace.conditionals.outcomes
    tests = outcomes.tests
    columns.numbers("tests/node", [row.node for row in tests])
    columns.numbers("tests/value", [-1 if row.value is None else int(row.value) for row in tests])
    columns.texts("tests/kind", [row.kind for row in tests])
    columns.texts("tests/file", [row.source.file for row in tests])
    columns.numbers("tests/line", [row.source.line for row in tests])
    columns.texts("tests/function", [row.source.function for row in tests])
    columns.texts("tests/text", [row.source.text for row in tests])
    columns.texts("tests/test", [row.test for row in tests])
    columns.texts("tests/arm", [row.arm for row in tests])
    columns.rows("tests/arm_lines", [row.arm_lines or () for row in tests])
    arms = {node: around for node in range(len(trace.tables.nodes)) if tests and (around := outcomes.around(node))}
    columns.numbers("arms/node", list(arms))
    columns.rows("arms/tests", list(arms.values()))
    rolled = trace.rolled
    recurrent = dict.fromkeys(rolled.nodes_of(node) for node in trace.op_nodes)
    columns.rows("recurrent", [nodes for nodes in recurrent if len(nodes) > 1])
    flops = {node: n for node in range(len(trace.tables.nodes)) if (n := Op(trace, node).flops)}
    columns.numbers("flops/node", list(flops))
    columns.numbers("flops/number", [min(n, _MAX_FLOPS) for n in flops.values()])
    layouts = trace.unit_layouts
    columns.texts("units", [None if each is None else json.dumps(each.to_list()) for each in layouts])
