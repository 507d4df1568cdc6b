"""Runs all splits of one seed: ranks units and fits probes on training rows, predicts test rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError
from cutaway.core.matrices import Matrix
from cutaway.neurons.evaluation.metrics import Fold
from cutaway.neurons.evaluation.permutation import held_out_bits, tempering
from cutaway.neurons.evaluation.ranker import FitCounts, FittedProbe, Ranker, TrainingLabels, fit_probe, training_labels
from cutaway.neurons.evaluation.splits import Split, assign_folds
from cutaway.neurons.labels.labels import EncodedLabels
from cutaway.neurons.ranking.compare import select_rows

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Key = tuple[Any, ...]
"""Which units a prediction used: `("kept", 10)`, `("all",)`, `("ablated", "keep", "zero", 10)`."""
MAX_INFORMATION_UNITS = 100
"""More units would have more covariances than most corpora have rows."""

_N_INNER_FOLDS = 4
_MIN_LOG_PROBABILITY = float(np.log(1e-6))
"""Lower limit: a true class with probability 0 would otherwise give minus infinity bits."""


@dataclass(slots=True)
class HeldOutBits:
    """Bits of information about the test rows of a split."""

    rows: Ints
    bits: Floats
    """(count, row)."""
    null: Floats
    """(count,)."""
    n_clipped: int = 0
    """Rows whose true class had a probability below the limit."""


@dataclass(slots=True)
class Outcome:
    """Predictions and bits of all splits of one seed."""

    folds: dict[Key, list[Fold]] = field(default_factory=dict)
    control: dict[Key, list[Fold]] = field(default_factory=dict)
    """Predictions for the control task, with its labels as truth."""
    orders: list[Ints] = field(default_factory=list)
    bits: list[HeldOutBits] = field(default_factory=list)
    bits_all: list[HeldOutBits] = field(default_factory=list)
    """Bits of the probe on all units: one count."""
    n_without_bits: int = 0
    """Test rows whose class has fewer than two training rows, too few for a Gaussian."""


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """The work on each split."""

    matrix: Matrix
    ranker: Ranker
    counts: tuple[int, ...]
    groups: Ints
    """(row,): the group of every row."""
    fits: FitCounts
    is_brief: bool = False
    """Whether to compute only what the permutation test needs."""
    ablations: tuple[tuple[str, str], ...] = ()
    n_shuffles: int = 0
    """Label shuffles for the null of the bits; 0 to skip bits."""

    def run(
        self, encoded: EncodedLabels, splits: list[Split], seed: int, control: EncodedLabels | None = None
    ) -> Outcome:
        """Run all splits."""
        outcome = Outcome()
        for number, split in enumerate(splits):
            train_labels = training_labels(encoded, split.train)
            if encoded.kind == "classes" and len(train_labels.present) < 2:
                raise InputError(
                    f"all training rows of split {number} have the class {encoded.classes[train_labels.present[0]]!r}: "
                    "too few groups have other classes. Use fewer folds, or by='row' if rows are independent."
                )
            # Up to 1,009 splits per seed, no two (seed, split) pairs share a random stream.
            self._split(outcome, encoded, split, train_labels, seed * 1009 + number, control)
        return outcome

    def _split(
        self,
        outcome: Outcome,
        encoded: EncodedLabels,
        split: Split,
        train_labels: TrainingLabels,
        seed: int,
        control: EncodedLabels | None,
    ) -> None:
        train, test = select_rows(self.matrix, split.train), select_rows(self.matrix, split.test)

        def note(key: Key, predicted: NDArray[Any], *, of: EncodedLabels = encoded) -> None:
            into = outcome.folds if of is encoded else outcome.control
            into.setdefault(key, []).append(Fold(split.test, of.codes[split.test], predicted))

        tasks = [(encoded, train_labels)]
        if control is not None:
            tasks.append((control, training_labels(control, split.train)))
        best = None
        if self.ranker.order is not None:
            # On training rows only: a ranking that has seen the test rows scores too high.
            best = self._best(train, train_labels, seed)
            outcome.orders.append(best)
            self._predict_subsets(best, train, test, tasks, note)
        if not self.is_brief or best is None:
            for labels, task_labels in tasks:
                full_probe = self._fit_all_units(train, task_labels)
                note(("all",), _predict(full_probe, test), of=labels)
                if labels is encoded and full_probe.has_probabilities and self.n_shuffles:
                    outcome.bits_all.append(_probe_bits(full_probe, encoded, split, train_labels, test))
                if labels is encoded and best is not None and self.ablations:
                    for key, predicted in self._predict_ablated(full_probe, best, train, test):
                        note(key, predicted)
        if self.is_brief:
            return
        if encoded.kind == "classes":
            most = int(train_labels.present[train_labels.encoded.counts.argmax()])
            note(("majority",), np.full(len(split.test), most))
        if best is not None:
            # The same random units for all n, so that the curve is nested like that of the top units.
            random_units = np.random.default_rng(seed).permutation(self.matrix.n_units)[: max(self.counts)]
            self._predict_subsets(random_units, train, test, tasks[:1], note, name="random")
            if self.n_shuffles and encoded.kind == "classes":
                self._add_bits(outcome, encoded, split, train_labels, (train, test), best, seed)

    def _best(self, train: Matrix, train_labels: TrainingLabels, seed: int) -> Ints:
        assert self.ranker.order is not None
        order = self.ranker.order(train, train_labels.encoded, seed)
        if len(order) < max(self.counts):
            raise InputError(f"n={max(self.counts)} is too large: {self.ranker.name} ranks {len(order):,} units.")
        return np.asarray(order[: max(self.counts)])

    def _predict_subsets(
        self,
        units: Ints,
        train: Matrix,
        test: Matrix,
        tasks: list[tuple[EncodedLabels, TrainingLabels]],
        note: Any,
        name: str = "kept",
    ) -> None:
        x, z = train.columns(units), test.columns(units)
        for n in self.counts:
            for labels, task_labels in tasks:
                part = fit_probe(self.ranker.probe, x[:, :n], task_labels, self.fits, is_part=True)
                note((name, n), part.predict(z[:, :n]), of=labels)

    def _fit_all_units(self, train: Matrix, train_labels: TrainingLabels) -> FittedProbe:
        # Our probes read blocks; other estimators need the whole array in memory.
        is_ours = type(self.ranker.probe).__module__.startswith("cutaway.")
        return fit_probe(self.ranker.probe, train if is_ours else train.array(), train_labels, self.fits, is_part=False)

    def _predict_ablated(
        self, full_probe: FittedProbe, best: Ints, train: Matrix, test: Matrix
    ) -> Iterator[tuple[Key, NDArray[Any]]]:
        # Of the training rows: a mean over test rows would leak them into the prediction.
        mean = _mean(train)
        for (action, to), n in product(self.ablations, self.counts):
            is_kept = np.full(self.matrix.n_units, action == "remove")
            is_kept[best[:n]] = action == "keep"
            other = mean if to == "mean" else np.zeros_like(mean)
            parts = [
                full_probe.predict(np.where(is_kept, block, other.astype(block.dtype))) for _, block in test.blocks()
            ]
            yield ("ablated", action, to, n), np.concatenate(parts)

    def _add_bits(
        self,
        outcome: Outcome,
        encoded: EncodedLabels,
        split: Split,
        train_labels: TrainingLabels,
        sides: tuple[Matrix, Matrix],
        best: Ints,
        seed: int,
    ) -> None:
        # The variance of a class needs two rows.
        fittable = np.flatnonzero(train_labels.encoded.counts >= 2)
        number = np.full(len(encoded.classes), -1)
        number[train_labels.present[fittable]] = np.arange(len(fittable))
        codes = tuple(number[encoded.codes[rows]] for rows in (split.train, split.test))
        outcome.n_without_bits += int((codes[1] < 0).sum())
        if len(fittable) < 2 or not (codes[1] >= 0).any():
            return
        units, sizes = best[:MAX_INFORMATION_UNITS], np.minimum(self.counts, MAX_INFORMATION_UNITS)
        x, z = (
            side.columns(units)[side_codes >= 0].astype(np.float64)
            for side, side_codes in zip(sides, codes, strict=True)
        )
        train_codes = codes[0][codes[0] >= 0]
        bits, null = held_out_bits(
            x,
            z,
            (train_codes, codes[1][codes[1] >= 0]),
            sizes,
            powers=self._powers(encoded, split.train[codes[0] >= 0], train_codes, units, sizes, seed),
            n_shuffles=self.n_shuffles,
            seed=seed,
        )
        outcome.bits.append(HeldOutBits(split.test[codes[1] >= 0], bits, null))

    def _powers(self, encoded: EncodedLabels, rows: Ints, codes: Ints, units: Ints, sizes: Ints, seed: int) -> Floats:
        """Tempering exponents, chosen on a held-out quarter of the training rows; the units are ranked on the rest."""
        is_out = self._held_out_quarter(rows, codes, seed)
        if not is_out.any():
            return np.zeros(len(sizes))
        if self.ranker.is_ranked_inside:
            inner = select_rows(self.matrix, rows[~is_out])
            units = self._best(inner, training_labels(encoded, rows[~is_out]), seed)[:MAX_INFORMATION_UNITS]
        x = select_rows(self.matrix, rows).columns(units).astype(np.float64)
        return tempering(x[~is_out], x[is_out], (codes[~is_out], codes[is_out]), sizes)

    def _held_out_quarter(self, rows: Ints, codes: Ints, seed: int) -> NDArray[np.bool_]:
        """(row,): a quarter of the groups, except rows of classes that would keep fewer than two rows."""
        groups = np.unique(self.groups[rows], return_inverse=True)[1].reshape(-1)
        is_out = assign_folds(codes, groups, _N_INNER_FOLDS, seed) == 0
        n_left = np.bincount(codes[~is_out], minlength=int(codes.max()) + 1)
        return np.asarray(is_out & (n_left >= 2)[codes])


def _predict(full_probe: FittedProbe, test: Matrix) -> NDArray[Any]:
    return np.concatenate([full_probe.predict(block) for _, block in test.blocks()])


def _probe_bits(
    full_probe: FittedProbe, encoded: EncodedLabels, split: Split, train_labels: TrainingLabels, test: Matrix
) -> HeldOutBits:
    """Bits of the probe about the test rows whose class occurs in training."""
    log_priors = np.log(train_labels.encoded.counts / train_labels.encoded.counts.sum())
    number = np.full(len(encoded.classes), -1)
    number[train_labels.present] = np.arange(len(train_labels.present))
    codes = number[encoded.codes[split.test]]
    log_probabilities = np.concatenate([full_probe.log_proba(block) for _, block in test.blocks()])
    rows = np.flatnonzero(codes >= 0)
    true_class = log_probabilities[rows, codes[rows]]
    bits = (np.maximum(true_class, _MIN_LOG_PROBABILITY) - log_priors[codes[rows]]) / np.log(2)
    return HeldOutBits(split.test[rows], bits[None], np.zeros(1), int((true_class < _MIN_LOG_PROBABILITY).sum()))


def _mean(matrix: Matrix) -> Floats:
    total = np.zeros(matrix.n_units)
    for _, block in matrix.blocks():
        total += block.sum(axis=0, dtype=np.float64)
    return total / matrix.n_rows
