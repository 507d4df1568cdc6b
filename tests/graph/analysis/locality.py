"""Whether units are where a trace says: change one before an operation, run the operation again, see which changed.

This proves the answers of producers step by step, from the rows of weights on, without any rule of ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import ceil
from typing import Any

import torch
from torch import Tensor

from cutaway.capture.replay.call import FunctionCall, MissingValue, function_calls, inputs_of, replay_call
from cutaway.core.units import carriers, indexing, layers, products, reductions, space
from cutaway.core.units.layout import UnitLayout
from cutaway.core.units.rules import rule_of
from cutaway.graph.op import Op
from cutaway.graph.trace import Trace

LAYERS = {
    layers.convolution,
    layers.transposed_convolution,
    layers.linear,
    layers.recurrent_cell,
    layers.embedding,
    products.matmul,
    products.einsum,
    products.added_product,
}
"""Rules of functions whose weights have a row for each unit of the result. Recurrent layers carry it into others."""
CARRIERS = {
    carriers.elementwise,
    carriers.permute,
    carriers.transpose,
    carriers.matrix_transpose,
    carriers.full_transpose,
    carriers.movedim,
    carriers.squeeze,
    carriers.unsqueeze,
    carriers.view,
    carriers.view_as_real,
    carriers.expand,
    carriers.repeat,
    carriers.repeat_interleave,
    carriers.stack,
    carriers.cat,
    carriers.split,
    carriers.unbind,
    carriers.select,
    indexing.getitem,
    indexing.index_select,
    reductions.reduce,
    reductions.where,
    space.pool,
    space.interpolate,
    space.im2col,
    space.channel_shuffle,
}
"""Rules of functions that mix no units, but for reductions over some of them."""
MOST_NUMBERS = 400_000
EACH = 3
"""How many units are changed before each operation."""


def outcomes(trace: Trace) -> Counter[tuple[str, str]]:
    """(weight or unit, what changed) → how often, over all operations of a trace that can be run again alone."""
    counts: Counter[tuple[str, str]] = Counter()
    for call in function_calls(trace.tables):
        for kind, outcome in _outcomes_of(trace, call):
            counts[kind, outcome] += 1
    return counts


def _outcomes_of(trace: Trace, call: FunctionCall) -> Iterator[tuple[str, str]]:
    result = Op(trace, call.nodes[0])
    rule = rule_of(result.function)
    if rule not in LAYERS and rule not in CARRIERS:
        return
    try:
        given = inputs_of(trace, call)
        before = replay_call(trace, call, given)[result.node]
        if not _is_usable(before) or not torch.equal(before, result.value):
            return
    except (MissingValue, RuntimeError, TypeError, KeyError, AttributeError):
        return
    for node, value in given.items():
        parent = Op(trace, node)
        is_weight = parent.kind == "parameter" and rule in LAYERS
        is_carried = rule in CARRIERS and _is_usable(value) and (value.is_floating_point() or value.dtype == torch.bool)
        if result.function.startswith("grid_sample"):
            is_carried = parent == result.parents[0]  # the other argument says where to look
        if (is_weight or is_carried) and _is_usable(value) and _is_made_by_producers(result, parent, is_weight):
            for k in _some(parent.unit_layout.n_units):
                changed = _changed(parent.unit_layout, value, k)
                after = replay_call(trace, call, {**given, node: changed})[result.node]
                units = _units_changed(result.unit_layout, before, after)
                yield "weight" if is_weight else "unit", _outcome(units, k, result, parent)


def _is_usable(value: Any) -> bool:
    return (
        isinstance(value, Tensor)
        and type(value) in (Tensor, torch.nn.Parameter)
        and value.layout == torch.strided
        and not value.is_quantized
        and not value.is_meta
        and 0 < value.numel() <= MOST_NUMBERS
    )


def _is_made_by_producers(result: Op, parent: Op, is_weight: bool) -> bool:
    ours, theirs = result.unit_layout, parent.unit_layout
    if is_weight:
        return ours.source == "producers" and theirs.is_known and theirs.n_units == ours.n_units
    return ours.source == theirs.source == "producers"


def _some(n: int) -> list[int]:
    return sorted({0, n // 2, n - 1})[:EACH]


def _changed(layout: UnitLayout, value: Tensor, k: int) -> Tensor:
    changed = value.detach().clone(memory_format=torch.contiguous_format)
    index: list[Any] = [slice(None)] * len(layout.sizes)
    for axis, place in zip(layout.units, layout.place_of(k), strict=True):
        index[axis] = place
    part = changed.view(layout.sizes)[tuple(index)]
    part.copy_(~part if part.dtype == torch.bool else part + 3 * torch.rand(part.shape).to(part.dtype) + 1)
    return changed.requires_grad_(value.requires_grad)


def _units_changed(layout: UnitLayout, before: Tensor, after: Tensor) -> list[int]:
    # Vectorized kernels round numbers by where they lie in memory.
    moved = layout.rows(~torch.isclose(before, after, rtol=1e-5, atol=1e-6, equal_nan=True))
    return [int(k) for k in moved.flatten(0, -2).any(0).nonzero().flatten()]


def _outcome(units: list[int], k: int, result: Op, parent: Op) -> str:
    n, n_before = result.unit_layout.n_units, parent.unit_layout.n_units
    if units == [k]:
        return "the same unit"
    if len(units) == 1:
        return "one other unit"
    if not units:
        return "none"
    if len(units) <= ceil(n / n_before):
        return "as many as the sizes say"
    return f"others: {result.function}"
