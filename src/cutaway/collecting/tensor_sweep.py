"""Collects over tensors: images, signals, tables, ready-made token ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cutaway.capture.tensors.conversion import as_tensor
from cutaway.capture.units.live_units import UnitDim
from cutaway.capture.units.sample_dims import SampleDims, is_array
from cutaway.collecting.batches import Batches, is_sample_data
from cutaway.collecting.dimensions import Columns, ProbeRun, Size, find_columns, run_once, run_traced
from cutaway.collecting.pooling import Aggregate, Spans, to_host
from cutaway.collecting.site_values import SiteValues, Value
from cutaway.collecting.windows import WINDOW_BYTES, Window
from cutaway.core import pytree
from cutaway.core.errors import InputError
from cutaway.core.formatting import type_text
from cutaway.core.progress import progress
from cutaway.store.activations.windows import CollectedSite
from cutaway.store.activations.writer import Dtype, Rows

CallFunction = Callable[[Any, Any], Any]
"""Called with the model and a batch."""


def default_call(model: Any, batch: Any) -> Any:
    """Call the model: a mapping as keyword arguments, a tuple or list as positional ones, else one argument."""
    if isinstance(batch, Mapping):
        if not _takes(model, (), batch):
            raise InputError(
                f"a batch has {', '.join(map(repr, batch))}, but {type(model).__name__} does not accept these by name: "
                "set the call with call=lambda model, batch: model(batch['…'])."
            )
        return model(**batch)
    if not isinstance(batch, (tuple, list)):
        return model(batch)
    if not _takes(model, batch, {}):
        raise InputError(
            f"a batch is {type_text(batch)} of {len(batch)}, but {type(model).__name__} does not accept as many "
            "arguments: set the call with call=lambda model, batch: model(batch[0])."
        )
    return model(*batch)


def _takes(model: Any, batch: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Whether `forward` accepts these arguments; True if its signature is unknown."""
    try:
        known = signature(model.forward)
    except (AttributeError, TypeError, ValueError):
        return True
    try:
        known.bind(*batch, **named)
    except TypeError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class SweepSettings:
    """Settings of a sweep over tensors."""

    aggregate: Aggregate
    by_position: bool = False
    """Whether each position becomes a row, rather than each sample."""
    call: CallFunction = default_call
    samples: int | None = None
    """The sample dimension of the data, if the caller states it."""
    unit_dim: UnitDim | None = None
    """The unit dimension, if the caller states it."""


class TensorSweep:
    """One pass over a data set of tensors.

    Args:
        batches: the batches to call the model with.
    """

    def __init__(self, values_at: SiteValues, batches: Batches, settings: SweepSettings, device: torch.device) -> None:
        self._values_at = values_at
        self._batches = batches
        self._settings = settings
        self._device = device
        self._dims = SampleDims({}, settings.samples or 0)
        if not self._dims.n(batches.first, is_strict=settings.samples is None and is_sample_data(batches.first)):
            raise InputError("the data is empty: there is nothing to collect.")
        self._columns = self._probe()

    @property
    def sites(self) -> tuple[CollectedSite, ...]:
        return self._columns.sites

    @property
    def left_out(self) -> dict[str, str]:
        return self._columns.left_out

    @property
    def first_sample(self) -> Any:
        """The first sample of the data, as a batch of one."""
        return self._batches.first_sample(self._dims)

    def windows(self, done: int, dtype: Dtype = "float32") -> Iterator[Window]:
        """Collect everything after the first `done` samples."""
        at = first = done
        parts: list[Window] = []
        n_bytes = 0
        skipped = 0
        n_batches = self._batches.n_batches(self._dims)
        batches = self._batches.all(self._dims)
        for batch in batches if n_batches is None else progress(batches, n_batches, "batches collected"):
            n = self._dims.n(batch)
            if skipped + n <= done:
                skipped += n
                continue
            # With another batch_size, the interrupted run may have ended inside this batch.
            if skipped < done:
                batch, n = self._dims.slice_samples(batch, done - skipped, n), n - (done - skipped)
                skipped = done
            if n == 0:
                continue
            parts.append(self._run_window(batch, n, at, dtype))
            at += n
            n_bytes += sum(array.nbytes for array in parts[-1].arrays.values())
            if n_bytes >= WINDOW_BYTES:
                yield _concatenate(parts, at - first)
                first, parts, n_bytes = at, [], 0
        if parts:
            yield _concatenate(parts, at - first)

    def _probe(self) -> Columns:
        """A traced run on up to 3 samples, and one on fewer as a check.

        The first batch is cut along the dimension that usually holds samples. The trace shows whether it does; if not,
        the second run is cut along the right one.
        """
        model, first = self._values_at.model, self._batches.first
        batch = self._to_device(self._dims.slice_samples(first, 0, min(self._dims.n(first), 3)))
        probe_values, traces = run_traced(self._values_at, lambda: self._settings.call(model, batch))
        if self._settings.call is default_call:
            if self._settings.samples is None:
                self._dims = SampleDims.from_trace(traces[0], batch)
            else:
                for trace in traces:
                    self._dims.apply_to(trace, batch)
        runs = [ProbeRun(Size(self._dims.n(batch)), probe_values)]
        n = self._dims.n(first)
        if n > 1:
            # Another number of samples shows whether the sample dimension was found.
            fewer = self._to_device(self._dims.slice_samples(first, 0, 1 if n == 2 else 2))
            size = Size(self._dims.n(fewer))
            runs.append(ProbeRun(size, run_once(self._values_at, lambda: self._settings.call(model, fewer))))
        return find_columns(self._values_at, runs, traces, unit_dim=self._settings.unit_dim)

    def _to_device(self, batch: Any) -> Any:
        if isinstance(batch, Mapping):
            batch = dict(batch)
        return pytree.replace(batch, lambda tensor: as_tensor(tensor).to(self._device), is_array)

    def _run_window(self, batch: Any, n: int, first: int, dtype: Dtype) -> Window:
        pooled_rows: dict[str, Tensor] = {}
        mask = _mask(batch, n)
        n_positions: dict[str, int] = {}

        def take(value: Value) -> None:
            column = self._columns.column_of(value, pooled_rows)
            if column is None:
                return
            values = column.to_rows(value.tensor, n)
            if len(values) != n or values.shape[2] != column.width:
                raise InputError(
                    f"{column.name!r} has {len(values)} samples of {values.shape[2]} units, "
                    f"expected {n} of {column.width}."
                )
            n_positions[column.name] = values.shape[1]
            spans = self._spans(n, values.shape[1], mask)
            pooled_rows[column.name] = spans.pool(values.reshape(-1, column.width), self._settings.aggregate)

        on_device = self._to_device(batch)
        self._values_at.run(lambda: self._settings.call(self._values_at.model, on_device), take)
        self._columns.check_all(pooled_rows)
        rows = self._rows(n, first, n_positions, mask)
        return Window(to_host(pooled_rows, dtype), rows, [""] * len(rows), n)

    def _spans(self, n: int, n_positions: int, mask: NDArray[np.bool_] | None) -> Spans:
        """The positions that make up each row, without masked ones."""
        is_kept = np.ones((n, n_positions), bool)
        if mask is not None and mask.shape == is_kept.shape:
            is_kept = mask
        if self._settings.by_position:
            positions = np.flatnonzero(is_kept.reshape(-1))
            return Spans.of(positions, positions, None, self._device)
        if not is_kept.any(1).all():
            raise InputError(f"sample {int(is_kept.any(1).argmin())} of a batch is fully masked: it has no row.")
        begins = np.arange(n) * n_positions
        first, last = is_kept.argmax(1) + begins, n_positions - 1 - is_kept[:, ::-1].argmax(1) + begins
        return Spans.of(first, last, ~is_kept.reshape(-1), self._device)

    def _rows(self, n: int, first: int, n_positions: dict[str, int], mask: NDArray[np.bool_] | None) -> Rows:
        items = np.arange(first, first + n)
        if not self._settings.by_position:
            return Rows.of(items)
        if len(set(n_positions.values())) > 1:
            counts = ", ".join(f"{name!r} has {count}" for name, count in list(n_positions.items())[:3])
            raise InputError(
                f"the sites have different numbers of positions ({counts}): collect them one by one, or rows='items'."
            )
        width = next(iter(n_positions.values()))
        is_kept = mask if mask is not None and mask.shape == (n, width) else np.ones((n, width), bool)
        sample, position = np.nonzero(is_kept)
        return Rows.of(items[sample], word=position, first=position, last=position)


def _mask(batch: Any, n: int) -> NDArray[np.bool_] | None:
    """The attention mask of a batch, if it has one."""
    mask = batch.get("attention_mask") if isinstance(batch, Mapping) else None
    if mask is None or mask.ndim != 2 or len(mask) != n:
        return None
    return np.asarray(as_tensor(mask).cpu().numpy(), bool)


def _concatenate(parts: list[Window], n_items: int) -> Window:
    if len(parts) == 1:
        return parts[0]
    arrays = {name: np.concatenate([part.arrays[name] for part in parts]) for name in parts[0].arrays}
    names = ("item", "word", "first", "last")
    rows = Rows(**{name: np.concatenate([getattr(part.rows, name) for part in parts]) for name in names})
    return Window(arrays, rows, [word for part in parts for word in part.words], n_items)
