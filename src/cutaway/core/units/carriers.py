"""Rules of functions that carry units along: elementwise operations, views, slices, pools, reductions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cutaway.core.units.calls import Call, Shape, Value, merged, values_in
from cutaway.core.units.factors import (
    NEUTRAL,
    OPEN,
    POSITION,
    SAMPLE,
    SCRAMBLED,
    UNIT,
    Dim,
    Dims,
    has,
    size_of,
)
from cutaway.core.units.layers import as_positions, mix
from cutaway.core.units.reshape import reshape


def elementwise(call: Call) -> list[Dims]:
    if call.function == "where" and len(call.tensors()) == 1:
        return routed(call)
    return [call.join(call.tensors(), shape) for shape in call.shapes]


def first_only(call: Call) -> list[Dims]:
    """Only the first tensor counts: `type_as`, `to(other)`, fills in place, norms over several dimensions."""
    x = call.tensors()[0]
    return [x.dims if shape == x.shape else _open(call, shape) for shape in call.shapes]


def _open(call: Call, shape: Shape) -> Dims:
    return tuple(call.new(size, OPEN) for size in shape)


def scanned(call: Call) -> list[Dims]:
    """`cumsum`, FFT: computes across a dimension, and keeps it."""
    x = call.tensors()[0]
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


def reshaped(call: Call) -> list[Dims]:
    x = call.tensors()[0]
    return [reshape(call, x.dims, shape) for shape in call.shapes]


def real_parts(call: Call) -> Dims:
    """`view_as_real`: real and imaginary part are a new last dimension."""
    return (*call.value(0, "input", "self").dims, call.new(2, NEUTRAL))


def complex_whole(call: Call) -> Dims:
    return call.value(0, "input", "self").dims[:-1]


# repeating


def expand(call: Call) -> list[Dims]:
    return [_expanded(call, value, shape) for value, shape in zip(_firsts(call), call.shapes, strict=True)]


def _firsts(call: Call) -> list[Value]:
    tensors = call.tensors()
    return tensors if len(tensors) == len(call.shapes) > 1 else [tensors[0]] * len(call.shapes)


def _expanded(call: Call, x: Value, shape: Shape) -> Dims:
    new = len(shape) - x.n_dims
    dims: list[Dim] = [call.new(size, NEUTRAL) for size in shape[:new]]
    for dim, size, old in zip(x.dims, shape[new:], x.shape, strict=True):
        dims.append(dim if size == old else call.new(size, NEUTRAL))
    return tuple(dims)


def repeat(call: Call) -> Dims:
    """Whole copies one after another: the new factor stands before the old ones."""
    x = call.value(0, "input", "self")
    n_new = len(call.shape) - x.n_dims
    dims: list[Dim] = [call.new(size, NEUTRAL) for size in call.shape[:n_new]]
    for dim, size, old in zip(x.dims, call.shape[n_new:], x.shape, strict=True):
        times = size // old if old else 1
        dims.append(dim if times == 1 else (*call.new(times, NEUTRAL), *dim))
    return tuple(dims)


def repeat_interleave(call: Call) -> Dims:
    """Copies of each element side by side: the new factor stands behind the old ones."""
    x = call.value(0, "input", "self")
    repeats, given = call.argument(1, "repeats"), call.argument(2, "dim")
    if not isinstance(repeats, int) or given is None:
        over = range(x.n_dims) if given is None else [axis(given, x.n_dims)]
        return tuple(
            by_data(call, dim, size) if d in over else dim
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
    return (*dims[:at], call.new(len(values), NEUTRAL), *dims[at:])


def cat(call: Call) -> Dims:
    values = [value for value in values_in(call.argument(0, "tensors")) if value.shape != (0,)]
    at = axis(call.argument(1, "dim", "axis", default=0), len(call.shape))
    return concatenated(call, values, at)


def concatenated(call: Call, values: Sequence[Value], at: int) -> Dims:
    """Other dimensions are joined; along the dimension there is a new factor of the parts' role."""
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
        whole = {factor.role for part in parts for factor in part if has((part,), UNIT)}
        for value, part in zip(values, parts, strict=True):
            kinds = {factor.role for factor in part}
            if kinds & {OPEN, NEUTRAL} and UNIT not in kinds:
                call.book.claim(value, part, is_strong=False)
            elif kinds and UNIT not in kinds and POSITION in kinds:
                call.is_contradictory = True
                return call.new(size, OPEN, *(factor for each in parts for factor in each))
        if whole <= {UNIT, POSITION, NEUTRAL}:
            return call.like(tuple(factor for part in parts for factor in part), size)
    sources = tuple(factor for part in parts for factor in part)
    if not sources:
        return call.new(size, NEUTRAL)
    if SAMPLE in roles and roles - {SAMPLE, NEUTRAL, OPEN}:
        return call.new(size, POSITION, *sources)
    return call.like(sources, size)


# taking parts


def split(call: Call) -> list[Dims]:
    """`split`, `chunk`, `tensor_split`: each part has a new factor of the same role and order."""
    x = call.value(0, "input", "self", "tensor")
    at = _changed(x.shape, call, 2)
    return [_cut(call, x.dims, at, shape) for shape in call.shapes]


def _changed(shape: Shape, call: Call, place: int) -> int:
    given = call.argument(place, "dim", "axis", default=0)
    if call.function in ("hsplit", "vsplit", "dsplit"):
        given = {"vsplit": 0, "hsplit": min(1, len(shape) - 1), "dsplit": 2}[call.function]
    return axis(given, len(shape))


def _cut(call: Call, dims: Dims, at: int, shape: Shape) -> Dims:
    return tuple(
        call.like(dim, shape[d]) if d == at and size_of(dim) != shape[d] else dim for d, dim in enumerate(dims)
    )


def narrowed(call: Call) -> Dims:
    """`narrow`, `glu`, `rfft`, `pad`, pools along the last dimension: sizes change, roles stay."""
    x = call.tensors()[0]
    return tuple(
        dim if size_of(dim) == size else call.like(dim, size) for dim, size in zip(x.dims, call.shape, strict=True)
    )


def unbind(call: Call) -> list[Dims]:
    x = call.value(0, "input", "self")
    at = axis(call.argument(1, "dim", default=0), x.n_dims)
    mix(x.dims[at])
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


def windows(call: Call) -> Dims:
    """`Tensor.unfold`: a dimension becomes positions of windows, and what is inside them a new last one."""
    x = call.value(0, "self", "input")
    at = axis(call.argument(1, "dimension"), x.n_dims)
    inside = call.like(x.dims[at], call.shape[-1])
    dims = [call.like(dim, call.shape[d]) if d == at else dim for d, dim in enumerate(x.dims)]
    return (*dims, inside)


def by_data(call: Call, dim: Dim, size: int) -> Dim:
    """A dimension whose entries the data chose or ordered: units are scrambled, other rows are nobody's any more."""
    roles = {factor.role for factor in dim if factor.size != 1}
    if roles & {UNIT, SCRAMBLED} and SAMPLE not in roles and NEUTRAL not in roles:
        return call.new(size, SCRAMBLED, *dim, origins=merged(dim))
    return call.new(size, NEUTRAL, *dim)


def ordered(call: Call) -> list[Dims]:
    """`topk`, `sort`, `argsort`, `kthvalue`: along units the order depends on the data."""
    x = call.value(0, "input", "self")
    place = {"topk": 2, "kthvalue": 2, "sort": 1, "argsort": 1, "msort": 9, "unique": 9}.get(
        call.function.strip("_"), 1
    )
    given = call.argument(place, "dim", default=-1 if call.function != "msort" else 0)
    if isinstance(given, bool):
        given = -1
    at = axis(given, x.n_dims)
    return [
        tuple(by_data(call, dim, shape[d]) if d == at else dim for d, dim in enumerate(x.dims))
        if len(shape) == x.n_dims
        else tuple(dim for d, dim in enumerate(x.dims) if d != at)
        for shape in call.shapes
    ]


# reductions


def reduce(call: Call) -> list[Dims]:
    x = call.tensors()[0]
    if call.function in ("max", "min") and len(call.tensors()) == 2:
        return elementwise(call)
    place = 2 if call.function.strip("_") in ("linalg_vector_norm", "norm", "renorm", "quantile", "nanquantile") else 1
    if call.function.startswith("linalg_norm"):
        place = 2
    given = call.argument(place, "dim", "axis", "dims")
    if isinstance(given, bool) or (given is None and place == 1 and call.function in ("std", "var")):
        given = call.kwargs.get("dim")
    if isinstance(given, Value):
        given = None
    everything = given is None or (isinstance(given, (tuple, list)) and not given)
    over = list(range(x.n_dims)) if everything else axes(given, x.n_dims)
    if not everything:
        call.book.reduced.extend(factor for d in over for factor in x.dims[d])
    done: list[Dims] = []
    for shape in call.shapes:
        if len(shape) == x.n_dims:
            done.append(tuple(() if d in over else dim for d, dim in enumerate(x.dims)))
        else:
            done.append(tuple(dim for d, dim in enumerate(x.dims) if d not in over))
    return done


def distances(call: Call) -> Dims:
    """`cosine_similarity`, `pairwise_distance`: elementwise, then a dimension is summed away."""
    a, b = call.tensors()[:2]
    names = {"cosine_similarity": 2}
    given = call.argument(names.get(call.function, 9), "dim", default=1 if "cosine" in call.function else -1)
    n = max(a.n_dims, b.n_dims)
    shape = _broadcast(a.shape, b.shape)
    dims = call.join([a, b], shape)
    at = axis(given, n)
    call.book.reduced.extend(dims[at])
    return dims if len(call.shape) == n else (*dims[:at], *dims[at + 1 :])


def _broadcast(a: Shape, b: Shape) -> Shape:
    n = max(len(a), len(b))
    a, b = (1,) * (n - len(a)) + a, (1,) * (n - len(b)) + b
    return tuple(max(x, y) for x, y in zip(a, b, strict=True))


def loss(call: Call) -> Dims:
    """One number, or one for each element or sample where nothing is reduced."""
    if not call.shape:
        return ()
    x = call.tensors()[0]
    if call.shape == x.shape:
        return call.join([value for value in call.tensors()[:2] if value.shape == x.shape], call.shape)
    without = (*x.shape[:1], *x.shape[2:])
    if call.shape == without:
        return (*x.dims[:1], *x.dims[2:])
    return x.dims[:1] if call.shape == x.shape[:1] else _open(call, call.shape)


def routed(call: Call) -> list[Dims]:
    """`nonzero`, `masked_select`, `unique`: rows that the data chose belong to no sample until they meet one."""
    return [
        (call.new(shape[0], NEUTRAL, *call.tensors()[0].dims[0]), *(call.new(size, POSITION) for size in shape[1:]))
        if shape and call.tensors()[0].n_dims
        else _open(call, shape)
        for shape in call.shapes
    ]


# space


def pool(call: Call) -> list[Dims]:
    """Spatial dimensions are computed across; the dimension before them counts units."""
    x = call.value(0, "input", "self")
    n = _n_spatial(call.function)
    first = x.n_dims - n
    if first > 0:
        call.book.claim(x, x.dims[first - 1])
    mix(*x.dims[first:])
    as_positions(*x.dims[first:])
    return [(*x.dims[:first], *(call.new(size, POSITION) for size in shape[first:])) for shape in call.shapes]


def _n_spatial(function: str) -> int:
    return next(int(letter) for letter in reversed(function) if letter in "123")


def interpolate(call: Call) -> Dims:
    """Also `grid_sample`: samples and channels are kept."""
    x = call.value(0, "input", "self")
    call.book.claim(x, x.dims[1])
    mix(*x.dims[2:])
    as_positions(*x.dims[2:])
    return (*x.dims[:2], *(call.new(size, POSITION) for size in call.shape[2:]))


def im2col(call: Call) -> Dims:
    """Channels and the places inside a window in one dimension, then the windows."""
    x = call.value(0, "input", "self")
    channels = x.n_dims - 3
    mix(*x.dims[channels + 1 :])
    as_positions(*x.dims[channels + 1 :])
    inside = call.shape[channels] // max(x.shape[channels], 1)
    windows_ = call.new(call.shape[-1], POSITION)
    return (*x.dims[:channels], (*x.dims[channels], *call.new(inside, POSITION)), windows_)


def refixed(call: Call) -> Dims:
    """`fold`, `pixel_shuffle`, `pixel_unshuffle`: the dimension of the channels is numbered anew."""
    x = call.value(0, "input", "self")
    channels = len(call.shape) - 3
    mix(*x.dims[channels + 1 :])
    dims = [dim for dim in x.dims[:channels]]
    return (
        *dims,
        *call.units(call.shape[channels]),
        *(call.new(size, POSITION) for size in call.shape[channels + 1 :]),
    )


def channel_shuffle(call: Call) -> Dims:
    x = call.value(0, "input", "self")
    return tuple(call.like(dim, call.shape[d]) if d == 1 else dim for d, dim in enumerate(x.dims))


def packed(call: Call) -> list[Dims]:
    """`pack_padded_sequence` and back: trailing dimensions stay, the first ones are rows without samples."""
    x = call.tensors()[0]
    done: list[Dims] = []
    for shape in call.shapes:
        if len(shape) < 2 or not x.n_dims:
            done.append(_open(call, shape))
            continue
        n_kept = min(len(shape) - 1, x.n_dims - 1)
        if "pad_packed" in call.function:
            n_kept = x.n_dims - 1
        elif x.n_dims == len(shape) + 1:
            n_kept = len(shape) - 1
        kept = x.dims[x.n_dims - n_kept :]
        done.append((*(call.new(size, NEUTRAL) for size in shape[: len(shape) - n_kept]), *kept))
    for dim in x.dims[:1]:
        as_positions(dim)
    return done


# axes


def axis(given: Any, n_dims: int) -> int:
    """A dimension counted from the front."""
    number = int(given)
    return number + n_dims if number < 0 else number


def axes(given: Any, n_dims: int) -> list[int]:
    """Dimensions counted from the front, from one number or several."""
    if isinstance(given, Iterable):
        return [axis(each, n_dims) for each in given]
    return [axis(given, n_dims)]
