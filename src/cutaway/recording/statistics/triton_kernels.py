"""Triton kernels: statistics of many tensors in one launch. Imported only if Triton is installed.

Each program of `moments_kernel` takes a share of one tensor, computes distances from its first value so that nothing
cancels, and writes one row of partial results. `merge_kernel` merges the rows of each tensor and, for the level "full",
those of each of its groups (samples, or units that are contiguous in memory). `columns_kernel` and
`merge_columns_kernel` do the same for units in the last dimension. There are no atomics, so results are deterministic.
"""

from __future__ import annotations

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]

DTYPES = {
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
"""Dtypes that the kernels load without conversion."""
WIDE = {torch.float32: tl.float32, torch.float64: tl.float64}
"""Dtypes that the kernels sum in."""


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


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def moments_kernel(  # type: ignore[no-untyped-def]
    table, owners, partials, samples,
    DTYPE: tl.constexpr, WIDE: tl.constexpr, IS_FULL: tl.constexpr, IS_ALIGNED: tl.constexpr, BLOCK: tl.constexpr,
    N_FIELDS: tl.constexpr, N_SAMPLES: tl.constexpr, N_COLUMNS: tl.constexpr, GOLDEN: tl.constexpr,
    BATCH_SAMPLES: tl.constexpr, BATCH_ELEMENTS: tl.constexpr,
):  # fmt: skip
    """One program per share. `owners` has the tensor of each program, `table` a row of `TABLE` per tensor."""
    program = tl.program_id(0).to(tl.int64)
    tensor = tl.load(owners + program)
    entry = table + tensor * N_FIELDS
    values = tl.multiple_of(tl.load(entry).to(tl.pointer_type(DTYPE)), 16)
    n = tl.load(entry + 1)
    group = tl.load(entry + 2)
    per_group = tl.load(entry + 3)
    share = tl.load(entry + 4)
    number = program - tl.load(entry + 5)
    begin = number // per_group * group
    start = begin + number % per_group * share
    if IS_ALIGNED:
        start = tl.multiple_of(start, 16)  # else Triton would load one value at a time
    stop = tl.minimum(start + share, begin + group)
    out = partials + program * N_COLUMNS
    _moments(values, start, stop, out, WIDE, IS_FULL, BLOCK)
    if number == 0:
        _sample(values, n, samples + tensor * N_SAMPLES, N_SAMPLES, GOLDEN)
        n_batch = tl.load(entry + 6)
        inner = tl.load(entry + 7)
        if inner > 0:  # expanded samples are equal, and the row is 0 already
            _batch_std(values, n, n_batch, inner, out + 8, WIDE, BATCH_SAMPLES, BATCH_ELEMENTS, GOLDEN)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def merge_kernel(  # type: ignore[no-untyped-def]
    table, owners, partials, merged, groups,
    N_FIELDS: tl.constexpr, N_COLUMNS: tl.constexpr, ROWS: tl.constexpr, HAS_GROUPS: tl.constexpr,
):  # fmt: skip
    """Merge the partial results of each tensor and of each of its groups; the first program of a tensor takes all."""
    program = tl.program_id(0).to(tl.int64)
    tensor = tl.load(owners + program)
    entry = table + tensor * N_FIELDS
    group = tl.load(entry + 2)
    per_group = tl.load(entry + 3)
    share = tl.load(entry + 4)
    n_groups = tl.load(entry + 1) // group
    job = program - tl.load(entry + 8)
    first = tl.load(entry + 5) + tl.maximum(job - 1, 0) * per_group
    n_rows = tl.where(job == 0, n_groups * per_group, per_group)
    count = tl.where(job == 0, n_groups * group, group).to(tl.float64)
    last = group - share * (per_group - 1)

    total = tl.zeros([ROWS], tl.float64)
    for block in range((n_rows + ROWS - 1) // ROWS):
        row = block * ROWS + tl.arange(0, ROWS)
        inside = row < n_rows
        size = tl.where(row % per_group == per_group - 1, last, share).to(tl.float64)
        total += tl.load(partials + (first + row) * N_COLUMNS, mask=inside, other=0) * size
    mean = tl.sum(total, 0) / count

    squares = tl.zeros([ROWS], tl.float64)
    magnitude = tl.zeros([ROWS], tl.float64)
    low = tl.full([ROWS], float("inf"), tl.float64)
    high = tl.full([ROWS], float("-inf"), tl.float64)
    zeros = tl.zeros([ROWS], tl.float64)
    nans = tl.zeros([ROWS], tl.float64)
    infs = tl.zeros([ROWS], tl.float64)
    for block in range((n_rows + ROWS - 1) // ROWS):
        row = block * ROWS + tl.arange(0, ROWS)
        inside = row < n_rows
        size = tl.where(row % per_group == per_group - 1, last, share).to(tl.float64)
        part = partials + (first + row) * N_COLUMNS
        # Variances of parts merge through the distances of their means (Chan, Golub & LeVeque 1979).
        distance = tl.load(part, mask=inside, other=0) - mean
        squares += tl.where(inside, tl.load(part + 1, mask=inside, other=0) + size * distance * distance, 0)
        magnitude += tl.load(part + 2, mask=inside, other=0)
        low = tl.minimum(low, tl.load(part + 3, mask=inside, other=float("inf")))
        high = tl.maximum(high, tl.load(part + 4, mask=inside, other=float("-inf")))
        zeros += tl.load(part + 5, mask=inside, other=0)
        nans += tl.load(part + 6, mask=inside, other=0)
        infs += tl.load(part + 7, mask=inside, other=0)
    all_squares = tl.sum(squares, 0)
    all_magnitude = tl.sum(magnitude, 0)
    lowest = tl.min(low, 0)
    highest = tl.max(high, 0)
    n_zeros = tl.sum(zeros, 0)
    n_nans = tl.sum(nans, 0)
    if job == 0:
        out = merged + tensor * N_COLUMNS
        tl.store(out, mean)
        tl.store(out + 1, all_squares)
        tl.store(out + 2, all_magnitude)
        tl.store(out + 3, lowest)
        tl.store(out + 4, highest)
        tl.store(out + 5, n_zeros)
        tl.store(out + 6, n_nans)
        tl.store(out + 7, tl.sum(infs, 0))
        tl.store(out + 8, tl.load(partials + first * N_COLUMNS + 8))
    if HAS_GROUPS:
        kind = tl.load(entry + 9)
        place = groups + tl.load(entry + 10) + tl.maximum(job - 1, 0)
        nan = float("nan")
        center = tl.where(mean * 0 == 0, mean, nan).to(tl.float32)
        std = tl.sqrt(tl.maximum(all_squares, 0) / count).to(tl.float32)
        std = tl.where(all_squares * 0 == 0, std, nan)
        if (job > 0) & (kind == 1):  # PER_SAMPLE
            tl.store(place, center)
            tl.store(place + n_groups, (all_magnitude / count).to(tl.float32))
            tl.store(place + 2 * n_groups, std)
            largest = tl.maximum(-lowest, highest).to(tl.float32)
            tl.store(place + 3 * n_groups, tl.where(n_nans > 0, nan, largest))
        if (job > 0) & (kind == 2):  # PER_UNIT
            tl.store(place, center)
            tl.store(place + n_groups, std)
            tl.store(place + 2 * n_groups, tl.where(n_nans > 0, nan, lowest.to(tl.float32)))
            tl.store(place + 3 * n_groups, tl.where(n_nans > 0, nan, highest.to(tl.float32)))
            tl.store(place + 4 * n_groups, (n_zeros / count).to(tl.float32))


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def columns_kernel(  # type: ignore[no-untyped-def]
    table, owners, partials,
    DTYPE: tl.constexpr, WIDE: tl.constexpr, IS_ALIGNED: tl.constexpr,
    N_FIELDS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Partial results of a block of columns of `(row, unit)` over a share of the rows."""
    program = tl.program_id(0).to(tl.int64)
    entry = table + tl.load(owners + program) * N_FIELDS
    values = tl.multiple_of(tl.load(entry).to(tl.pointer_type(DTYPE)), 16)
    n_rows = tl.load(entry + 1)
    n_units = tl.load(entry + 2)
    if IS_ALIGNED:
        n_units = tl.multiple_of(n_units, 16)
    share = tl.load(entry + 3)
    number = program - tl.load(entry + 4)
    n_blocks = (n_units + COLUMNS - 1) // COLUMNS
    part = number // n_blocks
    unit = number % n_blocks * COLUMNS + tl.arange(0, COLUMNS)
    is_unit = unit < n_units
    start = part * share
    stop = tl.minimum(start + share, n_rows)
    around = tl.load(values + start * n_units + unit, mask=is_unit, other=0).to(WIDE)
    around = tl.where(around * 0 == 0, around, 0)
    total = tl.zeros([ROWS, COLUMNS], WIDE)
    squares = tl.zeros([ROWS, COLUMNS], WIDE)
    low = tl.full([ROWS, COLUMNS], float("inf"), WIDE)
    high = tl.full([ROWS, COLUMNS], float("-inf"), WIDE)
    zeros = tl.zeros([ROWS, COLUMNS], tl.int32)
    nans = tl.zeros([ROWS, COLUMNS], tl.int32)
    for block in range((stop - start + ROWS - 1) // ROWS):
        row = start + block * ROWS + tl.arange(0, ROWS)
        inside = (row < stop)[:, None] & is_unit[None, :]
        value = tl.load(values + row[:, None] * n_units + unit[None, :], mask=inside, other=0).to(WIDE)
        distance = tl.where(inside, value - around[None, :], 0)
        total += distance
        squares += distance * distance
        low = tl.minimum(low, tl.where(inside, value, float("inf")))
        high = tl.maximum(high, tl.where(inside, value, float("-inf")))
        zeros += (inside & (value == 0)).to(tl.int32)
        nans += (value != value).to(tl.int32)
    count = (stop - start).to(tl.float64)
    rest = tl.sum(total, 0).to(tl.float64) / count
    out = partials + tl.load(entry + 5) + part * 6 * n_units + unit
    tl.store(out, around.to(tl.float64) + rest, mask=is_unit)
    tl.store(out + n_units, tl.sum(squares, 0).to(tl.float64) - rest * rest * count, mask=is_unit)
    tl.store(out + 2 * n_units, tl.min(low, 0).to(tl.float64), mask=is_unit)
    tl.store(out + 3 * n_units, tl.max(high, 0).to(tl.float64), mask=is_unit)
    tl.store(out + 4 * n_units, tl.sum(zeros, 0).to(tl.float64), mask=is_unit)
    tl.store(out + 5 * n_units, tl.sum(nans, 0).to(tl.float64), mask=is_unit)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def merge_columns_kernel(  # type: ignore[no-untyped-def]
    table, owners, partials, groups, N_FIELDS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Merge the partial results of a block of columns to `PER_UNIT`."""
    program = tl.program_id(0).to(tl.int64)
    entry = table + tl.load(owners + program) * N_FIELDS
    n_rows = tl.load(entry + 1)
    n_units = tl.load(entry + 2)
    share = tl.load(entry + 3)
    unit = (program - tl.load(entry + 6)) * COLUMNS + tl.arange(0, COLUMNS)
    is_unit = unit < n_units
    source = partials + tl.load(entry + 5) + unit
    mean = tl.zeros([COLUMNS], tl.float64)
    squares = tl.zeros([COLUMNS], tl.float64)
    low = tl.full([COLUMNS], float("inf"), tl.float64)
    high = tl.full([COLUMNS], float("-inf"), tl.float64)
    zeros = tl.zeros([COLUMNS], tl.float64)
    nans = tl.zeros([COLUMNS], tl.float64)
    for part in range((n_rows + share - 1) // share):
        before = (part * share).to(tl.float64)
        size = (tl.minimum((part + 1) * share, n_rows) - part * share).to(tl.float64)
        here = source + part * 6 * n_units
        distance = tl.load(here, mask=is_unit, other=0) - mean
        mean += distance * (size / (before + size))
        squares += tl.load(here + n_units, mask=is_unit, other=0)
        squares += distance * distance * (before * size / (before + size))
        low = tl.minimum(low, tl.load(here + 2 * n_units, mask=is_unit, other=0))
        high = tl.maximum(high, tl.load(here + 3 * n_units, mask=is_unit, other=0))
        zeros += tl.load(here + 4 * n_units, mask=is_unit, other=0)
        nans += tl.load(here + 5 * n_units, mask=is_unit, other=0)
    count = n_rows.to(tl.float64)
    nan = float("nan")
    std = tl.sqrt(tl.maximum(squares, 0) / count).to(tl.float32)
    out = groups + tl.load(entry + 7) + unit
    tl.store(out, tl.where(mean * 0 == 0, mean.to(tl.float32), nan), mask=is_unit)
    tl.store(out + n_units, tl.where(squares * 0 == 0, std, nan), mask=is_unit)
    tl.store(out + 2 * n_units, tl.where(nans > 0, nan, low.to(tl.float32)), mask=is_unit)
    tl.store(out + 3 * n_units, tl.where(nans > 0, nan, high.to(tl.float32)), mask=is_unit)
    tl.store(out + 4 * n_units, (zeros / count).to(tl.float32), mask=is_unit)
