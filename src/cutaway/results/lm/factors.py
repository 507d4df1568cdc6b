"""`Factors`: groups of neurons that are active together, the result of `gen.factors()` and `cutaway.lm.factorize`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.core import late
from cutaway.core.dataframes import to_dataframe
from cutaway.core.errors import InputError
from cutaway.core.formatting import listed, plural
from cutaway.core.matrices import as_matrix
from cutaway.results.lm.generation import Generation
from cutaway.results.result import Result, make_read_only

Floats = NDArray[np.float64]
FactorMethod = Literal["nmf", "pca", "kmeans"]
NmfStart = Literal["svd", "random"]
"""How NMF is initialized:

svd      from the singular vectors without their negative parts (NNDSVD, Boutsidis and Gallopoulos 2008)
random   from random numbers, as Ecco does; distinct factors may be missed, depending on the seed
"""
_MAX_ITERATIONS = 20_000
_MOST_SHOWN = 4
_METHOD_TITLES = {"nmf": "NMF", "pca": "PCA", "kmeans": "k-means"}


@dataclass(frozen=True, slots=True)
class FactorText:
    """One of the texts whose activations were factorized."""

    start: int
    """First position, counted over all texts."""
    end: int
    """After the last position."""
    pieces: tuple[str, ...] = ()
    """The text of each token. It may have one more than positions: the last generated token was never read."""
    n_prompt: int | None = None
    """How many of the tokens belong to the prompt; None if none was generated."""
    name: str = ""
    """Name of the text if there are several; "encoder" or "decoder" if a model has both."""

    @property
    def n_tokens(self) -> int:
        return max(len(self.pieces), self.end - self.start)


@dataclass(frozen=True, slots=True, eq=False)
class Factors(Result):
    """Activations as a sum of factors: at position p, unit u is about Σ_f `weights[f, p]` · `units[f, u]`.

    Factors are ordered by their share of the activations, largest first. Arrays are read-only.
    """

    method: FactorMethod
    weights: Floats
    """(factor, position): strength of each factor at each position."""
    units: Floats
    """(factor, unit): share of each unit in the factor. For k-means, 1 for members of the cluster, else 0."""
    layer_names: tuple[str, ...]
    """The sites of the units, in the order of the model."""
    layers: NDArray[np.int64]
    """(unit,): index of its site in `layer_names`."""
    indices: NDArray[np.int64]
    """(unit,): its number at that site."""
    error: float
    """‖residual‖ / ‖activations‖, Frobenius norms; 0 if the factors are exact."""
    mean: Floats | None = None
    """(unit,): the mean that PCA subtracts; None for other methods."""
    texts: tuple[FactorText, ...] = ()
    """The texts, one after another: positions run through all of them."""
    about: Mapping[str, object] = field(default_factory=dict)
    """Options of the method: JSON-like."""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        make_read_only(self.weights, self.units, self.layers, self.indices, self.mean)
        if not self.texts:
            object.__setattr__(self, "texts", (FactorText(0, self.n_positions),))

    def __len__(self) -> int:
        """Number of factors."""
        return len(self.weights)

    @property
    def n_positions(self) -> int:
        return int(self.weights.shape[1])

    @property
    def n_units(self) -> int:
        """Number of units."""
        return int(self.units.shape[1])

    @property
    def pieces(self) -> tuple[str, ...]:
        """The readable tokens of all texts; empty if no text is known."""
        return tuple(piece for text in self.texts for piece in text.pieces)

    def of_text(self, text: int) -> Factors:
        """The same factors at the positions of one text.

        Args:
            text: index of the text.
        """
        if not -len(self.texts) <= text < len(self.texts):
            raise InputError(f"there is no text {text}: there are {len(self.texts)}, counted from 0.")
        chosen = self.texts[text]
        n = chosen.end - chosen.start
        return replace(
            self, weights=self.weights[:, chosen.start : chosen.end].copy(), texts=(replace(chosen, start=0, end=n),)
        )

    # units of a factor

    @property
    def members(self) -> NDArray[np.bool_]:
        """(factor, unit): whether a unit is a member: above 0; for PCA, above the value for equal shares."""
        if self.method == "pca":
            return np.asarray(np.abs(self.units) > 1 / np.sqrt(self.n_units))
        return np.asarray(self.units > 0)

    @property
    def counts(self) -> NDArray[np.int64]:
        """(factor,): number of members of each factor."""
        return np.asarray(self.members.sum(axis=1), np.int64)

    @property
    def overlap(self) -> NDArray[np.int64]:
        """(factor, factor): number of shared members; on the diagonal, number of members."""
        members = self.members.astype(np.float64)  # a float matmul is fast, and exact for counts
        return np.asarray((members @ members.T).round(), np.int64)

    @property
    def layer_shares(self) -> Floats:
        """(factor, layer): share of its size, the sum of |entries|, in each layer; rows sum to 1."""
        sizes = np.zeros((len(self), len(self.layer_names)))
        for layer in range(len(self.layer_names)):
            sizes[:, layer] = np.abs(self.units[:, self.layers == layer]).sum(axis=1)
        total = sizes.sum(axis=1, keepdims=True)
        return np.asarray(sizes / np.where(total > 0, total, 1.0))

    @property
    def layer_counts(self) -> NDArray[np.int64]:
        """(factor, layer): number of members in each layer."""
        columns = [self.members[:, self.layers == layer].sum(axis=1) for layer in range(len(self.layer_names))]
        return np.asarray(np.stack(columns, axis=1), np.int64)

    @property
    def strengths(self) -> Floats:
        """(factor,): its share of the size of all factors, the sum of |entries|."""
        sizes = np.abs(self.weights).sum(axis=1) * np.abs(self.units).sum(axis=1)
        total = sizes.sum()
        return np.asarray(sizes / total if total > 0 else sizes)

    def name_of(self, unit: int) -> str:
        """The site of a unit, `h.3.mlp.act#17`; only its number if units have no site."""
        site = self.layer_names[self.layers[unit]]
        return f"{site}#{self.indices[unit]}"

    def top_units(self, factor: int, n: int = 10) -> list[tuple[str, float]]:
        """The units with the largest share in a factor; `cutaway.edit(at=…)` takes their names.

        Args:
            factor: index of the factor.
            n: the most units to return; units without a share are left out.
        """
        shares = self.units[self._check_factor(factor)]
        order = np.argsort(-np.abs(shares), kind="stable")[:n]
        return [(self.name_of(int(unit)), float(shares[unit])) for unit in order if shares[unit] != 0]

    # where a factor is strong

    def top_positions(self, factor: int, n: int = 10) -> list[tuple[int, str, float]]:
        """Where a factor is strongest: position, the token read there, and strength.

        Args:
            factor: index of the factor.
            n: the most positions to return; those with strength 0 are left out.
        """
        strengths = self.weights[self._check_factor(factor)]
        order = np.argsort(-np.abs(strengths), kind="stable")[:n]
        return [(int(p), self._token_at(int(p)), float(strengths[p])) for p in order if strengths[p] != 0]

    def top_tokens(self, factor: int, n: int = 10) -> list[tuple[str, float]]:
        """The tokens that a factor responds to most, each once, with its mean strength where they were read.

        Args:
            factor: index of the factor.
            n: the most tokens to return.
        """
        return self._top_tokens(self.responses[self._check_factor(factor)], n)

    def top_written(self, factor: int, n: int = 10) -> list[tuple[str, float]]:
        """The generated tokens before which a factor was strongest, each once, with its mean strength.

        Args:
            factor: index of the factor.
            n: the most tokens to return.
        """
        causes, is_written = self.causes[self._check_factor(factor)], self.is_written
        return self._top_tokens(np.where(is_written, causes, np.nan), n)

    def _top_tokens(self, values: Floats, n: int) -> list[tuple[str, float]]:
        strengths: dict[str, list[float]] = {}
        for piece, value in zip(self.pieces, values.tolist(), strict=False):
            if not np.isnan(value):
                strengths.setdefault(piece, []).append(value)
        means = [(piece, sum(values_of) / len(values_of)) for piece, values_of in strengths.items()]
        return sorted((each for each in means if each[1]), key=lambda each: -abs(each[1]))[:n]

    @property
    def is_written(self) -> NDArray[np.bool_]:
        """(token,): whether the model generated it."""
        return np.concatenate(
            [np.arange(t.n_tokens) >= (t.n_tokens if t.n_prompt is None else t.n_prompt) for t in self.texts]
        )

    @property
    def scales(self) -> Floats:
        """(factor,): the norm of a weight of 1, so that factors can be compared at a position.

        For NMF the norm of its units, because the scale of weights and units is arbitrary. 1 for other methods.
        """
        return np.linalg.norm(self.units, axis=1) if self.method == "nmf" else np.ones(len(self))

    @property
    def strongest(self) -> NDArray[np.int64]:
        """(position,): the strongest factor, each weight times `scales`."""
        return np.asarray((np.abs(self.weights) * self.scales[:, None]).argmax(axis=0), np.int64)

    @property
    def responses(self) -> Floats:
        """(factor, token): strength when the token was read; NaN for the last generated token, which never was.

        Tokens of all texts, one after another.
        """
        return self._weights_by_token(lambda text: slice(0, text.end - text.start))

    @property
    def causes(self) -> Floats:
        """(factor, token): strength when the token was predicted, one position earlier; NaN for the first."""
        return self._weights_by_token(lambda text: slice(1, text.end - text.start + 1))

    @property
    def shown(self) -> Floats:
        """(factor, token): prompt tokens by `responses`, generated tokens by `causes`.

        So the last prompt token and the first generated token have the same value, as in Ecco's plots.
        """
        return np.where(self.is_written, self.causes, self.responses)

    def _weights_by_token(self, where: Callable[[FactorText], slice]) -> Floats:
        """(factor, token): the weights of each text at some of its tokens; NaN at others."""
        parts = []
        for text in self.texts:
            part = np.full((len(self), text.n_tokens), np.nan)
            there = part[:, where(text)]
            there[:] = self.weights[:, text.start : text.start + there.shape[1]]
            parts.append(part)
        return np.concatenate(parts, axis=1)

    def _token_at(self, position: int) -> str:
        text = next(text for text in self.texts if position < text.end)
        return text.pieces[position - text.start] if text.pieces else ""

    # the same factors on other data

    def transform(self, values: Any) -> Floats:
        """(factor, position): the strength of these factors in other activations of the same units.

        NMF solves for non-negative weights by least squares; PCA projects; k-means takes the mean of each cluster.

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
            some = listed(self.layer_names, _MOST_SHOWN)
            raise InputError(
                f"values has {matrix.n_units:,} units, but the factors have {self.n_units:,}: give the units of the "
                f"same layers, {some}."
            )
        x = matrix.array().astype(np.float64)  # (position, unit)
        if self.mean is not None:
            return np.asarray(self.units @ (x - self.mean).T)
        if self.method == "kmeans":
            return np.asarray((self.units @ x.T) / np.maximum(self.units.sum(axis=1, keepdims=True), 1.0))
        return non_negative(self.units @ self.units.T, self.units @ np.maximum(x, 0.0).T)

    def on(self, generation: Any) -> Factors:
        """The same factors on another text or several: as `transform`, but as a result with tokens.

        Args:
            generation: a generation of the same model, or a list of them.
        """
        factors: Factors = late.call("Factors.on", self, generation)
        return factors

    def approximation(self) -> Floats:
        """(position, unit): the activations as the factors approximate them."""
        sums = self.weights.T @ self.units
        return np.asarray(sums if self.mean is None else sums + self.mean)

    def table(self) -> Any:
        """One row per factor: a pandas DataFrame if pandas is installed, else a list of dicts."""
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
        """A title that tells results apart."""
        return f"{len(self)} factors of {self.n_units:,} units by {_METHOD_TITLES[self.method]}"

    def __repr__(self) -> str:
        lines = [
            f"Factors by {_METHOD_TITLES[self.method]}: {len(self)} of {self.n_units:,} units in "
            f"{plural(len(self.layer_names), 'layer')} over {self.n_positions:,} positions, "
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

    def _check_factor(self, factor: int) -> int:
        if not -len(self) <= factor < len(self):
            raise InputError(f"there is no factor {factor}: there are {len(self)}, counted from 0.")
        return factor


def non_negative(inner: Floats, product: Floats) -> Floats:
    """W ≥ 0 that minimizes ‖A - WᵀH‖, from HHᵀ and HA, by coordinate descent until nothing changes.

    >>> h = np.array([[1.0, 1.0], [0.0, 1.0]])
    >>> non_negative(h @ h.T, h @ np.array([[2.0, 0.0], [5.0, -1.0]])).round(9).tolist()
    [[2.0, 0.0], [3.0, 0.0]]
    """
    weights = np.zeros_like(product)  # (factor, position)
    diagonal = np.diag(inner)
    used = np.flatnonzero(diagonal > 0)
    size = max(float(np.abs(product).max(initial=0.0)), np.finfo(np.float64).tiny)
    for _ in range(_MAX_ITERATIONS):
        moved = 0.0
        for k in used:
            # The exact minimum along one coordinate, so there is no step size.
            minimum = np.maximum(weights[k] + (product[k] - inner[k] @ weights) / diagonal[k], 0.0)
            moved = max(moved, float(np.abs(minimum - weights[k]).max(initial=0.0)) * float(diagonal[k]))
            weights[k] = minimum
        if moved <= 1e-13 * size:
            break
    return weights
