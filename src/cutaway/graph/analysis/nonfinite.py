"""Finds where NaN or Inf first appears in a trace."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from cutaway.core import late
from cutaway.core.errors import CutawayError
from cutaway.core.formatting import plural
from cutaway.core.pytree import leaves
from cutaway.graph.op import Op
from cutaway.graph.tables import OP, Unsaved

if TYPE_CHECKING:
    from cutaway.graph.control_flow.source import Source
    from cutaway.graph.trace import Trace

UNDEFINED: Final = frozenset(
    [
        "empty",
        "empty_like",
        "new_empty",
        "empty_strided",
        "new_empty_strided",
        "empty_permuted",
        "resize_",
        "resize_as_",
    ]
)
"""Functions whose results have undefined contents, NaN and Inf among them."""
_MOST_BYTES: Final = 1 << 30
"""`repr` searches no more than this: reading a gigabyte takes about 0.3 s on one core."""
Counts = tuple[int, int]
"""Number of NaN, number of Inf."""


@dataclass(frozen=True, slots=True)
class NonfiniteInput:
    """A tensor that the op was computed from."""

    op: Op
    low: float
    high: float
    """Its smallest and largest finite value."""
    here: float | None
    """Its value at the index of the first value that is not finite; None if the shapes differ."""

    def __str__(self) -> str:
        values = f"from {self.low:.4g} to {self.high:.4g}"
        return f"{self.op.label} {values}" + ("" if self.here is None else f", there {self.here:.4g}")


@dataclass(frozen=True, slots=True)
class Nonfinite:
    """The first op with NaN or Inf that its inputs do not explain."""

    op: Op
    n_nan: int
    n_inf: int
    size: int
    """Number of elements of the value."""
    index: tuple[int, ...]
    """Index of the first element that is not finite."""
    inputs: tuple[NonfiniteInput, ...]

    @property
    def source(self) -> Source | None:
        """The line of your code that called the op."""
        return self.op.source

    @property
    def headline(self) -> str:
        """Op, counts and line, without the inputs."""
        kinds = [f"{n:,} {name}" for n, name in ((self.n_nan, "NaN"), (self.n_inf, "Inf")) if n]
        source = self.source
        line = "" if source is None else f", {PurePath(source.file).name}:{source.line} {source.text}"
        return f"{self.op.label} has {' and '.join(kinds)}{line}"

    def __str__(self) -> str:
        kinds = [f"{n:,} {name}" for n, name in ((self.n_nan, "NaN"), (self.n_inf, "Inf")) if n]
        place = f", first at {list(self.index)}" if self.index else ""
        inputs = "; ".join(map(str, self.inputs))
        source = self.source
        line = "" if source is None else f", {source}: {source.text}"
        return (
            f"{self.op.label}: {' and '.join(kinds)} of {plural(self.size, 'value')}{place}"
            f"{f' (inputs: {inputs})' if inputs else ''}{line}"
        )

    def __repr__(self) -> str:
        return f"<Nonfinite {self}>"


def first_nonfinite(trace: Trace) -> Nonfinite | None:
    """The first op whose value is not finite although its inputs do not explain it; see `Trace.first_nonfinite`."""
    node = _stored(trace)
    if node is None:
        node = find_node(trace)
    return None if node < 0 else _describe(Op(trace, node))


def mention(trace: Trace) -> str | None:
    """One line for the summary of a trace, without reading values from disk."""
    node = _stored(trace)
    if node is None:
        values = trace.tables.nodes.value
        # Values in files, and those of a trace that an older version saved.
        if any(hasattr(value, "load") for value in values):
            return None
        if trace.bytes > _MOST_BYTES:
            return "values not searched for NaN and Inf, because there are many: see trace.first_nonfinite"
    first = trace.first_nonfinite
    return None if first is None else first.headline


def find_node(trace: Trace) -> int:
    """The node of the first value that is not finite; -1 if there is none."""
    nodes = trace.tables.nodes
    listed = set(trace.op_nodes)
    counts: list[Counts] = []
    suspects: list[int] = []
    for node in range(len(nodes)):
        is_op = nodes.kind[node] == OP
        before = _inputs(trace, node, counts) if is_op else (0, 0)
        own = _counts(trace, node)
        # Without a value, as it would be if the function had changed nothing.
        counts.append(before if own is None else own)
        if own is None or nodes.name[node] in UNDEFINED or (is_op and node not in listed):
            continue
        # Inf in a source may be meant, as in a mask; so may what a function makes of an Inf that it was given.
        if (own[0] and not before[0]) or (is_op and own[1] and not any(before)):
            suspects.append(node)
    return next((node for node in suspects if counts[node][0] or _spreads(trace, node, counts)), -1)


def _spreads(trace: Trace, node: int, counts: Sequence[Counts]) -> bool:
    """Whether an Inf becomes NaN or is still there at the end.

    Some models make one on purpose and discard it: T5 takes the logarithm of distance 0 before `torch.where`.
    """
    seen, queue = {node}, [node]
    while queue:
        children = trace.children_of(reached := queue.pop())
        if counts[reached][0] or not children or any(op.node == reached for op in trace.outputs):
            return True
        waiting = {child for child in children if any(counts[child])} - seen
        seen |= waiting
        queue += waiting
    return False


def _stored(trace: Trace) -> int | None:
    stored = trace.tables.stored
    return None if stored is None else stored.nonfinite


def _inputs(trace: Trace, node: int, counts: Sequence[Counts]) -> Counts:
    """NaN and Inf among what an op was given: tensors and numbers."""
    nodes = trace.tables.nodes
    event = nodes.event[node]
    given = [counts[parent] for parent in nodes.parents[node]]
    numbers = [] if event is None else leaves((event[1], event[2] or {}), _is_nonfinite_number, objects=False)
    given += [_of_number(number) for _, number in numbers]
    return sum(nan for nan, _ in given), sum(inf for _, inf in given)


def _is_nonfinite_number(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _of_number(number: float) -> Counts:
    return int(math.isnan(number)), int(math.isinf(number))


def _counts(trace: Trace, node: int) -> Counts | None:
    """NaN and Inf in the value of a node; None if it cannot be read."""
    value = trace.tables.nodes.value[node]
    if isinstance(value, Unsaved):
        return None
    if isinstance(value, float):
        return _of_number(value)
    if isinstance(value, (bool, int, str)):
        return 0, 0
    try:
        if trace.tables.read_from:
            return _of_array(_array(Op(trace, node)))
        counts: Counts | None = late.call("nonfinite.counts", Op(trace, node))
        return counts
    except (CutawayError, RuntimeError, NotImplementedError, TypeError):  # overwritten since, or a special layout
        return None


def _array(op: Op) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any]
    array = np.asarray(op.value) if op.trace.tables.read_from else late.call("nonfinite.array", op)
    return array


def _of_array(array: np.ndarray[Any, Any]) -> Counts:
    if array.dtype.kind not in "fc":
        return 0, 0
    return int(np.isnan(array).sum()), int(np.isinf(array).sum())


def _describe(op: Op) -> Nonfinite:
    array = _array(op)
    wrong = ~np.isfinite(array)
    index = tuple(int(i) for i in np.unravel_index(int(wrong.argmax()), array.shape)) if array.shape else ()
    n_nan, n_inf = _of_array(array)
    inputs = (_describe_input(parent, array.shape, index) for parent in op.parents)
    return Nonfinite(op, n_nan, n_inf, array.size, index, tuple(each for each in inputs if each is not None))


def _describe_input(op: Op, shape: tuple[int, ...], index: tuple[int, ...]) -> NonfiniteInput | None:
    try:
        array = _array(op)
    except (CutawayError, TypeError):
        return None
    if array.dtype.kind not in "biuf":
        return None
    finite = array[np.isfinite(array)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (math.nan, math.nan)
    return NonfiniteInput(op, low, high, float(array[index]) if array.shape == shape else None)
