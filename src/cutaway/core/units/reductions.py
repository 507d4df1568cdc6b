"""Rules of reductions, of losses and of rows that the data selects."""

from __future__ import annotations

from cutaway.core.units.calls import Call, Shape, Value
from cutaway.core.units.carriers import axes, axis, data_selected_rows, elementwise
from cutaway.core.units.factors import POSITION, Dims

_DIM_IS_3RD = frozenset(["linalg_norm", "linalg_vector_norm", "nanquantile", "norm", "quantile", "trapezoid", "trapz"])
"""Functions whose second argument is not `dim` but an order, or the quantiles."""
_LAST = frozenset(["mode", "trapezoid", "trapz"])
"""Functions that reduce the last dimension if none is given."""


def reduce(call: Call) -> list[Dims]:
    x = call.tensors[0]
    if call.function in ("max", "min") and len(call.tensors) == 2:
        return elementwise(call)
    given = call.argument(2 if call.function in _DIM_IS_3RD else 1, "dim", "axis", "dims")
    if isinstance(given, (bool, Value)):
        given = call.kwargs.get("dim")
    if given is None and call.function in _LAST:
        given = -1
    everything = given is None or (isinstance(given, (tuple, list)) and not given)
    over = list(range(x.n_dims)) if everything else axes(given, x.n_dims)
    # A reduction to one number, such as a loss, says nothing about samples.
    if not everything:
        call.state.reduced.extend(factor for d in over for factor in x.dims[d])
    quantiles = call.argument(1, "q") if "quantile" in call.function else None
    if isinstance(quantiles, Value) and quantiles.n_dims:
        rest = tuple(dim for d, dim in enumerate(x.dims) if d not in over)
        return [(call.new(quantiles.shape[0], POSITION), *rest)]
    done: list[Dims] = []
    for shape in call.shapes:
        if len(shape) == x.n_dims:
            done.append(tuple(() if d in over else dim for d, dim in enumerate(x.dims)))
        else:
            done.append(tuple(dim for d, dim in enumerate(x.dims) if d not in over))
    return done


def distances(call: Call) -> Dims:
    """`cosine_similarity`, `pairwise_distance`, `vecdot`: elementwise, then sums over a dimension."""
    a, b = call.tensors[:2]
    given = call.argument(2 if "cosine" in call.function else 9, "dim", default=1 if "cosine" in call.function else -1)
    n = max(a.n_dims, b.n_dims)
    shape = _broadcast(a.shape, b.shape)
    dims = call.join([a, b], shape)
    at = axis(given, n)
    call.state.reduced.extend(dims[at])
    return dims if len(call.shape) == n else (*dims[:at], *dims[at + 1 :])


def _broadcast(a: Shape, b: Shape) -> Shape:
    n = max(len(a), len(b))
    a, b = (1,) * (n - len(a)) + a, (1,) * (n - len(b)) + b
    return tuple(max(x, y) for x, y in zip(a, b, strict=True))


def loss(call: Call) -> Dims:
    """One number, or without reduction one for each element or sample.

    A target is combined elementwise with the prediction, so they share their samples.
    """
    x, *others = call.tensors
    target = others[0] if others else None
    without = (*x.dims[:1], *x.dims[2:])
    if target is not None and target.shape == x.shape:
        joined = call.join([x, target], x.shape)
        if call.shape == x.shape:
            return joined
    elif target is not None and x.n_dims > 1 and target.n_dims == x.n_dims - 1:  # classes
        shape = (*x.shape[:1], *x.shape[2:])
        call.join_dims([without, target.dims], [shape, target.shape], shape, [x, target])
    if len(call.shape) in (0, x.n_dims):
        return x.dims if call.shape else ()
    return without if len(call.shape) == x.n_dims - 1 else x.dims[:1]


def where(call: Call) -> list[Dims]:
    """With only a condition, the indices where it holds; otherwise elementwise."""
    return nonzero(call) if len(call.args) + len(call.kwargs) == 1 else elementwise(call)


def nonzero(call: Call) -> list[Dims]:
    """`nonzero`, `masked_select`, `unique`: rows selected by the data belong to no sample until combined with one."""
    factors = [factor for dim in call.tensors[0].dims for factor in dim]
    return [
        tuple(
            data_selected_rows(call, factors, size) if d == 0 else call.new(size, POSITION)
            for d, size in enumerate(shape)
        )
        for shape in call.shapes
    ]


def segment_reduce(call: Call) -> Dims:
    """`segment_reduce`: rows become segments, which belong to no sample."""
    x = call.value(0, "data")
    at = axis(call.argument(9, "axis", default=0), x.n_dims)
    return tuple(data_selected_rows(call, dim, call.shape[d]) if d == at else dim for d, dim in enumerate(x.dims))


def sum_to_size(call: Call) -> Dims:
    """`sum_to_size`: sums over the leading dimensions, and over those of size 1 in the result."""
    x = call.value(0, "self")
    new = x.n_dims - len(call.shape)
    kept = [d >= new and x.shape[d] == call.shape[d - new] for d in range(x.n_dims)]
    call.state.reduced.extend(factor for d, dim in enumerate(x.dims) for factor in dim if not kept[d])
    return tuple(dim if kept[d] else () for d, dim in enumerate(x.dims) if d >= new)
