"""The kept values of a tensor at a step: which dimension counts samples and which units, one sample, normalised.

What the recorder knew of dimensions is read off what it wrote: how many samples it kept, the classes of modules, and
the statistics of each unit where there are some.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from cutaway.core.arrays import Array, Raw
from cutaway.core.errors import InputError, NotSavedError, SiteError, SiteSyntaxError
from cutaway.core.sites import Site
from cutaway.core.statistics import PER_SAMPLE, PER_UNIT
from cutaway.store.moments import Step
from cutaway.store.records import SAMPLE, VALUE, Row
from cutaway.store.run import Run

_HELD: Final = ("parameter", "buffer")
_SPATIAL: Final = re.compile(r"([123])d$")


@dataclass(frozen=True, slots=True)
class Kept:
    """What was kept of one row at one step."""

    raw: Raw
    n_samples: int
    """What its first dimension counts; 0 where that is not samples."""
    unit_dimension: int | None
    """None of a single number."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.raw.shape


def kept(run: Run, step: Step, row: Row) -> Kept:
    """What was kept of a row; `NotSavedError` where only statistics were, `SiteError` where it was not recorded."""
    own = row_at(step, row)
    if own is None:
        raise SiteError(f"{row.of!r} of {row.site!r} was not recorded at step {step.step}.")
    raw = step.raw(own)
    if raw is None:
        how = "record with samples=n to keep values"
        if row.role in _HELD:
            how = "run.tensor(name, tensor) inside a step keeps one"
        elif n_samples(step):
            how = "without a batch dimension, tensors are kept up to 65,536 elements"
        raise NotSavedError(f"of {row.site!r} only statistics were recorded at step {step.step}: {how}.")
    n_kept = n_samples(step)
    is_batched = row.role not in _HELD and bool(raw.shape) and n_kept > 0 and raw.shape[0] == n_kept
    return Kept(raw, n_kept if is_batched else 0, _unit_dimension(run, step, own, raw.shape))


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


def numbers_of_kept(kept_: Kept) -> Array:
    """Its values as real numbers; of complex ones the magnitudes."""
    array = kept_.raw.array()
    return np.abs(array) if array.dtype.kind == "c" else array


def one_sample(array: Array, kept_: Kept, sample: int) -> Array:
    """The part that belongs to one of the kept samples; its first dimension stays."""
    if not kept_.n_samples:
        raise InputError("the tensor has no dimension that counts samples, so there is no part of it for each.")
    if not 0 <= sample < kept_.n_samples:
        raise InputError(f"sample {sample} was asked for, and {kept_.n_samples} were kept: 0 to {kept_.n_samples - 1}.")
    return array[sample : sample + 1]


def normalised(array: Array, kept_: Kept, units: Array | None, stats: Mapping[str, float]) -> Array:
    """Deviations from the mean over the batch, in standard deviations.

    Mean and deviation are those of each unit where they were recorded, else those of the whole tensor. What does not
    vary is 0.

    Args:
        units: as `array_beside` gives them.
        stats: the statistics of the row at this step.
    """
    dimension = kept_.unit_dimension
    if units is not None and dimension is not None and len(units) == array.shape[dimension]:
        behind = (1,) * (array.ndim - 1 - dimension)
        mean, std = (units[:, column].astype(np.float64).reshape(-1, *behind) for column in (0, 1))
    else:
        mean, std = (np.asarray(stats.get(name, np.nan), np.float64) for name in ("mean", "std"))
    with np.errstate(all="ignore"):
        found: Array = ((array - mean) / np.where(std > 0, std, np.inf)).astype(np.float32)
    return found


def _unit_dimension(run: Run, step: Step, row: Row, shape: tuple[int, ...]) -> int | None:
    """The channels of images and the like, else the last."""
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
