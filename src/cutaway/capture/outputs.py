"""The tensors in the result of a torch function, and their paths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from cutaway.core.pytree import leaves


def tensors_returned(result: Any) -> Iterator[tuple[str, Tensor, int | None]]:
    """Yields (path, tensor, position) for every tensor; the position is None for nested ones.

    Named results use their names: `values` and `indices` of a `topk`.
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


def output_tensors(result: Any, targets: list[Tensor]) -> list[tuple[str, Tensor, bool]]:
    """Lists (path, tensor, is_overwritten) for all outputs of a call.

    A function that overwrites arguments outputs these arguments, unless it returns something else (batch norm).
    """
    returned = [(path, tensor) for path, tensor, _ in tensors_returned(result)]
    if not targets or (returned and not any(tensor is target for _, tensor in returned for target in targets)):
        return [(path, tensor, False) for path, tensor in returned]
    return [(str(i) if len(targets) > 1 else "", target, True) for i, target in enumerate(targets)]
