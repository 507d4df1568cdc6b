"""Which token looked at which: the weights of attention by layer and head. The answer of `gen.attention()`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.core import late
from cutaway.core.dataframes import to_dataframe
from cutaway.core.errors import InputError
from cutaway.results.result import Result

Floats = NDArray[np.float64]
_MOST_SHOWN = 6


@dataclass(frozen=True, slots=True, eq=False)
class Attention(Result):
    """Weights of attention: each query is a mixture of keys, and each row of weights sums to 1.

    Arrays belong to it alone and cannot be written to.
    """

    weights: NDArray[np.floating[Any]]
    """(layer, head, query, key), float32; float16 where that did not fit the limit."""
    layers: NDArray[np.int64]
    """(layer,): their numbers."""
    sites: tuple[str, ...]
    """Of each layer, the operation that weighs."""
    queries: tuple[str, ...]
    """The text of each query."""
    keys: tuple[str, ...]
    """The text of each key."""
    positions: NDArray[np.int64]
    """(query,): its position in the text."""
    rows: NDArray[np.int64]
    """(target,): the query at which each target was written; nothing of an encoder."""
    targets: tuple[str, ...]
    """The text of each target."""
    role: Literal["encoder", "decoder"] = "decoder"
    is_cross: bool = False
    """Whether the keys are what the encoder gave."""
    n_layers: int = 0
    """How many layers the model has, of which some may have been chosen."""
    heads: tuple[int, ...] = ()
    """The numbers of the heads, where some were chosen."""
    about: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.heads:
            object.__setattr__(self, "heads", tuple(range(self.weights.shape[1])))
        for array in (self.weights, self.layers, self.positions, self.rows):
            array.flags.writeable = False

    @property
    def n_heads(self) -> int:
        return int(self.weights.shape[1])

    def pick(self, layer: int | None = None, head: int | None = None) -> Attention:
        """The same of one layer, or one head, by their numbers; its page then shows the whole map."""
        at = slice(None) if layer is None else [self._place(layer, self.layers.tolist(), "layer")]
        of = slice(None) if head is None else [self._place(head, self.heads, "head")]
        sites = self.sites if isinstance(at, slice) else tuple(self.sites[i] for i in at)
        heads = self.heads if isinstance(of, slice) else tuple(self.heads[i] for i in of)
        weights = self.weights[at][:, of].copy()
        return replace(self, weights=weights, layers=self.layers[at].copy(), sites=sites, heads=heads)

    def _place(self, number: int, numbers: Any, what: str) -> int:
        known = list(numbers)
        if number not in known:
            raise InputError(f"there is no {what} {number} here: there are {', '.join(map(str, known[:40]))}.")
        return known.index(number)

    # in one number, or one matrix

    def mean(self) -> Floats:
        """(layer, query, key): the mean of all heads."""
        return np.asarray(self.weights.mean(1, dtype=np.float64))

    def of_targets(self) -> NDArray[np.floating[Any]]:
        """(layer, head, target, key): where the model looked when it wrote each target."""
        if not len(self.rows):
            raise InputError("nothing is written where an encoder reads: weights has all of its rows.")
        return self.weights[:, :, self.rows]

    @property
    def entropy(self) -> Floats:
        """(layer, head): how widely a head looks, in nats: 0 for one token alone. The mean of all queries."""
        found = np.empty(self.weights.shape[:2])
        for layer, weights in enumerate(self.weights):  # one by one: logarithms of all would take as much again
            w = weights.astype(np.float64)
            found[layer] = -(w * np.log(np.where(w > 0, w, 1.0))).sum(-1).mean(-1)
        return found

    @property
    def first(self) -> Floats:
        """(layer, head): the share that goes to the first token, from queries that have another one to look at."""
        later = self.positions > 0 if not self.is_cross else np.ones(len(self.positions), bool)
        return self._shares(np.flatnonzero(later), np.zeros(int(later.sum()), int))

    @property
    def previous(self) -> Floats:
        """(layer, head): the share that goes to the token just before. Not of attention to an encoder."""
        self._check_own("the token just before")
        later = np.flatnonzero(self.positions > 0)
        return self._shares(later, self.positions[later] - 1)

    @property
    def itself(self) -> Floats:
        """(layer, head): the share that goes to the same token, from queries that have another one to look at."""
        self._check_own("the token itself")
        later = np.flatnonzero(self.positions > 0)
        return self._shares(later, self.positions[later])

    def _shares(self, queries: NDArray[np.intp], keys: NDArray[Any]) -> Floats:
        if not len(queries):
            return np.full(self.weights.shape[:2], np.nan)
        return np.asarray(self.weights[:, :, queries, keys].mean(-1, dtype=np.float64))

    def _check_own(self, what: str) -> None:
        if self.is_cross:
            raise InputError(f"keys are those of the encoder: {what} is not among them.")

    # through all layers

    def rollout(self) -> Floats:
        """(query, position): the share of each token in each position behind the last layer, mixed layer by layer.

        Heads are averaged, and the residual stream counts as half (Abnar & Zuidema 2020).
        """
        return np.asarray(late.call("attention.rollout", self._steps("rollout")))

    def flow(self, queries: Any = None) -> Floats:
        """(query, position): the most that could flow from each token to a position behind the last layer.

        Attention is a network of pipes, as wide as its weights, and the maximum flow is solved exactly for each query
        and token (Abnar & Zuidema 2020).

        Args:
            queries: which; those of the targets if not given, all where there are none.
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
                f"attention to an encoder is one way of several: gen.saliency({what!r}) joins all of them."
            )
        if self.layers.tolist() != list(range(self.n_layers)) or len(self.queries) != len(self.keys):
            raise InputError(f"{what} goes through all layers and rows: ask gen.attention() for them.")
        return late.call("attention.steps", self.mean()[:, None])

    # showing

    def table(self) -> Any:
        """One row a head: a pandas DataFrame where pandas is installed, else a list of dicts."""
        entropy, first = self.entropy, self.first
        own = None if self.is_cross else (self.previous, self.itself)
        return to_dataframe(
            {
                "layer": int(layer),
                "head": head,
                "entropy": float(entropy[i, j]),
                "first": float(first[i, j]),
                **({} if own is None else {"previous": float(own[0][i, j]), "itself": float(own[1][i, j])}),
                "site": self.sites[i],
            }
            for i, layer in enumerate(self.layers)
            for j, head in enumerate(self.heads)
        )

    @property
    def described(self) -> str:
        """Whose attention to what, in words."""
        return "attention of the decoder to the encoder" if self.is_cross else f"attention within the {self.role}"

    @property
    def title(self) -> str:
        """By this, several are told apart: a layer and head that were picked are named."""
        layer = f" in layer {self.layers[0]}" if len(self.layers) == 1 < self.n_layers else ""
        head = f", head {self.heads[0]}" if layer and self.n_heads == 1 else ""
        return f"{self.described.capitalize()}{layer}{head}"

    def __repr__(self) -> str:
        n, m = self.weights.shape[2:]
        size = f"{_counted(len(self.layers), 'layer')} × {_counted(self.n_heads, 'head')}"
        lines = [f"Attention ({self.described}): {size}, {n:,} × {m:,} tokens"]
        mean = self.weights[:, :, self.rows].mean((0, 1), dtype=np.float64) if len(self.rows) else []
        for target, row in zip(self.targets[:_MOST_SHOWN], mean, strict=False):
            best = np.argsort(-row, kind="stable")[:4]
            lines.append(f"  {target!r}: " + ", ".join(f"{self.keys[i]!r} {row[i]:.0%}" for i in best.tolist()))
        rest = len(self.targets) - _MOST_SHOWN
        return "\n".join([*lines, *([f"  and {rest} more"] if rest > 0 else []), *(f"  {note}" for note in self.notes)])


def _counted(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"
