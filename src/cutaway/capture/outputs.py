"""The tensors in what a torch function returned, and what each is called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from cutaway.core.pytree import leaves


def tensors_returned(result: Any) -> Iterator[tuple[str, Tensor, int | None]]:
    """(path, tensor, position) for every tensor; the position is None for those that lie deeper.

    Named results go by name: `values` and `indices` of a `topk`.
    """
    if isinstance(result, Tensor):
        yield "", result, None
    elif isinstance(result, (tuple, list)):
        fields = getattr(type(result), "__match_args__", None) or ()
        for i, item in enumerate(result):
            if isinstance(item, Tensor):
                yield fields[i] if i < len(fields) else str(i), item, i
            elif isinstance(item, (tuple, list, dict)):
                for below, tensor in leaves(item, lambda value: isinstance(value, Tensor)):
                    yield f"{i}.{below}", tensor, None


def tensors_made(result: Any, targets: list[Tensor]) -> list[tuple[str, Tensor, bool]]:
    """(path, tensor, whether it was overwritten rather than made) for all that comes out of a call.

    A function that overwrites some of its arguments gives these, unless it returns something else (batch norm).
    """
    found = [(path, tensor) for path, tensor, _ in tensors_returned(result)]
    if not targets or (found and not any(tensor is target for _, tensor in found for target in targets)):
        return [(path, tensor, False) for path, tensor in found]
    return [(str(i) if len(targets) > 1 else "", target, True) for i, target in enumerate(targets)]
