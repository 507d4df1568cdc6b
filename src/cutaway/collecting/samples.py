"""A sweep over tensors: images, signals, tables, tokens that were made elsewhere; in the order they come in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from inspect import signature
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cutaway.collecting.pooling import Aggregate, Spans, brought
from cutaway.collecting.shapes import Columns, Size, columns_of
from cutaway.collecting.site_values import SiteValues, Value
from cutaway.collecting.windows import WINDOW_BYTES, Filled
from cutaway.core import trees
from cutaway.core.errors import InputError
from cutaway.store.activations_windows import CollectedSite
from cutaway.store.activations_writing import Dtype, Rows

_AT_ONCE = 32
_HOW = (
    "give a tensor of samples, a tuple of such (the model's arguments), a mapping of such (by name), "
    "a DataLoader or another iterable of batches; or text with tokenizer="
)

Run = Callable[[Any, Any], Any]
"""Called with the model and a batch."""


def batches_of(data: Any, batch_size: int | None) -> Iterable[Any]:
    """Batches of whatever was given, which copy nothing; those of a DataLoader as they are."""
    if is_data(data):
        return list(_cut(data, batch_size or _AT_ONCE))
    if isinstance(data, (str, bytes, list)) or not isinstance(data, Iterable):
        inside = f" of {type(data[0]).__name__}" if isinstance(data, list) and data else ""
        raise InputError(f"data is a {type(data).__name__}{inside}: {_HOW}.")
    if batch_size is not None:
        raise InputError("batch_size= is for tensors and text: a DataLoader makes its own batches.")
    return data


def call_model(model: Any, batch: Any) -> Any:
    """A mapping by name, a tuple or list one after the other, all else as the only argument."""
    if isinstance(batch, Mapping):
        if not _takes(model, (), batch):
            raise InputError(
                f"a batch has {', '.join(map(repr, batch))}, and {type(model).__name__} does not take these by name: "
                "say how it is called, call=lambda model, batch: model(batch['…'])."
            )
        return model(**batch)
    if not isinstance(batch, (tuple, list)):
        return model(batch)
    if not _takes(model, batch, {}):
        raise InputError(
            f"a batch is a {type(batch).__name__} of {len(batch)}, and {type(model).__name__} does not take as many "
            "arguments: say how it is called, call=lambda model, batch: model(batch[0])."
        )
    return model(*batch)


def _takes(model: Any, batch: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Whether a model can be called with these; True where nobody knows."""
    try:
        known = signature(model.forward)
    except (AttributeError, TypeError, ValueError):
        return True
    try:
        known.bind(*batch, **named)
    except TypeError:
        return False
    return True


class Samples:
    """One sweep.

    Args:
        batches: what the model is called with, one after the other.
        by_position: whether each position becomes a row, not each sample.
    """

    def __init__(
        self,
        values_at: SiteValues,
        batches: Iterable[Any],
        run: Run,
        device: torch.device,
        aggregate: Aggregate,
        *,
        by_position: bool,
    ) -> None:
        self._values_at = values_at
        self._run = run
        self._device = device
        self._aggregate = aggregate
        self._by_position = by_position
        self._batches = iter(batches)
        self.first = next(self._batches, None)
        if self.first is None:
            raise InputError("the data is empty: there is nothing to collect.")
        self._columns = self._probe()

    @property
    def sites(self) -> tuple[CollectedSite, ...]:
        return self._columns.sites

    def windows(self, done: int, dtype: Dtype = "float32") -> Iterator[Filled]:
        """All that comes after the first `done` samples."""
        at = first = done
        parts: list[Filled] = []
        n_bytes = 0
        skipped = 0
        for batch in chain([self.first], self._batches):
            n = n_samples(batch)
            if skipped + n <= done:
                skipped += n
                continue
            if skipped < done:
                batch, n = sliced(batch, n, done - skipped, n), n - (done - skipped)
                skipped = done
            if n == 0:
                continue
            parts.append(self._filled(batch, n, at, dtype))
            at += n
            n_bytes += sum(array.nbytes for array in parts[-1].arrays.values())
            if n_bytes >= WINDOW_BYTES:
                yield _joined(parts, at - first)
                first, parts, n_bytes = at, [], 0
        if parts:
            yield _joined(parts, at - first)

    def _probe(self) -> Columns:
        n = n_samples(self.first)
        sizes = [2, 3] if n > 2 else [1, 2] if n == 2 else [n]
        runs: list[tuple[Size, Callable[[], Any]]] = []
        for some in sizes:
            batch = self._there(sliced(self.first, n, 0, some))
            runs.append((Size(some), lambda batch=batch: self._run(self._values_at.model, batch)))  # type: ignore[misc]
        return columns_of(self._values_at, runs)

    def _there(self, batch: Any) -> Any:
        if isinstance(batch, Mapping):
            batch = dict(batch)
        return trees.replace(batch, lambda tensor: torch.as_tensor(tensor).to(self._device), _is_array)

    def _filled(self, batch: Any, n: int, first: int, dtype: Dtype) -> Filled:
        found: dict[str, Tensor] = {}
        mask = _mask(batch, n)
        n_positions: dict[str, int] = {}

        def take(value: Value) -> None:
            column = self._columns.met(value, found)
            values = column.laid_out(value.tensor, n) if value.tensor.dim() > 1 else value.tensor.reshape(n, 1, 1)
            if len(values) != n or values.shape[2] != column.width:
                raise InputError(
                    f"{column.name!r} has {len(values)} samples of {values.shape[2]} units, and {n} of {column.width} "
                    "were expected."
                )
            n_positions[column.name] = values.shape[1]
            spans = self._spans(n, values.shape[1], mask)
            found[column.name] = spans.pooled(values.reshape(-1, column.width), self._aggregate)

        there = self._there(batch)
        self._values_at.run(lambda: self._run(self._values_at.model, there), take)
        self._columns.check_all(found)
        rows = self._rows(n, first, n_positions, mask)
        return Filled(brought(found, dtype), rows, [""] * len(rows), n)

    def _spans(self, n: int, n_positions: int, mask: NDArray[np.bool_] | None) -> Spans:
        """Which positions make a row; those that a mask takes away never do."""
        kept = np.ones((n, n_positions), bool)
        if mask is not None and mask.shape == kept.shape:
            kept = mask
        if self._by_position:
            places = np.flatnonzero(kept.reshape(-1))
            return Spans.of(places, places, None, self._device)
        if not kept.any(1).all():
            raise InputError(f"sample {int(kept.any(1).argmin())} of a batch is masked throughout: it has no row.")
        begins = np.arange(n) * n_positions
        first, last = kept.argmax(1) + begins, n_positions - 1 - kept[:, ::-1].argmax(1) + begins
        return Spans.of(first, last, ~kept.reshape(-1), self._device)

    def _rows(self, n: int, first: int, n_positions: dict[str, int], mask: NDArray[np.bool_] | None) -> Rows:
        items = np.arange(first, first + n)
        if not self._by_position:
            return Rows.of(items)
        if len(set(n_positions.values())) > 1:
            some = ", ".join(f"{name!r} has {count}" for name, count in list(n_positions.items())[:3])
            raise InputError(
                f"the sites have different numbers of positions ({some}): collect them one by one, or rows='items'."
            )
        width = next(iter(n_positions.values()))
        kept = mask if mask is not None and mask.shape == (n, width) else np.ones((n, width), bool)
        sample, position = np.nonzero(kept)
        return Rows.of(items[sample], word=position, first=position, last=position)


def n_samples(batch: Any) -> int:
    """How many samples a batch has: as long as its first tensor is."""
    for _, tensor in trees.leaves(batch, _is_array):
        if tensor.ndim:
            return int(tensor.shape[0])
    raise InputError(f"a batch is a {type(batch).__name__} without a tensor of samples: {_HOW}.")


def _is_array(value: Any) -> bool:
    return isinstance(value, (Tensor, np.ndarray))


def is_data(data: Any) -> bool:
    """Whether these are samples themselves, not batches of them."""
    if _is_array(data):
        return True
    parts = list(data.values()) if isinstance(data, Mapping) else data if isinstance(data, tuple) else []
    return bool(parts) and all(map(_is_array, parts))


def _cut(data: Any, size: int) -> Iterator[Any]:
    data = dict(data) if isinstance(data, Mapping) else data
    n = n_samples(data)
    odd = [len(part) for _, part in trees.leaves(data, _is_array) if len(part) != n]
    if odd:
        raise InputError(f"the tensors have {n} and {odd[0]} samples: each needs as many.")
    for start in range(0, n, size):
        yield sliced(data, n, start, min(start + size, n))


def sliced(batch: Any, n: int, start: int, stop: int) -> Any:
    """Some samples of a batch of `n`; what counts no samples stays whole."""
    if isinstance(batch, Mapping):
        batch = dict(batch)
    return trees.replace(batch, lambda part: part[start:stop] if part.ndim and len(part) == n else part, _is_array)


def _mask(batch: Any, n: int) -> NDArray[np.bool_] | None:
    """Which tokens of a batch count, where it says so."""
    mask = batch.get("attention_mask") if isinstance(batch, Mapping) else None
    if mask is None or mask.ndim != 2 or len(mask) != n:
        return None
    return np.asarray(torch.as_tensor(mask).cpu().numpy(), bool)


def _joined(parts: list[Filled], n_items: int) -> Filled:
    if len(parts) == 1:
        return parts[0]
    arrays = {name: np.concatenate([part.arrays[name] for part in parts]) for name in parts[0].arrays}
    names = ("item", "word", "first", "last")
    rows = Rows(**{name: np.concatenate([getattr(part.rows, name) for part in parts]) for name in names})
    return Filled(arrays, rows, [word for part in parts for word in part.words], n_items)
