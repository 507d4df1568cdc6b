"""The samples of a batch for the panel "What changed here": their share of the loss, and how unusual each is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import CutawayError
from cutaway.core.formatting import plural
from cutaway.core.statistics import PER_SAMPLE
from cutaway.store.format.records import VALUE
from cutaway.store.runs.filtered import RunFilter
from cutaway.store.runs.filters import is_number_per_sample
from cutaway.store.runs.step import Step
from cutaway.views.run.kept_values import recorded_table, row_at
from cutaway.views.run.rows import RunRows
from cutaway.views.run.sample_view import SampleItem, sample_item
from cutaway.views.run.table_outliers import strongest, table_outliers
from cutaway.views.run.tensor_view import sample_values
from cutaway.views.values.value_view import finite_or_none

Floats = NDArray[np.float64]

LOSS: Final = "loss"
"""The field of `run.samples` with the loss of each sample."""
_PER_TENSOR: Final = "abs_max"
_MOST: Final = 256
_MOST_PICTURES: Final = 12
_MOST_TENSORS: Final = 12
_HOW_TO_KEEP: Final = (
    "Record with samples=8 to keep eight, or call run.keep(samples=8, by=losses) to keep those that matter."
)


@dataclass(frozen=True, slots=True)
class ChangedSample:
    """One sample of the batch."""

    number: int | None
    """Its number among the kept samples; None if it was not kept."""
    position: int
    """Its place in the batch, if numbers of the whole batch were recorded; else its number among the kept samples."""
    item: SampleItem | None
    """What is known about it; None if nothing is."""
    loss: float | None
    share: float | None
    """Its share of the summed loss of the samples whose loss is known."""
    z: float | None
    """The strongest z-score among the samples of this batch; None if all its numbers are usual."""
    row: int | None
    """The row in which it is most unusual."""
    n_spikes: int
    """Number of spikes whose batch had a kept sample of the same id, this one included; 0 if unknown."""
    does_pass: bool
    """Whether it passes the filters."""


@dataclass(frozen=True, slots=True)
class SampleStrip:
    """One statistic of one tensor for each sample of the batch."""

    row: int
    statistic: str
    values: tuple[float | None, ...]
    """By `ChangedSample.position`."""


@dataclass(frozen=True, slots=True)
class ChangedSamples:
    """The samples of one batch."""

    samples: tuple[ChangedSample, ...]
    order: str
    n_batch: int
    n_kept: int
    about: str
    strips: tuple[SampleStrip, ...]
    n_spikes: int


def changed_samples(
    rows: RunRows,
    at: Step,
    tensors: Sequence[tuple[int, str]],
    *,
    loss: str,
    spikes: Sequence[int],
    reader: RunFilter | None,
    passing: Collection[int] | None,
) -> ChangedSamples:
    """The samples of a step, by their share of the loss if it is known, else by how unusual they are.

    Args:
        tensors: the unusual rows with a statistic each, strongest first; samples are compared in these and the inputs.
        loss: the name of the scalar that spiked; "" if it was something else.
        spikes: the steps of all spikes.
        reader: reads the ids of samples at these steps.
        passing: the kept samples that pass the filters; None if all do.
    """
    try:
        n_kept, known = at.n_samples, at.samples
    except CutawayError as error:
        return ChangedSamples((), "", 0, 0, str(error), (), 0)
    candidates = _candidates(rows, tensors)
    n_recorded = _n_recorded(rows, at, candidates)
    chosen = at.sample_indices if n_recorded else None
    # Without numbers for the whole batch, samples are known by their number among the kept ones.
    positions = list(range(n_kept)) if chosen is None else list(chosen)[:n_kept]
    n_batch = n_recorded or n_kept
    if not n_batch:
        return ChangedSamples((), "", 0, 0, f"No samples were kept at this step. {_HOW_TO_KEEP}", (), 0)
    strips, z, strongest_row = _strips(rows, at, candidates, positions, n_batch)
    losses, about = _losses(rows, at, loss, n_kept)
    recurring, n_spikes = _recurring(at, spikes, reader)
    total = float(losses.sum()) if losses is not None and np.isfinite(losses).all() and (losses >= 0).all() else 0.0
    samples = []
    for position in range(n_batch):
        number = positions.index(position) if position in positions else None
        own = None if losses is None or number is None else float(losses[number])
        strength = float(z[position])
        if number is None and not strength:
            continue  # neither kept nor unusual: nothing to say about it
        samples.append(
            ChangedSample(
                number=number,
                position=position,
                item=sample_item(known, number) if number is not None and number < len(known) else None,
                loss=None if own is None else finite_or_none(own),
                share=None if own is None or not total else own / total,
                z=strength or None,
                row=int(strongest_row[position]) if strength else None,
                n_spikes=0 if number is None else recurring.get(number, 0),
                does_pass=passing is None or number in passing,
            )
        )
    by_loss = losses is not None
    samples.sort(key=lambda one: ((one.loss or 0.0) if by_loss else 0.0, one.z or 0.0), reverse=True)
    shown = [
        one if place < _MOST_PICTURES or one.item is None else replace(one, item=replace(one.item, image=None))
        for place, one in enumerate(samples[:_MOST])
    ]
    order = "largest share of the loss first" if by_loss else "most unusual first" if z.any() else "in the order kept"
    about = " ".join(filter(None, [about, _not_kept(n_kept, n_batch, samples)]))
    return ChangedSamples(tuple(shown), order, n_batch, n_kept, about, strips, n_spikes)


def _candidates(rows: RunRows, tensors: Sequence[tuple[int, str]]) -> dict[int, str]:
    """The rows in which samples are compared, with a statistic each: the inputs, and the most unusual tensors."""
    inputs = [(number, _PER_TENSOR) for number, row in enumerate(rows.rows) if row.role == "input" and row.of == VALUE]
    return dict([*inputs, *tensors[:_MOST_TENSORS]])


def _n_recorded(rows: RunRows, at: Step, candidates: Collection[int]) -> int:
    """The number of samples of the batch for which statistics were recorded, also of those not kept; 0 without any."""
    for number in candidates:
        try:
            table = recorded_table(at, rows.row(number), "samples")
        except CutawayError:
            continue
        if table is not None:
            return len(table)
    return 0


def _strips(
    rows: RunRows, at: Step, candidates: Mapping[int, str], positions: Sequence[int], n_batch: int
) -> tuple[tuple[SampleStrip, ...], Floats, NDArray[np.intp]]:
    """One number per sample for each tensor that has some; and by sample its strongest z-score, with its row."""
    strips: list[SampleStrip] = []
    z, where = np.zeros(n_batch), np.zeros(n_batch, np.intp)
    for number, name in candidates.items():
        try:
            table = sample_values(rows, number, step=at.step)
        except CutawayError:
            continue  # a parameter, or a tensor of which neither values nor numbers per sample were kept
        if len(table) == len(positions) < n_batch:  # of the kept samples only
            every = np.full((n_batch, table.shape[1]), np.nan, np.float32)
            every[list(positions)] = table
            table = every
        if len(table) != n_batch:
            continue  # its first dimension is not the samples of this batch
        scores = strongest(table_outliers(table, PER_SAMPLE))
        is_stronger = scores > z
        z[is_stronger], where[is_stronger] = scores[is_stronger], number
        column = PER_SAMPLE.index(name if name in PER_SAMPLE else _PER_TENSOR)
        values = tuple(finite_or_none(value) for value in table[:, column].tolist())
        strips.append(SampleStrip(number, PER_SAMPLE[column], values))
    return tuple(strips), z, where


def _losses(rows: RunRows, at: Step, name: str, n_kept: int) -> tuple[Floats | None, str]:
    """The loss of each kept sample, and what to do if it is unknown."""
    for field in dict.fromkeys((name, LOSS)):
        values = at.samples.fields.get(field) if field else None
        if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iuf":
            return values.astype(np.float64), ""
    for row in rows.rows:
        own = row_at(at, row) if row.role == LOSS and row.of == VALUE else None
        meta = None if own is None else at.meta(own)
        if own is not None and meta is not None and meta[1][:1] == (n_kept,) and n_kept > 1:
            raw = at.raw(own) if is_number_per_sample(row.role, meta[1]) else None
            if raw is not None:
                return raw.array().reshape(-1).astype(np.float64), ""
    return None, "The loss of single samples was not recorded: call run.samples(loss=losses), one number per sample."


def _recurring(at: Step, spikes: Sequence[int], reader: RunFilter | None) -> tuple[dict[int, int], int]:
    """By kept sample, at how many spikes a sample of the same id was kept; and the number of spikes with ids."""
    own = at.samples.fields.get("ids")
    if own is None or reader is None:
        return {}, 0
    batches = [set(map(str, ids)) for step in spikes if len(ids := reader.field_at(step, "ids"))]
    return {number: sum(str(id_) in batch for batch in batches) for number, id_ in enumerate(own)}, len(batches)


def _not_kept(n_kept: int, n_batch: int, samples: Sequence[ChangedSample]) -> str:
    if not n_kept:
        return f"No samples were kept at this step. {_HOW_TO_KEEP}"
    lacking = [one.position for one in samples if one.number is None]
    if not lacking:
        return ""
    which = "One unusual sample was" if len(lacking) == 1 else f"{len(lacking)} unusual samples were"
    return f"{which} not kept: {plural(n_kept, 'sample')} of {n_batch} were. {_HOW_TO_KEEP}"
