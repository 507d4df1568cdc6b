"""Floating-point operations of an op, from the shapes of its arguments.

The convention is that of `torch.utils.flop_counter`: products of matrices and convolutions count, a
multiply-add is two operations, everything else is nothing. So a trace and torch agree on the total.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cutaway.graph.op import Op

Shape = tuple[int, ...]


def flops_of(op: Op) -> int:
    """The operations of the call that made `op`; counted on its first result only."""
    formula = _FORMULAS.get(op.function)
    if formula is None or op.is_identity or op.output_index not in (None, 0):
        return 0
    shapes = [edge.parent.shape or () for edge in op.edges]
    try:
        return int(formula(op, shapes))
    except (IndexError, TypeError, ValueError):
        return 0


def _linear(op: Op, shapes: list[Shape]) -> int:
    weight = shapes[1]
    return 2 * prod(shapes[0][:-1]) * prod(weight)


def _matmul(op: Op, shapes: list[Shape]) -> int:
    a, b = shapes[0], shapes[1]
    if len(a) == 1 and len(b) == 1:
        return 2 * a[0]
    return 2 * prod(op.shape or ()) * a[-1]


def _addmm(op: Op, shapes: list[Shape]) -> int:
    return 2 * prod(op.shape or ()) * shapes[1][-1]


def _addbmm(op: Op, shapes: list[Shape]) -> int:
    batch, rows, inner = shapes[1]
    return 2 * batch * rows * inner * shapes[2][-1]


def _conv(op: Op, shapes: list[Shape]) -> int:
    weight = shapes[1]
    out = op.shape or ()
    return 2 * prod(out) * prod(weight[1:])


def _conv_transpose(op: Op, shapes: list[Shape]) -> int:
    return 2 * prod(shapes[0]) * prod(shapes[1][1:])


def _attention(op: Op, shapes: list[Shape]) -> int:
    q, k, v = shapes[:3]
    heads = prod(q[:-2])
    return 2 * heads * q[-2] * k[-2] * (q[-1] + v[-1])


def _einsum(op: Op, shapes: list[Shape]) -> int:
    equation = next(arg for arg in op.args if isinstance(arg, str))
    terms = equation.replace(" ", "").split("->")[0].split(",")
    if len(terms) < 2 or "." in equation:
        return 0
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=False):
        sizes.update(zip(term, shape, strict=False))
    return 2 * prod(sizes.values())


def _recurrent_cell(op: Op, shapes: list[Shape]) -> int:
    x = shapes[0]
    weights = [shape for shape in shapes[1:] if len(shape) == 2 and shape[0] != x[0]][-2:]
    return 2 * (x[0] if len(x) == 2 else 1) * sum(prod(weight) for weight in weights)


def _recurrent(op: Op, shapes: list[Shape]) -> int:
    tokens = prod(shapes[0][:-1])
    return 2 * tokens * sum(prod(shape) for shape in shapes[1:] if len(shape) == 2)


_FORMULAS: dict[str, Callable[[Any, list[Shape]], int]] = {
    "linear": _linear,
    "matmul": _matmul,
    "rmatmul": _matmul,
    "mm": _matmul,
    "bmm": _matmul,
    "mv": _matmul,
    "dot": _matmul,
    "addmm": _addmm,
    "addmv": _addmm,
    "baddbmm": _addmm,
    "addbmm": _addbmm,
    "conv1d": _conv,
    "conv2d": _conv,
    "conv3d": _conv,
    "conv_transpose1d": _conv_transpose,
    "conv_transpose2d": _conv_transpose,
    "conv_transpose3d": _conv_transpose,
    "scaled_dot_product_attention": _attention,
    "einsum": _einsum,
    "lstm_cell": _recurrent_cell,
    "gru_cell": _recurrent_cell,
    "rnn_tanh_cell": _recurrent_cell,
    "rnn_relu_cell": _recurrent_cell,
    "lstm": _recurrent,
    "gru": _recurrent,
    "rnn_tanh": _recurrent,
    "rnn_relu": _recurrent,
}
