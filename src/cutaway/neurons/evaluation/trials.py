"""One pass over the splits of a seed: units are ranked and probes fitted on training rows, test rows are predicted."""

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
from cutaway.neurons.evaluation.permutation import told_bits, weakening
from cutaway.neurons.evaluation.ranker import Fits, Known, Learned, Subject, known_of, learned
from cutaway.neurons.evaluation.splits import Split, dealt
from cutaway.neurons.labels.labels import Encoded
from cutaway.neurons.ranking.compare import rows_of

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Key = tuple[Any, ...]
"""What was predicted with: `("kept", 10)`, `("all",)`, `("ablated", "keep", "zero", 10)`."""
MOST_INFORMING = 100
"""Units whose Gaussians are fitted together; more have more covariances than corpora have rows."""

_QUARTER = 4
_LEAST_LOG = float(np.log(1e-6))
"""Of probabilities: a probe that calls what happens impossible would otherwise tell minus infinitely many bits."""


@dataclass(slots=True)
class Told:
    """Bits of the test rows of a split."""

    rows: Ints
    bits: Floats
    """(count, row)."""
    null: Floats
    """(count,)."""
    n_clipped: int = 0
    """Rows whose own class was said to be all but impossible."""


@dataclass(slots=True)
class Outcome:
    """What came out of the splits of one seed."""

    folds: dict[Key, list[Fold]] = field(default_factory=dict)
    control: dict[Key, list[Fold]] = field(default_factory=dict)
    """The same for the control task; its truth is that of the control task."""
    orders: list[Ints] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    told_all: list[Told] = field(default_factory=list)
    """By the probe, of all units: one count."""
    n_untold: int = 0
    """Test rows whose class has fewer than two training rows: no Gaussian knows them."""


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """What is done on each split."""

    matrix: Matrix
    subject: Subject
    counts: tuple[int, ...]
    groups: Ints
    """(row,): of all rows."""
    fits: Fits
    is_brief: bool = False
    """Whether only what the permutation test asks for is wanted."""
    ablations: tuple[tuple[str, str], ...] = ()
    n_shuffles: int = 0
    """For the null of the bits; 0 leaves bits out."""

    def run(self, encoded: Encoded, splits: list[Split], seed: int, control: Encoded | None = None) -> Outcome:
        """All splits, one after the other."""
        outcome = Outcome()
        for number, split in enumerate(splits):
            known = known_of(encoded, split.train)
            if encoded.kind == "classes" and len(known.present) < 2:
                raise InputError(
                    f"the training rows of split {number} are all {encoded.classes[known.present[0]]!r}: too few "
                    "groups of rows hold other classes. Take fewer folds, or by='row' if rows are independent."
                )
            self._split(outcome, encoded, split, known, seed * 1009 + number, control)
        return outcome

    def _split(
        self, outcome: Outcome, encoded: Encoded, split: Split, known: Known, seed: int, control: Encoded | None
    ) -> None:
        train, test = rows_of(self.matrix, split.train), rows_of(self.matrix, split.test)

        def note(key: Key, predicted: NDArray[Any], *, of: Encoded = encoded) -> None:
            into = outcome.folds if of is encoded else outcome.control
            into.setdefault(key, []).append(Fold(split.test, of.codes[split.test], predicted))

        tasks = [(encoded, known)]
        if control is not None:
            tasks.append((control, known_of(control, split.train)))
        best = None
        if self.subject.order is not None:
            best = self._best(train, known, seed)
            outcome.orders.append(best)
            self._parts(best, train, test, tasks, note)
        if not self.is_brief or best is None:
            for labels, own in tasks:
                whole = self._learned(train, own)
                note(("all",), _predicted(whole, test), of=labels)
                if labels is encoded and whole.tells and self.n_shuffles:
                    outcome.told_all.append(_told_by(whole, encoded, split, known, test))
                if labels is encoded and best is not None and self.ablations:
                    for key, predicted in self._ablated(whole, best, train, test):
                        note(key, predicted)
        if self.is_brief:
            return
        if encoded.kind == "classes":
            most = int(known.present[known.encoded.counts.argmax()])
            note(("majority",), np.full(len(split.test), most))
        if best is not None:
            drawn = np.random.default_rng(seed).permutation(self.matrix.n_units)[: max(self.counts)]
            self._parts(drawn, train, test, tasks[:1], note, name="random")
            if self.n_shuffles and encoded.kind == "classes":
                self._tell(outcome, encoded, split, known, (train, test), best, seed)

    def _best(self, train: Matrix, known: Known, seed: int) -> Ints:
        assert self.subject.order is not None
        order = self.subject.order(train, known.encoded, seed)
        if len(order) < max(self.counts):
            raise InputError(
                f"{max(self.counts):,} units were asked for, and {self.subject.name} ranks {len(order):,}."
            )
        return np.asarray(order[: max(self.counts)])

    def _parts(
        self,
        units: Ints,
        train: Matrix,
        test: Matrix,
        tasks: list[tuple[Encoded, Known]],
        note: Any,
        name: str = "kept",
    ) -> None:
        x, z = train.columns(units), test.columns(units)
        for n in self.counts:
            for labels, own in tasks:
                part = learned(self.subject.probe, x[:, :n], own, self.fits, is_part=True)
                note((name, n), part.predict(z[:, :n]), of=labels)

    def _learned(self, train: Matrix, known: Known) -> Learned:
        is_ours = type(self.subject.probe).__module__.startswith("cutaway.")
        return learned(self.subject.probe, train if is_ours else train.array(), known, self.fits, is_part=False)

    def _ablated(self, whole: Learned, best: Ints, train: Matrix, test: Matrix) -> Iterator[tuple[Key, NDArray[Any]]]:
        mean = _mean(train)
        for (action, to), n in product(self.ablations, self.counts):
            is_kept = np.full(self.matrix.n_units, action == "remove")
            is_kept[best[:n]] = action == "keep"
            other = mean if to == "mean" else np.zeros_like(mean)
            parts = [whole.predict(np.where(is_kept, block, other.astype(block.dtype))) for _, block in test.blocks()]
            yield ("ablated", action, to, n), np.concatenate(parts)

    def _tell(
        self,
        outcome: Outcome,
        encoded: Encoded,
        split: Split,
        known: Known,
        sides: tuple[Matrix, Matrix],
        best: Ints,
        seed: int,
    ) -> None:
        able = np.flatnonzero(known.encoded.counts >= 2)
        number = np.full(len(encoded.classes), -1)
        number[known.present[able]] = np.arange(len(able))
        codes = tuple(number[encoded.codes[rows]] for rows in (split.train, split.test))
        outcome.n_untold += int((codes[1] < 0).sum())
        if len(able) < 2 or not (codes[1] >= 0).any():
            return
        units, sizes = best[:MOST_INFORMING], np.minimum(self.counts, MOST_INFORMING)
        x, z = (side.columns(units)[own >= 0].astype(np.float64) for side, own in zip(sides, codes, strict=True))
        own = codes[0][codes[0] >= 0]
        bits, null = told_bits(
            x,
            z,
            (own, codes[1][codes[1] >= 0]),
            sizes,
            powers=self._powers(encoded, split.train[codes[0] >= 0], own, units, sizes, seed),
            n_shuffles=self.n_shuffles,
            seed=seed,
        )
        outcome.told.append(Told(split.test[codes[1] >= 0], bits, null))

    def _powers(self, encoded: Encoded, rows: Ints, codes: Ints, units: Ints, sizes: Ints, seed: int) -> Floats:
        """How much Gaussians are weakened, by a quarter of the training rows for which units are ranked anew."""
        is_out = self._is_out(rows, codes, seed)
        if not is_out.any():
            return np.zeros(len(sizes))
        if self.subject.is_ranked_inside:
            inner = rows_of(self.matrix, rows[~is_out])
            units = self._best(inner, known_of(encoded, rows[~is_out]), seed)[:MOST_INFORMING]
        x = rows_of(self.matrix, rows).columns(units).astype(np.float64)
        return weakening(x[~is_out], x[is_out], (codes[~is_out], codes[is_out]), sizes)

    def _is_out(self, rows: Ints, codes: Ints, seed: int) -> NDArray[np.bool_]:
        """(row,): a quarter of the groups, but no row of a class of which fewer than two others would stay."""
        groups = np.unique(self.groups[rows], return_inverse=True)[1].reshape(-1)
        is_out = dealt(codes, groups, _QUARTER, seed) == 0
        n_left = np.bincount(codes[~is_out], minlength=int(codes.max()) + 1)
        return np.asarray(is_out & (n_left >= 2)[codes])


def _predicted(whole: Learned, test: Matrix) -> NDArray[Any]:
    return np.concatenate([whole.predict(block) for _, block in test.blocks()])


def _told_by(whole: Learned, encoded: Encoded, split: Split, known: Known, test: Matrix) -> Told:
    """Bits that the probe tells of the test rows whose class it knows."""
    log_priors = np.log(known.encoded.counts / known.encoded.counts.sum())
    number = np.full(len(encoded.classes), -1)
    number[known.present] = np.arange(len(known.present))
    codes = number[encoded.codes[split.test]]
    said = np.concatenate([whole.log_proba(block) for _, block in test.blocks()])
    rows = np.flatnonzero(codes >= 0)
    own = said[rows, codes[rows]]
    bits = (np.maximum(own, _LEAST_LOG) - log_priors[codes[rows]]) / np.log(2)
    return Told(split.test[rows], bits[None], np.zeros(1), int((own < _LEAST_LOG).sum()))


def _mean(matrix: Matrix) -> Floats:
    total = np.zeros(matrix.n_units)
    for _, block in matrix.blocks():
        total += block.sum(axis=0, dtype=np.float64)
    return total / matrix.n_rows
