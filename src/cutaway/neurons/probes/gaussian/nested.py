"""One Gaussian per class for the first 1, 2, … units at once.

For a class with n rows, mean m and scatter S = Σ(x - m)(x - m)ᵀ, the covariance is the mode of its posterior under an
inverse Wishart prior with the class's own variances: `(diag(variances) + S) / (n + 2 d + 4)`, where d is the number of
units in use. NeuroX (after Torroba Hennigen et al., "Intrinsic probing through dimension selection", EMNLP
2020) divides by n + 2 D + 4, where D is the number of all units.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_LEAST_VARIANCE = 1e-4
"""Minimum variance in a class, relative to the variance within all classes: a constant unit would have no density."""


@dataclass(frozen=True, slots=True, eq=False)
class NestedGaussians:
    """Gaussians of d units and of each prefix of them."""

    means: Floats
    """(class, unit)."""
    whiteners: Floats
    """(class, unit, unit): lower triangular, so whitened values of the first units do not depend on later units."""
    log_diagonals: Floats
    """(class, unit): logarithms of the diagonal of the Cholesky factor of variances + S."""
    counts: Ints
    """(class,): number of fitted rows."""
    n_all: int | None
    """The number of all units, for NeuroX's divisor."""

    @property
    def log_priors(self) -> Floats:
        """(class,)."""
        return np.asarray(np.log(self.counts / self.counts.sum()))

    def log_posteriors(self, x: Floats, *, every: bool = False) -> Floats:
        """(row, class): log posteriors in nats; with `every`, (unit, row, class) for the first 1, 2, … units."""
        joint = self._log_joint(x)
        if not every:
            joint = joint[-1:]
        posteriors: Floats = joint - np.logaddexp.reduce(joint, axis=2, keepdims=True)
        return posteriors if every else posteriors[0]

    def information(self, x: Floats, codes: Ints) -> Floats:
        """(unit,): mutual information in bits of the first unit, the first two, … and the class of these rows.

        The mean of log2 p(class | x) - log2 p(class). Classes may be absent from the rows.
        """
        chosen = self.log_posteriors(x, every=True)[:, np.arange(len(codes)), codes]  # (unit, row)
        return np.asarray((chosen - self.log_priors[codes]).mean(axis=1) / np.log(2))

    def _log_joint(self, x: Floats) -> Floats:
        """(unit, row, class)."""
        n_units = self.means.shape[1]
        sizes = np.arange(1, n_units + 1)
        joint = np.empty((n_units, len(x), len(self.counts)))
        for code, count in enumerate(self.counts.tolist()):
            white = (x - self.means[code]) @ self.whiteners[code].T  # (row, unit)
            squares = (white**2).cumsum(axis=1)
            divisor = divisors(count, sizes, self.n_all)
            log_det = 2 * self.log_diagonals[code].cumsum() - sizes * np.log(divisor)
            log_density = -0.5 * (sizes * np.log(2 * np.pi) + log_det + divisor * squares)
            joint[:, :, code] = log_density.T + self.log_priors[code]
        return joint


def divisors(count: float | Ints, size: int | Ints, n_all: int | None) -> Floats:
    """The divisor of `variances + S` for a class with `count` rows and `size` units."""
    return np.asarray(count + 2 * (np.asarray(size) if n_all is None else np.full_like(size, n_all)) + 4, np.float64)


def fit_gaussians(x: Floats, codes: Ints, n_classes: int, n_all: int | None = None) -> NestedGaussians:
    """Fit Gaussians to these columns, in this order; each class needs at least two rows."""
    n_units = x.shape[1]
    counts = np.bincount(codes, minlength=n_classes)
    means = np.empty((n_classes, n_units))
    scatters = np.empty((n_classes, n_units, n_units))
    for code in range(n_classes):
        rows = x[codes == code]
        means[code] = rows.mean(axis=0)
        centered = rows - means[code]
        scatters[code] = centered.T @ centered
    diagonals = np.einsum("kii->ki", scatters)  # a view
    diagonals[:] = with_prior(diagonals.copy(), counts, x.var(axis=0))
    factors = np.linalg.cholesky(scatters)
    identity = np.broadcast_to(np.eye(n_units), scatters.shape)
    return NestedGaussians(
        means=means,
        # solve leaves rounding above the diagonal, and a prefix must not depend on later units.
        whiteners=np.tril(np.linalg.solve(factors, identity)),
        log_diagonals=np.log(np.einsum("kii->ki", factors)),
        counts=counts,
        n_all=n_all,
    )


def with_prior(scatter: Floats, counts: Ints, variances: Floats) -> Floats:
    """(class, unit): the diagonals of S plus the variances of the prior.

    Args:
        variances: (unit,): variance over all rows.
    """
    diagonals = scatter + scatter / (counts - 1)[:, None]
    within = scatter.sum(axis=0) / max(int(counts.sum()) - len(counts), 1)
    least = _LEAST_VARIANCE * np.maximum(within, _LEAST_VARIANCE * variances)
    return np.asarray(np.maximum(diagonals, least * counts[:, None]))
