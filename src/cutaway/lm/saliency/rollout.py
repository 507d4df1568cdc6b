"""What attention lets through, from the row of a target down to the tokens: rollout and flow (Abnar & Zuidema 2020).

Heads are averaged, and each attention counts as half of what leaves its block: the other half comes by the residual
stream. Of a decoder with an encoder, attention to itself comes first, and to the encoder second, as it runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError, MissingExtraError

_MOST_EDGES = 20_000_000
_UNITS = 1 << 20
"""Capacities are whole numbers to the solver: so many make 1."""


@dataclass(frozen=True, slots=True)
class Step:
    """One attention: from which positions each row takes how much, the residual stream included."""

    own: NDArray[np.float64]
    """(row, position): of the same stack."""
    other: NDArray[np.float64] | None = None
    """(row, position of the encoder): of what the encoder gave."""


def steps_of(own: NDArray[np.float64], cross: NDArray[np.float64] | None = None) -> list[Step]:
    """The attentions of a stack, in the order in which they run.

    Args:
        own: (layer, head, row, position): weights of attention within the stack.
        cross: (layer, head, row, position of the encoder).
    """
    n = own.shape[2]
    found = []
    for layer in range(len(own)):
        found.append(Step(_halved(own[layer].mean(0))))
        if cross is not None:
            found.append(Step(0.5 * np.eye(n), 0.5 * cross[layer].mean(0)))
    return found


def rollout(steps: list[Step], encoder: list[Step] | None = None) -> NDArray[np.float64]:
    """(row, position): the shares of all tokens in each row of the last layer; those of an encoder come first."""
    n = len(steps[0].own)
    below = None if encoder is None else rollout(encoder)
    n_below = 0 if below is None else len(below)
    found = np.concatenate([np.zeros((n, n_below)), np.eye(n)], 1)
    for step in steps:
        found = step.own @ found
        if step.other is not None and below is not None:
            found[:, :n_below] += step.other @ below
    return found


def flow(steps: list[Step], rows: list[int], encoder: list[Step] | None = None) -> NDArray[np.float64]:
    """(row, position): the most that could flow from each row of the last layer to each token, edge by edge."""
    try:
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import maximum_flow
    except ImportError:
        raise MissingExtraError("method='flow' solves with SciPy: pip install scipy") from None
    n, n_below = len(steps[0].own), 0 if encoder is None else len(encoder[0].own)
    edges = _Edges()
    first = [("encoder", 0, at) for at in range(n_below)] + [("decoder", 0, at) for at in range(n)]
    _joined(edges, "encoder", encoder or [])
    _joined(edges, "decoder", steps, 0 if encoder is None else len(encoder))
    if len(edges.capacities) * len(rows) * len(first) > _MOST_EDGES * 100:
        raise InputError(
            f"flow over {n + n_below:,} tokens and {len(steps)} attentions is solved once for each target and token, "
            "which would take hours: ask for fewer targets, only=[-1], or for method='rollout'."
        )
    nodes = edges.nodes
    sinks = [nodes[node] for node in first]
    size = len(nodes)
    graph = csr_matrix(
        (np.array(edges.capacities, np.int32), (np.array(edges.tails), np.array(edges.heads))), shape=(size, size)
    )
    found = np.zeros((len(rows), len(first)))
    for i, row in enumerate(rows):
        source = nodes[("decoder", len(steps), row)]
        for j, sink in enumerate(sinks):
            if j >= n_below + row + 1 and np.triu(steps[0].own, 1).sum() == 0:
                continue  # in the future: nothing flows
            found[i, j] = maximum_flow(graph, source, sink).flow_value / _UNITS
    return found


class _Edges:
    """The graph that attention is: a node for each position behind each attention."""

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


def _joined(edges: _Edges, role: str, steps: list[Step], n_below: int = 0) -> None:
    for depth, step in enumerate(steps):
        for row in range(len(step.own)):
            for at in range(len(step.own)):
                edges.add((role, depth + 1, row), (role, depth, at), float(step.own[row, at]))
            for at in range(0 if step.other is None else step.other.shape[1]):
                edges.add((role, depth + 1, row), ("encoder", n_below, at), float(step.other[row, at]))  # type: ignore[index]


def _halved(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """With the residual stream, rows summing to 1."""
    mixed: NDArray[np.float64] = 0.5 * weights + 0.5 * np.eye(len(weights))
    total: NDArray[np.float64] = mixed.sum(1, keepdims=True)
    return mixed / total
