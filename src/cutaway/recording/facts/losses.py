"""Tells which logged tensors are losses: those that `backward()` was called on, and the terms of their sums."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

LossNode = tuple[int, str]
"""Identifies a node of autograd's graph: its sequence number, which counts the ops of a thread, and its name.

Not the node itself: it would keep the graph alive.
"""

_MOST_NODES = 1024
"""A sum of more terms than this is not followed further."""

# Where the result of an op is a sum of its operands, up to constant factors: each operand is a term of the loss.
_SUMS = frozenset(
    {"AddBackward0", "SubBackward0", "RsubBackward1", "NegBackward0", "ToCopyBackward0", "CloneBackward0",
     "SumBackward0", "MeanBackward0", "StackBackward0", "SqueezeBackward0", "UnsqueezeBackward0", "ViewBackward0"}
)  # fmt: skip


def loss_node(tensor: Any) -> LossNode | None:
    """The node that computed a tensor, or that a `GradientEdge` names; None for a leaf."""
    node = getattr(tensor, "grad_fn", None) or getattr(tensor, "node", None)
    return None if node is None else (node._sequence_nr(), node.name())


def loss_nodes(roots: Iterable[Any]) -> frozenset[LossNode]:
    """The nodes of the roots of a backward pass, and of the one-element terms that they are sums of.

    Terms count because a logged loss is often one: `scaler.scale(loss).backward()`, `(loss / n).backward()`,
    `(main + 0.1 * aux).backward()`.
    """
    nodes: set[LossNode] = set()
    stack = [getattr(root, "grad_fn", None) or getattr(root, "node", None) for root in roots]
    while stack and len(nodes) < _MOST_NODES:
        node = stack.pop()
        if node is None or (key := (node._sequence_nr(), node.name())) in nodes:
            continue
        nodes.add(key)
        stack += [term for term in _terms(node) if term is not None and _is_term(term)]
    return frozenset(nodes)


def _terms(node: Any) -> list[Any]:
    operands = [operand for operand, _ in node.next_functions]
    name = node.name()
    if name == "DivBackward0":
        return operands[:1]  # a loss is not linear in its divisor
    if name == "MulBackward0":
        return operands if operands.count(None) == len(operands) - 1 else []  # times a constant
    return operands if name in _SUMS else []


def _is_term(node: Any) -> bool:
    """Whether a node has one element, or stacks elements; the mean over a batch is a loss, its entries are none."""
    if node.name() == "StackBackward0":
        return all(_n_elements(operand) == 1 for operand, _ in node.next_functions if operand is not None)
    return _n_elements(node) == 1


def _n_elements(node: Any) -> int:
    metadata = getattr(node, "_input_metadata", ())
    n = 1
    for size in metadata[0].shape if metadata else (0,):
        n *= int(size)
    return n
