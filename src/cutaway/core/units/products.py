"""Rules of matrix and tensor products, each as an einsum for `contract`."""

from __future__ import annotations

from cutaway.core.units.calls import Call, Value
from cutaway.core.units.contractions import contract
from cutaway.core.units.factors import OPEN, Dims

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def attention(call: Call) -> list[Dims]:
    """Scores and weighted sum in one op; with grouped heads, the result has the heads of the query."""
    query, key, value = call.value(0, "query"), call.value(1, "key"), call.value(2, "value")
    n = len(call.shape) - 2
    batch = LETTERS[:n]
    mask = call.optional_value(3, "attn_mask")
    scores = contract(
        call,
        [(query, _right(batch, query.n_dims - 2) + "QE"), (key, _right(batch, key.n_dims - 2) + "KE")],
        batch + "QK",
    )
    shape = (*call.shape[:-1], key.shape[-2])
    weights = Value(-1, shape, ())
    weights.settle(scores)
    if mask is not None:
        weights.settle(call.join([weights, mask], shape))
    result = contract(call, [(weights, batch + "QK"), (value, _right(batch, value.n_dims - 2) + "KV")], batch + "QV")
    done: list[Dims] = [result]
    for other in call.shapes[1:]:
        done.append(tuple(call.new(size, OPEN) for size in other))
    return done


def _right(letters: str, n: int) -> str:
    return letters[len(letters) - n :] if n else ""


def matmul(call: Call) -> Dims:
    return product(call, call.value(0, "input", "self", "mat1"), call.value(1, "other", "mat2", "vec", "tensor"))


def reversed_matmul(call: Call) -> Dims:
    return product(call, call.value(1), call.value(0))


def product(call: Call, a: Value, b: Value) -> Dims:
    batch = LETTERS[: max(a.n_dims, b.n_dims, 2) - 2]
    left = (_right(batch, a.n_dims - 2) + "MK") if a.n_dims > 1 else "K"
    right = (_right(batch, b.n_dims - 2) + "KN") if b.n_dims > 1 else "K"
    result = batch + ("M" if a.n_dims > 1 else "") + ("N" if b.n_dims > 1 else "")
    return contract(call, [(a, left), (b, right)], result)


def added_product(call: Call) -> Dims:
    """`addmm`, `baddbmm`, `addmv`, `addr`, `addbmm`: the summand precedes the two operands."""
    added, a, b = (
        call.value(0, "input", "self"),
        call.value(1, "mat1", "batch1", "mat", "vec1"),
        call.value(2, "mat2", "batch2", "vec", "vec2"),
    )
    if call.function.startswith("addr"):
        dims = contract(call, [(a, "a"), (b, "b")], "ab")
    elif call.function.startswith("addbmm"):
        dims = contract(call, [(a, "bik"), (b, "bkj")], "ij")
    else:
        dims = product(call, a, b)
    made = Value(-1, call.shape, ())
    made.settle(dims)
    return call.join([made, added], call.shape)


def inner(call: Call) -> Dims:
    """Sums over the last dimension of both."""
    a, b = call.value(0, "input", "self"), call.value(1, "other")
    left, right = LETTERS[: a.n_dims - 1], LETTERS[a.n_dims : a.n_dims + b.n_dims - 1]
    return contract(call, [(a, left + "Z"), (b, right + "Z")], left + right)


def chain(call: Call) -> Dims:
    """`multi_dot`, `chain_matmul`: a chain of matrices; the first and the last may be vectors."""
    values = call.tensors
    letters = [LETTERS[i : i + 2] for i in range(len(values))]
    if values[0].n_dims == 1:
        letters[0] = letters[0][1:]
    if values[-1].n_dims == 1:
        letters[-1] = letters[-1][:1]
    ends = (letters[0][:1] if values[0].n_dims > 1 else "") + (letters[-1][1:] if values[-1].n_dims > 1 else "")
    return contract(call, list(zip(values, letters, strict=True)), ends)


def einsum(call: Call) -> Dims:
    equation = str(call.argument(0, "equation")).replace(" ", "")
    given = call.kwargs.get("operands") or call.args[1:]
    values = list(given[0]) if len(given) == 1 and isinstance(given[0], (list, tuple)) else list(given)
    terms, arrow, result = equation.partition("->")
    spelled = [_expand_dots(term, value.n_dims) for term, value in zip(terms.split(","), values, strict=True)]
    # As in NumPy: the result has the letters that occur once, in alphabetical order.
    if not arrow:
        letters = terms.replace("...", "").replace(",", "")
        result = ("..." if "..." in terms else "") + "".join(sorted({x for x in letters if letters.count(x) == 1}))
    dots = max((s for _, s in spelled), key=len)
    return contract(call, [(v, s) for v, (s, _) in zip(values, spelled, strict=True)], result.replace("...", dots))


# Greek, so that they cannot clash with the letters of an equation.
_DOTS = "αβγδεζηθικλμνξοπρστυφχψω"


def _expand_dots(term: str, n_dims: int) -> tuple[str, str]:
    """A term with letters for the dimensions of `...`, counted from the right."""
    n = n_dims - len(term.replace("...", ""))
    dots = _DOTS[:n][::-1] if "..." in term else ""
    return term.replace("...", dots), dots


def tensordot(call: Call) -> Dims:
    a, b = call.value(0, "a", "self"), call.value(1, "b", "other")
    dims = call.argument(2, "dims", "dims_self", default=2)
    other = call.argument(3, "dims_other")
    if isinstance(dims, int):
        left, right = list(range(a.n_dims - dims, a.n_dims)), list(range(dims))
    elif other is not None:
        left, right = list(dims), list(other)
    else:
        left, right = list(dims[0]), list(dims[1])
    letters = list(LETTERS[: a.n_dims])
    others = list(LETTERS[a.n_dims : a.n_dims + b.n_dims])
    for i, j in zip(left, right, strict=True):
        others[j] = letters[i]
    gone = {letters[i] for i in left}
    result = "".join(x for x in letters if x not in gone) + "".join(x for x in others if x not in gone)
    return contract(call, [(a, "".join(letters)), (b, "".join(others))], result)


def pairwise(call: Call) -> Dims:
    """`cdist`: every row of one with every row of the other."""
    a, b = call.value(0, "x1"), call.value(1, "x2")
    batch = LETTERS[: len(call.shape) - 2]
    left, right = _right(batch, a.n_dims - 2) + "MK", _right(batch, b.n_dims - 2) + "NK"
    return contract(call, [(a, left), (b, right)], batch + "MN")


def outer(call: Call) -> Dims:
    a, b = call.value(0, "input", "self"), call.value(1, "vec2", "other")
    return contract(call, [(a, "a"), (b, "b")], "ab")


def solve(call: Call) -> Dims:
    """`solve`, `solve_triangular`, `cholesky_solve`: shares the batch dimensions and computes across the rows."""
    a, b = call.tensors[:2]
    if call.function == "cholesky_solve":
        a, b = b, a
    # The walk catches this, and the layout then says that no rule applied.
    if b.n_dims < 2 or len(call.shape) != b.n_dims:
        raise ValueError("no rule for a vector or a broadcast right-hand side")
    n = len(call.shape) - 2
    for value in (a, b):
        for factor in value.dims[-2]:
            factor.mix()
    batch = call.join_dims([a.dims[:-2], b.dims[:-2]], [a.shape[:-2], b.shape[:-2]], call.shape[:n], [a, b])
    return (*batch, *b.dims[-2:])
