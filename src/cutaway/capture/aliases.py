"""Which tensors share memory, and whether a write to one changes another.

Identity of the storage is what counts, not torch's version counters: those miss `.data` and cannot say
who wrote. Whether two views of one storage overlap is decided exactly, by NumPy, from their geometry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor


def storage_of(tensor: Tensor) -> int | None:
    """A key for the memory behind a tensor; None where there is no such thing (sparse, functorch…)."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError, AttributeError):
        return None


@dataclass(frozen=True, slots=True)
class Span:
    """The elements of a storage that a tensor covers."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    @staticmethod
    def of(tensor: Tensor) -> Span:
        size = tensor.element_size()
        return Span(
            int(tensor.storage_offset()) * size, tuple(tensor.shape), tuple(s * size for s in tensor.stride()), size
        )

    def overlaps(self, other: Span) -> bool:
        """Whether the two have a byte in common; yes where finding out would take too long."""
        if self == other:
            return True
        if 0 in self.shape or 0 in other.shape:
            return False
        try:
            return bool(np.shares_memory(_Phantom(self).array(), _Phantom(other).array(), max_work=_MAX_WORK))  # type: ignore[arg-type]
        except (np.exceptions.TooHardError, ValueError, TypeError):
            return True


class Storages:
    """Who holds a value by reference to which storage, and who has written there."""

    def __init__(self) -> None:
        self._held: dict[int, list[int]] = {}
        self._writes: dict[int, list[tuple[int, int, Span]]] = {}
        """Storage → (node that wrote, id of the tensor it wrote through, where), in order."""

    def hold(self, node: int, tensor: Tensor) -> None:
        """The value of a node is this tensor itself, no copy."""
        storage = storage_of(tensor)
        if storage is not None:
            self._held.setdefault(storage, []).append(node)

    def release(self, tensor: Tensor) -> list[int]:
        """The nodes whose values a write to this tensor would change; they are to be copied now."""
        storage = storage_of(tensor)
        return self._held.pop(storage, []) if storage is not None else []

    def wrote(self, node: int, tensor: Tensor) -> None:
        storage = storage_of(tensor)
        if storage is not None:
            self._writes.setdefault(storage, []).append((node, id(tensor), Span.of(tensor)))

    def writers_since(self, node: int, tensor: Tensor) -> list[int]:
        """The last write through each other tensor that changed this one after `node` stood for it."""
        storage = storage_of(tensor)
        writes = self._writes.get(storage) if storage is not None else None
        if not writes or writes[-1][0] <= node:
            return []
        span = Span.of(tensor)
        writers: dict[int, int] = {}
        for writer, target, where in reversed(writes):
            if writer <= node:
                break
            if target not in writers and where.overlaps(span):
                writers[target] = writer
        return sorted(set(writers.values()))

    def forget(self, storage: int) -> None:
        """The memory was freed and given out anew."""
        self._writes.pop(storage, None)
        self._held.pop(storage, None)


_MAX_WORK = 10_000
_FAR = 1 << 32


class _Phantom:
    """Presents a geometry to NumPy as if it lay at some address; nothing there is ever read."""

    def __init__(self, span: Span) -> None:
        self.span = span

    @property
    def __array_interface__(self) -> dict[str, Any]:
        span = self.span
        return {
            "version": 3,
            "typestr": f"|V{span.itemsize}",
            "shape": span.shape,
            "strides": span.strides,
            "data": (_FAR + span.offset, False),
        }

    def array(self) -> np.ndarray[Any, Any]:
        return np.asarray(self)
