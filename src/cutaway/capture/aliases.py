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
        return Span(tensor.storage_offset() * size, tuple(tensor.shape), tuple(s * size for s in tensor.stride()), size)

    def overlaps(self, other: Span) -> bool:
        """Whether the two have a byte in common; yes where finding out would take too long."""
        if self == other:
            return True
        if 0 in self.shape or 0 in other.shape:
            return False
        try:
            return bool(np.shares_memory(_Phantom(self).array(), _Phantom(other).array(), max_work=10_000))
        except (np.exceptions.TooHardError, ValueError, TypeError):
            return True


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
