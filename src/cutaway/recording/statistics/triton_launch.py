"""Launches the Triton kernels for many tensors at once: builds their tables and allocates their results."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cutaway.core.statistics import PER_SAMPLE, PER_UNIT
from cutaway.recording.statistics import triton_kernels as kernels
from cutaway.recording.statistics.device_results import PARTIAL, ArrayBlock, DeviceInput, DeviceResults, summary_of
from cutaway.recording.statistics.inputs import wide_dtype
from cutaway.recording.statistics.per_unit import sample_statistics, unit_statistics
from cutaway.recording.statistics.quantiles import BATCH_ELEMENTS, BATCH_SAMPLES, GOLDEN, N_SAMPLES

BLOCK = 4096
MOST_PROGRAMS = 256
LEAST_SHARE = 2 * BLOCK
"""A tensor is divided among at most MOST_PROGRAMS programs, each of which takes whole blocks."""
MOST_GROUPS = 1 << 16
"""With more samples than this, torch computes the statistics per sample: most programs would take a few values."""
MERGED_ROWS = 128
ROWS, COLUMNS = 16, 128
ROWS_PER_PROGRAM = 2048
"""Tile of units in the last dimension, and the rows that one program takes."""
N_WARPS = 4

_SAMPLES, _UNITS = 1, 2
_NAMES = {_SAMPLES: ("samples", len(PER_SAMPLE)), _UNITS: ("unit", len(PER_UNIT))}

Table = NDArray[np.int64]


def is_launchable(each: DeviceInput) -> bool:
    """Whether the kernels can read it. They promise Triton that pointers are aligned to 16 bytes."""
    return each.values.dtype in kernels.DTYPES and each.values.data_ptr() % 16 == 0


def launch(inputs: list[DeviceInput], *, is_full: bool) -> list[DeviceResults]:
    """Queue the statistics of tensors for which `is_launchable`: few launches for each dtype."""
    batches: dict[tuple[torch.dtype, bool], list[tuple[DeviceInput, int, int]]] = {}
    for each in inputs:
        kind, n_groups = _contiguous_groups(each)
        key = (each.values.dtype, each.n // n_groups % 16 == 0)
        batches.setdefault(key, []).append((each, kind, n_groups))
    return [_launch(*key, batch, is_full=is_full) for key, batch in batches.items()]


def _contiguous_groups(each: DeviceInput) -> tuple[int, int]:
    """Samples or units, if each is contiguous in memory: the kind of group and their number; else 0 and 1."""
    if each.values is each.tensor:
        for kind, dim in ((_SAMPLES, each.sample_dim), (_UNITS, each.unit_dim)):
            shape = each.tensor.shape
            if dim is not None and prod(shape[: dim % len(shape)]) == 1 and shape[dim] <= MOST_GROUPS:
                return kind, shape[dim]
    return 0, 1


def _launch(
    dtype: torch.dtype, is_aligned: bool, batch: list[tuple[DeviceInput, int, int]], *, is_full: bool
) -> DeviceResults:
    inputs = [each for each, _, _ in batch]
    device = inputs[0].values.device
    fields = np.array([_fields(*each) for each in batch], np.int64)  # (tensor, TABLE)
    n_programs, n_jobs = fields[:, 5].copy(), fields[:, 8].copy()
    fields[:, 5], fields[:, 8] = _starts(n_programs), _starts(n_jobs)
    sizes = np.array([_NAMES[kind][1] * n_groups if kind else 0 for _, kind, n_groups in batch])
    fields[:, 10] = _starts(sizes)
    table, owners, job_owners = _to_device(device, fields, _owners(n_programs), _owners(n_jobs))
    partials = torch.zeros(int(n_programs.sum()), len(PARTIAL), dtype=torch.float64, device=device)
    moments = torch.empty(len(inputs), len(PARTIAL), dtype=torch.float64, device=device)
    samples = torch.empty(len(inputs), N_SAMPLES, dtype=torch.float32, device=device)
    groups = torch.empty(max(int(sizes.sum()), 1), dtype=torch.float32, device=device)
    kernels.moments_kernel[(len(partials),)](
        table, owners, partials, samples,
        DTYPE=kernels.DTYPES[dtype], WIDE=kernels.WIDE[wide_dtype(inputs[0].values)],
        IS_FULL=is_full, IS_ALIGNED=is_aligned, BLOCK=BLOCK, N_FIELDS=fields.shape[1], N_SAMPLES=N_SAMPLES,
        N_COLUMNS=len(PARTIAL), GOLDEN=GOLDEN, BATCH_SAMPLES=BATCH_SAMPLES, BATCH_ELEMENTS=BATCH_ELEMENTS,
        num_warps=N_WARPS,
    )  # fmt: skip
    kernels.merge_kernel[(int(n_jobs.sum()),)](
        table, job_owners, partials, moments, groups,
        N_FIELDS=fields.shape[1], N_COLUMNS=len(PARTIAL), ROWS=MERGED_ROWS, HAS_GROUPS=bool(sizes.any()), num_warps=1,
    )  # fmt: skip
    results = DeviceResults(summary_of(inputs), moments, samples)
    if sizes.any():
        results.arrays.append(ArrayBlock(groups, _places(batch)))
    if is_full:
        results.arrays.extend(_other_arrays(batch))
    return results


def _fields(each: DeviceInput, kind: int, n_groups: int) -> tuple[int, ...]:
    """A row of the table: address, n, group, programs per group, share, programs, samples and their distance in memory,
    jobs of the merge, kind of group, place of the groups. Counts of programs and jobs become the number of the first.
    """
    group = each.n // n_groups
    per_group = max(1, min(MOST_PROGRAMS // n_groups, -(-group // LEAST_SHARE)))
    share = -(-group // (per_group * BLOCK)) * BLOCK
    per_group = -(-group // share)
    n_jobs = 1 + n_groups if kind else 1
    return (each.values.data_ptr(), each.n, group, per_group, share, n_groups * per_group, *each.batch, n_jobs, kind, 0)


def _starts(counts: NDArray[Any]) -> NDArray[Any]:
    starts: NDArray[Any] = np.cumsum(counts) - counts
    return starts


def _owners(counts: Table) -> Table:
    """The tensor of each program."""
    return np.repeat(np.arange(len(counts)), counts)


def _to_device(device: torch.device, *arrays: Table) -> tuple[Tensor, ...]:
    """Copy integers to the device at once, without waiting."""
    staging = torch.from_numpy(np.concatenate([array.reshape(-1) for array in arrays]))
    if device.type == "cuda":
        staging = staging.pin_memory()  # torch reuses this memory only after the copy
    return torch.split(staging.to(device, non_blocking=True), [array.size for array in arrays])


def _places(batch: list[tuple[DeviceInput, int, int]]) -> list[tuple[int, str, tuple[int, ...]]]:
    return [(each.number, _NAMES[kind][0], (_NAMES[kind][1], n_groups)) for each, kind, n_groups in batch if kind]


def _other_arrays(batch: list[tuple[DeviceInput, int, int]]) -> list[ArrayBlock]:
    """Statistics of groups that are not contiguous in memory."""
    arrays, columns = [], []
    for each, kind, _ in batch:
        shape = each.tensor.shape
        if each.unit_dim is not None and kind != _UNITS:
            if each.values is each.tensor and prod(shape[each.unit_dim % len(shape) + 1 :]) == 1:
                columns.append(each)
            else:
                arrays.append(ArrayBlock.of(each.number, "unit", unit_statistics(each.tensor, each.unit_dim)))
        if each.sample_dim is not None and kind != _SAMPLES:
            arrays.append(ArrayBlock.of(each.number, "samples", sample_statistics(each.tensor, each.sample_dim)))
    for is_aligned in (True, False):
        chosen = [each for each in columns if (_n_units(each) % 16 == 0) == is_aligned]
        arrays += [_launch_columns(chosen, is_aligned)] if chosen else []
    return arrays


def _n_units(each: DeviceInput) -> int:
    return 0 if each.unit_dim is None else each.tensor.shape[each.unit_dim]


def _launch_columns(inputs: list[DeviceInput], is_aligned: bool) -> ArrayBlock:
    """Statistics of units in the last dimension."""
    device, dtype = inputs[0].values.device, inputs[0].values.dtype
    n_units = np.array([_n_units(each) for each in inputs])
    n_rows = np.array([each.n for each in inputs]) // n_units
    n_blocks, n_parts = -(-n_units // COLUMNS), -(-n_rows // ROWS_PER_PROGRAM)
    fields = np.stack(
        [
            np.array([each.values.data_ptr() for each in inputs]),
            n_rows,
            n_units,
            np.full(len(inputs), ROWS_PER_PROGRAM),
            _starts(n_blocks * n_parts),
            _starts(6 * n_parts * n_units),
            _starts(n_blocks),
            _starts(len(PER_UNIT) * n_units),
        ],
        axis=1,
    )
    table, owners, merge_owners = _to_device(device, fields, _owners(n_blocks * n_parts), _owners(n_blocks))
    partials = torch.empty(int((6 * n_parts * n_units).sum()), dtype=torch.float64, device=device)
    groups = torch.empty(int(len(PER_UNIT) * n_units.sum()), dtype=torch.float32, device=device)
    kernels.columns_kernel[(len(owners),)](
        table, owners, partials,
        DTYPE=kernels.DTYPES[dtype], WIDE=kernels.WIDE[wide_dtype(inputs[0].values)], IS_ALIGNED=is_aligned,
        N_FIELDS=fields.shape[1], ROWS=ROWS, COLUMNS=COLUMNS, num_warps=N_WARPS,
    )  # fmt: skip
    kernels.merge_columns_kernel[(len(merge_owners),)](
        table, merge_owners, partials, groups, N_FIELDS=fields.shape[1], COLUMNS=COLUMNS, num_warps=1
    )
    shapes = [(len(PER_UNIT), count) for count in n_units.tolist()]
    return ArrayBlock(groups, [(each.number, "unit", shape) for each, shape in zip(inputs, shapes, strict=True)])
