"""Fields that describe the samples of a batch: text, tokens, labels, images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import type_text
from cutaway.recording.values import SampleSelection


def select_field(name: str, values: Any, selection: SampleSelection) -> tuple[Callable[[], Any], int]:
    """Select the entries of the stored samples. Returns a function that fetches them at the end of the step, and the
    number of all entries.

    Until then a tensor stays on its device, so that the step does not wait for it.

    >>> fetch, n_entries = select_field("text", ["a", "b", "c"], SampleSelection([0, 2]))
    >>> fetch(), n_entries
    (['a', 'c'], 3)
    """
    if isinstance(values, Tensor):
        tensor = values.detach()
        if not tensor.dim():
            raise InputError(f"run.samples({name}=) got a single number: pass one entry per sample.")
        indices = torch.tensor(selection.indices(len(tensor)), dtype=torch.long, device=tensor.device)
        taken = tensor.index_select(0, indices)
        return (lambda: _array(taken)), len(tensor)
    if isinstance(values, (str, bytes)):
        values = [values]  # a batch of one sample
    if isinstance(values, Mapping):
        raise InputTypeError(f"run.samples({name}=) got {type_text(values)}: pass one entry per sample.")
    if hasattr(values, "dtype"):
        array = np.asarray(values)
        if not array.ndim:
            raise InputError(f"run.samples({name}=) got a single number: pass one entry per sample.")
        picked = array[selection.indices(len(array))]
        return (lambda: picked), len(array)
    try:
        all_entries = list(values)
    except TypeError:
        raise InputTypeError(f"run.samples({name}=) got {type_text(values)}: pass one entry per sample.") from None
    entries = [_copy_entry(all_entries[number]) for number in selection.indices(len(all_entries))]
    return (lambda: [_plain(entry) for entry in entries]), len(all_entries)


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
