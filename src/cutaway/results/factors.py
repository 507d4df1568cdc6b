"""Few factors in place of many units: groups of neurons that fire together, and when they do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.core import late
from cutaway.core.dataframes import to_dataframe
from cutaway.core.errors import InputError
from cutaway.core.matrices import as_matrix
from cutaway.results.generation import Generation
from cutaway.results.result import Result

Floats = NDArray[np.float64]
FactorMethod = Literal["nmf", "pca", "kmeans"]
_MOST_SWEEPS = 20_000
_MOST_SHOWN = 4
_SAID = {"nmf": "NMF", "pca": "PCA", "kmeans": "k-means"}


@dataclass(frozen=True, slots=True)
class FactorText:
    """One of the texts whose activations were taken apart."""

    start: int
    """Its first position, counted over all texts."""
    end: int
    """Behind its last position."""
    pieces: tuple[str, ...] = ()
    """The text of each token; there may be one more than positions: what was written last was never read."""
    n_prompt: int | None = None
    """How many of the tokens were given; None where nothing was written."""
    name: str = ""
    """Which text it is, where there are several; "encoder" or "decoder" where a model has both."""

    @property
    def n_tokens(self) -> int:
        return max(len(self.pieces), self.end - self.start)


@dataclass(frozen=True, slots=True, eq=False)
class Factors(Result):
    """Activations as a sum of factors: at position p unit u is about Σ_f `weights[f, p]` · `units[f, u]`.

    Factors stand by how much of the activations is theirs, the largest first. Arrays cannot be written to.
    """

    method: FactorMethod
    weights: Floats
    """(factor, position): how strong each factor is at each position."""
    units: Floats
    """(factor, unit): how much of each unit is in it. Of k-means, 1 for the members of the cluster, 0 for others."""
    layer_names: tuple[str, ...]
    """The sites of the units, in the order of the model."""
    layers: NDArray[np.int64]
    """(unit,): the place of its site in `layer_names`."""
    indices: NDArray[np.int64]
    """(unit,): its number at that site."""
    error: float
    """‖what is left over‖ / ‖activations‖, Frobenius norms; 0 where the factors say everything."""
    mean: Floats | None = None
    """(unit,): what PCA takes away first; None for the others."""
    texts: tuple[FactorText, ...] = ()
    """What was read, one after the other: the positions go through all of them."""
    about: Mapping[str, object] = field(default_factory=dict)
    """Options of the method: JSON-like."""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for array in (self.weights, self.units, self.layers, self.indices, self.mean):
            if array is not None:
                array.flags.writeable = False
        if not self.texts:
            object.__setattr__(self, "texts", (FactorText(0, self.n_positions),))

    def __len__(self) -> int:
        """How many factors there are."""
        return len(self.weights)

    @property
    def n_positions(self) -> int:
        return int(self.weights.shape[1])

    @property
    def n_units(self) -> int:
        """How many units were factored."""
        return int(self.units.shape[1])

    @property
    def pieces(self) -> tuple[str, ...]:
        """The tokens of all texts, as they are read; none where no text is known."""
        return tuple(piece for text in self.texts for piece in text.pieces)

    def of_text(self, text: int) -> Factors:
        """The same factors at the positions of one text alone."""
        if not -len(self.texts) <= text < len(self.texts):
            raise InputError(f"text {text} was asked for, and there are {len(self.texts)}: they count from 0.")
        own = self.texts[text]
        n = own.end - own.start
        return replace(self, weights=self.weights[:, own.start : own.end].copy(), texts=(replace(own, start=0, end=n),))

    # what a factor is made of

    @property
    def members(self) -> NDArray[np.bool_]:
        """(factor, unit): whether it takes part: above 0; of PCA, more than it would if all units were equal."""
        if self.method == "pca":
            return np.asarray(np.abs(self.units) > 1 / np.sqrt(self.n_units))
        return np.asarray(self.units > 0)

    @property
    def counts(self) -> NDArray[np.int64]:
        """(factor,): how many units take part in each."""
        return np.asarray(self.members.sum(axis=1), np.int64)

    @property
    def overlap(self) -> NDArray[np.int64]:
        """(factor, factor): how many units take part in both; on the diagonal, in the one."""
        members = self.members.astype(np.float64)  # floats multiply fast, and count exactly
        return np.asarray((members @ members.T).round(), np.int64)

    @property
    def layer_shares(self) -> Floats:
        """(factor, layer): the share of its size, |entries| summed, that lies in each layer; rows sum to 1."""
        found = np.zeros((len(self), len(self.layer_names)))
        for layer in range(len(self.layer_names)):
            found[:, layer] = np.abs(self.units[:, self.layers == layer]).sum(axis=1)
        total = found.sum(axis=1, keepdims=True)
        return np.asarray(found / np.where(total > 0, total, 1.0))

    @property
    def layer_counts(self) -> NDArray[np.int64]:
        """(factor, layer): how many units of each layer take part."""
        columns = [self.members[:, self.layers == layer].sum(axis=1) for layer in range(len(self.layer_names))]
        return np.asarray(np.stack(columns, axis=1), np.int64)

    @property
    def strengths(self) -> Floats:
        """(factor,): its share of all that the factors say, |entries| summed."""
        sizes = np.abs(self.weights).sum(axis=1) * np.abs(self.units).sum(axis=1)
        total = sizes.sum()
        return np.asarray(sizes / total if total > 0 else sizes)

    def name_of(self, unit: int) -> str:
        """Its site, `h.3.mlp.act#17`; its number alone where the units have no site."""
        site = self.layer_names[self.layers[unit]]
        return f"{site}#{self.indices[unit]}"

    def top_units(self, factor: int, n: int = 10) -> list[tuple[str, float]]:
        """The units that are most in a factor, with how much; as sites they are what `cutaway.edit(at=…)` takes."""
        own = self.units[self._checked(factor)]
        order = np.argsort(-np.abs(own), kind="stable")[:n]
        return [(self.name_of(int(unit)), float(own[unit])) for unit in order if own[unit] != 0]

    # when it fires

    def top_positions(self, factor: int, n: int = 10) -> list[tuple[int, str, float]]:
        """Where a factor is strongest: position, the token that was read there, and how strong."""
        own = self.weights[self._checked(factor)]
        order = np.argsort(-np.abs(own), kind="stable")[:n]
        return [(int(p), self._piece(int(p)), float(own[p])) for p in order if own[p] != 0]

    def top_tokens(self, factor: int, n: int = 10) -> list[tuple[str, float]]:
        """The tokens that a factor answers to most, each once, with the mean of its strength where they were read."""
        return self._by_token(self.responses[self._checked(factor)], n)

    def top_written(self, factor: int, n: int = 10) -> list[tuple[str, float]]:
        """The written tokens that it fired most for, a position earlier; each once, with the mean of its strength."""
        causes, is_written = self.causes[self._checked(factor)], self.is_written
        return self._by_token(np.where(is_written, causes, np.nan), n)

    def _by_token(self, values: Floats, n: int) -> list[tuple[str, float]]:
        found: dict[str, list[float]] = {}
        for piece, value in zip(self.pieces, values.tolist(), strict=False):
            if not np.isnan(value):
                found.setdefault(piece, []).append(value)
        means = [(piece, sum(own) / len(own)) for piece, own in found.items()]
        return sorted((each for each in means if each[1]), key=lambda each: -abs(each[1]))[:n]

    @property
    def is_written(self) -> NDArray[np.bool_]:
        """(token,): whether the model wrote it."""
        return np.concatenate(
            [np.arange(t.n_tokens) >= (t.n_tokens if t.n_prompt is None else t.n_prompt) for t in self.texts]
        )

    @property
    def scales(self) -> Floats:
        """(factor,): the size of what a weight of 1 stands for, so that factors can be compared at a position.

        Of NMF the norm of its units: what is in the weights could as well be in them. 1 for the others.
        """
        return np.linalg.norm(self.units, axis=1) if self.method == "nmf" else np.ones(len(self))

    @property
    def strongest(self) -> NDArray[np.int64]:
        """(position,): the factor that is strongest there, each weight times `scales`."""
        return np.asarray((np.abs(self.weights) * self.scales[:, None]).argmax(axis=0), np.int64)

    @property
    def responses(self) -> Floats:
        """(factor, token): how the factor fired when the token was read; NaN for one that never was.

        Tokens are those of all texts, one after the other.
        """
        return self._laid(lambda text: slice(0, text.end - text.start))

    @property
    def causes(self) -> Floats:
        """(factor, token): how the factor fired when the token was predicted, a position earlier; NaN for the first."""
        return self._laid(lambda text: slice(1, text.end - text.start + 1))

    @property
    def shown(self) -> Floats:
        """(factor, token): given tokens by how the factor answered to them, written ones by how it brought them about.

        So the last given and the first written token have the same value, as in Ecco's pictures.
        """
        return np.where(self.is_written, self.causes, self.responses)

    def _laid(self, where: Callable[[FactorText], slice]) -> Floats:
        """(factor, token): the weights of each text at these of its tokens; NaN at others."""
        parts = []
        for text in self.texts:
            part = np.full((len(self), text.n_tokens), np.nan)
            there = part[:, where(text)]
            there[:] = self.weights[:, text.start : text.start + there.shape[1]]
            parts.append(part)
        return np.concatenate(parts, axis=1)

    def _piece(self, position: int) -> str:
        text = next(text for text in self.texts if position < text.end)
        return text.pieces[position - text.start] if text.pieces else ""

    # the same factors elsewhere

    def transform(self, values: Any) -> Floats:
        """(factor, position): how strong these factors are in other activations of the same units.

        NMF finds the non-negative weights that leave least over; PCA projects; k-means takes the mean of each cluster.

        Args:
            values: a generation, or several; or positions × units in the order of `layer_names`: an array, a tensor or
                `Activations`.
        """
        if isinstance(values, Generation) or (
            isinstance(values, (list, tuple)) and values and isinstance(values[0], Generation)
        ):
            return self.on(values).weights
        matrix = as_matrix(values)
        if matrix.n_units != self.n_units:
            some = ", ".join(self.layer_names[:_MOST_SHOWN]) + (", …" if len(self.layer_names) > _MOST_SHOWN else "")
            raise InputError(
                f"{matrix.n_units:,} units were given, and the factors are of {self.n_units:,}: the same layers are "
                f"needed, {some}."
            )
        x = matrix.array().astype(np.float64)  # (position, unit)
        if self.mean is not None:
            return np.asarray(self.units @ (x - self.mean).T)
        if self.method == "kmeans":
            return np.asarray((self.units @ x.T) / np.maximum(self.units.sum(axis=1, keepdims=True), 1.0))
        return non_negative(self.units @ self.units.T, self.units @ np.maximum(x, 0.0).T)

    def on(self, generation: Any) -> Factors:
        """The same factors on another text, or several: what `transform` gives, to be shown with its tokens."""
        found: Factors = late.call("Factors.on", self, generation)
        return found

    def approximation(self) -> Floats:
        """(position, unit): the activations, as the factors have them."""
        found = self.weights.T @ self.units
        return np.asarray(found if self.mean is None else found + self.mean)

    def table(self) -> Any:
        """One row a factor: a pandas DataFrame where pandas is installed, else a list of dicts."""
        strengths, counts, shares = self.strengths, self.counts, self.layer_shares
        return to_dataframe(
            {
                "factor": factor,
                "strength": float(strengths[factor]),
                "units": int(counts[factor]),
                "top_units": ", ".join(name for name, _ in self.top_units(factor, 3)),
                "top_tokens": ", ".join(repr(piece) for piece, _ in self.top_tokens(factor, 5)),
                "top_written": ", ".join(repr(piece) for piece, _ in self.top_written(factor, 5)),
                **{f"share.{name}": float(shares[factor, layer]) for layer, name in enumerate(self.layer_names)},
            }
            for factor in range(len(self))
        )

    @property
    def title(self) -> str:
        """By this, several are told apart."""
        return f"{len(self)} factors of {self.n_units:,} units by {_SAID[self.method]}"

    def __repr__(self) -> str:
        lines = [
            f"Factors by {_SAID[self.method]}: {len(self)} of {self.n_units:,} units in {len(self.layer_names)} "
            f"layer{'s' if len(self.layer_names) != 1 else ''} over {self.n_positions:,} positions, "
            f"{self.error:.1%} left over"
        ]
        strengths, counts = self.strengths, self.counts
        for factor in range(len(self)):
            if self.pieces:
                where = ", ".join(repr(piece) for piece, _ in self.top_tokens(factor, _MOST_SHOWN))
            else:
                where = ", ".join(str(position) for position, _, _ in self.top_positions(factor, _MOST_SHOWN))
            lines.append(f"  {factor}  {strengths[factor]:.0%}, {counts[factor]:,} units, strongest at {where}")
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    def _checked(self, factor: int) -> int:
        if not -len(self) <= factor < len(self):
            raise InputError(f"factor {factor} was asked for, and there are {len(self)}: they count from 0.")
        return factor


def non_negative(inner: Floats, product: Floats) -> Floats:
    """W ≥ 0 that makes ‖A - WᵀH‖ least, out of HHᵀ and HA: one coordinate after the other, until nothing moves.

    >>> h = np.array([[1.0, 1.0], [0.0, 1.0]])
    >>> non_negative(h @ h.T, h @ np.array([[2.0, 0.0], [5.0, -1.0]])).round(9).tolist()
    [[2.0, 0.0], [3.0, 0.0]]
    """
    found = np.zeros_like(product)  # (factor, position)
    diagonal = np.diag(inner)
    used = np.flatnonzero(diagonal > 0)
    size = max(float(np.abs(product).max(initial=0.0)), np.finfo(np.float64).tiny)
    for _ in range(_MOST_SWEEPS):
        moved = 0.0
        for k in used:
            own = np.maximum(found[k] + (product[k] - inner[k] @ found) / diagonal[k], 0.0)
            moved = max(moved, float(np.abs(own - found[k]).max(initial=0.0)) * float(diagonal[k]))
            found[k] = own
        if moved <= 1e-13 * size:
            break
    return found
