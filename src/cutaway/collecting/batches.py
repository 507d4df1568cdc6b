"""Batches of non-text data: sliced from tensors, or taken from a DataLoader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from itertools import chain
from typing import Any

from cutaway.capture.units.sample_dims import SampleDims, is_array
from cutaway.collecting.sharding import Shard
from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import type_text

DEFAULT_SIZE = 32
_ACCEPTED = (
    "pass a tensor of samples, a tuple of tensors (positional arguments), a mapping of tensors (keyword arguments), "
    "a DataLoader or another iterable of batches; or text with tokenizer="
)


def is_sample_data(data: Any) -> bool:
    """Whether the data holds the samples themselves, rather than batches of them."""
    if is_array(data):
        return True
    parts = list(data.values()) if isinstance(data, Mapping) else data if isinstance(data, tuple) else []
    return bool(parts) and all(map(is_array, parts))


class Batches:
    """The batches that a sweep runs over.

    Args:
        size: samples per batch, for tensors. Default: 32.
        shard: the part of the samples that this process collects. Default: all.
    """

    def __init__(self, data: Any, size: int | None, shard: Shard | None = None) -> None:
        self._size = size or DEFAULT_SIZE
        self._shard = shard
        self._data = data if is_sample_data(data) else None
        self._n_batches: int | None = None
        if self._data is not None:
            self.first: Any = data
            """The first batch; for tensors, all of the data."""
            return
        # A list of tensors may be samples or batches, so it is refused instead of guessed.
        if isinstance(data, (str, bytes, list)) or not isinstance(data, Iterable):
            inside = f" of {type(data[0]).__name__}" if isinstance(data, list) and data else ""
            raise InputTypeError(f"data is {type_text(data)}{inside}: {_ACCEPTED}.")
        if shard is not None:
            raise InputError(
                f"{type_text(data)} makes its own batches and cannot be sharded: use a DistributedSampler, "
                "one path per process, and shard=(0, 1)."
            )
        if size is not None:
            raise InputError("batch_size= is for tensors and text: a DataLoader makes its own batches.")
        self._n_batches = len(data) if isinstance(data, Sized) else None
        self._rest = iter(data)
        # Read ahead, because the first batch determines the dimensions; `all` yields it again.
        self.first = next(self._rest, None)
        if self.first is None:
            raise InputError("the data is empty: there is nothing to collect.")

    def n_batches(self, dims: SampleDims) -> int | None:
        """The number of batches, if known."""
        if self._data is None:
            return self._n_batches
        start, stop = self._bounds(dims)
        return -(-(stop - start) // self._size)

    def all(self, dims: SampleDims) -> Iterator[Any]:
        """Iterate over the batches. Batches of tensors are views, not copies."""
        if self._data is None:
            yield from chain([self.first], self._rest)
            return
        first, end = self._bounds(dims)
        for start in range(first, end, self._size):
            yield dims.slice_samples(self._data, start, min(start + self._size, end))

    def first_sample(self, dims: SampleDims) -> Any:
        """The first sample that this process collects."""
        start = 0 if self._data is None else self._bounds(dims)[0]
        return dims.slice_samples(self.first, start, start + 1)

    def _bounds(self, dims: SampleDims) -> tuple[int, int]:
        n = dims.n(self._data, is_strict=True)
        return (0, n) if self._shard is None else self._shard.bounds_checked(n, "samples")
