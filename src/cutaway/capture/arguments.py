"""The tensors in the arguments of torch functions and modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from cutaway.core.events import Ref
from cutaway.core.pytree import escape, leaves, replace

PLAIN = frozenset(
    [
        *(int, float, bool, complex, str, type(None), type(Ellipsis)),
        *(torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format, torch.Generator),
    ]
)
"""Types of arguments that contain no tensors."""
NodeOf = Callable[[Tensor, int], int]
"""The node of a tensor that is read in a module call."""


def is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def add_nested(value: Any, call: int, parents: list[int], node_of: NodeOf) -> None:
    """Adds the nodes of the tensors inside one argument; containers in torch arguments are shallow."""
    if isinstance(value, Tensor):
        parents.append(node_of(value, call))
    elif isinstance(value, (list, tuple, set)):
        for item in value:
            if type(item) not in PLAIN:
                add_nested(item, call, parents, node_of)
    elif isinstance(value, dict):
        for item in value.values():
            add_nested(item, call, parents, node_of)
    elif isinstance(value, slice):
        for item in (value.start, value.stop, value.step):
            if isinstance(item, Tensor):
                parents.append(node_of(item, call))


def replace_tensors(value: Any, call: int, parents: list[int], node_of: NodeOf) -> Any:
    """Adds the nodes of the tensors inside one argument, and returns it with a `Ref` for each of them."""
    kind = type(value)
    if kind is Tensor or kind is Parameter:
        node = node_of(value, call)
        parents.append(node)
        return Ref(node)
    if kind in PLAIN:
        return value
    first = len(parents)
    add_nested(value, call, parents, node_of)
    if len(parents) == first:
        return value
    order = iter(parents[first:])
    return replace(value, lambda _: Ref(next(order)), is_tensor)


def tensors_in(tree: Any, is_root: bool) -> list[tuple[str, Tensor]]:
    """The tensors in arguments or results with their paths; a list, because the program may modify containers later.

    Plain objects are entered only for the root; deeper modules pass the same objects on.
    """
    kind = type(tree)
    if kind is Tensor:
        return [("", tree)]
    if tree is None or (kind in (tuple, dict) and not tree):
        return []
    # Walking a tree takes ten times as long as a loop over the usual tuple or dict of tensors and numbers.
    if kind is tuple or kind is dict:
        found: list[tuple[str, Tensor]] = []
        for name, value in enumerate(tree) if kind is tuple else tree.items():
            inner = type(value)
            if inner is Tensor or inner is Parameter:
                found.append((escape(str(name)), value))
            elif inner not in PLAIN:
                break
        else:
            return found
    return list(leaves(tree, is_tensor, objects=is_root))
