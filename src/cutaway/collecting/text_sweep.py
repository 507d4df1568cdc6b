"""A sweep over text: windows of the corpus, in each the sentences of like length together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cutaway.capture.units.live_units import UnitDim
from cutaway.collecting.dimensions import Columns, Seen, Size, columns_of, see, see_traced
from cutaway.collecting.model_call import Call, Pair, shifted
from cutaway.collecting.pooling import Aggregate, Spans, brought
from cutaway.collecting.site_values import SiteValues, Value
from cutaway.collecting.texts import read_texts
from cutaway.collecting.tokenization import Encoded, Encoder, RowsAre
from cutaway.collecting.windows import WINDOW_BYTES, Filled
from cutaway.core.errors import InputError
from cutaway.store.activations.windows import CollectedSite
from cutaway.store.activations.writer import Dtype, Rows

_AT_ONCE = 256
"""Items that are tokenised together."""
_MOST_ITEMS = 16_384
_TOKENS = {"cpu": 1024}
_TOKENS_ELSEWHERE = 16_384
"""Tokens of a batch, padding included."""
_NONE: Any = object()
_PROBED = 6
"""Tokens of the small runs that tell how values lie."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How a corpus is gone over."""

    aggregate: Aggregate
    skips_special: bool
    """Whether rows of whole items leave out special tokens between their first and last token."""
    is_strict: bool = False
    batch_size: int | None = None
    """Sentences of a batch; without it, as many as have some thousand tokens."""
    rows: RowsAre = "words"
    unit_dim: UnitDim | None = None
    """The dimension that counts units, where the caller states it."""


class Sentences:
    """One sweep. What is collected, and how wide it is, is known from the first sentences on.

    Args:
        items: sentences and pairs, as they were given.
        targets: for each of them what the decoder reads.
    """

    def __init__(
        self,
        values_at: SiteValues,
        encoder: Encoder,
        call: Call,
        manner: Manner,
        items: Iterable[Any],
        targets: Iterable[Any] | None,
    ) -> None:
        self._values_at = values_at
        self._encoder = encoder
        self._call = call
        self._manner = manner
        self._items = _paired(items, targets)
        self._ahead: list[Pair] = []
        """What was read before anything was run."""
        self._n_read = 0
        self._columns = self._probe()

    @property
    def sites(self) -> tuple[CollectedSite, ...]:
        return self._columns.sites

    @property
    def left_out(self) -> dict[str, str]:
        return self._columns.left_out

    def windows(self, done: int, dtype: Dtype = "float32") -> Iterator[Filled]:
        """All that comes after the first `done` items."""
        n_bytes = sum(column.width for column in self._columns) * 4
        ahead, self._ahead = self._ahead[done:], []
        first = done
        window: list[Pair] = []
        n_rows = 0
        for read in chain([ahead] if ahead else [], self._rest(done)):
            window += read
            n_rows += sum(len((target or source).word) for source, target in read)
            if n_rows * n_bytes >= WINDOW_BYTES or len(window) >= _MOST_ITEMS:
                yield self._filled(window, first, dtype)
                first, window, n_rows = first + len(window), [], 0
        if window:
            yield self._filled(window, first, dtype)

    # reading

    def _rest(self, done: int) -> Iterator[list[Pair]]:
        """What was not read ahead, some items at a time."""
        first = max(done, self._n_read)
        items = islice(self._items, first - self._n_read, None)
        while some := list(islice(items, _AT_ONCE)):
            yield self._read(some, first)
            first += len(some)

    def _read(self, some: list[tuple[Any, Any]], first: int) -> list[Pair]:
        sources = self._encoder.encode([read_texts(item, first + i) for i, (item, _) in enumerate(some)])
        targets: list[Encoded | None] = [None] * len(some)
        if self._call.start >= 0:
            read = self._encoder.encode([read_texts(target, first + i) for i, (_, target) in enumerate(some)])
            targets = [shifted(target, self._call.start) for target in read]
        return list(zip(sources, targets, strict=True))

    def _probe(self) -> Columns:
        """Two small runs on the first sentence there is: a traced one, and a smaller one as a check."""
        while some := list(islice(self._items, _AT_ONCE)):
            read = self._read(some, self._n_read)
            self._n_read += len(some)
            self._ahead += read
            for source, target in read:
                rowed = target or source
                if rowed.word and source.ids:
                    size, call = self._small(source, target, 5, 1)
                    seen, traces = see_traced(self._values_at, call)
                    smaller, again = self._small(source, target, 3, 0)
                    runs = [Seen(size, seen), Seen(smaller, see(self._values_at, again))]
                    how = self._manner
                    return columns_of(self._values_at, runs, traces, unit_dim=how.unit_dim, rows=how.rows)
        raise InputError("no item holds a word that became a token: there is nothing to collect.")

    def _small(self, source: Encoded, target: Encoded | None, n: int, more: int) -> tuple[Size, Callable[[], Any]]:
        rowed = target or source
        ids = [*rowed.ids[: _PROBED - 1], rowed.ids[-1]]
        ids = [ids[0]] * (2 - len(ids)) + ids
        ids = ids if more else [*ids[:1], *ids[2:]]
        kinds = {name: [values[0]] * len(ids) for name, values in rowed.more.items()}
        small = Encoded(ids, kinds, [False] * len(ids))
        pair: Pair = (small, None) if target is None else (source, small)
        inputs = self._call.inputs([pair] * n)
        return Size(n, len(ids)), lambda: self._call.run(inputs)

    # running

    def _filled(self, window: list[Pair], first_item: int, dtype: Dtype) -> Filled:
        rowed = [target or source for source, target in window]
        problems = [(first_item + i, said) for i, item in enumerate(rowed) for said in item.problems]
        for i, (source, target) in enumerate(window):
            if target is not None:
                problems += [(first_item + i, f"of its source: {said}") for said in source.problems]
        problems.sort(key=lambda problem: problem[0])
        if self._manner.is_strict and problems:
            item, said = problems[0]
            raise InputError(
                f"item {item}: {said}. There are {len(problems)} such problems among items {first_item} to "
                f"{first_item + len(window) - 1}; without strict=True they are listed in acts.problems."
            )
        counts = np.array([len(item.word) for item in rowed], np.int64)
        starts = np.cumsum(counts) - counts
        arrays = {c.name: np.empty((int(counts.sum()), c.width), dtype) for c in self._columns}
        for numbers in self._batches(window, counts):
            found, places = self._run([window[i] for i in numbers], [int(starts[i]) for i in numbers])
            for name, values in brought(found, dtype).items():
                if values.dtype != arrays[name].dtype:
                    arrays[name] = arrays[name].astype(np.float32)
                arrays[name][places] = values
        rows = Rows.of(
            np.repeat(np.arange(first_item, first_item + len(window)), counts),
            word=_joined([item.word for item in rowed]),
            first=_joined([item.first for item in rowed]),
            last=_joined([item.last for item in rowed]),
        )
        return Filled(arrays, rows, [text for item in rowed for text in item.texts], len(window), problems)

    def _batches(self, window: list[Pair], counts: NDArray[np.int64]) -> Iterator[list[int]]:
        """Items with rows, longest first, as many at a time as a batch may have tokens."""
        lengths = [max(len(source.ids), len(target.ids) if target else 0) for source, target in window]
        order = sorted(np.flatnonzero(counts).tolist(), key=lambda i: (-lengths[i], i))
        most = self._manner.batch_size
        tokens = _TOKENS.get(self._call.device.type, _TOKENS_ELSEWHERE)
        batch: list[int] = []
        for i in order:
            is_full = len(batch) == most if most else (len(batch) + 1) * lengths[batch[0] if batch else i] > tokens
            if batch and (is_full or (not self._call.takes_mask and lengths[i] != lengths[batch[0]])):
                yield batch
                batch = []
            batch.append(i)
        if batch:
            yield batch

    def _run(self, items: list[Pair], starts: list[int]) -> tuple[dict[str, torch.Tensor], NDArray[np.int64]]:
        """The rows of one batch, and their places in the window."""
        rowed = [target or source for source, target in items]
        n_tokens = max(len(item.ids) for item in rowed)
        begins = np.repeat(np.arange(len(rowed)) * n_tokens, [len(item.word) for item in rowed])
        left_out = None
        if self._manner.skips_special:
            left_out = np.ones(len(rowed) * n_tokens, bool)
            for i, item in enumerate(rowed):
                left_out[i * n_tokens : i * n_tokens + len(item.ids)] = item.is_special
        spans = Spans.of(
            _joined([item.first for item in rowed]) + begins,
            _joined([item.last for item in rowed]) + begins,
            left_out,
            self._call.device,
        )
        places = np.concatenate([np.arange(s, s + len(item.word)) for s, item in zip(starts, rowed, strict=True)])
        found: dict[str, torch.Tensor] = {}

        def take(value: Value) -> None:
            column = self._columns.met(value, found)
            if column is None:
                return
            values = column.laid_out(value.tensor, len(items))
            if not column.has_positions:
                found[column.name] = values[:, 0].to(torch.float32, copy=True)
                return
            if values.shape[1] != n_tokens:
                raise InputError(
                    f"{column.name!r} has {values.shape[1]} positions for {n_tokens} tokens: its rows are no words."
                )
            found[column.name] = spans.pooled(values.reshape(-1, column.width), self._manner.aggregate)

        inputs = self._call.inputs(items)
        self._values_at.run(lambda: self._call.run(inputs), take)
        self._columns.check_all(found)
        return found, places


def _paired(items: Iterable[Any], targets: Iterable[Any] | None) -> Iterator[tuple[Any, Any]]:
    if targets is None:
        yield from ((item, None) for item in items)
        return
    others = iter(targets)
    for number, item in enumerate(items):
        target = next(others, _NONE)
        if target is _NONE:
            raise InputError(f"there is no target for item {number}: each item needs one.")
        yield item, target
    if next(others, _NONE) is not _NONE:
        raise InputError("there are more targets than items: each item needs one.")


def _joined(parts: list[list[int]]) -> NDArray[np.int64]:
    return np.array([number for part in parts for number in part], np.int64)
