"""All statistics of one kept sample at a step, to color a graph by sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import DamagedError, InputError
from cutaway.core.statistics import PER_SAMPLE
from cutaway.store.format.records import UPDATE, Row, quantity_of
from cutaway.store.runs.step import Step
from cutaway.views.run.kept_values import recorded_table, row_at
from cutaway.views.run.rows import Matrix, RunRows

_STATE_ROLES: Final = ("parameter", "buffer")


def sample_matrix(rows: RunRows, step: int, sample: int) -> Matrix:
    """`RunRows.matrix` for one sample of the batch: `[row, statistic]`.

    Computed from kept values, else from recorded per-sample statistics. Parameters are the same for all samples.
    Statistics known only for the whole batch are NaN.
    """
    at = rows.run.at(step)
    n = at.n_samples
    if not 0 <= sample < n:
        raise InputError(f"sample {sample} was not kept: step {step} has {n} samples, counted from 0.")
    batch = rows.matrix(at)
    out: Matrix = np.full_like(batch, np.nan)
    places = {name: column for column, name in enumerate(rows.statistics)}
    for number, row in enumerate(rows.rows):
        own = row_at(at, row)
        if own is None:
            continue
        if row.role in _STATE_ROLES or quantity_of(row.of) == UPDATE:
            out[number] = batch[number]
            continue
        for name, value in _sample_statistics(at, own, sample, n).items():
            if name in places:
                out[number, places[name]] = value
    return out


def _sample_statistics(at: Step, row: Row, sample: int, n: int) -> Mapping[str, float]:
    """The known statistics of one of `n` samples."""
    try:
        raw = at.raw(row)
        if raw is not None and raw.shape[:1] == (n,):
            values = raw.array()[sample]
            return _statistics(np.abs(values) if values.dtype.kind == "c" else values)
        each = recorded_table(at, row, "samples")
    except DamagedError:
        return {}
    if each is None or len(each) <= sample:
        return {}
    return dict(zip(PER_SAMPLE, each[sample].tolist(), strict=True))


def _statistics(values: NDArray[Any]) -> dict[str, float]:
    numbers = np.asarray(values, np.float64).reshape(-1)
    n = numbers.size
    if not n:
        return {"count": 0.0, "nonfinite": 0.0}
    with np.errstate(all="ignore"):
        sizes = np.abs(numbers)
        total, squares = float(numbers.sum()), float(np.dot(numbers, numbers))
        mean = total / n
        statistics = {
            "count": float(n),
            "mean": mean,
            "abs_mean": float(sizes.sum()) / n,
            "std": float(numbers.std()),
            "norm": float(np.sqrt(squares)),
            "min": float(numbers.min()),
            "max": float(numbers.max()),
            "abs_max": float(sizes.max()),
            "zeros": float(n - np.count_nonzero(numbers)),
        }
    nans = infs = 0.0
    if not np.isfinite(squares):  # rare: only then are there non-finite or nearly infinite values
        nans, infs = float(np.isnan(numbers).sum()), float(np.isinf(numbers).sum())
    return statistics | {"nans": nans, "infs": infs, "nonfinite": nans + infs}
