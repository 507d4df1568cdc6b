"""Copies a model's tensors and restores those that a run has changed.

Values are compared, not version counters: `torch.batch_norm` updates its running statistics without incrementing them
(torch 2.13), and so does everything that writes through `.data`. Unchanged tensors are not written to, so a backward
pass that still needs them works.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from cutaway.capture.model.sharding import is_dtensor, resolved
from cutaway.capture.tensors.aliasing import storage_of, version_of
from cutaway.capture.tensors.raw_bytes import without_repeats

COPY_LIMIT = 256 * 2**20
"""Limit on copied bytes. A model with quantized weights as buffers (GPTQ) has gigabytes of them, too much to copy;
running statistics, position tables and caches take a few megabytes."""
_SMALL = 2**20
"""Tensors up to this size are copied and compared in one batch: one kernel and one GPU sync instead of hundreds."""


def detached_copy(tensor: Tensor) -> Tensor:
    """A copy outside autograd that takes no more memory than the tensor: repeats of `expand` stay repeats.

    The copy of a DTensor is a DTensor with a copy of the part in this process. Its own `clone` may communicate with
    the other processes, which may not be copying (a `Partial` placement, torch 2.13).
    """
    value = resolved(tensor).detach()
    if is_dtensor(value):
        names, context = value.__tensor_flatten__()  # type: ignore[attr-defined]
        parts = {name: getattr(value, name) for name in names}  # its local tensor and its mesh
        parts |= {name: detached_copy(part) for name, part in parts.items() if isinstance(part, Tensor)}
        copy: Tensor = type(value).__tensor_unflatten__(parts, context, value.size(), value.stride())  # type: ignore[attr-defined]
        return copy
    part = without_repeats(value)
    return value.clone() if part is value else part.clone().expand(value.shape)


class TensorCopies:
    """Copies of tensors, the smallest first, up to `COPY_LIMIT`."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        sized = sorted([(_nbytes(tensor), i, tensor) for i, tensor in enumerate(tensors)])
        self._together: dict[torch.device, _Together] = {}
        self._alone: list[_Alone] = []
        self._guarded: list[tuple[Tensor, int | None]] = []
        room = COPY_LIMIT
        with torch.no_grad(), torch._C.DisableTorchFunction():
            for size, _, tensor in sized:
                if not _is_copied(tensor):
                    continue
                if size > room:
                    self._guarded.append((tensor, version_of(tensor)))
                    continue
                room -= size
                if size <= _SMALL and _has_plain_memory(tensor):
                    self._together.setdefault(tensor.device, _Together()).add(tensor)
                else:
                    self._alone.append(_Alone(tensor))
            for group in self._together.values():
                group.copy()

    def restore(self) -> list[Tensor]:
        """Restores changed tensors; returns those that have changed but were not copied."""
        lost = [tensor for tensor, version in self._guarded if version_of(tensor) != version]
        with torch.no_grad(), torch._C.DisableTorchFunction():
            for group in self._together.values():
                group.restore()
            lost += [each.tensor for each in self._alone if not each.restore()]
        return lost

    def storages(self) -> Iterator[int | None]:
        """The storages that `restore` may write to."""
        for group in self._together.values():
            yield from map(storage_of, group.tensors)
        for each in self._alone:
            yield storage_of(each.tensor)


class _Together:
    """Small tensors of one device."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self._aliases: list[Tensor] = []
        """Aliases of the original memory and shape, which stay valid if the tensor is resized or replaced."""
        self._bytes: list[Tensor] = []
        self._copy: Tensor | None = None

    def add(self, tensor: Tensor) -> None:
        alias = tensor.detach()
        self.tensors.append(tensor)
        self._aliases.append(alias)
        self._bytes.append(alias.view(-1).view(torch.uint8))

    def copy(self) -> None:
        self._copy = torch.cat(self._bytes)

    def restore(self) -> None:
        for tensor, alias in zip(self.tensors, self._aliases, strict=True):
            if not is_set_to(tensor, alias):  # resized, or moved to other memory through `.data`
                tensor.data = alias
        # Usually nothing has changed: one comparison for all, and on a GPU one synchronization.
        if self._copy is None or torch.equal(torch.cat(self._bytes), self._copy):
            return
        start = 0
        for tensor, now in zip(self.tensors, self._bytes, strict=True):
            values = self._copy[start : start + len(now)]
            start += len(now)
            if not torch.equal(now, values):
                _write(tensor, values.clone().view(tensor.dtype).view(tensor.shape))


class _Alone:
    """A large tensor, or one without plain memory: sparse, nested, strided."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self._version = version_of(tensor)
        self._alias: Tensor | None = None
        self._values: Tensor | None = None
        try:
            self._alias = tensor.detach()
            self._values = self._alias.clone()
        except (RuntimeError, NotImplementedError):  # a tensor type that cannot be copied
            pass

    def restore(self) -> bool:
        """Restores the values; False if they have changed and cannot be restored."""
        if self._alias is None or self._values is None:
            return version_of(self.tensor) == self._version
        try:
            if not is_set_to(self.tensor, self._alias):
                self.tensor.data = self._alias
            if not _is_equal(self.tensor, self._values):
                _write(self.tensor, self._values)
        except (RuntimeError, NotImplementedError):
            return False
        return True


def _is_copied(tensor: Tensor) -> bool:
    """Whether to copy it: results of autograd are replaced by a run, not written to."""
    return not is_lazy(tensor) and not tensor.is_meta and tensor.grad_fn is None


def _has_plain_memory(tensor: Tensor) -> bool:
    try:
        is_plain = tensor.layout is torch.strided and not tensor.is_quantized and not tensor.is_nested
        return is_plain and type(tensor) is Tensor and tensor.is_contiguous() and not tensor.is_conj()
    except (RuntimeError, NotImplementedError):
        return False


def is_set_to(tensor: Tensor, other: Tensor) -> bool:
    """Whether a tensor has the memory, shape and strides of another; True if its memory is not plain."""
    if tensor.dtype != other.dtype or tensor.device != other.device:
        return False
    try:
        return tensor.is_set_to(other)
    except (RuntimeError, NotImplementedError):
        return True


def _is_equal(tensor: Tensor, values: Tensor) -> bool:
    try:
        return torch.equal(tensor, values)
    except (RuntimeError, NotImplementedError):
        return False


def _write(tensor: Tensor, values: Tensor) -> None:
    # Outside inference mode, torch refuses to write to a tensor that was created in it.
    with torch.inference_mode(tensor.is_inference()):
        tensor.copy_(values)


def _nbytes(tensor: Tensor) -> int:
    try:
        return int(tensor.nbytes)
    except (RuntimeError, NotImplementedError, ValueError, AttributeError):
        return 0
