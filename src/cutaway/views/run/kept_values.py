"""The kept values of a tensor at a step: which dimension counts samples and which units, one sample, normalized.

The run says what dimensions count. Of a run that an older Cutaway recorded, it is read off what was written: how many
samples were kept, the classes of modules, and the statistics of each unit where there are some.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from cutaway.core.arrays import Array, Raw
from cutaway.core.errors import InputError, NotSavedError, SiteError, SiteSyntaxError, UnitError
from cutaway.core.sites import Site
from cutaway.core.statistics import PER_SAMPLE, PER_UNIT
from cutaway.core.units.layout import UnitLayout
from cutaway.store.format.records import SAMPLE, VALUE, Row
from cutaway.store.runs.run import Run
from cutaway.store.runs.step import Step

_HELD: Final = ("parameter", "buffer")
_SPATIAL: Final = re.compile(r"([123])d$")


@dataclass(frozen=True, slots=True)
class Kept:
    """What was kept of one row at one step."""

    raw: Raw
    shape: tuple[int, ...]
    """That of `numbers_of_kept`, where samples come first."""
    n_samples: int
    """What its first dimension counts; 0 where that is not samples."""
    layout: UnitLayout | None
    """What the dimensions of the stored array count; None if that is not known."""
    units: UnitLayout | None
    """The same of `numbers_of_kept`."""

    @property
    def unit_dimension(self) -> int | None:
        """The one dimension that counts units and nothing else; None if there is none, or it is not known."""
        return None if self.units is None or not self.units.is_known else self.units.unit_dim

    @property
    def n_units(self) -> int:
        """0 where units are not known."""
        return self.units.n_units if self.units is not None and self.units.is_known and self.units.units else 0


def kept(run: Run, step: Step, row: Row) -> Kept:
    """What was kept of a row; `NotSavedError` where only statistics were, `SiteError` where it was not recorded."""
    own = row_at(step, row)
    if own is None:
        raise SiteError(f"{row.of!r} of {row.site!r} was not recorded at step {step.step}.")
    raw = step.raw(own)
    n_kept = n_samples(step)
    if raw is None:
        how = "record with samples=n to keep values"
        if row.role in _HELD:
            how = "run.tensor(name, tensor) inside a step keeps one"
        elif n_kept:
            how = "without a batch dimension, tensors are kept up to 65,536 elements"
        raise NotSavedError(f"of {row.site!r} only statistics were recorded at step {step.step}: {how}.")
    layout = _layout(run, step, own, raw.shape, n_kept)
    if layout is None:
        return Kept(raw, raw.shape, 0, None, None)
    units = layout.samples_first(np.broadcast_to(np.int8(0), raw.shape))[1]
    is_batched = bool(units.samples) and row.role not in _HELD
    return Kept(raw, units.shape, units.shape[0] if is_batched else 0, layout, units)


def _layout(run: Run, step: Step, row: Row, shape: tuple[int, ...], n_kept: int) -> UnitLayout | None:
    """What the dimensions of a stored array count, as the run says; of an older run, as it was guessed then."""
    if row.layout is not None:
        try:
            return row.layout.for_shape(shape, n_kept or None)
        except UnitError:
            return None
    dimension = None if run.unit_rule == "graph" else _unit_dimension(run, step, row, shape)
    if dimension is None:
        return None
    is_batched = row.role not in _HELD and n_kept > 0 and shape[0] == n_kept and dimension != 0
    layout = UnitLayout(tuple((size,) for size in shape), samples=(0,) if is_batched else ())
    return layout.with_units([dimension])


def row_at(step: Step, row: Row, of: str | None = None) -> Row | None:
    """The same row as a step has it, or another one of the same tensor."""
    number = step.row_number(row.site, row.of if of is None else of, row.iteration)
    return None if number is None else step.rows[number]


def n_samples(step: Step) -> int:
    """How many samples of the batch were kept: as many as are described, else as the first input has."""
    metas = {(row.site, row.of): step.meta(row) for row in step.rows if row.is_sample}
    for (site, of), meta in metas.items():
        if meta is not None and meta[1]:
            if of == f"{SAMPLE}/array":
                return meta[1][0]
            if of == f"{SAMPLE}/lists" or (of == f"{SAMPLE}/starts" and (site, f"{SAMPLE}/lists") not in metas):
                return max(meta[1][0] - 1, 0)  # where each begins, and where the last one ends
    for row in step.rows:
        if row.role == "input" and row.of == VALUE:
            found = step.meta(row)
            if found is not None and found[1]:
                return found[1][0]
    return 0


def beside_of(row: Row, what: str) -> str:
    """The `of` of the array of each unit, or each sample, of a row.

    >>> beside_of(Row("0"), "unit"), beside_of(Row("0", "grad"), "unit")
    ('unit', 'unit/grad')
    """
    return what if row.of == VALUE else f"{what}/{row.of}"


def array_beside(step: Step, row: Row, what: str) -> Array | None:
    """The recorded statistics of each unit or sample, `[unit, statistic]`; None if there are none."""
    own = row_at(step, row, beside_of(row, what))
    raw = None if own is None else step.raw(own)
    if raw is None:
        return None
    array = raw.array()
    n_columns = len(PER_UNIT if what == "unit" else PER_SAMPLE)
    return array.T if array.ndim == 2 and len(array) == n_columns else None


def array_of_kept(kept_: Kept) -> Array:
    """Its values, samples first."""
    array = kept_.raw.array()
    return array if kept_.layout is None else kept_.layout.samples_first(array)[0]


def numbers_of_kept(kept_: Kept) -> Array:
    """Its values as real numbers, samples first; of complex ones the magnitudes."""
    array = array_of_kept(kept_)
    return np.abs(array) if array.dtype.kind == "c" else array


def one_sample(array: Array, kept_: Kept, sample: int) -> Array:
    """The part that belongs to one of the kept samples; its first dimension stays."""
    if not kept_.n_samples:
        raise InputError("the tensor has no dimension that counts samples, so there is no part of it for each.")
    if not 0 <= sample < kept_.n_samples:
        raise InputError(f"sample {sample} was asked for, and {kept_.n_samples} were kept: 0 to {kept_.n_samples - 1}.")
    return array[sample : sample + 1]


def normalized(array: Array, kept_: Kept, units: Array | None, stats: Mapping[str, float]) -> Array:
    """Deviations from the mean over the batch, in standard deviations.

    Mean and deviation are those of each unit where they were recorded, else those of the whole tensor. What does not
    vary is 0.

    Args:
        units: as `array_beside` gives them.
        stats: the statistics of the row at this step.
    """
    layout = kept_.units
    if units is not None and layout is not None and len(units) == kept_.n_units:
        mean, std = (layout.along_units(units[:, column].astype(np.float64)) for column in (0, 1))
        array = array.reshape((len(array), *layout.sizes[1:]) if kept_.n_samples else layout.sizes)
    else:
        mean, std = (np.asarray(stats.get(name, np.nan), np.float64) for name in ("mean", "std"))
    shape = kept_.shape
    with np.errstate(all="ignore"):
        found: Array = ((array - mean) / np.where(std > 0, std, np.inf)).astype(np.float32)
    return found.reshape((len(found), *shape[1:]) if shape else ())


def _unit_dimension(run: Run, step: Step, row: Row, shape: tuple[int, ...]) -> int | None:
    """As recorders before the rule of the graph took it: the channels of images and the like, else the last."""
    if not shape:
        return None
    last = len(shape) - 1
    guess = last if row.role in _HELD else _by_class(run, row.site, len(shape))
    of_units = row_at(step, row, beside_of(row, "unit"))
    meta = None if of_units is None else step.meta(of_units)
    if meta is None or len(meta[1]) != 2 or shape[guess] == meta[1][1]:
        return guess
    fits = [d for d in range(last, -1, -1) if shape[d] == meta[1][1]]
    return fits[0] if fits else guess


def _by_class(run: Run, site: str, n_dims: int) -> int:
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
