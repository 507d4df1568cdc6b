"""Rules of indexing, gathering and scattering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cutaway.core.units.calls import CONSTANT, Call, Value, merge_origins, values_in
from cutaway.core.units.carriers import axis, counts_units, data_selected_rows
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
    mix,
)


def getitem(call: Call) -> Dims:
    return index_dims(call, call.value(0, "self", "input"), call.argument(1, "index", "indices"))


def index_dims(call: Call, x: Value, index: Any) -> Dims:
    """The dimensions of `x[index]`, with NumPy's semantics."""
    parts = _parts(index, x.n_dims)
    dims: list[Dim | None] = []
    sizes = iter(range(x.n_dims))
    advanced: list[tuple[Any, list[int]]] = []
    first_at, is_together, last = -1, True, -2
    for number, part in enumerate(parts):
        if part is None or part is True or part is False:
            dims.append(())
        elif isinstance(part, slice):
            d = next(sizes)
            dims.append(_slice_dim(call, x, d, part))
        elif isinstance(part, int):
            d = next(sizes)
            mix(x.dims[d])
            if advanced or any(isinstance(p, (Value, list, tuple)) for p in parts):
                # An integer next to index tensors is broadcast like one of them.
                advanced.append((None, [d]))
                is_together = is_together and last in (-2, number - 1)
                first_at = len(dims) if first_at < 0 else first_at
                last = number
        else:
            n = part.n_dims if isinstance(part, Value) and part.is_mask else 1
            advanced.append((part, [next(sizes) for _ in range(n)]))
            is_together = is_together and last in (-2, number - 1)
            first_at = len(dims) if first_at < 0 else first_at
            last = number
    dims.extend(x.dims[d] for d in sizes)
    if not advanced:
        return _fit_shape(call, dims)
    n_new = len(call.shape) - len(dims)
    # NumPy's rule: index tensors that a slice separates put their dimensions first.
    at = first_at if is_together else 0
    made = _index_tensor_dims(call, x, advanced, call.shape[at : at + n_new])
    dims[at:at] = made
    return _fit_shape(call, dims)


def _fit_shape(call: Call, dims: Sequence[Dim | None]) -> Dims:
    return tuple(
        dim if dim is not None and _fits(dim, size) else call.like(dim or (), size)
        for dim, size in zip(dims, call.shape, strict=True)
    )


def _fits(dim: Dim, size: int) -> bool:
    product = 1
    for factor in dim:
        product *= factor.size
    return product == size


def _parts(index: Any, n_dims: int) -> list[Any]:
    """One entry per dimension, with `...` expanded; a list of numbers is an index tensor."""
    parts = list(index) if isinstance(index, tuple) else [index]
    taken = sum(
        part.n_dims if isinstance(part, Value) and part.is_mask else 1
        for part in parts
        if part is not None and part is not Ellipsis and part is not True and part is not False
    )
    if Ellipsis not in [part if not isinstance(part, Value) else 0 for part in parts]:
        return parts
    at = next(i for i, part in enumerate(parts) if part is Ellipsis)
    return [*parts[:at], *[slice(None)] * (n_dims - taken), *parts[at + 1 :]]


def _slice_dim(call: Call, x: Value, d: int, part: slice) -> Dim | None:
    if part == slice(None):
        return x.dims[d]
    size = len(range(*part.indices(x.shape[d]))) if not _has_values(part) else None
    if size is None:
        return x.dims[d]
    return x.dims[d] if size == x.shape[d] else call.like(x.dims[d], size)


def _has_values(part: slice) -> bool:
    return any(isinstance(each, Value) for each in (part.start, part.stop, part.step))


def _index_tensor_dims(
    call: Call, x: Value, advanced: Sequence[tuple[Any, list[int]]], shape: Sequence[int]
) -> list[Dim]:
    """The new dimensions that index tensors create: those of the index, unless the data selected units."""
    over = [d for _, taken in advanced for d in taken]
    values = [part for part, _ in advanced if isinstance(part, Value)]
    is_constant = all(value.kind == CONSTANT for value in values)
    sources = [factor for d in over for factor in x.dims[d]]
    if len(over) == 1 and len(shape) == 1 and is_constant and not any(v.is_mask and v.n_dims > 1 for v in values):
        return [call.like(x.dims[over[0]], shape[0])]
    # A computed index selects different units in each row, so a unit has no number.
    if counts_units(sources):
        if is_constant and len(over) == 1:
            return [call.like(x.dims[over[0]], size) if size != 1 else () for size in shape]
        return [call.new(size, SCRAMBLED, *sources, origins=merge_origins(sources)) for size in shape]
    if any(value.is_mask for value in values) or not values:
        return [data_selected_rows(call, sources, size) for size in shape]
    indices = [value for value in values if value.n_dims <= len(shape)]
    dims = call.join(indices, tuple(shape))
    return [
        _row(call, dim, size, _indexed_factors(x, advanced, len(shape) - d))
        for d, (dim, size) in enumerate(zip(dims, shape, strict=True))
    ]


def _indexed_factors(x: Value, advanced: Sequence[tuple[Any, list[int]]], back: int) -> list[Factor]:
    """The factors of the dimensions that an index varies along, for one dimension of the result."""
    over = [
        d
        for part, taken in advanced
        for d in taken
        if not isinstance(part, Value) or (part.n_dims >= back and part.shape[-back] != 1)
    ]
    return [factor for d in over for factor in x.dims[d]]


def _row(call: Call, dim: Dim, size: int, sources: Sequence[Factor]) -> Dim:
    """A dimension of an index tensor as one of the result; rows that were samples no longer belong to one."""
    if not dim:
        return call.new(size, NEUTRAL)
    if any(factor.role in (UNIT, SCRAMBLED) for factor in dim):
        return call.new(size, NEUTRAL)
    if any(factor.role == SAMPLE for factor in sources) and not any(factor.role == SAMPLE for factor in dim):
        return data_selected_rows(call, sources, size)
    return dim


def index_select(call: Call) -> Dims:
    x, index = call.value(0, "input", "self"), call.value(2, "index")
    at = axis(call.argument(1, "dim"), x.n_dims)
    return tuple(_index_dim(call, dim, index, call.shape[d]) if d == at else dim for d, dim in enumerate(x.dims))


def _index_dim(call: Call, dim: Dim, index: Value, size: int) -> Dim:
    if index.kind == CONSTANT:
        return call.like(dim, size)
    if counts_units(dim):
        return call.new(size, SCRAMBLED, *dim, origins=merge_origins(dim))
    return _row(call, index.dims[0] if index.n_dims else (), size, dim)


def gather(call: Call) -> Dims:
    """`gather`, `take_along_dim`: the factors of the index along the dimension, those of the value elsewhere."""
    x, *others = call.tensors
    index = others[0]
    is_taken = call.function.startswith("take")  # (x, indices, dim), where gather has (x, dim, index)
    at = axis(call.argument(2 if is_taken else 1, "dim"), x.n_dims)
    dims: list[Dim] = []
    for d, size in enumerate(call.shape):
        own = x.dims[d]
        if d == at:
            if counts_units(own) and index.kind != CONSTANT:
                dims.append(call.new(size, SCRAMBLED, *own, origins=merge_origins(own)))
            elif index.kind == CONSTANT and not index.dims[d]:
                dims.append(call.like(own, size))
            else:
                dims.append(_row(call, index.dims[d], size, own))
        elif size == x.shape[d] and size == index.shape[d]:
            dims.append(call.join_dims([(own,), (index.dims[d],)], [(size,)] * 2, (size,), [x, index])[0])
        else:
            dims.append(call.like(own, size) if size != x.shape[d] else own)
    return tuple(dims)


def scatter(call: Call) -> Dims:
    """`scatter`, `index_add`, `copy`: the factors of the target; where those are open, of the source."""
    target, *others = call.tensors
    source = _source(target, others)
    if source is None or source.n_dims != target.n_dims:
        return target.dims
    return tuple(_fill_role(call, target, source, d, d) for d in range(target.n_dims))


def setitem(call: Call) -> Dims:
    """`x[index] = source`: the source is aligned with the dimensions that the index leaves, from the right."""
    target = call.value(0, "self", "input")
    index = call.argument(1, "index", "indices")
    source = _source(target, list(values_in(call.args[2:])) + list(values_in(list(call.kwargs.values()))))
    if source is None:
        return target.dims
    left = _remaining_dims(tuple(index) if isinstance(index, list) else index, target.n_dims)
    dims = list(target.dims)
    for back in range(1, min(len(left), source.n_dims) + 1):
        d = left[-back]
        if d is not None:
            dims[d] = _fill_role(call, target, source, d, source.n_dims - back)
    return tuple(dims)


def _source(target: Value, others: Sequence[Value]) -> Value | None:
    floats = [value for value in others if value.is_float == target.is_float and not value.is_mask]
    return floats[-1] if floats else None


def _remaining_dims(index: Any, n_dims: int) -> list[int | None]:
    """The dimensions of `x[index]`: each is the number of a dimension of x, or None if the index created it."""
    left: list[int | None] = []
    at = 0
    for part in _parts(index, n_dims):
        if part is None or part is True or part is False:
            left.append(None)
        elif isinstance(part, slice):
            left.append(at)
            at += 1
        elif isinstance(part, int):
            at += 1
        else:
            left.append(None)
            at += part.n_dims if isinstance(part, Value) and part.is_mask else 1
    return [*left, *range(at, n_dims)]


def _fill_role(call: Call, target: Value, source: Value, d: int, e: int) -> Dim:
    """Gives an open dimension of the target the role of the dimension that is written into it."""
    own, dim = target.dims[d], source.dims[e]
    if not own or any(factor.role not in (OPEN, NEUTRAL) for factor in own):
        return own
    roles = {factor.role for factor in dim}
    if source.shape[e] == target.shape[d]:
        if not roles or roles <= {OPEN, NEUTRAL}:
            return own
        return call.join_dims([(own,), (dim,)], [(target.shape[d],)] * 2, (target.shape[d],), [target, source])[0]
    if UNIT in roles:
        call.state.claim(target, own, is_strong=False)
        return call.like(dim, target.shape[d])
    if POSITION in roles:
        for factor in own:
            factor.add_neighbor_role(POSITION)
    return own
