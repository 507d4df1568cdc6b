"""Triton kernel: all moments and samples of a tensor in one pass. Imported only if Triton is installed.

Each program takes a share of the tensor, computes distances from its first value so that nothing cancels, and writes
one row of `PARTIAL`; the host merges the rows. There are no atomics, so the result is deterministic.
"""

from __future__ import annotations

from typing import Any

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

from cutaway.recording.statistics.quantiles import BATCH_ELEMENTS, BATCH_SAMPLES

N_WARPS = 4


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _with_block(  # type: ignore[no-untyped-def]
    values, first, stop, around, sums, extremes, counts,
    IS_WHOLE: tl.constexpr, IS_FULL: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Add a block of values to the running sums; a whole block needs no mask and loads in wide words."""
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


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _moments(  # type: ignore[no-untyped-def]
    values, start, stop, out, WIDE: tl.constexpr, IS_FULL: tl.constexpr, BLOCK: tl.constexpr
):
    """The moments of a share of the values, as one row of `PARTIAL`."""
    n_whole = (stop - start) // BLOCK
    around = tl.load(values + start).to(WIDE)
    around = tl.where(around * 0 == 0, around, 0)  # not finite: use 0 instead
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
    tl.store(out, around.to(tl.float64) + rest)
    tl.store(out + 1, tl.sum(squares, 0).to(tl.float64) - rest * rest * count)
    tl.store(out + 2, tl.sum(magnitude, 0).to(tl.float64))
    tl.store(out + 3, tl.min(low, 0).to(tl.float64))
    tl.store(out + 4, tl.max(high, 0).to(tl.float64))
    if IS_FULL:
        tl.store(out + 5, tl.sum(zeros, 0).to(tl.float64))
        tl.store(out + 6, tl.sum(nans, 0).to(tl.float64))
        tl.store(out + 7, tl.sum(infs, 0).to(tl.float64))


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _sample(values, n, out, N_SAMPLES: tl.constexpr, GOLDEN: tl.constexpr):  # type: ignore[no-untyped-def]
    """The values at `quantiles.sample_indices`."""
    sample = tl.arange(0, N_SAMPLES).to(tl.int64)
    begin = sample * n // N_SAMPLES
    width = (sample + 1) * n // N_SAMPLES - begin
    spot = begin + ((((sample * GOLDEN) & 0xFFFFFFFF) * width) >> 32)
    spot = tl.where(n <= N_SAMPLES, sample, spot)
    taken = tl.load(values + spot, mask=spot < n, other=0).to(tl.float32)
    taken = tl.where(spot < n, taken, float("nan"))
    tl.store(out + sample, taken)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _batch_std(  # type: ignore[no-untyped-def]
    values, n, n_batch, inner, out,
    WIDE: tl.constexpr, BATCH_SAMPLES: tl.constexpr, BATCH_ELEMENTS: tl.constexpr, GOLDEN: tl.constexpr,
):  # fmt: skip
    """Standard deviation over samples, averaged over elements, of the values at `quantiles.batch_indices`."""
    n_elements = n // n_batch
    n_rows = tl.minimum(n_batch, BATCH_SAMPLES)
    element = tl.arange(0, BATCH_ELEMENTS).to(tl.int64)
    begin = element * n_elements // BATCH_ELEMENTS
    width = (element + 1) * n_elements // BATCH_ELEMENTS - begin
    spot = begin + ((((element * GOLDEN) & 0xFFFFFFFF) * width) >> 32)
    spot = tl.where(n_elements <= BATCH_ELEMENTS, element, spot)
    first = spot // inner * (n_batch * inner) + spot % inner
    sample = tl.arange(0, BATCH_SAMPLES).to(tl.int64)
    inside = (sample < n_rows)[:, None] & (spot < n_elements)[None, :]
    place = first[None, :] + (sample * n_batch // n_rows * inner)[:, None]
    value = tl.load(values + place, mask=inside, other=0).to(WIDE)  # (sample, element)
    count = n_rows.to(WIDE)
    distance = tl.where(inside, value - (tl.sum(value, 0) / count)[None, :], 0)
    distance = tl.where(inside, distance - (tl.sum(distance, 0) / count)[None, :], 0)
    deviation = tl.sqrt(tl.sum(distance * distance, 0) / count)
    tl.store(out, tl.sum(deviation, 0).to(tl.float64) / tl.minimum(n_elements, BATCH_ELEMENTS))


@triton.jit(do_not_specialize=["n", "n_blocks", "partial", "row", "n_batch", "inner"])  # type: ignore[untyped-decorator,unused-ignore]
def _one_kernel(  # type: ignore[no-untyped-def]
    values, partials, samples, n, n_blocks, partial, row, n_batch, inner,
    WIDE: tl.constexpr, IS_FULL: tl.constexpr, BLOCK: tl.constexpr, N_SAMPLES: tl.constexpr, N_COLUMNS: tl.constexpr,
    GOLDEN: tl.constexpr, HAS_BATCH: tl.constexpr, BATCH_SAMPLES: tl.constexpr, BATCH_ELEMENTS: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    n = n.to(tl.int64)
    n_batch = n_batch.to(tl.int64)  # here, because Triton forbids a branch that changes the type of a name
    inner = inner.to(tl.int64)
    start = program * n_blocks * BLOCK
    stop = tl.minimum(start + n_blocks * BLOCK, n)
    _moments(values, start, stop, partials + (partial + program) * N_COLUMNS, WIDE, IS_FULL, BLOCK)
    if program == 0:
        _sample(values, n, samples + row * N_SAMPLES, N_SAMPLES, GOLDEN)
        if HAS_BATCH:
            out = partials + partial * N_COLUMNS + N_COLUMNS - 1
            _batch_std(values, n, n_batch, inner, out, WIDE, BATCH_SAMPLES, BATCH_ELEMENTS, GOLDEN)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _many_kernel(  # type: ignore[no-untyped-def]
    table, partials, samples,
    DTYPE: tl.constexpr, WIDE: tl.constexpr, IS_FULL: tl.constexpr, BLOCK: tl.constexpr,
    N_SAMPLES: tl.constexpr, N_COLUMNS: tl.constexpr, GOLDEN: tl.constexpr,
):  # fmt: skip
    """Each program reads its share from a row of the table: address, n, start, stop, row of the samples or -1."""
    program = tl.program_id(0).to(tl.int64)
    entry = table + program * 5
    values = tl.multiple_of(tl.load(entry).to(tl.pointer_type(DTYPE)), 16)
    n = tl.load(entry + 1)
    _moments(values, tl.load(entry + 2), tl.load(entry + 3), partials + program * N_COLUMNS, WIDE, IS_FULL, BLOCK)
    row = tl.load(entry + 4)
    if row >= 0:
        _sample(values, n, samples + row * N_SAMPLES, N_SAMPLES, GOLDEN)


def launch(values: Tensor, partials: Tensor, samples: Tensor, **numbers: Any) -> None:
    """Queue the kernel for contiguous values of a dtype that Triton loads.

    Args:
        numbers: n_programs, n_blocks (per program), partial (its first row), row (of the samples), n_batch and inner
            (the result of `batch_layout`), is_wide, is_full, block (values per block), golden.
    """
    n, inner = values.numel(), numbers["inner"]
    arguments = (
        *(values, partials, samples, n, numbers["n_blocks"], numbers["partial"], numbers["row"]),
        *(numbers["n_batch"], inner),
    )
    constants = {
        "WIDE": tl.float64 if numbers["is_wide"] else tl.float32,
        "IS_FULL": numbers["is_full"],
        "BLOCK": numbers["block"],
        "N_SAMPLES": samples.shape[1],
        "N_COLUMNS": partials.shape[1],
        "GOLDEN": numbers["golden"],
        "HAS_BATCH": inner > 0,  # expanded samples are equal, and the row of partials is 0 already
        "BATCH_SAMPLES": BATCH_SAMPLES,
        "BATCH_ELEMENTS": BATCH_ELEMENTS,
    }
    grid = (numbers["n_programs"], 1, 1)
    is_short = n >> 31 == 0, numbers["n_batch"] >> 31 == 0, inner >> 31 == 0  # Triton specializes on 32 or 64 bits
    key = (values.dtype, values.device.index, values.data_ptr() % 16 == 0, *is_short, *constants.values())
    compiled = _COMPILED.get(key)
    if compiled is not None and not _LAUNCH_FAILED:
        try:
            compiled[grid](*arguments, *constants.values())
            return
        except Exception:  # another version of Triton launches differently
            _LAUNCH_FAILED.add("launch")
    _COMPILED[key] = _one_kernel[grid](*arguments, **constants, num_warps=N_WARPS)


def launch_many(table: Tensor, partials: Tensor, samples: Tensor, dtype: torch.dtype, **numbers: Any) -> None:
    """Queue one kernel for many tensors of a dtype; the table has one row per program.

    Args:
        numbers: is_wide, is_full, block, golden.
    """
    _many_kernel[(table.shape[0],)](
        table,
        partials,
        samples,
        DTYPE=_TRITON[dtype],
        WIDE=tl.float64 if numbers["is_wide"] else tl.float32,
        IS_FULL=numbers["is_full"],
        BLOCK=numbers["block"],
        N_SAMPLES=samples.shape[1],
        N_COLUMNS=partials.shape[1],
        GOLDEN=numbers["golden"],
        num_warps=N_WARPS,
    )


_COMPILED: dict[tuple[Any, ...], Any] = {}
"""Compiled kernels: launching one directly takes half the time of Triton's look-up."""
_LAUNCH_FAILED: set[str] = set()

_TRITON = {
    torch.float64: tl.float64,
    torch.float32: tl.float32,
    torch.float16: tl.float16,
    torch.bfloat16: tl.bfloat16,
    torch.int8: tl.int8,
    torch.int16: tl.int16,
    torch.int32: tl.int32,
    torch.int64: tl.int64,
    torch.uint8: tl.uint8,
}
