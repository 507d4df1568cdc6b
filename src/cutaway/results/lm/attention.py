"""`Attention`: attention weights by layer and head, the result of `gen.attention()`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core import late
from cutaway.core.dataframes import to_dataframe
from cutaway.core.errors import InputError
from cutaway.core.formatting import listed, plural
from cutaway.results.lm.tokens import Role
from cutaway.results.result import Result, make_read_only, to_array

Floats = NDArray[np.float64]
_MOST_SHOWN = 6
_MOST_NUMBERS = 16


@dataclass(frozen=True, slots=True, eq=False)
class Attention(Result):
    """Attention weights: how much each query takes from each key; each row sums to 1.

    Arrays are read-only.
    """

    weights: NDArray[np.floating[Any]]
    """(layer, head, query, key), float32; float16 where that did not fit the limit."""
    layers: NDArray[np.int64]
    """(layer,): layer numbers."""
    sites: tuple[str, ...]
    """(layer,): site of the attention op."""
    queries: tuple[str, ...]
    """The text of each query."""
    keys: tuple[str, ...]
    """The text of each key."""
    positions: NDArray[np.int64]
    """(query,): position in the text."""
    rows: NDArray[np.int64]
    """(target,): the query that each target was predicted at; empty for an encoder."""
    targets: tuple[str, ...]
    """The text of each target."""
    role: Role = "decoder"
    is_cross: bool = False
    """Whether keys come from the encoder."""
    n_layers: int = 0
    """Number of layers of the model; `layers` may be only some of them."""
    heads: tuple[int, ...] = ()
    """Numbers of the heads, if some were chosen."""
    about: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.heads:
            object.__setattr__(self, "heads", tuple(range(self.weights.shape[1])))
        make_read_only(self.weights, self.layers, self.positions, self.rows)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """`np.asarray(attention)` is `weights`: (layer, head, query, key)."""
        return to_array(self.weights, dtype, copy)

    @property
    def n_heads(self) -> int:
        return int(self.weights.shape[1])

    def pick(self, layer: int | None = None, head: int | None = None) -> Attention:
        """The attention of one layer or one head, by number; its page then shows the whole map.

        Args:
            layer: number of the layer; None for all.
            head: number of the head; None for all.
        """
        at = slice(None) if layer is None else [self._index(layer, self.layers.tolist(), "layer")]
        of = slice(None) if head is None else [self._index(head, self.heads, "head")]
        sites = self.sites if isinstance(at, slice) else tuple(self.sites[i] for i in at)
        heads = self.heads if isinstance(of, slice) else tuple(self.heads[i] for i in of)
        weights = self.weights[at][:, of].copy()
        return replace(self, weights=weights, layers=self.layers[at].copy(), sites=sites, heads=heads)

    def _index(self, number: int, numbers: Any, what: str) -> int:
        known = list(numbers)
        if number not in known:
            raise InputError(
                f"there is no {what} {number!r} among {plural(len(known), what)}: give "
                f"{listed(map(str, known), _MOST_NUMBERS)}."
            )
        return known.index(number)

    # summaries

    def mean(self) -> Floats:
        """(layer, query, key): the mean over heads."""
        return np.asarray(self.weights.mean(1, dtype=np.float64))

    def of_targets(self) -> NDArray[np.floating[Any]]:
        """(layer, head, target, key): the attention at the query that predicted each target."""
        if not len(self.rows):
            raise InputError("an encoder predicts no targets: use .weights for all of its rows.")
        return self.weights[:, :, self.rows]

    @property
    def entropy(self) -> Floats:
        """(layer, head): mean entropy over queries in nats: 0 if a head always attends to a single token."""
        entropies = np.empty(self.weights.shape[:2])
        for layer, weights in enumerate(self.weights):  # per layer: logarithms of all would double the memory
            w = weights.astype(np.float64)
            entropies[layer] = -(w * np.log(np.where(w > 0, w, 1.0))).sum(-1).mean(-1)
        return entropies

    @property
    def first(self) -> Floats:
        """(layer, head): the share on the first token, over queries that can attend to another one."""
        later = self.positions > 0 if not self.is_cross else np.ones(len(self.positions), bool)
        return self._shares(np.flatnonzero(later), np.zeros(int(later.sum()), int))

    @property
    def previous(self) -> Floats:
        """(layer, head): the share on the previous token. Not for cross-attention."""
        self._check_self_attention("the token just before")
        later = np.flatnonzero(self.positions > 0)
        return self._shares(later, self.positions[later] - 1)

    @property
    def itself(self) -> Floats:
        """(layer, head): the share on the query's own token, over queries that can attend to another one."""
        self._check_self_attention("the token itself")
        later = np.flatnonzero(self.positions > 0)
        return self._shares(later, self.positions[later])

    def _shares(self, queries: NDArray[np.intp], keys: NDArray[Any]) -> Floats:
        if not len(queries):
            return np.full(self.weights.shape[:2], np.nan)
        return np.asarray(self.weights[:, :, queries, keys].mean(-1, dtype=np.float64))

    def _check_self_attention(self, what: str) -> None:
        if self.is_cross:
            raise InputError(f"the keys are those of the encoder: {what} is not among them.")

    # all layers together

    def rollout(self) -> Floats:
        """(query, position): attention rollout, the share of each token in each position after the last layer.

        Heads are averaged, and the residual stream counts as one half (Abnar & Zuidema 2020).
        """
        return np.asarray(late.call("attention.rollout", self._steps("rollout")))

    def flow(self, queries: Any = None) -> Floats:
        """(query, position): attention flow, the maximum flow from each token to a position after the last layer.

        Attention weights are the capacities of a flow network; the maximum flow is solved exactly for each query and
        token (Abnar & Zuidema 2020).

        Args:
            queries: which queries; by default those of the targets, or all if there are none.
        """
        steps = self._steps("flow")
        chosen = (self.rows.tolist() or range(len(self.queries))) if queries is None else queries
        n = len(self.queries)
        for each in chosen:
            if not -n <= each < n:
                raise InputError(f"queries has {each}: there are {n}, counted from 0.")
        return np.asarray(late.call("attention.flow", steps, [int(each) % n for each in chosen]))

    def _steps(self, what: str) -> Any:
        if self.is_cross:
            raise InputError(
                f"cross-attention alone has no {what}: gen.saliency({what!r}) combines all kinds of attention."
            )
        if self.layers.tolist() != list(range(self.n_layers)) or len(self.queries) != len(self.keys):
            raise InputError(f"{what} needs all layers and all rows: call gen.attention() without layers= and rows=.")
        return late.call("attention.steps", self.mean()[:, None])

    # display

    def table(self) -> Any:
        """One row per head: a pandas DataFrame if pandas is installed, else a list of dicts."""
        entropy, first = self.entropy, self.first
        neighbors = None if self.is_cross else (self.previous, self.itself)
        return to_dataframe(
            {
                "layer": int(layer),
                "head": head,
                "entropy": float(entropy[i, j]),
                "first": float(first[i, j]),
                **(
                    {}
                    if neighbors is None
                    else {"previous": float(neighbors[0][i, j]), "itself": float(neighbors[1][i, j])}
                ),
                "site": self.sites[i],
            }
            for i, layer in enumerate(self.layers)
            for j, head in enumerate(self.heads)
        )

    @property
    def described(self) -> str:
        """Which attention it is, in words."""
        return "attention of the decoder to the encoder" if self.is_cross else f"attention within the {self.role}"

    @property
    def title(self) -> str:
        """A title that tells results apart: names a picked layer and head."""
        layer = f" in layer {self.layers[0]}" if len(self.layers) == 1 < self.n_layers else ""
        head = f", head {self.heads[0]}" if layer and self.n_heads == 1 else ""
        return f"{self.described.capitalize()}{layer}{head}"

    def __repr__(self) -> str:
        n, m = self.weights.shape[2:]
        size = f"{plural(len(self.layers), 'layer')} × {plural(self.n_heads, 'head')}"
        lines = [f"Attention ({self.described}): {size}, {n:,} × {m:,} tokens"]
        mean = self.weights[:, :, self.rows].mean((0, 1), dtype=np.float64) if len(self.rows) else []
        for target, row in zip(self.targets[:_MOST_SHOWN], mean, strict=False):
            best = np.argsort(-row, kind="stable")[:4]
            lines.append(f"  {target!r}: " + ", ".join(f"{self.keys[i]!r} {row[i]:.0%}" for i in best.tolist()))
        rest = len(self.targets) - _MOST_SHOWN
        return "\n".join([*lines, *([f"  and {rest} more"] if rest > 0 else []), *(f"  {note}" for note in self.notes)])
