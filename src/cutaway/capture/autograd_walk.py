"""Finds what a tensor was computed from by walking the autograd graph, if its ops were not captured."""

from __future__ import annotations

from typing import Any

from torch import Tensor

# Without captured ops below, the walk would visit the whole graph of a training step.
_FARTHEST = 10_000


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
