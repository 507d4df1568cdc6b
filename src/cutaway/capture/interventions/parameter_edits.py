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
        edited = _edited.get(id(tensor))
        if edited is None:
            edited = _EditedParameter(tensor, tensor.detach().clone(), version_of(tensor))
        present = tensor.detach().clone()
        # Before anything is registered: `make` is code of the user and may raise.
        new = torch.where(mask, make(present), present)
        _edited[id(tensor)] = edited
        tensor.copy_(new)
        edited.edits[id(key)] = (make, mask)
        edited.touched = mask if edited.touched is None else edited.touched | mask

    def undo() -> None:
        with _lock, torch.no_grad(), torch._C.DisableTorchFunction():
            edited.edits.pop(id(key), None)
            _restore(edited)

    return undo


def _restore(edited: _EditedParameter) -> None:
    """Restores edited elements and keeps what training made of the rest, then reapplies the remaining edits."""
    tensor = edited.tensor
    value = (
        torch.where(edited.touched, edited.original, tensor) if edited.touched is not None else tensor.detach().clone()
    )
    if edited.edits:
        for make, mask in edited.edits.values():
            value = torch.where(mask, make(value.clone()), value)
        tensor.copy_(value)
        return
    tensor.copy_(value)
    del _edited[id(tensor)]
    # Only if the contents are the same again: otherwise older traces must notice the change.
    if edited.version is not None and bit_equal(tensor.detach(), edited.original):
        torch._C._autograd._unsafe_set_version_counter((tensor,), (edited.version,))
