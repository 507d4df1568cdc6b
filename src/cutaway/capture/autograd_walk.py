"""Finds what a tensor was computed from by walking the autograd graph, if its ops were not captured."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor
from torch.nn import Parameter

from cutaway.graph.tables import Nodes

# Without captured ops below, the walk would visit the whole graph of a training step.
_FARTHEST = 10_000


class KnownTensors(Protocol):
    """What the walk asks about the tensors of a trace."""

    nodes: Nodes
    shards: dict[int, Tensor]

    def is_known(self, tensor: Tensor) -> bool: ...
    def node_of(self, tensor: Tensor) -> int: ...
    def alive(self, node: int) -> Tensor | None: ...


def uncaptured_sources(graph: KnownTensors, tensor: Tensor) -> tuple[int, ...]:
    """The known tensors from which uncaptured code computed this one.

    A view knows its base, and a tensor with a gradient knows its autograd graph. FSDP gathers a parameter from shards.
    """
    if id(tensor) in graph.shards:
        return (graph.node_of(graph.shards[id(tensor)]),)
    if isinstance(tensor, Parameter):
        return ()
    base = tensor._base if tensor._is_view() else None
    if base is not None and graph.is_known(base):
        return (graph.node_of(base),)
    if tensor.grad_fn is None:
        return ()
    known = {
        alive.grad_fn: node
        for node in range(len(graph.nodes))
        if (alive := graph.alive(node)) is not None and alive.grad_fn is not None
    }
    # The nearest captured ancestors only: what lies behind them is already in the graph.
    nodes, leaves = nearest_in_autograd(tensor, known)
    used = [leaf for leaf in leaves if isinstance(leaf, Parameter) or graph.is_known(leaf)]
    return tuple(sorted({*nodes, *(graph.node_of(leaf) for leaf in used)}))


def made_unseen(*_: Any) -> None:
    """Placeholder function: uncaptured code computed a tensor (a C++ extension, `as_subclass`, FSDP…)."""


def nearest_in_autograd(tensor: Tensor, known: dict[Any, int]) -> tuple[list[int], list[Tensor]]:
    """Walks up the autograd graph to the nearest known tensors.

    Args:
        known: autograd node → the trace node it produced.

    Returns:
        The trace nodes that were reached, and the leaf tensors.
    """
    nodes: dict[int, None] = {}
    leaves: list[Tensor] = []
    stack: list[Any] = [tensor.grad_fn]
    seen: set[Any] = set()
    while stack and len(seen) < _FARTHEST:
        step = stack.pop()
        if step is None or step in seen:
            continue
        seen.add(step)
        leaf = getattr(step, "variable", None)
        if step in known:
            nodes[known[step]] = None
        elif leaf is not None:
            leaves.append(leaf)
        else:
            stack.extend(below for below, _ in step.next_functions)
    return list(nodes), leaves
