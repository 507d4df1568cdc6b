"""Rules of functions over space and time: pooling, interpolation, windows, packed sequences."""

from __future__ import annotations

from cutaway.core.units.calls import Call
from cutaway.core.units.factors import NEUTRAL, OPEN, POSITION, UNIT, Dim, Dims, has_role, mix
from cutaway.core.units.layers import as_positions


def pool(call: Call) -> list[Dims]:
    """Computes across the spatial dimensions; the dimension before them counts units."""
    x = call.value(0, "input", "self")
    n = _n_spatial(call.function)
    first = x.n_dims - n
    if first > 0:
        call.state.claim(x, x.dims[first - 1])
    mix(*x.dims[first:])
    as_positions(*x.dims[first:])
    is_kept = first < 1 or has_role(x.dims[first - 1 : first], UNIT)
    done: list[Dims] = []
    for shape in call.shapes:
        pooled = (_pool_dim(call, x.dims[d], shape[d], is_kept) for d in range(first, x.n_dims))
        done.append((*x.dims[:first], *pooled))
    return done


def _pool_dim(call: Call, dim: Dim, size: int, is_kept: bool) -> Dim:
    """A pooled dimension: positions, unless it has the units of a value that was transposed to pool over them."""
    return call.like(dim, size) if has_role((dim,), UNIT) and not is_kept else call.new(size, POSITION)


def _n_spatial(function: str) -> int:
    return next(int(letter) for letter in reversed(function) if letter in "123")


def interpolate(call: Call) -> Dims:
    """Also `grid_sample`: keeps samples and channels."""
    x = call.value(0, "input", "self")
    call.state.claim(x, x.dims[1])
    mix(*x.dims[2:])
    as_positions(*x.dims[2:])
    return (*x.dims[:2], *(call.new(size, POSITION) for size in call.shape[2:]))


def stft(call: Call) -> Dims:
    """`stft`: frequencies, which readers may take as units, and frames."""
    x = call.value(0, "input", "self")
    mix(x.dims[-1])
    n = x.n_dims - 1
    parts = [call.new(size, NEUTRAL) for size in call.shape[n + 2 :]]  # real and imaginary parts, if requested
    return (*x.dims[:n], call.new(call.shape[n], OPEN), call.new(call.shape[n + 1], POSITION), *parts)


def istft(call: Call) -> Dims:
    """`istft`"""
    x = call.value(0, "input", "self")
    n = len(call.shape) - 1
    mix(*x.dims[n:])
    return (*x.dims[:n], call.new(call.shape[-1], POSITION))


def affine_grid(call: Call) -> Dims:
    """Coordinates for each pixel of an image."""
    x = call.tensors[0]
    mix(*x.dims[1:])
    return (x.dims[0], *(call.new(size, POSITION) for size in call.shape[1:]))


def im2col(call: Call) -> Dims:
    """Channels and the pixels inside a window in one dimension, then the windows."""
    x = call.value(0, "input", "self")
    channels = x.n_dims - 3
    mix(*x.dims[channels + 1 :])
    as_positions(*x.dims[channels + 1 :])
    inside = call.shape[channels] // max(x.shape[channels], 1)
    windows_ = call.new(call.shape[-1], POSITION)
    return (*x.dims[:channels], (*x.dims[channels], *call.new(inside, POSITION)), windows_)


def renumber_channels(call: Call) -> Dims:
    """`fold`, `pixel_shuffle`, `pixel_unshuffle`: renumber the channels."""
    x = call.value(0, "input", "self")
    channels = len(call.shape) - 3
    mix(*x.dims[channels + 1 :])
    return (
        *x.dims[:channels],
        *call.units(call.shape[channels]),
        *(call.new(size, POSITION) for size in call.shape[channels + 1 :]),
    )


def channel_shuffle(call: Call) -> Dims:
    x = call.value(0, "input", "self")
    return tuple(call.like(dim, call.shape[d]) if d == 1 else dim for d, dim in enumerate(x.dims))


def packed_sequence(call: Call) -> list[Dims | None]:
    """`pack_padded_sequence` and back: trailing dimensions stay, the leading ones are rows without samples."""
    x = call.tensors[0]
    done: list[Dims | None] = []
    for shape in call.shapes:
        if len(shape) < 2 or not x.n_dims:
            done.append(None)
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
