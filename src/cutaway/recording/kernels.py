"""One pass over a tensor on a GPU that takes all its moments and its samples; imported only where Triton is.

Each program takes a share of the tensor around a value of its own, so that nothing cancels, and leaves one row of
`PARTIAL`; the rows are merged on the host. Nothing waits, nothing is atomic, and the result is the same each time.
"""

from __future__ import annotations

from typing import Any

import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

N_WARPS = 8


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _with_block(  # type: ignore[no-untyped-def]
    values, first, stop, around, sums, extremes, counts,
    IS_WHOLE: tl.constexpr, IS_FULL: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """What is known so far, and another block of the values; a whole one is loaded in long words."""
    total, squares, magnitude = sums
    low, high = extremes
    zeros, nans, infs = counts
    place = first + tl.arange(0, BLOCK)
    if IS_WHOLE:
        value = tl.load(values + place).to(WIDE)
        distance = value - around
        low = tl.minimum(low, value)
        high = tl.maximum(high, value)
        is_zero = value == 0
    else:
        inside = place < stop
        value = tl.load(values + place, mask=inside, other=0).to(WIDE)
        distance = tl.where(inside, value - around, 0)
        low = tl.minimum(low, tl.where(inside, value, float("inf")))
        high = tl.maximum(high, tl.where(inside, value, float("-inf")))
        is_zero = inside & (value == 0)
    if IS_FULL:
        zeros += is_zero.to(tl.int32)
        nans += (value != value).to(tl.int32)
        infs += (tl.abs(value) == float("inf")).to(tl.int32)
    sums = total + distance, squares + distance * distance, magnitude + tl.abs(value)
    return sums, (low, high), (zeros, nans, infs)


@triton.jit(do_not_specialize=["n", "n_blocks", "partial", "row"])  # type: ignore[untyped-decorator,unused-ignore]
def _moments_kernel(  # type: ignore[no-untyped-def]
    values, partials, samples, n, n_blocks, partial, row,
    WIDE: tl.constexpr, IS_FULL: tl.constexpr, BLOCK: tl.constexpr,
    N_SAMPLES: tl.constexpr, N_COLUMNS: tl.constexpr, GOLDEN: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    n = n.to(tl.int64)
    start = program * n_blocks * BLOCK
    stop = tl.minimum(start + n_blocks * BLOCK, n)
    n_whole = (stop - start) // BLOCK

    around = tl.load(values + start).to(WIDE)
    around = tl.where(around * 0 == 0, around, 0)  # not around an infinity
    nothing = tl.zeros([BLOCK], WIDE)
    none = tl.zeros([BLOCK], tl.int32)
    sums = nothing, nothing, nothing
    extremes = tl.full([BLOCK], float("inf"), WIDE), tl.full([BLOCK], float("-inf"), WIDE)
    counts = none, none, none
    for block in range(n_whole):
        sums, extremes, counts = _with_block(
            values, start + block * BLOCK, stop, around, sums, extremes, counts, True, IS_FULL, WIDE, BLOCK
        )
    if start + n_whole * BLOCK < stop:
        sums, extremes, counts = _with_block(
            values, start + n_whole * BLOCK, stop, around, sums, extremes, counts, False, IS_FULL, WIDE, BLOCK
        )

    total, squares, magnitude = sums
    low, high = extremes
    zeros, nans, infs = counts
    count = (stop - start).to(tl.float64)
    rest = tl.sum(total, 0).to(tl.float64) / count
    out = partials + (partial + program) * N_COLUMNS
    tl.store(out, around.to(tl.float64) + rest)
    tl.store(out + 1, tl.sum(squares, 0).to(tl.float64) - rest * rest * count)
    tl.store(out + 2, tl.sum(magnitude, 0).to(tl.float64))
    tl.store(out + 3, tl.min(low, 0).to(tl.float64))
    tl.store(out + 4, tl.max(high, 0).to(tl.float64))
    if IS_FULL:
        tl.store(out + 5, tl.sum(zeros, 0).to(tl.float64))
        tl.store(out + 6, tl.sum(nans, 0).to(tl.float64))
        tl.store(out + 7, tl.sum(infs, 0).to(tl.float64))

    if program == 0:  # `sampling.places`
        sample = tl.arange(0, N_SAMPLES).to(tl.int64)
        begin = sample * n // N_SAMPLES
        width = (sample + 1) * n // N_SAMPLES - begin
        spot = begin + ((((sample * GOLDEN) & 0xFFFFFFFF) * width) >> 32)
        spot = tl.where(n <= N_SAMPLES, sample, spot)
        taken = tl.load(values + spot, mask=spot < n, other=0).to(tl.float32)
        taken = tl.where(spot < n, taken, float("nan"))
        tl.store(samples + row * N_SAMPLES + sample, taken)


def launch(values: Tensor, partials: Tensor, samples: Tensor, **numbers: Any) -> None:
    """Queue the kernel for contiguous values of a dtype that Triton loads.

    Args:
        numbers: n_programs, n_blocks (of each), partial (its first row), row (of the samples), is_wide, is_full,
            block (values in one), golden.
    """
    _moments_kernel[(numbers["n_programs"],)](
        values,
        partials,
        samples,
        values.numel(),
        numbers["n_blocks"],
        numbers["partial"],
        numbers["row"],
        WIDE=tl.float64 if numbers["is_wide"] else tl.float32,
        IS_FULL=numbers["is_full"],
        BLOCK=numbers["block"],
        N_SAMPLES=samples.shape[1],
        N_COLUMNS=partials.shape[1],
        GOLDEN=numbers["golden"],
        num_warps=N_WARPS,
    )
