"""Captures the gradients of ops in each backward pass.

Nothing is attached during the forward pass. When the autograd engine is about to start, hooks are registered on the
autograd nodes of the saved values, and removed when it has finished; tensors and parameters get no hooks. A value that
was overwritten is tracked through the autograd node it had before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cutaway.capture.resolver import Resolver
from cutaway.capture.tensors.copies import detached_copy
from cutaway.graph.tables import UNSAVED


class Gradients:
    """Collects the gradients of the nodes of a resolver."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self.n_passes = 0

    def run(self, engine: Callable[[], Any]) -> Any:
        """Runs the autograd engine with hooks attached, as one backward pass."""
        handles = self._attach(self.n_passes)
        self.n_passes += 1
        try:
            return engine()
        finally:
            for handle in handles:
                handle.remove()

    def _attach(self, number: int) -> list[Any]:
        # The hooks go to the values that the graph has so far.
        self._resolver.flush()
        with torch._C.DisableTorchFunction():
            edges = self._edges()
        grads = self._resolver.nodes.grads
        handles = []
        for node, (places, is_leaf) in edges.items():

            def keep(outputs: tuple[Tensor | None, ...], places: Any = places, is_leaf: bool = is_leaf) -> None:
                for output, op in places:
                    grad = outputs[output] if output < len(outputs) else None
                    if grad is not None:
                        # A leaf's gradient becomes its .grad, which optimizers overwrite.
                        grads.setdefault(op, {})[number] = detached_copy(grad) if is_leaf else grad.detach()

            # An autograd node belongs to one version of a value; a tensor has that of its latest version.
            handles.append(node.register_prehook(keep))
        return handles

    def _edges(self) -> dict[Any, tuple[list[tuple[int, int]], bool]]:
        """Autograd node → the ops that are its outputs, and whether it accumulates into a leaf."""
        edges: dict[Any, tuple[list[tuple[int, int]], bool]] = {}
        nodes = self._resolver.nodes
        for op, value in enumerate(nodes.value):
            # If the value was overwritten, its tensor now has the autograd node of the new value.
            edge = self._resolver.grad_edges.get(op)
            if edge is None:
                tensor = self._tensor(op) if value is not UNSAVED else None
                if tensor is None or not tensor.requires_grad:
                    continue
                edge = _edge_of(tensor)
                if edge is None:
                    continue
                is_leaf = tensor.is_leaf
            else:
                is_leaf = False
            edges.setdefault(edge[0], ([], is_leaf))[0].append((edge[1], op))
        return edges

    def _tensor(self, op: int) -> Tensor | None:
        # A parameter that the forward overwrote is a copy in the graph, but its gradient is still that of the leaf.
        source = self._resolver.sources.get(op)
        tensor: Tensor | None = self._resolver.alive(op) if source is None else source()
        return tensor


def _edge_of(tensor: Tensor) -> tuple[Any, int] | None:
    try:
        if tensor.grad_fn is not None:
            return tensor.grad_fn, tensor.output_nr
        edge = torch.autograd.graph.get_gradient_edge(tensor)
    except (RuntimeError, AssertionError, AttributeError):  # a leaf unknown to autograd
        return None
    return edge.node, edge.output_nr
