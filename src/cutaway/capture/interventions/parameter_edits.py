"""Edits parameters in place; overlapping edits can end in any order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import RLock

import torch
from torch import Tensor

from cutaway.capture.tensors.aliasing import version_of
from cutaway.capture.validation.compare import bit_equal

Make = Callable[[Tensor], Tensor]


@dataclass(slots=True)
class _EditedParameter:
    tensor: Tensor
    original: Tensor
    version: int | None
    edits: dict[int, tuple[Make, Tensor]] = field(default_factory=dict)
    """Edit → its function and its mask."""
    touched: Tensor | None = None
    """Mask of all elements that any edit has changed."""


_edited: dict[int, _EditedParameter] = {}
_lock = RLock()


def change(tensor: Tensor, make: Make, mask: Tensor) -> Callable[[], None]:
    """Changes a tensor in place where the mask is true; returns the function that undoes the change.

    Undoing also restores the version counter, so a trace from before the edit still trusts its references. A trace from
    inside the edit does not.
    """
    key = object()
    with _lock, torch.no_grad(), torch._C.DisableTorchFunction():
        held = _edited.get(id(tensor))
        if held is None:
            held = _EditedParameter(tensor, tensor.detach().clone(), version_of(tensor))
        present = tensor.detach().clone()
        new = torch.where(mask, make(present), present)
        _edited[id(tensor)] = held
        tensor.copy_(new)
        held.edits[id(key)] = (make, mask)
        held.touched = mask if held.touched is None else held.touched | mask

    def take_back() -> None:
        with _lock, torch.no_grad(), torch._C.DisableTorchFunction():
            held.edits.pop(id(key), None)
            _restore(held)

    return take_back


def _restore(held: _EditedParameter) -> None:
    """Restores edited elements and keeps what training made of the rest, then reapplies the remaining edits."""
    tensor = held.tensor
    value = torch.where(held.touched, held.original, tensor) if held.touched is not None else tensor.detach().clone()
    if held.edits:
        for make, mask in held.edits.values():
            value = torch.where(mask, make(value.clone()), value)
        tensor.copy_(value)
        return
    tensor.copy_(value)
    del _edited[id(tensor)]
    if held.version is not None and bit_equal(tensor.detach(), held.original):
        torch._C._autograd._unsafe_set_version_counter((tensor,), (held.version,))
