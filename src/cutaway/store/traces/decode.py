"""Decodes a trace from columns; validates every number, so that nothing fails or loops later."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from cutaway.core.errors import DamagedError, VersionError
from cutaway.core.events import GroupEvent, TensorMeta
from cutaway.core.units.layout import UnitLayout
from cutaway.graph.control_flow.source import Source
from cutaway.graph.control_flow.stored_code import StoredCode
from cutaway.graph.stored_facts import RecordedError, StoredFacts, StoredTest
from cutaway.graph.tables import OP, CallRow, FailedOp, ModuleRow, Nodes, ParameterRow, Tables
from cutaway.graph.trace import Trace
from cutaway.store.format.fields import count, counts, mapping, number, text
from cutaway.store.traces.arguments import decode_all_arguments
from cutaway.store.traces.columns import ColumnReader
from cutaway.store.traces.encode import EXPANDED_VERSION, KINDS, VERSION
from cutaway.store.traces.origin import origin_of
from cutaway.store.traces.values import ValueReader

_ANY = -(1 << 63)


def trace_of(document: object, columns: ColumnReader, values: ValueReader, *, read_from: str) -> Trace:
    """Decode a trace from its document and columns."""
    head = mapping(document, "the document of the trace")
    if count(head.get("version"), "the version of the trace") > VERSION:
        raise VersionError(f"the trace has version {head['version']}; this version of Cutaway reads up to {VERSION}.")
    if head["version"] >= EXPANDED_VERSION and "arrays/expanded" not in columns:
        raise DamagedError("the column 'arrays/expanded' is missing: values would have the wrong shape.")
    trace = Trace()
    trace.fill(_TraceDecoder(head, columns, values).tables(read_from), orphans=_truth(head, "orphans"))
    return trace


def _truth(head: Mapping[str, Any], name: str) -> bool:
    if type(head.get(name)) is not bool:
        raise DamagedError(f"the trace has {head.get(name)!r} for {name!r}, expected true or false.")
    return bool(head[name])


class _TraceDecoder:
    """Decodes one trace."""

    def __init__(self, head: Mapping[str, Any], columns: ColumnReader, values: ValueReader) -> None:
        self.head, self.columns, self.values = head, columns, values
        self.n_nodes = count(head.get("n_nodes"), "the number of nodes")
        self.n_calls = len(columns.numbers("calls/parent", None))
        self.n_backwards = count(head.get("n_backwards"), "the number of backward passes")
        self.codes = self._codes()

    def tables(self, read_from: str) -> Tables:
        head = self.head
        groups = self._groups()
        nodes = self._nodes(groups)
        n_modules = len(self.columns.texts("modules/class_name", None))
        failed = head.get("failed")
        return Tables(
            nodes=nodes,
            calls=self._calls(n_modules),
            modules=self._modules(n_modules),
            parameters=self._parameters(),
            groups=groups,
            inputs=self._named_nodes("inputs"),
            outputs=self._named_nodes("outputs"),
            named=dict(self._named_nodes("named")),
            n_backwards=self.n_backwards,
            model_name=text(head.get("model_name"), "the name of the model"),
            compiled=_truth(head, "is_compiled"),
            seconds=number(head.get("seconds"), "the time of the trace"),
            saved_all=_truth(head, "saved_all"),
            error=_error(head.get("error")),
            failed=None if failed is None else text(failed, "what failed"),
            failed_op=self._failed_op(),
            is_transformed=_truth(head, "is_transformed"),
            is_replay=_truth(head, "is_replay"),
            recomputed=tuple(self.columns.numbers("recomputed", None, high=self.n_nodes)),
            unexplained=self._unexplained(),
            notes=tuple(self.columns.texts("notes", None)) if "notes" in self.columns else (),
            read_from=read_from,
            stored=self._stored_facts(nodes.name),
            origin=origin_of(head),
        )

    def _unexplained(self) -> tuple[int, ...]:
        if "unexplained" not in self.columns:  # a trace of an earlier version
            return ()
        return tuple(self.columns.numbers("unexplained", None, high=self.n_nodes))

    def _failed_op(self) -> FailedOp | None:
        fields = self.head.get("failed_op")
        if fields is None:
            return None
        op = mapping(fields, "the failed op")
        parents = counts(op.get("parents"), "a parent of the failed op")
        call = count(op.get("call"), "the module call of the failed op")
        if call >= self.n_calls or any(parent >= self.n_nodes for parent in parents):
            raise DamagedError("the failed op has parents or a module call outside this trace.")
        texts = [text(op.get(name), f"the {name} of the failed op") for name in ("function", "source", "text")]
        return FailedOp(texts[0], parents, call, texts[1], texts[2])

    def _codes(self) -> list[StoredCode]:
        columns = self.columns
        files = columns.texts("codes/file", None)
        n = len(files)
        functions, fingerprints = columns.texts("codes/function", n), columns.texts("codes/fingerprint", n)
        lines: list[dict[int, tuple[int, str]]] = [{} for _ in files]
        of = columns.numbers("lines/code", None, high=n)
        instructions = columns.numbers("lines/instruction", len(of), low=-1)
        numbers, texts = columns.numbers("lines/number", len(of), low=_ANY), columns.texts("lines/text", len(of))
        for code, instruction, line, line_text in zip(of, instructions, numbers, texts, strict=True):
            lines[code][instruction] = line, line_text
        return [StoredCode(*each) for each in zip(files, functions, fingerprints, lines, strict=True)]

    def _code(self, name: str, n: int) -> list[Any]:
        numbers = self.columns.numbers(name, n, low=-1, high=len(self.codes))
        return [None if number < 0 else self.codes[number] for number in numbers]

    # Nodes

    def _nodes(self, groups: Mapping[int, GroupEvent]) -> Nodes:
        columns, n = self.columns, self.n_nodes
        events = self._events(groups)
        of = columns.numbers("nodes/event", n, low=-1, high=len(events))
        metas = self._metas()
        meta = columns.numbers("nodes/meta", n, low=-1, high=len(metas))
        kinds = [KINDS[kind] for kind in columns.numbers("nodes/kind", n, high=len(KINDS))]
        names, calls = columns.texts("nodes/name", n), columns.numbers("nodes/call", n, high=self.n_calls)
        _check_results(list(zip(of, kinds, names, calls, strict=True)))
        return Nodes(
            kind=kinds,
            name=names,
            event=[None if number < 0 else events[number] for number in of],
            parents=self._parents(),
            call=calls,
            path=columns.texts("nodes/path", n),
            value=self.values.values(n),
            version=[None] * n,
            meta=[None if number < 0 else metas[number] for number in meta],
            flags=columns.numbers("nodes/flags", n),
            writes=self._writes(),
            grads=self.values.grads(n, self.n_backwards),
        )

    def _parents(self) -> list[tuple[int, ...]]:
        rows = self.columns.rows("nodes/parents", self.n_nodes)
        for node, parents in enumerate(rows):
            # Parents precede children in every trace; analyses rely on that to finish in one pass, and to terminate.
            if parents and max(parents) >= node:
                raise DamagedError(f"node {node} of this trace has the parent {max(parents)}, which follows it.")
        return [tuple(parents) for parents in rows]

    def _metas(self) -> list[TensorMeta]:
        columns = self.columns
        dtypes = columns.texts("metas/dtype", None)
        n = len(dtypes)
        dense, shapes = columns.truths("metas/is_dense", n), columns.rows("metas/shape", n)
        devices = columns.texts("metas/device", n)
        return [
            TensorMeta(tuple(shape) if is_dense else None, dtype, device)
            for is_dense, shape, dtype, device in zip(dense, shapes, dtypes, devices, strict=True)
        ]

    def _events(self, groups: Mapping[int, GroupEvent]) -> list[tuple[Any, ...]]:
        columns = self.columns
        arguments = decode_all_arguments(columns.texts("arguments", None))
        of = columns.numbers("events/arguments", None, high=len(arguments))
        n = len(of)
        given = [arguments[number] for number in of]
        calls = columns.numbers("events/call", n, high=self.n_calls)
        group_numbers = columns.numbers("events/group", n)
        if not set(group_numbers) <= groups.keys():
            raise DamagedError("the column 'events/group' refers to missing groups.")
        code, instructions = self._code("events/code", n), columns.numbers("events/instruction", n, low=-1)
        started, ended = (columns.numbers(f"events/{name}", n, low=_ANY) for name in ("started", "ended"))
        rows = zip(given, calls, group_numbers, code, instructions, started, ended, strict=True)
        return [
            # Function, result, versions and context of a call are not stored: a loaded trace cannot run anything.
            (None, args, kwargs, None, call, group, code, instruction, start, end, None, None)
            for (args, kwargs), call, group, code, instruction, start, end in rows
        ]

    def _writes(self) -> dict[int, list[str]]:
        nodes = self.columns.numbers("writes/node", None, high=self.n_nodes)
        return dict(zip(nodes, self.columns.text_rows("writes/addresses", len(nodes)), strict=True))

    def _named_nodes(self, name: str) -> list[tuple[str, int]]:
        nodes = self.columns.numbers(f"{name}/node", None, high=self.n_nodes)
        return list(zip(self.columns.texts(f"{name}/path", len(nodes)), nodes, strict=True))

    # Modules

    def _calls(self, n_modules: int) -> list[CallRow]:
        columns, n = self.columns, self.n_calls
        parents = columns.numbers("calls/parent", n, high=max(n, 1))
        if not n or any(parent >= number for number, parent in enumerate(parents) if number):
            raise DamagedError("a module call of this trace is inside one that started later.")
        # Call 0 is outside all modules: it has no module.
        modules = columns.numbers("calls/module", n, low=-1, high=n_modules)
        if not n_modules and n > 1:
            raise DamagedError(f"this trace has {n - 1:,} module calls but no modules.")
        inputs, outputs = self._ends("inputs"), self._ends("outputs")
        fields = zip(
            modules,
            parents,
            columns.numbers("calls/pass_", n, low=1),
            columns.truths("calls/training", n),
            columns.floats("calls/seconds", n),
            self._code("calls/code", n),
            columns.numbers("calls/instruction", n, low=-1),
            inputs,
            outputs,
            columns.truths("calls/is_finished", n),
            columns.truths("calls/is_root", n),
            columns.numbers("calls/first_node", n, high=self.n_nodes + 1),
            strict=True,
        )
        return [CallRow(*row) for row in fields]

    def _ends(self, side: str) -> list[list[tuple[str, int]]]:
        paths = self.columns.text_rows(f"calls/{side}/path", self.n_calls)
        nodes = self.columns.rows(f"calls/{side}/node", self.n_calls, high=self.n_nodes)
        if any(len(names) != len(numbers) for names, numbers in zip(paths, nodes, strict=True)):
            raise DamagedError(f"the columns of the {side} of module calls differ in length.")
        return [list(zip(*pair, strict=True)) for pair in zip(paths, nodes, strict=True)]

    def _modules(self, n: int) -> list[ModuleRow]:
        columns = self.columns
        n_parameters = len(columns.texts("parameters/dtype", None))
        fields = zip(
            self._addresses("modules", n),
            columns.texts("modules/class_name", n),
            map(tuple, columns.rows("modules/parameters", n, high=n_parameters)),
            map(tuple, columns.rows("modules/children", n, high=n)),
            columns.rows("modules/calls", n, low=1, high=self.n_calls),
            columns.truths("modules/has_forward", n),
            strict=True,
        )
        return [ModuleRow(*row) for row in fields]

    def _addresses(self, name: str, n: int) -> list[tuple[str, ...]]:
        addresses = self.columns.text_rows(f"{name}/addresses", n)
        if not all(addresses):
            raise DamagedError(f"one of the {name} of this trace has no address.")
        return list(map(tuple, addresses))

    def _parameters(self) -> list[ParameterRow]:
        columns = self.columns
        dtypes = columns.texts("parameters/dtype", None)
        n = len(dtypes)
        fields = zip(
            self._addresses("parameters", n),
            map(tuple, columns.rows("parameters/shape", n)),
            dtypes,
            columns.numbers("parameters/bytes", n),
            columns.numbers("parameters/numel", n),
            columns.truths("parameters/is_buffer", n),
            columns.truths("parameters/requires_grad", n),
            columns.numbers("parameters/node", n, low=-1, high=self.n_nodes),
            strict=True,
        )
        return [ParameterRow(*row) for row in fields]

    def _groups(self) -> dict[int, GroupEvent]:
        columns = self.columns
        numbers = columns.numbers("groups/number", None, low=1)
        n = len(numbers)
        functions = columns.texts("groups/function", n)
        parents = columns.numbers("groups/parent", n)
        calls = columns.numbers("groups/call", n, high=self.n_calls)
        codes, instructions = self._code("groups/code", n), columns.numbers("groups/instruction", n, low=-1)
        groups: dict[int, GroupEvent] = {0: GroupEvent("", 0, 0, None, 0)}  # type: ignore[arg-type]
        for number_, *row in zip(numbers, functions, parents, calls, codes, instructions, strict=True):
            if row[1] not in groups or number_ in groups:
                raise DamagedError(f"group {number_} is inside group {row[1]}, which does not precede it.")
            groups[number_] = GroupEvent(*row)
        return groups

    # Stored analysis results

    def _stored_facts(self, names: Sequence[str]) -> StoredFacts:
        columns, n_nodes = self.columns, self.n_nodes
        tests = self._tests()
        nodes = columns.numbers("arms/node", None, high=n_nodes)
        arms = columns.rows("arms/tests", len(nodes), high=len(tests))
        recurrent = columns.rows("recurrent", None, high=n_nodes)
        if any(len(row) < 2 or row != sorted(set(row)) or len({names[node] for node in row}) > 1 for row in recurrent):
            raise DamagedError("the passes of an op of this trace are out of order, or of several functions.")
        with_flops = columns.numbers("flops/node", None, high=n_nodes)
        return StoredFacts(
            tests=tests,
            arms={node: tuple(row) for node, row in zip(nodes, arms, strict=True)},
            recurrent=[tuple(row) for row in recurrent],
            flops=dict(zip(with_flops, columns.numbers("flops/number", len(with_flops)), strict=True)),
            units=self._units() if "units" in columns else None,
            nonfinite=self._nonfinite(),
        )

    def _nonfinite(self) -> int | None:
        node = self.head.get("first_nonfinite")
        if node is not None and (type(node) is not int or not -1 <= node < self.n_nodes):
            raise DamagedError(f"the first value that is not finite is that of node {node!r}, which does not exist.")
        return node

    def _units(self) -> list[UnitLayout | None]:
        written = self.columns.optional_texts("units", self.n_nodes)
        known: dict[str | None, UnitLayout | None] = {None: None}
        for each in dict.fromkeys(written):
            if each is not None:
                try:
                    known[each] = UnitLayout.from_list(json.loads(each))
                except (ValueError, TypeError, RecursionError):
                    raise DamagedError(f"{each[:80]!r} is not a unit layout.") from None
        return [known[each] for each in written]

    def _tests(self) -> list[StoredTest]:
        columns = self.columns
        nodes = columns.numbers("tests/node", None, high=self.n_nodes)
        n = len(nodes)
        sources = zip(
            columns.texts("tests/file", n),
            columns.numbers("tests/line", n, low=_ANY),
            columns.texts("tests/function", n),
            columns.texts("tests/text", n),
            strict=True,
        )
        fields = zip(
            nodes,
            (None if value < 0 else bool(value) for value in columns.numbers("tests/value", n, low=-1, high=2)),
            columns.texts("tests/kind", n),
            (Source(*source) for source in sources),
            columns.optional_texts("tests/test", n),
            columns.optional_texts("tests/arm", n),
            map(_lines, columns.rows("tests/arm_lines", n, low=_ANY)),
            strict=True,
        )
        return [StoredTest(*row) for row in fields]


def _check_results(rows: list[tuple[int, str, str, int]]) -> None:
    """Results of one call must agree on its name and module call; sources must have no call."""
    for node, (before, row) in enumerate(pairwise(rows), 1):
        if row[0] >= 0 and row[0] == before[0] and row != before:
            raise DamagedError(f"nodes {node - 1} and {node} of this trace are results of one call, but contradict it.")
    for node, (event, kind, _, _) in enumerate(rows):
        if (kind == OP) != (event >= 0):
            raise DamagedError(f"node {node} of this trace is an op without a call, or a source with one.")


def _lines(row: Sequence[int]) -> tuple[int, int] | None:
    if len(row) not in (0, 2):
        raise DamagedError("a branch in this trace must have a first and a last line.")
    return (row[0], row[1]) if row else None


def _error(fields: object) -> RecordedError | None:
    match fields:
        case None:
            return None
        case [str(name), str(message)] if name.isidentifier():
            return RecordedError.of(name, message)
        case _:
            raise DamagedError("the error of this trace is malformed.")
