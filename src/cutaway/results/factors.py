"""Few factors in place of many units: groups of neurons that fire together, and when they do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.core import late
from cutaway.core.errors import InputError
from cutaway.core.matrices import as_matrix
from cutaway.core.tables import framed

Floats = NDArray[np.float64]
FactorMethod = Literal["nmf", "pca", "kmeans"]
_MOST_SWEEPS = 20_000
_MOST_SHOWN = 4


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
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
    pieces: tuple[str, ...] = ()
    """The text of each token; there may be one more than positions: what was written last was never read."""
    n_prompt: int | None = None
    """How many of the tokens were given; None where nothing was written."""
    about: Mapping[str, object] = field(default_factory=dict)
    """Options of the method: JSON-like."""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for array in (self.weights, self.units, self.layers, self.indices, self.mean):
            if array is not None:
                array.flags.writeable = False

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
        return [(int(p), self.pieces[p] if self.pieces else "", float(own[p])) for p in order if own[p] != 0]

    @property
    def strongest(self) -> NDArray[np.int64]:
        """(position,): the factor that is strongest there."""
        return np.asarray(np.abs(self.weights).argmax(axis=0), np.int64)

    @property
    def responses(self) -> Floats:
        """(factor, token): how the factor fired when the token was read; NaN for one that never was."""
        found = np.full((len(self), max(len(self.pieces), self.n_positions)), np.nan)
        found[:, : self.n_positions] = self.weights
        return found

    @property
    def causes(self) -> Floats:
        """(factor, token): how the factor fired when the token was predicted, a position earlier; NaN for the first."""
        found = np.full((len(self), max(len(self.pieces), self.n_positions)), np.nan)
        n = found.shape[1] - 1
        found[:, 1:] = self.weights[:, :n]
        return found

    @property
    def shown(self) -> Floats:
        """(factor, token): given tokens by how the factor answered to them, written ones by how it brought them about.

        So the last given and the first written token have the same value, as in Ecco's pictures.
        """
        found = self.responses
        if self.n_prompt is not None:
            found[:, self.n_prompt :] = self.causes[:, self.n_prompt :]
        return found

    # the same factors elsewhere

    def transform(self, values: Any) -> Floats:
        """(factor, position): how strong these factors are in other activations of the same units.

        NMF finds the non-negative weights that leave least over; PCA projects; k-means takes the mean of each cluster.

        Args:
            values: positions × units, in the order of `layer_names`: an array, a tensor or `Activations`.
        """
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

    def approximation(self) -> Floats:
        """(position, unit): the activations, as the factors have them."""
        found = self.weights.T @ self.units
        return np.asarray(found if self.mean is None else found + self.mean)

    def table(self) -> Any:
        """One row a factor: a pandas DataFrame where pandas is installed, else a list of dicts."""
        strengths, counts, shares = self.strengths, self.counts, self.layer_shares
        return framed(
            {
                "factor": factor,
                "strength": float(strengths[factor]),
                "units": int(counts[factor]),
                "top_units": ", ".join(name for name, _ in self.top_units(factor, 3)),
                "top_tokens": ", ".join(repr(piece) for _, piece, _ in self.top_positions(factor, 5)),
                **{f"share.{name}": float(shares[factor, layer]) for layer, name in enumerate(self.layer_names)},
            }
            for factor in range(len(self))
        )

    def page(self) -> Any:
        """All of it as a page: `cutaway.show` shows it, `print` prints it, `.to_html(path)` writes it."""
        return late.call("result.page", self)

    def text(self, width: int = 100) -> str:
        """The page as text for a terminal, in lines of at most so many characters."""
        found: str = self.page().text(width)
        return found

    def _repr_html_(self) -> str:
        found: str = late.call("result._repr_html_", self)
        return found

    def __repr__(self) -> str:
        said = {"nmf": "NMF", "pca": "PCA", "kmeans": "k-means"}[self.method]
        lines = [
            f"Factors by {said}: {len(self)} of {self.n_units:,} units in {len(self.layer_names)} "
            f"layer{'s' if len(self.layer_names) != 1 else ''} over {self.n_positions:,} positions, "
            f"{self.error:.1%} left over"
        ]
        strengths, counts = self.strengths, self.counts
        for factor in range(len(self)):
            if self.pieces:
                where = ", ".join(repr(piece) for _, piece, _ in self.top_positions(factor, _MOST_SHOWN))
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
