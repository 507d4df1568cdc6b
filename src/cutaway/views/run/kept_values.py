"""The kept values of a tensor at a step: the sample and unit dimensions, single samples, standardized values.

The run records what its dimensions are. For a run of an older Cutaway they are inferred: from the number of kept
samples, the classes of modules, and the per-unit statistics, if any.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from cutaway.core.arrays import Array, Raw
from cutaway.core.errors import InputError, SiteError, SiteSyntaxError, UnitError
from cutaway.core.sites import Site
from cutaway.core.statistics import PER_SAMPLE, PER_UNIT
from cutaway.core.units.layout import UnitLayout
from cutaway.store.format.records import VALUE, Row
from cutaway.store.runs.run import Run
from cutaway.store.runs.step import STATE_ROLES, Step

_SPATIAL: Final = re.compile(r"([123])d$")


@dataclass(frozen=True, slots=True)
class KeptValues:
    """The kept values of one row at one step."""

    raw: Raw
    shape: tuple[int, ...]
    """Shape of `kept_numbers`, samples first."""
    n_samples: int
    """Size of the first dimension if it is the samples, else 0."""
    layout: UnitLayout | None
    """Meaning of the dimensions of the stored array; None if unknown."""
    units: UnitLayout | None
    """The same for `kept_numbers`."""

    @property
    def unit_dimension(self) -> int | None:
        """The dimension that is exactly the units; None if there is none, or it is unknown."""
        return None if self.units is None or not self.units.is_known else self.units.unit_dim

    @property
    def n_units(self) -> int:
        """Number of units; 0 if unknown."""
        return self.units.n_units if self.units is not None and self.units.is_known and self.units.units else 0


def kept_values(run: Run, step: Step, row: Row) -> KeptValues:
    """The kept values of a row; raises `NotSavedError` if there are only statistics, `SiteError` if not recorded."""
    own = row_at(step, row)
    if own is None:
        raise SiteError(f"{row.of!r} of {row.site!r} was not recorded at step {step.step}.")
    raw = step.required_raw(own)
    n_kept = step.n_samples
    layout = _layout(run, step, own, raw.shape, n_kept)
    if layout is None:
        return KeptValues(raw, raw.shape, 0, None, None)
    # Only the shape is needed, and a broadcast scalar takes no memory.
    units = layout.samples_first(np.broadcast_to(np.int8(0), raw.shape))[1]
    is_batched = bool(units.samples) and row.role not in STATE_ROLES
    return KeptValues(raw, units.shape, units.shape[0] if is_batched else 0, layout, units)


def _layout(run: Run, step: Step, row: Row, shape: tuple[int, ...], n_kept: int) -> UnitLayout | None:
    """Meaning of the dimensions of a stored array, as recorded; inferred for an older run."""
    if row.layout is not None:
        try:
            return row.layout.for_shape(shape, n_kept or None)
        except UnitError:
            return None
    dimension = None if run.unit_rule == "graph" else _unit_dimension(run, step, row, shape)
    if dimension is None:
        return None
    is_batched = row.role not in STATE_ROLES and n_kept > 0 and shape[0] == n_kept and dimension != 0
    layout = UnitLayout(tuple((size,) for size in shape), samples=(0,) if is_batched else ())
    return layout.with_units([dimension])


def row_at(step: Step, row: Row, of: str | None = None) -> Row | None:
    """The row in the schema of a step, or another row of the same tensor."""
    number = step.row_number(row.site, row.of if of is None else of, row.iteration)
    return None if number is None else step.rows[number]


def table_row_of(row: Row, what: str) -> str:
    """The `of` of the row with the per-unit or per-sample statistics of a row.

    >>> table_row_of(Row("0"), "unit"), table_row_of(Row("0", "grad"), "unit")
    ('unit', 'unit/grad')
    """
    return what if row.of == VALUE else f"{what}/{row.of}"


def recorded_table(step: Step, row: Row, what: str) -> Array | None:
    """The recorded per-unit or per-sample statistics, `[unit, statistic]`; None if there are none."""
    table_row = row_at(step, row, table_row_of(row, what))
    raw = None if table_row is None else step.raw(table_row)
    if raw is None:
        return None
    array = raw.array()
    n_columns = len(PER_UNIT if what == "unit" else PER_SAMPLE)
    return array.T if array.ndim == 2 and len(array) == n_columns else None


def kept_array(kept: KeptValues) -> Array:
    """The values, samples first."""
    array = kept.raw.array()
    return array if kept.layout is None else kept.layout.samples_first(array)[0]


def kept_numbers(kept: KeptValues) -> Array:
    """The values as real numbers, samples first; magnitudes of complex ones."""
    array = kept_array(kept)
    return np.abs(array) if array.dtype.kind == "c" else array


def one_sample(array: Array, kept: KeptValues, sample: int) -> Array:
    """The values of one kept sample; the first dimension remains."""
    if not kept.n_samples:
        raise InputError("the tensor has no sample dimension, so it has no values per sample.")
    if not 0 <= sample < kept.n_samples:
        raise InputError(f"sample {sample} was not kept: {kept.n_samples} were, 0 to {kept.n_samples - 1}.")
    return array[sample : sample + 1]


def standardize(array: Array, kept: KeptValues, units: Array | None, stats: Mapping[str, float]) -> Array:
    """Z-scores: deviations from the mean over the batch, in standard deviations.

    Mean and standard deviation are per unit if recorded, else of the whole tensor. Constant values become 0.

    Args:
        units: the result of `recorded_table`.
        stats: the statistics of the row at this step.
    """
    layout = kept.units
    if units is not None and layout is not None and len(units) == kept.n_units:
        mean, std = (layout.along_units(units[:, column].astype(np.float64)) for column in (0, 1))
        array = array.reshape((len(array), *layout.sizes[1:]) if kept.n_samples else layout.sizes)
    else:
        mean, std = (np.asarray(stats.get(name, np.nan), np.float64) for name in ("mean", "std"))
    shape = kept.shape
    with np.errstate(all="ignore"):
        scores: Array = ((array - mean) / np.where(std > 0, std, np.inf)).astype(np.float32)
    return scores.reshape((len(scores), *shape[1:]) if shape else ())


def _unit_dimension(run: Run, step: Step, row: Row, shape: tuple[int, ...]) -> int | None:
    """As older recorders chose it: the channels of image-like tensors, else the last dimension."""
    if not shape:
        return None
    last = len(shape) - 1
    guess = last if row.role in STATE_ROLES else _unit_dimension_by_class(run, row.site, len(shape))
    of_units = row_at(step, row, table_row_of(row, "unit"))
    meta = None if of_units is None else step.meta(of_units)
    if meta is None or len(meta[1]) != 2 or shape[guess] == meta[1][1]:
        return guess
    fits = [d for d in range(last, -1, -1) if shape[d] == meta[1][1]]
    return fits[0] if fits else guess


def _unit_dimension_by_class(run: Run, site: str, n_dims: int) -> int:
    classes = _classes(run)
    try:
        address = Site.parse(site).address
    except SiteSyntaxError:
        address = ""
    found = _SPATIAL.search(classes.get(address, ""))
    if found is not None and n_dims > int(found[1]):
        return max(n_dims - 1 - int(found[1]), 0)
    if n_dims == 4 and any(match and match[1] == "2" for match in map(_SPATIAL.search, set(classes.values()))):
        return 1
    return n_dims - 1


def _classes(run: Run) -> dict[str, str]:
    modules: Any = run.documents.get("modules")
    columns = modules if isinstance(modules, dict) else {}
    addresses, classes = columns.get("address"), columns.get("class")
    if not isinstance(addresses, list) or not isinstance(classes, list):
        return {}
    pairs = zip(addresses, classes, strict=False)
    return {address: name for address, name in pairs if isinstance(address, str) and isinstance(name, str)}
