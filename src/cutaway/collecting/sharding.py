"""The share of a corpus that one process of several collects, so that a job of many is done in a part of the time."""

from __future__ import annotations

import os
from collections.abc import Sequence, Sized
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch

from cutaway.core.errors import InputError
from cutaway.store.activations.shards import shard_name


@dataclass(frozen=True, slots=True)
class Shard:
    """Which of how many.

    >>> [Share(number, 3).bounds(8) for number in range(3)]
    [(0, 2), (2, 5), (5, 8)]
    """

    number: int
    of: int

    @staticmethod
    def parse(requested: Any, path: str | os.PathLike[str] | None) -> Shard | None:
        """What was asked for; without it, that of this process where torchrun started several and all write."""
        if requested is None:
            shard = _process_shard() if path is not None else None
            return shard if shard is not None and shard.of > 1 else None
        is_pair = isinstance(requested, (tuple, list)) and [type(number) for number in requested] == [int, int]
        if not is_pair or not 0 <= requested[0] < requested[1]:
            raise InputError(f"shard={requested!r}: give which of how many, (0, 8) to (7, 8) for eight.")
        return Shard(*requested) if requested[1] > 1 else None

    def bounds(self, n: int) -> tuple[int, int]:
        """First item, and the one behind the last: shares follow each other, and differ by one item at most."""
        return n * self.number // self.of, n * (self.number + 1) // self.of

    def slice_items(self, data: Any, what: str) -> Any:
        """This share of sentences."""
        if not isinstance(data, Sized):
            raise InputError(
                f"the {what} are a {type(data).__name__} without a length, of which no share can be taken: give a list."
            )
        start, stop = self.bounds_checked(len(data), what)
        items: Any = data
        return items[start:stop] if isinstance(data, Sequence) else list(islice(items, start, stop))

    def folder(self, path: str | os.PathLike[str]) -> str:
        """Where this share is written."""
        return f"{os.fspath(path).rstrip('/')}/{shard_name(self.number, self.of)}"

    def bounds_checked(self, n: int, what: str) -> tuple[int, int]:
        """`bounds`; raises where there is less than one for each process."""
        if n < self.of:
            raise InputError(f"{n} {what} cannot be parted among {self.of} processes: start fewer.")
        return self.bounds(n)


def _process_shard() -> Shard:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return Shard(torch.distributed.get_rank(), torch.distributed.get_world_size())
    return Shard(int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1)))
