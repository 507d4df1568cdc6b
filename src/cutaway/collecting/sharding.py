"""The part of the data that one of several processes collects."""

from __future__ import annotations

import os
from collections.abc import Sequence, Sized
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch

from cutaway.core.errors import InputError
from cutaway.core.formatting import type_text
from cutaway.store.activations.shards import shard_name


@dataclass(frozen=True, slots=True)
class Shard:
    """Shard number `number` of `of`.

    >>> [Shard(number, 3).bounds(8) for number in range(3)]
    [(0, 2), (2, 5), (5, 8)]
    """

    number: int
    of: int

    @staticmethod
    def parse(requested: Any, path: str | os.PathLike[str] | None) -> Shard | None:
        """Parse `shard=`. Without it, with a path and under torchrun, the shard of this process."""
        if requested is None:
            shard = _process_shard() if path is not None else None
            return shard if shard is not None and shard.of > 1 else None
        is_pair = isinstance(requested, (tuple, list)) and [type(number) for number in requested] == [int, int]
        if not is_pair or not 0 <= requested[0] < requested[1]:
            raise InputError(f"shard={requested!r}: pass (index, count), such as (0, 8) to (7, 8) for eight processes.")
        return Shard(*requested) if requested[1] > 1 else None

    def bounds(self, n: int) -> tuple[int, int]:
        """The first item and the one after the last. Shards are contiguous and differ by at most one item."""
        return n * self.number // self.of, n * (self.number + 1) // self.of

    def slice_items(self, data: Any, what: str) -> Any:
        """The items of this shard."""
        if not isinstance(data, Sized):
            raise InputError(
                f"the {what} are {type_text(data)} without a length, which cannot be sharded: pass a list."
            )
        start, stop = self.bounds_checked(len(data), what)
        items: Any = data
        return items[start:stop] if isinstance(data, Sequence) else list(islice(items, start, stop))

    def folder(self, path: str | os.PathLike[str]) -> str:
        """The folder of this shard."""
        return f"{os.fspath(path).rstrip('/')}/{shard_name(self.number, self.of)}"

    def bounds_checked(self, n: int, what: str) -> tuple[int, int]:
        """`bounds`; raises if there is less than one item per process."""
        if n < self.of:
            raise InputError(f"{n} {what} cannot be divided among {self.of} processes: start fewer.")
        return self.bounds(n)


def _process_shard() -> Shard:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return Shard(torch.distributed.get_rank(), torch.distributed.get_world_size())
    # torchrun sets these before the program calls init_process_group.
    return Shard(int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1)))
