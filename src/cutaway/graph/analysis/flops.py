"""Counts floating-point operations from the shapes of arguments.

The convention is that of `torch.utils.flop_counter`, so a trace and torch agree on the total: matrix products and
convolutions count, a multiply-add is two operations, everything else is 0. For kernels without a formula in torch
(attention and LSTM on a CPU, `mv`, `bilinear`, the fast paths of the transformer), the matrix products inside count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cutaway.graph.op import Op

Shape = tuple[int, ...]


def flops_of(op: Op) -> int:
    """The FLOPs of the call that made `op`; only its first result has them."""
    formula = _FORMULAS.get(op.function.strip("_"))
    if formula is None or op.is_identity or op.is_opaque or op.output_index not in (None, 0):
        return 0
    try:
        return max(int(formula(Call(op, op.args, op.kwargs))), 0)
    except Exception:  # an unusual signature or an unknown shape: a missing number is no reason to fail
        return 0


@dataclass(frozen=True, slots=True)
class Call:
    """The call that made an op, with an `Op` instead of each tensor."""

    op: Op
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def argument(self, place: int, *names: str) -> Any:
        """One argument, passed by name or by position."""
        for name in names:
            if name in self.kwargs:
                return self.kwargs[name]
        return self.args[place]

    def shape(self, place: int, *names: str) -> Shape:
        return tuple(self.argument(place, *names).shape)

    @property
    def result(self) -> Shape:
        shape = self.op.shape
        if shape is None:
            raise ValueError("no dense shape")
        return shape


def _listed_shapes(arguments: Sequence[Any]) -> list[Shape]:
    """The shapes of tensors that were handed over one by one or in a list."""
    if len(arguments) == 1 and isinstance(arguments[0], (list, tuple)):
        arguments = arguments[0]
    return [tuple(tensor.shape) for tensor in arguments]


# products of matrices


def _linear(call: Call) -> int:
    tokens = prod(call.shape(0, "input")[:-1])
    return 2 * tokens * prod(call.shape(1, "weight"))


def _matmul(call: Call) -> int:
    inner = call.shape(0, "input", "self", "mat1")[-1:]
    return 2 * prod(call.result) * prod(inner)


def _inner(call: Call) -> int:
    return _matmul(call) if call.shape(0, "input", "self") and call.shape(1, "other") else 0


def _added_product(call: Call) -> int:
    """`addmm`, `baddbmm`, `addmv`: the first factor is the second argument."""
    inner = call.shape(1, "mat1", "batch1", "mat")[-1]
    return 2 * prod(call.result) * inner


def _addbmm(call: Call) -> int:
    return 2 * prod(call.shape(1, "batch1")) * call.shape(2, "batch2")[-1]


def _tensordot(call: Call) -> int:
    a = call.shape(0, "a", "self")
    dims = call.argument(2, "dims", "dims_self")
    if isinstance(dims, int):
        dims = range(len(a) - dims, len(a))
    elif dims and isinstance(dims[0], (list, tuple)):
        dims = dims[0]
    inner: int = prod(a[dim] for dim in dims)
    return 2 * prod(call.result) * inner


def _matrix_power(call: Call) -> int:
    """Exponentiation by squaring: one product per bit, and one more per set bit; the first of each is free."""
    exponent = abs(int(call.argument(1, "n")))
    shape = call.result
    return 2 * prod(shape) * shape[-1] * max(exponent.bit_length() + exponent.bit_count() - 2, 0)


def _covariance(call: Call) -> int:
    shape = call.shape(0, "input", "self")
    rows = shape[0] if len(shape) == 2 else 1
    return 2 * rows * prod(shape)


def _chain(call: Call) -> int:
    """The cheapest order, which `multi_dot` uses; vectors at the ends are a row and a column."""
    shapes = _listed_shapes(call.kwargs.get("tensors") or call.args)
    first = shapes[0] if len(shapes[0]) == 2 else (1, *shapes[0])
    sizes = [*first, *(shape[1] if len(shape) == 2 else 1 for shape in shapes[1:])]
    n = len(shapes)
    cost = [[0] * n for _ in range(n)]
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i][j] = min(
                cost[i][k] + cost[k + 1][j] + 2 * sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)
            )
    return cost[0][n - 1]


def _bilinear(call: Call) -> int:
    """The first input times the weight, then the second input times the result."""
    rows = prod(call.shape(0, "input1")[:-1])
    outs, left, right = call.shape(2, "weight")
    return 2 * rows * outs * right * (left + 1)


# einsum


def _einsum(call: Call) -> int:
    """As in torch: pair by pair along its contraction path; a pair counts only if a dimension is summed."""
    equation = str(call.argument(0, "equation")).replace(" ", "")
    shapes = _listed_shapes(call.kwargs.get("operands") or call.args[1:])
    operands = [_sizes(term, shape) for term, shape in zip(equation.split("->")[0].split(","), shapes, strict=True)]
    kept = _output_labels(equation, operands)
    path = list(call.kwargs.get("path") or ())
    total = 0
    while len(operands) > 1:
        i, j = sorted(path[:2]) if path else (0, 1)
        right, left = operands.pop(j), operands.pop(i)
        elsewhere = {label for other in operands for label, size in other.items() if size != 1} | kept
        shared = {label for label in left.keys() & right.keys() if left[label] != 1 and right[label] != 1}
        both = {
            label: max(left.get(label, 1), right.get(label, 1))
            for label in {**left, **right}
            if label in elsewhere or label in shared
        }
        if shared - elsewhere:
            total += 2 * prod(both.values())
        joined = {label: size for label, size in both.items() if label in elsewhere}
        operands.insert(len(operands) if path else 0, joined)
        path = path[2:]
    return total


def _sizes(term: str, shape: Shape) -> dict[str, int]:
    """Label → size; the dimensions of `...` are labeled by their index from the right."""
    before, dots, after = term.partition("...")
    n_dots = len(shape) - len(before) - len(after)
    middle = [f".{i}" for i in range(n_dots, 0, -1)] if dots else []
    return dict(zip([*before, *middle, *after], shape, strict=True))


def _output_labels(equation: str, operands: list[dict[str, int]]) -> set[str]:
    terms, arrow, output = equation.partition("->")
    dotted = {label for operand in operands for label in operand if label[0] == "."}
    if arrow:
        return set(output.replace("...", "")) | (dotted if "..." in output else set())
    letters = terms.replace("...", "").replace(",", "")
    return {label for label in letters if letters.count(label) == 1} | dotted


# convolutions


def _conv(call: Call) -> int:
    return 2 * prod(call.result) * prod(call.shape(1, "weight")[1:])


def _conv_transpose(call: Call) -> int:
    return 2 * prod(call.shape(0, "input", "self")) * prod(call.shape(1, "weight")[1:])


def _convolution(call: Call) -> int:
    return _conv_transpose(call) if call.argument(6, "transposed") else _conv(call)


def _conv_tbc(call: Call) -> int:
    return 2 * prod(call.result) * prod(call.shape(1, "weight")[:2])


# attention


def _attention(call: Call) -> int:
    """Scores and weighted sum; by this convention, a causal mask saves nothing."""
    query, key, value = call.shape(0, "query"), call.shape(1, "key"), call.shape(2, "value")
    rows = prod(call.result[:-1])  # broadcast batch and heads, times queries
    return 2 * rows * key[-2] * (query[-1] + value[-1])


def _lengths(sequences: Any) -> list[int]:
    """The length of each sequence of a batch (batch, position, feature), which may be nested."""
    if sequences.shape is not None:
        batch, length, _ = sequences.shape
        return [length] * batch
    return [int(length) for length, _ in sequences.value._nested_tensor_size().tolist()]


def _native_attention(call: Call) -> int:
    """The fast path of `nn.MultiheadAttention`: projections in, attention, projection out."""
    queries, keys = _lengths(call.argument(0, "query")), _lengths(call.argument(1, "key"))
    width = int(call.argument(3, "embed_dim"))
    return sum(4 * width * (width * (n + m) + n * m) for n, m in zip(queries, keys, strict=True))


def _encoder_layer(call: Call) -> int:
    """The fast path of `nn.TransformerEncoderLayer`."""
    lengths = _lengths(call.argument(0, "src"))
    width = int(call.argument(1, "embed_dim"))
    names = {3: "qkv_weight", 5: "proj_weight", 14: "ffn_weight_1", 16: "ffn_weight_2"}
    weights = sum(prod(call.shape(place, name)) for place, name in names.items())
    return sum(2 * n * weights + 4 * n * n * width for n in lengths)


# recurrence


def _recurrent_cell(call: Call) -> int:
    x = call.shape(0, "input")
    return 2 * prod(x[:-1]) * (prod(call.shape(2, "w_ih")) + prod(call.shape(3, "w_hh")))


def _recurrent(call: Call) -> int:
    """Every weight once per token; only the weights among the arguments have two dimensions."""
    shapes = [edge.parent.shape or () for edge in call.op.edges]
    tokens = prod(shapes[0][:-1])
    return 2 * tokens * sum(prod(shape) for shape in shapes[1:] if len(shape) == 2)


_BY_FORMULA: dict[Callable[[Call], int], str] = {
    _linear: "linear",
    _matmul: "matmul linalg_matmul rmatmul mm bmm mv dot vdot scaled_mm int_mm",
    _inner: "inner",
    _added_product: "addmm addmm_activation addmv baddbmm",
    _addbmm: "addbmm",
    _tensordot: "tensordot",
    _matrix_power: "matrix_power linalg_matrix_power",
    _covariance: "cov corrcoef",
    _chain: "chain_matmul linalg_multi_dot",
    _bilinear: "bilinear",
    _einsum: "einsum",
    _conv: "conv1d conv2d conv3d",
    _conv_transpose: "conv_transpose1d conv_transpose2d conv_transpose3d",
    _convolution: "convolution",
    _conv_tbc: "conv_tbc",
    _attention: """scaled_dot_product_attention scaled_dot_product_attention_math
        scaled_dot_product_flash_attention scaled_dot_product_flash_attention_for_cpu
        scaled_dot_product_efficient_attention scaled_dot_product_cudnn_attention""",
    _native_attention: "native_multi_head_attention",
    _encoder_layer: "transformer_encoder_layer_fwd",
    _recurrent_cell: "lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell",
    _recurrent: "lstm gru rnn_tanh rnn_relu",
}
_FORMULAS = {name: formula for formula, names in _BY_FORMULA.items() for name in names.split()}
"""Function without leading and trailing underscores → formula; `addmm_` costs the same as `addmm`."""
