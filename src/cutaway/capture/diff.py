"""The verb `diff`: compares the structure and values of two traces."""

from __future__ import annotations

from typing import Any, Literal

from cutaway.capture.validation.distance import distance
from cutaway.core.errors import InputTypeError, NotSavedError, StaleValueError
from cutaway.core.formatting import listed, plural, type_text
from cutaway.core.progress import progress
from cutaway.graph.analysis.nonfinite import UNDEFINED
from cutaway.graph.diff.align import Alignment, align
from cutaway.graph.diff.match import MISSING, by_path
from cutaway.graph.diff.structure import changes, line, output_site
from cutaway.graph.op import Op
from cutaway.graph.tables import OP
from cutaway.graph.trace import Trace
from cutaway.results.diff import Compared, Diff, Distance, First, Kind

_MAX_NAMED = 3


def diff(a: Trace, b: Trace) -> Diff:
    """Compares two traces: their structure, and the values that both have saved.

    >>> import torch, cutaway
    >>> before = cutaway.trace(torch.nn.ReLU(), torch.tensor([-1.0, 2.0, 3.0]))
    >>> after = cutaway.trace(torch.nn.ReLU(), torch.tensor([-5.0, 2.0, 4.0]))
    >>> cutaway.diff(before, after).first.distance.n_different
    1

    Args:
        a: the first trace, for example before a change.
        b: the second trace; the result describes how it differs from `a`.
    """
    for position, argument in (("first", a), ("second", b)):
        if not isinstance(argument, Trace):
            raise InputTypeError(
                f"diff compares two traces, and the {position} argument is {type_text(argument)}: "
                "pass the result of cutaway.trace(model, ...) or of a `with cutaway.watch(model)` block."
            )
    alignment = align(a, b)
    values = _Values(a, b)
    values.compare_all(alignment)
    result = Diff(
        a=_describe(a),
        b=_describe(b),
        structure=changes(a, b, alignment),
        values=tuple(values.rows),
        first=values.first(),
        n_ops=sum(MISSING not in pair for pair in alignment.ops),
        notes=(*_capture_notes(a, b), *values.notes()),
    )
    # Not a dataclass field: the result is plain data, and only its picture needs the traces.
    object.__setattr__(result, "_traces", (a, b))
    return result


def _describe(trace: Trace) -> str:
    return f"{trace.model_name or 'code without a model'} ({len(trace):,} ops)"


def _capture_notes(a: Trace, b: Trace) -> list[str]:
    """Notes on how the two captures differ: errors, devices, transforms, backward passes."""
    notes = []
    for position, trace in (("first", a), ("second", b)):
        if trace.error is not None:
            message, *_ = str(trace.error).splitlines() or [""]
            notes.append(f"the {position} trace ended early with {type(trace.error).__name__}: {message}")
    devices = [", ".join(sorted({op.device for op in trace if op.device})) for trace in (a, b)]
    if devices[0] != devices[1]:
        notes.append(f"the first ran on {devices[0] or 'no device'}, the second on {devices[1] or 'no device'}")
    if a.tables.is_transformed or b.tables.is_transformed:
        notes.append("values were transformed before saving; the transformed values were compared")
    if a.n_backwards != b.n_backwards:
        notes.append(f"{a.n_backwards} backward passes in the first, {b.n_backwards} in the second")
    return notes


_State = Literal["equal", "different", "unknown"]
_Reason = Literal["not saved", "overwritten since", "of a kind that has no distance", "undefined", "shape", ""]
_REASON_TEXTS = {
    "not saved": "not saved in both",
    "overwritten since": "overwritten after tracing: watch with keep='copy'",
    "of a kind that has no distance": "of a type that has no distance",
    "undefined": "with undefined contents",
}


_STATES: dict[_Reason, _State] = {"shape": "different", "undefined": "equal"}
"""How a value that was not compared counts for the ops that use it."""


class _Values:
    """Compares values row by row, and stores for each node of the second trace whether it is equal."""

    def __init__(self, a: Trace, b: Trace) -> None:
        self.a, self.b = a, b
        self.rows: list[Compared] = []
        self._states: dict[int, _State] = {}
        self._distances: dict[tuple[int, int], tuple[Distance | None, _Reason]] = {}
        self._left_out: dict[str, list[str]] = {}
        self._first: tuple[int, Compared] | None = None
        self._lone_gradients = 0

    def compare_all(self, alignment: Alignment) -> None:
        pairs = [*alignment.sources, *alignment.ops]
        for node_a, node_b in progress(pairs, len(pairs), "values compared"):
            if node_b != MISSING:
                self._compare(node_a, node_b)
        for path, node_a, node_b in by_path(self.a.tables.outputs, self.b.tables.outputs):
            if MISSING not in (node_a, node_b):
                self._compare_outputs(path, node_a, node_b)
        for node_a, node_b in pairs:
            if MISSING not in (node_a, node_b):
                self._compare_gradients(node_a, node_b)

    def _compare(self, node_a: int, node_b: int) -> None:
        if node_a == MISSING:
            self._states[node_b] = "different"
            return
        result, reason = self._distance(node_a, node_b)
        if result is None:
            self._states[node_b] = _STATES.get(reason, "unknown")
            if reason in _REASON_TEXTS:
                self._left_out.setdefault(reason, []).append(Op(self.b, node_b).label)
            return
        self._states[node_b] = "equal" if result.is_equal else "different"
        op = Op(self.b, node_b)
        # Parents precede children, so that their states are known.
        above = {self._states.get(parent, "unknown") for parent in self.b.tables.nodes.parents[node_b]}
        is_origin = not result.is_equal and above <= {"equal"}
        source = "" if result.is_equal else line(op.source)
        row = Compared(_kind(op), "value", op.label, op.site, Op(self.a, node_a).site, result, None, is_origin, source)
        self.rows.append(row)
        if self._first is None and not result.is_equal and op.kind == OP:
            self._first = node_b, row

    def _distance(self, node_a: int, node_b: int) -> tuple[Distance | None, _Reason]:
        known = self._distances.get((node_a, node_b))
        if known is None:
            known = self._distances[node_a, node_b] = self._measure(Op(self.a, node_a), Op(self.b, node_b))
        return known

    def _measure(self, op_a: Op, op_b: Op) -> tuple[Distance | None, _Reason]:
        if op_a.shape != op_b.shape:
            return None, "shape"
        if op_a.function in UNDEFINED and op_b.function in UNDEFINED:
            return None, "undefined"
        try:
            value_a, value_b = op_a.value, op_b.value
        except NotSavedError:
            return None, "not saved"
        except StaleValueError:
            return None, "overwritten since"
        if getattr(value_a, "is_meta", False) or getattr(value_b, "is_meta", False):
            return None, "not saved"
        if _shape(value_a) != _shape(value_b):  # after a transform
            return None, "shape"
        result = distance(value_a, value_b)
        return result, "" if result is not None else "of a kind that has no distance"

    def _compare_outputs(self, path: str, node_a: int, node_b: int) -> None:
        result, _ = self._distance(node_a, node_b)
        if result is not None:
            op, site = Op(self.b, node_b), output_site(path)
            source = "" if result.is_equal else line(op.source)
            self.rows.append(Compared("output", "value", op.label, site, site, result, source=source))

    def _compare_gradients(self, node_a: int, node_b: int) -> None:
        grads_a, grads_b = self.a.tables.nodes.grads.get(node_a), self.b.tables.nodes.grads.get(node_b)
        if not grads_a and not grads_b:
            return
        op = Op(self.b, node_b)
        pairs = zip(Op(self.a, node_a).grads, op.grads, strict=False)
        for backward, (old, new) in enumerate(pairs):
            if old is None and new is None:
                continue
            result = None if old is None or new is None or _shape(old) != _shape(new) else distance(old, new)
            if result is None:
                self._lone_gradients += 1
                continue
            source = "" if result.is_equal else line(op.source)
            was = Op(self.a, node_a).site
            self.rows.append(Compared(_kind(op), "grad", op.label, op.site, was, result, backward, source=source))

    def first(self) -> First | None:
        if self._first is None:
            return None
        node, row = self._first
        states: dict[_State, list[str]] = {"equal": [], "different": [], "unknown": []}
        for parent in Op(self.b, node).parents:
            states[self._states.get(parent.node, "unknown")].append(parent.label)
        parents = (tuple(states["equal"]), tuple(states["different"]), tuple(states["unknown"]))
        return First(row.label, row.site, row.was, row.source, row.distance, *parents)

    def notes(self) -> list[str]:
        notes = [
            f"{plural(len(labels), 'value')} {_REASON_TEXTS[reason]} ({listed(labels, _MAX_NAMED)})"
            for reason, labels in self._left_out.items()
        ]
        if self._lone_gradients:
            notes.append(
                f"{plural(self._lone_gradients, 'gradient')} in only one of the traces, or of different shapes"
            )
        return notes


def _kind(op: Op) -> Kind:
    kind: Kind = op.kind  # type: ignore[assignment]
    return kind


def _shape(value: Any) -> Any:
    return tuple(value.shape) if hasattr(value, "shape") and not getattr(value, "is_nested", False) else None
