"""Reconstructs memory that several tensors were written to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from cutaway.capture.tensors.aliasing import Span

_MAX_BYTES = 1 << 30


def after_writes(values: Sequence[Any], spans: Sequence[Span] | None) -> Tensor | None:
    """The first value, with each of the others written over it in turn; None if that cannot be determined.

    Args:
        values: tensors that share one storage.
        spans: the bytes of it that each of them covers.
    """
    if spans is None or len(values) != len(spans) or not all(_is_plain(value) for value in values):
        return None
    n_bytes = max(span.end() for span in spans)
    if n_bytes > _MAX_BYTES:
        return None
    # As bytes: views of one storage may have different dtypes.
    memory = torch.zeros(n_bytes, dtype=torch.uint8, device="cpu")
    for value, span in zip(values, spans, strict=True):
        if tuple(value.shape) != span.shape or value.element_size() != span.itemsize:
            return None
        try:
            _view(memory, span, value.dtype).copy_(value)
        except RuntimeError:  # several of its elements share one memory location
            return None
    return _view(memory, spans[0], values[0].dtype).clone().to(values[0].device)


def _view(memory: Tensor, span: Span, dtype: torch.dtype) -> Tensor:
    """The elements of a span; the memory is sliced first, because a span may start at any byte."""
    start = span.offset
    n = (span.end() - start) // span.itemsize
    flat = memory[start : start + n * span.itemsize].view(dtype)
    return flat.as_strided(span.shape, [stride // span.itemsize for stride in span.strides], flat.storage_offset())


def _is_plain(value: Any) -> bool:
    return isinstance(value, Tensor) and value.layout is torch.strided and not value.is_quantized and not value.is_meta
