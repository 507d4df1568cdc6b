"""Attention rollout and attention flow (Abnar & Zuidema 2020), from a position of the last layer to the tokens.

Heads are averaged. Each attention counts as half of the output of its block; the other half is the residual stream. In
an encoder–decoder, self-attention of the decoder comes before cross-attention, in the order in which they run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError, MissingExtraError

_MOST_EDGES = 20_000_000
_UNITS = 1 << 20
"""The solver takes integer capacities: this many units stand for a capacity of 1."""


@dataclass(frozen=True, slots=True)
class AttentionStep:
    """One attention layer: how much each row takes from each position, residual stream included."""

    own: NDArray[np.float64]
    """(row, position): from the same stack."""
    other: NDArray[np.float64] | None = None
    """(row, position of the encoder): from the encoder, in cross-attention."""


def attention_steps(own: NDArray[np.float64], cross: NDArray[np.float64] | None = None) -> list[AttentionStep]:
    """The attention layers of a stack, in the order in which they run.

    Args:
        own: (layer, head, row, position): weights of self-attention.
        cross: (layer, head, row, position of the encoder).
    """
    n = own.shape[2]
    steps = []
    for layer in range(len(own)):
        steps.append(AttentionStep(_with_residual(own[layer].mean(0))))
        if cross is not None:
            # Cross-attention is a step of its own: half from the encoder, half from the residual stream.
            steps.append(AttentionStep(0.5 * np.eye(n), 0.5 * cross[layer].mean(0)))
    return steps


def rollout(steps: list[AttentionStep], encoder: list[AttentionStep] | None = None) -> NDArray[np.float64]:
    """(row, position): the share of each token in each row of the last layer; encoder tokens come first."""
    n = len(steps[0].own)
    below = None if encoder is None else rollout(encoder)
    n_below = 0 if below is None else len(below)
    shares = np.concatenate([np.zeros((n, n_below)), np.eye(n)], 1)
    for step in steps:
        shares = step.own @ shares
        if step.other is not None and below is not None:
            shares[:, :n_below] += step.other @ below
    return shares


def flow(
    steps: list[AttentionStep], rows: list[int], encoder: list[AttentionStep] | None = None
) -> NDArray[np.float64]:
    """(row, position): the maximum flow from each row of the last layer to each token."""
    try:
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import maximum_flow
    except ImportError:
        raise MissingExtraError("method='flow' needs SciPy: pip install scipy") from None
    n, n_below = len(steps[0].own), 0 if encoder is None else len(encoder[0].own)
    edges = _Edges()
    first = [("encoder", 0, at) for at in range(n_below)] + [("decoder", 0, at) for at in range(n)]
    _add_edges(edges, "encoder", encoder or [])
    _add_edges(edges, "decoder", steps, 0 if encoder is None else len(encoder))
    # One flow problem per row and token, each over all edges.
    if len(edges.capacities) * len(rows) * len(first) > _MOST_EDGES * 100:
        raise InputError(
            f"flow over {n + n_below:,} tokens and {len(steps)} attention layers solves one problem per target and "
            "token, which would take hours. Choose fewer targets, only=[-1], or method='rollout'."
        )
    nodes = edges.nodes
    sinks = [nodes[node] for node in first]
    size = len(nodes)
    graph = csr_matrix(
        (np.array(edges.capacities, np.int32), (np.array(edges.tails), np.array(edges.heads))),
        shape=(size, size),
    )
    flows = np.zeros((len(rows), len(first)))
    for i, row in enumerate(rows):
        source = nodes[("decoder", len(steps), row)]
        for j, sink in enumerate(sinks):
            if j >= n_below + row + 1 and np.triu(steps[0].own, 1).sum() == 0:
                continue  # a later position: nothing flows from there
            flows[i, j] = maximum_flow(graph, source, sink).flow_value / _UNITS
    return flows


class _Edges:
    """The flow network: one node per position after each attention layer, one edge per attention weight."""

    def __init__(self) -> None:
        self.nodes: dict[tuple[str, int, int], int] = {}
        self.tails: list[int] = []
        self.heads: list[int] = []
        self.capacities: list[int] = []

    def add(self, tail: tuple[str, int, int], head: tuple[str, int, int], capacity: float) -> None:
        whole = round(capacity * _UNITS)
        ends = [self.nodes.setdefault(node, len(self.nodes)) for node in (tail, head)]
        if whole > 0:
            self.tails.append(ends[0])
            self.heads.append(ends[1])
            self.capacities.append(whole)


def _add_edges(edges: _Edges, role: str, steps: list[AttentionStep], n_below: int = 0) -> None:
    for depth, step in enumerate(steps):
        for row in range(len(step.own)):
            for at in range(len(step.own)):
                edges.add((role, depth + 1, row), (role, depth, at), float(step.own[row, at]))
            for at in range(0 if step.other is None else step.other.shape[1]):
                edges.add((role, depth + 1, row), ("encoder", n_below, at), float(step.other[row, at]))  # type: ignore[index]


def _with_residual(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weights averaged with the identity, the residual stream; each row sums to 1."""
    mixed: NDArray[np.float64] = 0.5 * weights + 0.5 * np.eye(len(weights))
    total: NDArray[np.float64] = mixed.sum(1, keepdims=True)
    return mixed / total
