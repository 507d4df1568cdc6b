"""Copies of a batch, how a model is called with one, and a fingerprint that tells two batches apart."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from cutaway.capture.tensors.raw_bytes import raw


def copy_batch(batch: Any) -> Any:
    """A deep copy; tensors are detached and stay on their device.

    >>> copy_batch({"x": torch.ones(1), "names": ["a"]})
    {'x': tensor([1.]), 'names': ['a']}
    """
    if isinstance(batch, Tensor):
        return batch.detach().clone()
    if type(batch) is dict:
        return {key: copy_batch(value) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*map(copy_batch, batch))
    if type(batch) in (list, tuple):
        return type(batch)(map(copy_batch, batch))
    return copy.deepcopy(batch)


def call_with(model: Callable[..., Any], batch: Any) -> Any:
    """Call a model with a batch: a dict as keyword arguments, a tuple or list as arguments, anything else as one."""
    if isinstance(batch, Mapping):
        return model(**batch)
    return model(*batch) if isinstance(batch, (tuple, list)) else model(batch)


def tensors_of(batch: Any) -> Iterator[Tensor]:
    """The tensors of a batch, in order."""
    if isinstance(batch, Tensor):
        yield batch
    elif isinstance(batch, Mapping):
        for value in batch.values():
            yield from tensors_of(value)
    elif isinstance(batch, (tuple, list)):
        for value in batch:
            yield from tensors_of(value)


def fingerprint(batch: Any) -> str:
    """A hash of the shapes, types and values of all tensors of a batch.

    >>> fingerprint(torch.ones(2)) == fingerprint([torch.ones(2)])
    True
    """
    digest = hashlib.sha256()
    for tensor in tensors_of(batch):
        digest.update(f"{list(tensor.shape)} {tensor.dtype}".encode())
        if tensor.layout is torch.strided and not tensor.is_meta and not tensor.is_nested:
            digest.update(raw(tensor).data)
    return digest.hexdigest()[:16]
