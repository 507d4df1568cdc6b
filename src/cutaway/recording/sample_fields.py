"""Fields that describe the samples of a batch: text, tokens, labels, images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cutaway.core.errors import InputError, InputTypeError
from cutaway.recording.values import SampleSelection


def select_field(name: str, values: Any, selection: SampleSelection) -> Callable[[], Any]:
    """Select the entries of the stored samples. Returns a function that fetches them at the end of the step.

    Until then a tensor stays on its device, so that the step does not wait for it.

    >>> select_field("text", ["a", "b", "c"], SampleSelection([0, 2]))()
    ['a', 'c']
    """
    if isinstance(values, Tensor):
        tensor = values.detach()
        if not tensor.dim():
            raise InputError(f"run.samples({name}=) got a single number: pass one entry per sample.")
        indices = torch.tensor(selection.indices(len(tensor)), dtype=torch.long, device=tensor.device)
        taken = tensor.index_select(0, indices)
        return lambda: _array(taken)
    if isinstance(values, (str, bytes)):
        values = [values]  # a batch of one sample
    if isinstance(values, Mapping):
        raise InputTypeError(f"run.samples({name}=) got a {type(values).__name__}: pass one entry per sample.")
    if hasattr(values, "dtype"):
        array = np.asarray(values)
        if not array.ndim:
            raise InputError(f"run.samples({name}=) got a single number: pass one entry per sample.")
        picked = array[selection.indices(len(array))]
        return lambda: picked
    try:
        listed = list(values)
    except TypeError:
        raise InputTypeError(
            f"run.samples({name}=) got a {type(values).__name__}: pass one entry per sample."
        ) from None
    entries = [_copy_entry(listed[number]) for number in selection.indices(len(listed))]
    return lambda: [_plain(entry) for entry in entries]


def _copy_entry(entry: Any) -> Any:
    if isinstance(entry, (Tensor, np.ndarray)):
        return entry.detach().clone() if isinstance(entry, Tensor) else entry.copy()
    return list(entry) if isinstance(entry, list) else entry


def _plain(entry: Any) -> Any:
    """One entry as plain data; short tensors and arrays become lists and numbers."""
    if isinstance(entry, Tensor):
        entry = _array(entry)
    if isinstance(entry, np.ndarray) and entry.ndim < 2:
        return entry.tolist()
    return entry


def _array(tensor: Tensor) -> Any:
    tensor = tensor.cpu().resolve_conj().resolve_neg()
    return (tensor.float() if tensor.is_floating_point() and tensor.itemsize < 4 else tensor).numpy()
