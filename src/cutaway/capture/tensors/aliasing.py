"""Tracks which tensors share memory, and whether a write to one changes another.

The identity of storages decides, not torch's version counters, which miss `.data` and do not say who wrote. Whether
two views of one storage overlap is computed exactly, by NumPy, from their offsets, shapes and strides.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import Parameter


def storage_of(tensor: Tensor) -> int | None:
    """A key for the storage of a tensor; None if it has none (sparse, functorch…)."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError, AttributeError):
        return None


def version_of(tensor: Tensor) -> int | None:
    """The version counter of a tensor; None if torch does not count (inference mode)."""
    try:
        return int(tensor._version)
    except RuntimeError:
        return None


def keeps_grad_flag(tensor: Any) -> bool:
    """Whether a tensor that is about to be overwritten keeps its `requires_grad`, so that it can be read later."""
    kind = type(tensor)
    return (kind is Tensor or kind is Parameter) and (tensor.requires_grad or not torch.is_grad_enabled())


class Span(NamedTuple):
    """The bytes of a storage that a tensor covers."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    @staticmethod
    def of(tensor: Tensor) -> Span:
        size = tensor.element_size()
        strides = tuple([stride * size for stride in tensor.stride()])
        return Span(int(tensor.storage_offset()) * size, tuple(tensor.shape), strides, size)

    def overlaps(self, other: Span) -> bool:
        """Whether two spans share a byte; True if that would take too long to compute."""
        if 0 in self.shape or 0 in other.shape:
            return False
        if self.offset == other.offset:
            return True  # strides are not negative, so both begin with the element at their offset
        end, other_end = self.end(), other.end()
        if end <= other.offset or other_end <= self.offset:
            return False
        # If one view covers its range without gaps, an end of the other inside it is a shared byte.
        if self.is_dense() and (self.offset <= other.offset < end or self.offset < other_end <= end):
            return True
        if other.is_dense() and (other.offset <= self.offset < other_end or other.offset < end <= other_end):
            return True
        try:
            return bool(np.shares_memory(_FakeArray(self).array(), _FakeArray(other).array(), max_work=_MAX_WORK))  # type: ignore[arg-type]
        except (np.exceptions.TooHardError, ValueError, TypeError):
            return True

    def end(self) -> int:
        """The first byte after the last element."""
        return self.offset + self.itemsize + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))

    def is_dense(self) -> bool:
        """Whether it covers every byte of its range exactly once."""
        expected = self.itemsize
        for stride, n in sorted(zip(self.strides, self.shape, strict=True)):
            if n != 1:
                if stride != expected:
                    return False
                expected *= n
        return True


def _begin_together(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors of one storage share their first byte, as a view often does with its base."""
    if a.storage_offset() * a.element_size() != b.storage_offset() * b.element_size():
        return False
    return a.numel() > 0 and b.numel() > 0


class Storages:
    """Tracks which nodes refer to which storage, and which nodes wrote to it.

    Args:
        all_alive: whether all tensors stay alive, so that their storage can be cached by id.
    """

    def __init__(self, *, all_alive: bool) -> None:
        self.last_write = -1
        """The last node that wrote to any storage: later values cannot have been overwritten."""
        self._all_alive = all_alive
        self._keys: dict[int, int | None] = {}
        self._references: dict[int, list[int]] = {}
        self._writes: dict[int, list[tuple[int, int, Any]]] = {}
        """Storage → (node that wrote, id of the tensor it wrote through, that tensor or its span), in order."""

    def key(self, tensor: Tensor) -> int | None:
        """The storage of a tensor."""
        if not self._all_alive:
            return storage_of(tensor)
        known = self._keys.get(id(tensor), -1)
        if known == -1:
            known = self._keys[id(tensor)] = storage_of(tensor)
        return known

    def forget_key(self, tensor: Tensor) -> None:
        """Looks up the storage of a tensor again: `x.data = y` changes it."""
        self._keys.pop(id(tensor), None)

    def hold(self, node: int, tensor: Tensor) -> None:
        """Registers that the value of a node is this tensor, not a copy."""
        storage = self.key(tensor)
        if storage is not None:
            self._references.setdefault(storage, []).append(node)

    def release(self, tensor: Tensor) -> list[int]:
        """The nodes whose values a write to this tensor would change; the caller must copy them now."""
        storage = self.key(tensor)
        return self._references.pop(storage, []) if storage is not None else []

    def record_write(self, node: int, tensor: Tensor) -> None:
        storage = self.key(tensor)
        if storage is not None:
            where = tensor if self._all_alive else Span.of(tensor)
            self._writes.setdefault(storage, []).append((node, id(tensor), where))
            self.last_write = node

    def writers_since(self, node: int, tensor: Tensor) -> list[int]:
        """The last write through each other tensor that changed this one after `node`."""
        storage = self.key(tensor)
        writes = self._writes.get(storage) if storage is not None else None
        if not writes or writes[-1][0] <= node:
            return []
        span: Span | None = None
        writers: dict[int, int] = {}
        for writer, target, where in reversed(writes):
            # Writes are in order of execution: all earlier ones are older, too.
            if writer <= node:
                break
            if target in writers:
                continue
            if not (self._all_alive and _begin_together(where, tensor)):
                span = span or Span.of(tensor)
                if not (Span.of(where) if self._all_alive else where).overlaps(span):
                    continue
            writers[target] = writer
        return sorted(set(writers.values()))

    def geometry(self, tensor: Tensor, writers: list[int]) -> tuple[Span, ...]:
        """The span of the tensor, and the span that each writer wrote to."""
        spans = [Span.of(tensor)]
        for writer in writers:
            for node, _, where in reversed(self._writes.get(self.key(tensor) or 0, ())):
                if node == writer:
                    spans.append(Span.of(where) if self._all_alive else where)
                    break
        return tuple(spans)

    def is_known(self, storage: int | None) -> bool:
        """Whether a node wrote to this storage or refers to it."""
        return storage in self._writes or storage in self._references

    def forget(self, storage: int) -> None:
        """Removes a storage whose memory was freed and reused."""
        self._writes.pop(storage, None)
        self._references.pop(storage, None)


def alias_write(*_: Any) -> None:
    """Placeholder function: a tensor changed through another tensor that shares its memory."""


class Snapshot:
    """A value before its memory was overwritten, as a view of a copy of that memory.

    The original tensor is kept only for its dtype and device: `unsqueeze_` may change its shape later.
    """

    __slots__ = ("_copy", "_offset", "_strides", "_view", "shape")

    def __init__(self, copy: Tensor, view: Tensor) -> None:
        self._copy = copy
        self._view = view
        self.shape = view.shape
        self._strides = view.stride()
        self._offset = view.storage_offset()

    @property
    def dtype(self) -> torch.dtype:
        return self._view.dtype

    @property
    def device(self) -> torch.device:
        return self._view.device

    @property
    def requires_grad(self) -> bool:
        return self._view.requires_grad

    def load(self) -> Tensor:
        memory, view = self._copy, self._view
        if memory.dtype != view.dtype:
            memory = memory.reshape(-1).view(view.dtype)
        value = memory.as_strided(self.shape, self._strides, self._offset)
        return value.conj() if view.is_conj() else value


def copy_of_memory(tensor: Tensor) -> Tensor | None:
    """Copies the whole storage of a tensor; None if that would be wasteful or not exact.

    One copy serves all views of the storage.
    """
    base = tensor._base
    if base is None:
        base = tensor
    if (type(base) is not Tensor and type(base) is not Parameter) or base.layout is not torch.strided:
        return None
    size = base.nbytes
    # A write to a small view must not copy a large base: then values are copied one by one.
    if base.untyped_storage().nbytes() != size or (base is not tensor and size > 4 * tensor.nbytes + 4096):
        return None  # equal sizes also imply that it starts at 0
    if not base.is_contiguous() and not (base.dim() == 4 and base.is_contiguous(memory_format=torch.channels_last)):
        return None
    if base.is_conj() or base.is_neg():
        return None
    return base.detach().clone()


# Whether strided views share a byte is NP-hard in general; beyond this work NumPy gives up, and they count as
# overlapping: an edge too many is better than one too few.
def copies_of_memory(tensors: list[Tensor], *, gradients: bool) -> list[Tensor]:
    """Raw copies from which values can be restored later; empty if values must be copied now.

    Overwriting changes the autograd node of a tensor, so with `gradients` a tensor that has one cannot wait.
    """
    copies = []
    for tensor in tensors:
        if gradients and tensor.requires_grad:
            return []
        try:
            copy = copy_of_memory(tensor)
        except RuntimeError:  # a tensor type without accessible storage
            return []
        if copy is None:
            return []
        copies.append(copy)
    return copies


_MAX_WORK = 10_000
_FAR = 1 << 32


class _FakeArray:
    """Presents a span to NumPy at a made-up address; its memory is never read."""

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
