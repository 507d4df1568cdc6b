"""Copies of parameters from before an optimizer step, and their changes: many parameters in one call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import Parameter

from cutaway.recording.hooks.unoptimized import local_part
from cutaway.recording.models import NamedParameter

PLAIN = (Tensor, Parameter)
"""Types of tensors that torch computes with without asking a subclass."""


def copies_of(parameters: Iterable[NamedParameter], memory: Mapping[int, Tensor]) -> dict[int, Tensor]:
    """A copy of each parameter, by the id of its tensor.

    Args:
        memory: parameter id → an earlier copy that may be overwritten.
    """
    copies: dict[int, Tensor] = {}
    plain: list[Tensor] = []
    for parameter in parameters:
        tensor = parameter.tensor
        old = memory.get(id(tensor))
        if old is None and type(tensor) in PLAIN:
            plain.append(tensor)
            continue
        local = local_part(tensor)
        is_reusable = old is not None and old.shape == local.shape and old.dtype == local.dtype
        copies[id(tensor)] = old.copy_(local) if old is not None and is_reusable else local.clone()
    if plain:
        copies.update(zip(map(id, plain), _clones(plain), strict=True))
    return copies


def _clones(tensors: list[Tensor]) -> Sequence[Tensor]:
    clone = getattr(torch, "_foreach_clone", None)  # torch 2.13 has it, 2.6 does not
    clones: Sequence[Tensor] = [tensor.detach().clone() for tensor in tensors] if clone is None else clone(tensors)
    return clones


def changes_of(parameters: Iterable[NamedParameter], copies: Mapping[int, Tensor]) -> dict[int, Tensor]:
    """The change of each parameter since it was copied, by the id of its tensor, in the memory of the copy.

    In the copy, because another tensor of the size of each parameter would raise the peak memory. Parameters that have
    another shape or dtype now, and those of unusual types, are left to `change_of`, their copies untouched.
    """
    found: dict[int, Tensor] = {}
    groups: dict[tuple[torch.dtype, torch.device], tuple[list[Tensor], list[Tensor]]] = {}
    for parameter in parameters:
        tensor = parameter.tensor
        before = copies.get(id(tensor))
        if before is None or id(tensor) in found:  # an optimizer may list a parameter twice
            continue
        if type(tensor) in PLAIN and _is_alike(tensor, before):
            found[id(tensor)] = before
            after, changes = groups.setdefault((tensor.dtype, tensor.device), ([], []))
            after.append(tensor)
            changes.append(before)
    for after, changes in groups.values():
        # In this order: (-before) + after rounds like after - before, and is 0 and not -0 where nothing has changed.
        torch._foreach_neg_(changes)
        torch._foreach_add_(changes, after)
    return found


def change_of(parameter: NamedParameter, before: Tensor) -> Tensor:
    """The change of one parameter since it was copied, in the memory of the copy."""
    return torch.sub(local_part(parameter.tensor), before, out=before)


def _is_alike(tensor: Tensor, before: Tensor) -> bool:
    is_same = tensor.shape == before.shape and tensor.dtype is before.dtype and tensor.device == before.device
    return is_same and (tensor.itemsize > 1) and (tensor.is_floating_point() or tensor.is_complex())
