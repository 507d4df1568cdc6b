"""What the samples of a batch are, as the user says it: the entries of the kept ones, fetched when the step is over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cutaway.core.errors import InputError
from cutaway.recording.values import SampleSelection


def select_field(name: str, values: Any, selection: SampleSelection) -> Callable[[], Any]:
    """The entries of a field that belong to kept samples, to be asked for at the end of the step.

    What is on a device stays there until then, so that nobody waits for it.

    >>> chosen("text", ["a", "b", "c"], Keeper([0, 2]))()
    ['a', 'c']
    """
    if isinstance(values, Tensor):
        tensor = values.detach()
        if not tensor.dim():
            raise InputError(f"the field {name!r} of samples is one number, not one entry a sample.")
        indices = torch.tensor(selection.indices(len(tensor)), dtype=torch.long, device=tensor.device)
        taken = tensor.index_select(0, indices)
        return lambda: _array(taken)
    if isinstance(values, (str, bytes)):
        values = [values]  # a batch of one
    if isinstance(values, Mapping):
        raise InputError(f"the field {name!r} of samples is one {type(values).__name__}, not one entry a sample.")
    if hasattr(values, "dtype"):
        array = np.asarray(values)
        if not array.ndim:
            raise InputError(f"the field {name!r} of samples is one number, not one entry a sample.")
        picked = array[selection.indices(len(array))]
        return lambda: picked
    try:
        listed = list(values)
    except TypeError:
        raise InputError(
            f"the field {name!r} of samples is one {type(values).__name__}, not one entry a sample."
        ) from None
    entries = [_copy_entry(listed[number]) for number in selection.indices(len(listed))]
    return lambda: [_plain(entry) for entry in entries]


def _copy_entry(entry: Any) -> Any:
    if isinstance(entry, (Tensor, np.ndarray)):
        return entry.detach().clone() if isinstance(entry, Tensor) else entry.copy()
    return list(entry) if isinstance(entry, list) else entry


def _plain(entry: Any) -> Any:
    """A sample's entry; tokens and numbers in a tensor as lists and numbers."""
    if isinstance(entry, Tensor):
        entry = _array(entry)
    if isinstance(entry, np.ndarray) and entry.ndim < 2:
        return entry.tolist()
    return entry


def _array(tensor: Tensor) -> Any:
    tensor = tensor.cpu().resolve_conj().resolve_neg()
    return (tensor.float() if tensor.is_floating_point() and tensor.itemsize < 4 else tensor).numpy()
