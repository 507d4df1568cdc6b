"""Collects over text: windows of the corpus, batched by length."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cutaway.capture.units.live_units import UnitDim
from cutaway.collecting.dimensions import Columns, ProbeRun, Size, find_columns, run_once, run_traced
from cutaway.collecting.model_call import ModelCall, Pair, shift_target
from cutaway.collecting.pooling import Aggregate, Spans, to_host
from cutaway.collecting.site_values import SiteValues, Value
from cutaway.collecting.texts import read_texts
from cutaway.collecting.tokenization import EncodedItem, Encoder, RowKind
from cutaway.collecting.windows import WINDOW_BYTES, Window
from cutaway.core.errors import InputError
from cutaway.core.formatting import plural
from cutaway.store.activations.windows import CollectedSite
from cutaway.store.activations.writer import Dtype, Rows

_ENCODE_BATCH = 256
"""Items that are tokenized together."""
_MOST_ITEMS = 16_384
_BATCH_TOKENS = {"cpu": 1024}
_GPU_BATCH_TOKENS = 16_384
"""Tokens per batch, padding included."""
_MISSING: Any = object()
_PROBE_TOKENS = 6
"""Tokens of the small runs that determine layouts."""


@dataclass(frozen=True, slots=True)
class SweepSettings:
    """Settings of a sweep over text."""

    aggregate: Aggregate
    skips_special: bool
    """Whether rows of whole items skip special tokens between their first and last token."""
    is_strict: bool = False
    batch_size: int | None = None
    """Sentences per batch; None for as many as have a few thousand tokens."""
    rows: RowKind = "words"
    unit_dim: UnitDim | None = None
    """The unit dimension, if the caller states it."""


class TextSweep:
    """One pass over a corpus. The first sentences determine the sites and their widths.

    Args:
        items: sentences and pairs.
        targets: the decoder text of each item.
    """

    def __init__(
        self,
        values_at: SiteValues,
        encoder: Encoder,
        call: ModelCall,
        settings: SweepSettings,
        items: Iterable[Any],
        targets: Iterable[Any] | None,
    ) -> None:
        self._values_at = values_at
        self._encoder = encoder
        self._call = call
        self._settings = settings
        self._items = _pair_items(items, targets)
        self._read_ahead: list[Pair] = []
        """Items that were tokenized for the probe, before the first batch."""
        self._n_read = 0
        self._columns = self._probe()

    @property
    def sites(self) -> tuple[CollectedSite, ...]:
        return self._columns.sites

    @property
    def left_out(self) -> dict[str, str]:
        return self._columns.left_out

    def windows(self, done: int, dtype: Dtype = "float32") -> Iterator[Window]:
        """Collect everything after the first `done` items."""
        n_bytes = sum(column.width for column in self._columns) * 4
        read_ahead, self._read_ahead = self._read_ahead[done:], []
        first = done
        window: list[Pair] = []
        n_rows = 0
        for encoded in chain([read_ahead] if read_ahead else [], self._remaining(done)):
            window += encoded
            n_rows += sum(len((target or source).word) for source, target in encoded)
            if n_rows * n_bytes >= WINDOW_BYTES or len(window) >= _MOST_ITEMS:
                yield self._run_window(window, first, dtype)
                first, window, n_rows = first + len(window), [], 0
        if window:
            yield self._run_window(window, first, dtype)

    def _remaining(self, done: int) -> Iterator[list[Pair]]:
        """Tokenize the items that were not read ahead, batch by batch."""
        first = max(done, self._n_read)
        items = islice(self._items, first - self._n_read, None)
        while batch_items := list(islice(items, _ENCODE_BATCH)):
            yield self._encode(batch_items, first)
            first += len(batch_items)

    def _encode(self, batch_items: list[tuple[Any, Any]], first: int) -> list[Pair]:
        sources = self._encoder.encode([read_texts(item, first + i) for i, (item, _) in enumerate(batch_items)])
        targets: list[EncodedItem | None] = [None] * len(batch_items)
        if self._call.start >= 0:
            encoded = self._encoder.encode([read_texts(target, first + i) for i, (_, target) in enumerate(batch_items)])
            targets = [shift_target(target, self._call.start) for target in encoded]
        return list(zip(sources, targets, strict=True))

    def _probe(self) -> Columns:
        """Two small runs on the first usable sentence: a traced one, and a smaller one as a check."""
        while batch_items := list(islice(self._items, _ENCODE_BATCH)):
            encoded = self._encode(batch_items, self._n_read)
            self._n_read += len(batch_items)
            self._read_ahead += encoded
            for source, target in encoded:
                row_item = target or source
                if row_item.word and source.ids:
                    size, call = self._probe_call(source, target, 5, 1)
                    probe_values, traces = run_traced(self._values_at, call)
                    small_size, small_call = self._probe_call(source, target, 3, 0)
                    runs = [ProbeRun(size, probe_values), ProbeRun(small_size, run_once(self._values_at, small_call))]
                    settings = self._settings
                    return find_columns(self._values_at, runs, traces, unit_dim=settings.unit_dim, rows=settings.rows)
        raise InputError("no item has a word with a token: there is nothing to collect.")

    def _probe_call(
        self, source: EncodedItem, target: EncodedItem | None, n: int, more: int
    ) -> tuple[Size, Callable[[], Any]]:
        row_item = target or source
        ids = [*row_item.ids[: _PROBE_TOKENS - 1], row_item.ids[-1]]
        # The second run drops a token, so that both runs differ in length: at least two are needed.
        ids = [ids[0]] * (2 - len(ids)) + ids
        ids = ids if more else [*ids[:1], *ids[2:]]
        kinds = {name: [values[0]] * len(ids) for name, values in row_item.extra_inputs.items()}
        small = EncodedItem(ids, kinds, [False] * len(ids))
        pair: Pair = (small, None) if target is None else (source, small)
        inputs = self._call.inputs([pair] * n)
        return Size(n, len(ids)), lambda: self._call.run(inputs)

    def _run_window(self, window: list[Pair], first_item: int, dtype: Dtype) -> Window:
        row_items = [target or source for source, target in window]
        problems = [(first_item + i, problem) for i, item in enumerate(row_items) for problem in item.problems]
        for i, (source, target) in enumerate(window):
            if target is not None:
                problems += [(first_item + i, f"in its source: {problem}") for problem in source.problems]
        problems.sort(key=lambda problem: problem[0])
        if self._settings.is_strict and problems:
            item, problem = problems[0]
            raise InputError(
                f"item {item}: {problem}. Items {first_item} to {first_item + len(window) - 1} have "
                f"{plural(len(problems), 'problem')}; without strict=True they are listed in acts.problems."
            )
        counts = np.array([len(item.word) for item in row_items], np.int64)
        starts = np.cumsum(counts) - counts
        arrays = {c.name: np.empty((int(counts.sum()), c.width), dtype) for c in self._columns}
        for numbers in self._batches(window, counts):
            pooled_rows, places = self._run([window[i] for i in numbers], [int(starts[i]) for i in numbers])
            for name, values in to_host(pooled_rows, dtype).items():
                # float16 overflowed: float32 is kept, so that the error can name the value.
                if values.dtype != arrays[name].dtype:
                    arrays[name] = arrays[name].astype(np.float32)
                arrays[name][places] = values
        rows = Rows.of(
            np.repeat(np.arange(first_item, first_item + len(window)), counts),
            word=_concatenate([item.word for item in row_items]),
            first=_concatenate([item.first for item in row_items]),
            last=_concatenate([item.last for item in row_items]),
        )
        return Window(arrays, rows, [text for item in row_items for text in item.texts], len(window), problems)

    def _batches(self, window: list[Pair], counts: NDArray[np.int64]) -> Iterator[list[int]]:
        """Items with rows, longest first, in batches limited by tokens or by batch_size."""
        lengths = [max(len(source.ids), len(target.ids) if target else 0) for source, target in window]
        # Similar lengths need little padding: with MiniLM on a CPU, 2,017 words/s instead of 971 one by one.
        order = sorted(np.flatnonzero(counts).tolist(), key=lambda i: (-lengths[i], i))
        most = self._settings.batch_size
        tokens = _BATCH_TOKENS.get(self._call.device.type, _GPU_BATCH_TOKENS)
        batch: list[int] = []
        for i in order:
            is_full = len(batch) == most if most else (len(batch) + 1) * lengths[batch[0] if batch else i] > tokens
            # Without a mask the model would read padding as text.
            if batch and (is_full or (not self._call.takes_mask and lengths[i] != lengths[batch[0]])):
                yield batch
                batch = []
            batch.append(i)
        if batch:
            yield batch

    def _run(self, items: list[Pair], starts: list[int]) -> tuple[dict[str, torch.Tensor], NDArray[np.int64]]:
        """The rows of one batch, and their positions in the window."""
        row_items = [target or source for source, target in items]
        n_tokens = max(len(item.ids) for item in row_items)
        begins = np.repeat(np.arange(len(row_items)) * n_tokens, [len(item.word) for item in row_items])
        left_out = None
        if self._settings.skips_special:
            left_out = np.ones(len(row_items) * n_tokens, bool)
            for i, item in enumerate(row_items):
                left_out[i * n_tokens : i * n_tokens + len(item.ids)] = item.is_special
        spans = Spans.of(
            _concatenate([item.first for item in row_items]) + begins,
            _concatenate([item.last for item in row_items]) + begins,
            left_out,
            self._call.device,
        )
        places = np.concatenate([np.arange(s, s + len(item.word)) for s, item in zip(starts, row_items, strict=True)])
        pooled_rows: dict[str, torch.Tensor] = {}

        def take(value: Value) -> None:
            column = self._columns.column_of(value, pooled_rows)
            if column is None:
                return
            values = column.to_rows(value.tensor, len(items))
            if not column.has_positions:
                # A copy: a later op of the model may overwrite its activation in place.
                pooled_rows[column.name] = values[:, 0].to(torch.float32, copy=True)
                return
            if values.shape[1] != n_tokens:
                raise InputError(
                    f"{column.name!r} has {values.shape[1]} positions for {n_tokens} tokens: "
                    "its rows would not be words."
                )
            pooled_rows[column.name] = spans.pool(values.reshape(-1, column.width), self._settings.aggregate)

        inputs = self._call.inputs(items)
        self._values_at.run(lambda: self._call.run(inputs), take)
        self._columns.check_all(pooled_rows)
        return pooled_rows, places


def _pair_items(items: Iterable[Any], targets: Iterable[Any] | None) -> Iterator[tuple[Any, Any]]:
    if targets is None:
        yield from ((item, None) for item in items)
        return
    remaining = iter(targets)
    for number, item in enumerate(items):
        target = next(remaining, _MISSING)
        if target is _MISSING:
            raise InputError(f"item {number} has no target: each item needs one.")
        yield item, target
    if next(remaining, _MISSING) is not _MISSING:
        raise InputError("there are more targets than items: each item needs one.")


def _concatenate(parts: list[list[int]]) -> NDArray[np.int64]:
    return np.array([number for part in parts for number in part], np.int64)
