"""Rules of functions that carry units: elementwise functions, views, slices, concatenation, sorting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cutaway.core.units.calls import Call, Shape, Value, merge_origins, values_in
from cutaway.core.units.factors import (
    NEUTRAL,
    OPEN,
    POSITION,
    SAMPLE,
    SCRAMBLED,
    UNIT,
    Dim,
    Dims,
    Factor,
    has_role,
    mix,
    size_of,
)
from cutaway.core.units.reshape import reshape


def elementwise(call: Call) -> list[Dims]:
    return [call.join(call.tensors, shape) for shape in call.shapes]


def first_only(call: Call) -> list[Dims | None]:
    """Only the first tensor counts: `type_as`, `to(other)`, in-place fills."""
    x = call.tensors[0]
    return [x.dims if shape == x.shape else None for shape in call.shapes]


def normal(call: Call) -> list[Dims | None]:
    """`normal`: random numbers in place, or with given means and standard deviations."""
    return first_only(call) if call.function.endswith("_") else list(elementwise(call))


def cross(call: Call) -> list[Dims]:
    """`cross`: elementwise, except for the dimension it computes across."""
    a, b = call.tensors
    done = call.join([a, b], call.shape)
    mix(done[axis(call.argument(2, "dim", default=-1), len(done))])
    return [done]


def scan(call: Call) -> list[Dims]:
    """`cumsum`, FFT: computes across a dimension and keeps it."""
    x = call.tensors[0]
    names = ("dim", "dims", "axis")
    place = 2 if call.function.startswith("fft") else 1
    given = call.argument(place, *names)
    if call.function.startswith("fft"):
        default: Any = None if call.function.endswith("n") else (-2, -1) if call.function.endswith("2") else -1
        given = default if given is None else given
        if given is None:
            given = tuple(range(x.n_dims))
    over = axes(given, x.n_dims)
    mix(*(x.dims[d] for d in over))
    return [
        tuple(dim if size_of(dim) == size else call.like(dim, size) for dim, size in zip(x.dims, shape, strict=True))
        for shape in call.shapes
    ]


# moving dimensions


def permute(call: Call) -> Dims:
    x = call.value(0, "input", "self")
    order = axes(call.rest(1, "dims"), x.n_dims)
    return tuple(x.dims[d] for d in order)


def transpose(call: Call) -> Dims:
    x = call.value(0, "input", "self")
    a, b = (axis(call.argument(i, f"dim{i - 1}", f"axis{i - 1}"), x.n_dims) for i in (1, 2))
    dims = list(x.dims)
    if dims:
        dims[a], dims[b] = dims[b], dims[a]
    return tuple(dims)


def matrix_transpose(call: Call) -> Dims:
    dims = call.value(0, "input", "self").dims
    return dims if len(dims) < 2 else (*dims[:-2], dims[-1], dims[-2])


def rotate(call: Call) -> Dims:
    """`rot90`: an odd number of quarter turns swaps two dimensions."""
    x = call.value(0, "input", "self")
    a, b = axes(call.argument(2, "dims", default=(0, 1)), x.n_dims)
    dims = list(x.dims)
    if int(call.argument(1, "k", default=1)) % 2:
        dims[a], dims[b] = dims[b], dims[a]
    return tuple(dims)


def full_transpose(call: Call) -> Dims:
    return call.value(0, "input", "self").dims[::-1]


def movedim(call: Call) -> Dims:
    x = call.value(0, "input", "self")
    source = axes(call.argument(1, "source"), x.n_dims)
    destination = axes(call.argument(2, "destination"), x.n_dims)
    order: list[int | None] = [None] * x.n_dims
    for a, b in zip(source, destination, strict=True):
        order[b] = a
    left = iter(d for d in range(x.n_dims) if d not in source)
    return tuple(x.dims[next(left) if d is None else d] for d in order)


def squeeze(call: Call) -> Dims:
    x = call.value(0, "input", "self")
    given = call.argument(1, "dim")
    chosen = range(x.n_dims) if given is None else axes(given, x.n_dims)
    return tuple(dim for d, dim in enumerate(x.dims) if not (d in chosen and x.shape[d] == 1))


def unsqueeze(call: Call) -> Dims:
    x = call.value(0, "input", "self")
    at = axis(call.argument(1, "dim"), x.n_dims + 1)
    return (*x.dims[:at], (), *x.dims[at:])


def view(call: Call) -> list[Dims]:
    x = call.tensors[0]
    return [reshape(call, x.dims, shape) for shape in call.shapes]


def view_as_real(call: Call) -> Dims:
    """`view_as_real`: real and imaginary part become a new last dimension."""
    # Neutral: interleaved rotary embeddings merge the pairs back into the head width, which counts units.
    return (*call.value(0, "input", "self").dims, call.new(2, NEUTRAL))


def view_as_complex(call: Call) -> Dims:
    return call.value(0, "input", "self").dims[:-1]


# repeating


def expand(call: Call) -> list[Dims]:
    return [_expand(call, value, shape) for value, shape in zip(_firsts(call), call.shapes, strict=True)]


def _firsts(call: Call) -> Sequence[Value]:
    tensors = call.tensors
    return tensors if len(tensors) == len(call.shapes) > 1 else [tensors[0]] * len(call.shapes)


def _expand(call: Call, x: Value, shape: Shape) -> Dims:
    new = len(shape) - x.n_dims
    dims: list[Dim] = [call.new(size, NEUTRAL) for size in shape[:new]]
    for dim, size, old in zip(x.dims, shape[new:], x.shape, strict=True):
        dims.append(dim if size == old else call.new(size, NEUTRAL))
    return tuple(dims)


def meshgrid(call: Call) -> list[Dims]:
    """Each value has its own dimension and is repeated along the others."""
    is_swapped = call.argument(9, "indexing") == "xy"
    done: list[Dims] = []
    for number, (value, shape) in enumerate(zip(call.tensors, call.shapes, strict=True)):
        at = 1 - number if is_swapped and number < 2 else number
        own = value.dims[0] if value.dims else ()
        done.append(tuple(own if d == at else call.new(size, NEUTRAL) for d, size in enumerate(shape)))
    return done


def repeat(call: Call) -> Dims:
    """Repeats the whole: the new factor precedes the old ones."""
    x = call.value(0, "input", "self")
    n_new = len(call.shape) - x.n_dims
    dims: list[Dim] = [call.new(size, NEUTRAL) for size in call.shape[:n_new]]
    for dim, size, old in zip(x.dims, call.shape[n_new:], x.shape, strict=True):
        # Neutral: if the batch is repeated and merged with heads, it must not look like more heads.
        times = size // old if old else 1
        dims.append(dim if times == 1 else (*call.new(times, NEUTRAL), *dim))
    return tuple(dims)


def repeat_interleave(call: Call) -> Dims:
    """Repeats each element: the new factor follows the old ones."""
    x = call.value(0, "input", "self")
    repeats, given = call.argument(1, "repeats"), call.argument(2, "dim")
    if not isinstance(repeats, int) or given is None:
        over = range(x.n_dims) if given is None else [axis(given, x.n_dims)]
        return tuple(
            data_dependent(call, dim, size) if d in over else dim
            for d, (dim, size) in enumerate(zip(x.dims, call.shape, strict=False))
        )
    at = axis(given, x.n_dims)
    return tuple(
        (*dim, *call.new(repeats, NEUTRAL)) if d == at and repeats != 1 else dim for d, dim in enumerate(x.dims)
    )


def stack(call: Call) -> Dims:
    values = list(values_in(call.argument(0, "tensors")))
    at = axis(call.argument(1, "dim", default=0), len(call.shape))
    inner = (*call.shape[:at], *call.shape[at + 1 :])
    dims = call.join(values, inner)
    # Neutral, for the reason of `view_as_real`.
    return (*dims[:at], call.new(len(values), NEUTRAL), *dims[at:])


def cat(call: Call) -> Dims:
    values = [value for value in values_in(call.argument(0, "tensors")) if value.shape != (0,)]
    at = axis(call.argument(1, "dim", "axis", default=0), len(call.shape))
    return concatenate(call, values, at)


def stack_variants(call: Call) -> Dims:
    """`hstack`, `vstack`, `dstack`, `column_stack`: adds missing dimensions, then `cat`."""
    values = [_with_missing_dims(value, call.function) for value in values_in(call.argument(0, "tensors"))]
    at = {"hstack": min(1, len(call.shape) - 1), "column_stack": 1, "dstack": 2}.get(call.function, 0)
    return concatenate(call, values, at)


def _with_missing_dims(value: Value, function: str) -> Value:
    n = {"hstack": 1, "dstack": 3}.get(function, 2)
    n_front = 0 if function == "column_stack" or value.n_dims > 1 else 1
    shape, dims = value.shape, value.dims
    while len(dims) < n:
        is_front = n_front > 0 and len(dims) == 1
        shape, dims = ((1, *shape), ((), *dims)) if is_front else ((*shape, 1), (*dims, ()))
    raised = Value(value.number, shape, (), value.is_float, kind=value.kind)
    raised.settle(dims)
    return raised


def concatenate(call: Call, values: Sequence[Value], at: int) -> Dims:
    """Joins the other dimensions; along the concatenated one, there is a new factor with the role of the parts."""
    shapes = [tuple(1 if d == at else size for d, size in enumerate(value.shape)) for value in values]
    dims = [tuple(() if d == at else dim for d, dim in enumerate(value.dims)) for value in values]
    inner = tuple(1 if d == at else size for d, size in enumerate(call.shape))
    joined = list(call.join_dims(dims, shapes, inner, values))
    parts = [value.dims[at] for value in values]
    if len(values) == 1:
        joined[at] = parts[0]
        return tuple(joined)
    joined[at] = _along(call, values, parts, call.shape[at])
    return tuple(joined)


def _along(call: Call, values: Sequence[Value], parts: Sequence[Dim], size: int) -> Dim:
    roles = {factor.role for part in parts for factor in part}
    if UNIT in roles:
        whole = {factor.role for part in parts for factor in part if has_role((part,), UNIT)}
        for value, part in zip(values, parts, strict=True):
            kinds = {factor.role for factor in part}
            if kinds & {OPEN, NEUTRAL} and UNIT not in kinds:
                call.state.claim(value, part, is_strong=False)
            elif kinds and UNIT not in kinds and POSITION in kinds:
                call.is_contradictory = True
                return call.new(size, OPEN, *(factor for each in parts for factor in each))
        if whole <= {UNIT, POSITION, NEUTRAL}:
            return call.merge([factor for part in parts for factor in part], size)
    sources = tuple(factor for part in parts for factor in part)
    if not sources:
        return call.new(size, NEUTRAL)
    if SAMPLE in roles and roles - {SAMPLE, NEUTRAL, OPEN}:
        return call.new(size, POSITION, *sources)
    return call.merge(sources, size)


# taking parts


def split(call: Call) -> list[Dims]:
    """`split`, `chunk`, `tensor_split`: each part has a new factor of the same role and order."""
    x = call.value(0, "input", "self", "tensor")
    at = _split_dim(x.shape, call, 2)
    return [_cut(call, x.dims, at, shape) for shape in call.shapes]


def _split_dim(shape: Shape, call: Call, place: int) -> int:
    given = call.argument(place, "dim", "axis", default=0)
    if call.function in ("hsplit", "vsplit", "dsplit"):
        given = {"vsplit": 0, "hsplit": min(1, len(shape) - 1), "dsplit": 2}[call.function]
    return axis(given, len(shape))


def _cut(call: Call, dims: Dims, at: int, shape: Shape) -> Dims:
    return tuple(
        call.like(dim, shape[d]) if d == at and size_of(dim) != shape[d] else dim for d, dim in enumerate(dims)
    )


def resize_dims(call: Call) -> Dims:
    """`narrow`, `glu`, `rfft`, `pad`, pooling along the last dimension: sizes change, roles stay."""
    x = call.tensors[0]
    return tuple(
        dim if size_of(dim) == size else call.like(dim, size) for dim, size in zip(x.dims, call.shape, strict=True)
    )


def unbind(call: Call) -> list[Dims]:
    x = call.value(0, "input", "self")
    at = axis(call.argument(1, "dim", default=0), x.n_dims)
    mix(x.dims[at])
    # Mixed above: a model that reads entries one by one does not count samples with them.
    return [(*x.dims[:at], *x.dims[at + 1 :]) for _ in call.shapes]


def select(call: Call) -> Dims:
    x = call.value(0, "input", "self")
    at = axis(call.argument(1, "dim"), x.n_dims)
    mix(x.dims[at])
    return (*x.dims[:at], *x.dims[at + 1 :])


def diagonal(call: Call) -> Dims:
    x = call.value(0, "input", "self")
    a = axis(call.argument(2, "dim1", default=0), x.n_dims)
    b = axis(call.argument(3, "dim2", default=1), x.n_dims)
    dims = tuple(dim for d, dim in enumerate(x.dims) if d not in (a, b))
    return (*dims, call.like((*x.dims[a], *x.dims[b]), call.shape[-1]))


def diag_embed(call: Call) -> Dims:
    """`diag_embed`: moves the last dimension to a diagonal, where it counts along the columns."""
    x = call.value(0, "input", "self")
    a, b = (axis(call.argument(2 + i, f"dim{i + 1}", default=i - 2), len(call.shape)) for i in (0, 1))
    rows = call.new(call.shape[a], POSITION)
    columns = x.dims[-1] if x.shape[-1] == call.shape[b] else call.like(x.dims[-1], call.shape[b])
    rest = iter(x.dims[:-1])
    return tuple(rows if d == a else columns if d == b else next(rest) for d in range(len(call.shape)))


def diag(call: Call) -> Dims:
    """`diag`: a matrix from a vector, or the diagonal of a matrix."""
    return diag_embed(call) if call.value(0, "input", "self").n_dims == 1 else diagonal(call)


def unfold(call: Call) -> Dims:
    """`Tensor.unfold`: a dimension becomes positions of windows, and a new last dimension indexes inside them."""
    x = call.value(0, "self", "input")
    at = axis(call.argument(1, "dimension"), x.n_dims)
    inside = call.like(x.dims[at], call.shape[-1])
    dims = [call.like(dim, call.shape[d]) if d == at else dim for d, dim in enumerate(x.dims)]
    return (*dims, inside)


def data_dependent(call: Call, dim: Dim, size: int) -> Dim:
    """A dimension selected or sorted by the data: units are scrambled, other rows no longer belong to a sample."""
    if counts_units(dim):
        return call.new(size, SCRAMBLED, *dim, origins=merge_origins(dim))
    return data_selected_rows(call, dim, size)


def counts_units(factors: Iterable[Factor]) -> bool:
    """Whether selecting entries of a dimension selects units; slots selected by a router among other rows are rows."""
    roles = {factor.role for factor in factors if factor.size != 1}
    return (UNIT in roles or roles == {SCRAMBLED}) and SAMPLE not in roles and NEUTRAL not in roles


def data_selected_rows(call: Call, factors: Sequence[Factor], size: int) -> Dim:
    """Rows selected by the data. If dimensions were merged, it is not known which of them a selected row comes from."""
    sources = [factor for factor in factors if factor.size != 1]
    # Not positions: everything after a mixture of experts would lose its samples.
    return call.new(size, NEUTRAL, *(sources if len(sources) == 1 else ()))


def sort(call: Call) -> list[Dims]:
    """`topk`, `sort`, `argsort`, `kthvalue`: along units, the order depends on the data."""
    x = call.value(0, "input", "self")
    place = {"topk": 2, "kthvalue": 2, "msort": 9, "multinomial": 9}.get(call.function.strip("_"), 1)
    given = call.argument(place, "dim", default=-1 if call.function != "msort" else 0)
    if isinstance(given, bool) or given is None:
        given = -1
    at = axis(given, x.n_dims)
    return [
        tuple(data_dependent(call, dim, shape[d]) if d == at else dim for d, dim in enumerate(x.dims))
        if len(shape) == x.n_dims
        else tuple(dim for d, dim in enumerate(x.dims) if d != at)
        for shape in call.shapes
    ]


# axes


def axis(given: Any, n_dims: int) -> int:
    """A dimension as a non-negative index."""
    number = int(given)
    return number + n_dims if number < 0 else number


def axes(given: Any, n_dims: int) -> list[int]:
    """Dimensions as non-negative indices, from one number or several."""
    if isinstance(given, Iterable):
        return [axis(each, n_dims) for each in given]
    return [axis(given, n_dims)]
