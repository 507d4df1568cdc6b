"""Finds constants that were created during the run, by code that capture cannot see.

A C++ extension, `DisableTorchFunction` or a tensor subclass may compute a tensor without a call that reaches the
function mode. Without autograd nothing tells where it came from, so it looks like a tensor from outside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from sys import getrefcount
from typing import Any

from torch import Tensor

from cutaway.graph.tables import CONSTANT, Nodes


def unexplained_constants(nodes: Nodes, sources: Mapping[int, Any]) -> tuple[int, ...]:
    """The constants that nothing but the trace refers to: a tensor from outside still has its owner.

    Args:
        sources: source nodes → weak references to their tensors.
    """
    users: dict[int, list[tuple[Any, ...]]] = {node: [] for node in sources if nodes.kind[node] == CONSTANT}
    if not users:
        return ()
    last: Any = None
    for node, event in enumerate(nodes.event):
        if event is None or event is last:  # the results of one call share its event
            continue
        last = event
        for parent in set(nodes.parents[node]):
            if parent in users:
                users[parent].append(event)
    return tuple(node for node, events in users.items() if _is_ours_alone(nodes, node, sources[node], events))


def _is_ours_alone(nodes: Nodes, node: int, ref: Any, events: list[tuple[Any, ...]]) -> bool:
    tensor = ref()
    if _is_jagged_dummy(nodes.value[node] if tensor is None else tensor):
        return False
    if tensor is None:
        return True
    own = sum(item is tensor for event in events for item in _items((event[1], event[2], event[3])))
    own += nodes.value[node] is tensor
    # `tensor` and the argument of getrefcount are one reference each.
    return getrefcount(tensor) - 2 <= own


def _is_jagged_dummy(value: Any) -> bool:
    """Whether it is the empty tensor that torch passes along to views of jagged tensors: it carries no data."""
    return isinstance(value, Tensor) and value.is_nested and value.is_meta


def _items(tree: Any) -> Iterator[Any]:
    """Everything in tuples, lists and dicts, one item per reference."""
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, (tuple, list)):
        for item in tree:
            yield from _items(item)
    elif isinstance(tree, dict):
        for item in tree.values():
            yield from _items(item)
