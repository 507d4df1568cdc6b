"""`attribute`: gradient attribution of the model output to units.

Gradient × activation: Shrikumar et al., "Not Just a Black Box", 2016. Integrated gradients: Sundararajan, Taly & Yan,
"Axiomatic Attribution for Deep Networks", ICML 2017. Conductance: Dhamdhere, Sundararajan & Yan, "How Important Is a
Neuron?", ICLR 2019.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from cutaway.capture.interventions.targets import only_by_pattern, units_by_site
from cutaway.capture.units.live_units import UnitDim
from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import hint, plural, type_text
from cutaway.core.units.layout import UnitLayout
from cutaway.core.units.unit_sites import UnitSites, layouts_of
from cutaway.neurons.causal.attribution import (
    METHODS,
    Baseline,
    BatchAttributions,
    Method,
    Plan,
    Target,
    attribute_batches,
)
from cutaway.neurons.causal.batches import Call, StatedDims, call_model, tokenize_texts
from cutaway.neurons.ranking.class_statistics import moments
from cutaway.neurons.ranking.compare import select_rows
from cutaway.results.neurons.ranking import Ranking, ranked

if TYPE_CHECKING:
    from cutaway.core.matrices import Matrix
    from cutaway.neurons.labels.labels import EncodedLabels

Floats = NDArray[np.float64]
_OTHER, _ROUNDED = 0.1, 5e-3
"""Tolerated distance from the collected values: relative to the deviation of the row from the mean, and to its norm,
which allows for rounding to float16."""


def attribute(
    model: nn.Module,
    data: Any,
    *,
    at: Any,
    target: Target = None,
    method: Method = "gradient_x_activation",
    steps: int = 50,
    baseline: Baseline = "zero",
    along: str | None = None,
    signed: bool = False,
    batch_size: int | None = None,
    call: Call | None = None,
    unit_dim: UnitDim | None = None,
    samples: int | None = None,
    tokenizer: Any = None,
) -> Ranking:
    """Rank units by their contribution to the model output, for one prediction or a corpus.

    >>> import torch
    >>> model = nn.Linear(3, 2, bias=False)
    >>> _ = model.weight.data.copy_(torch.tensor([[5.0, 0.0, -1.0], [0.0, 1.0, 0.0]]))
    >>> ranking = attribute(model, torch.ones(4, 3), at=".@in.0", target=0)
    >>> ranking.top(2), ranking.scores.tolist(), ranking.signs.tolist()
    (['.@in.0#0', '.@in.0#2'], [5.0, 0.0, 1.0], [1, 0, -1])

    The model runs in eval mode. Its parameters get no gradients.

    Args:
        model: the model to attribute.
        data: a tensor of samples, a tuple of tensors (positional arguments), a mapping of tensors (keyword arguments,
            such as the output of a tokenizer), or an iterable of such batches; or texts with `tokenizer=`.
        at: sites or units: `encoder.layer.*`, `h.3.mlp`, `conv1`, `h.3.mlp#17`.
        target: what to attribute: a class (index into the last dimension of the output), one class per sample, or a
            function of (output, batch) that returns a number per sample, such as a loss. Default: the largest output of
            each sample.
        method: "gradient_x_activation", "integrated_gradients" or "conductance".
        steps: number of points on the path of integrated gradients and conductance.
        baseline: start of the path: "zero", "mean" (of each unit over the data), or a batch of inputs with one sample
            or as many as each batch. Conductance, whose path goes along the inputs, takes "zero" or a batch.
        along: conductance: the site whose value moves along the path, such as the embeddings. Default: the first
            floating-point input of the model.
        signed: sum signed attributions over positions and samples, so that opposite effects cancel. Default: sum of
            absolute attributions.
        batch_size: samples per batch, if the data is tensors. Default: 32.
        call: how to call the model with a batch, such as `lambda model, batch: model(batch[0])`.
        unit_dim: the unit dimension of all sites, or several in the order of the flat index `#k`, if the graph of the
            model does not determine it.
        samples: the sample dimension of the data, if the graph of the model does not determine it.
        tokenizer: tokenizer, if the data is a list of texts or of lists of words.
    """
    if not isinstance(model, nn.Module):
        raise InputTypeError(f"attribute() got {type_text(model)} as model: pass a torch.nn.Module, then the data.")
    plan = _plan(
        method,
        target,
        steps=steps,
        baseline=baseline,
        along=along,
        batch_size=batch_size,
        call=call or call_model,
        stated=StatedDims(samples, unit_dim, None),
    )
    units = units_by_site(model, at)
    sums = _Sums({}, {}, signed)
    optional = {site for site in units if only_by_pattern(at, site)}
    left_out: Mapping[str, str] = {}
    # The generator holds the model in eval mode, so an error here must close it at once.
    with closing(attribute_batches(model, _inputs(data, tokenizer), list(units), plan, optional=optional)) as batches:
        for attributions in batches:
            sums.add(attributions)
            left_out = attributions.left_out
    scores, signs, names = sums.combine({site: some for site, some in units.items() if site not in left_out})
    about = {"attribution": method, "n_samples": sums.n, "signed": sums.is_signed, **sums.about(plan)}
    if left_out:
        about["left_out"] = dict(left_out)
        site, why = next(iter(left_out.items()))
        warnings.warn(
            f"cutaway: left out {plural(len(left_out), 'matching site')} with unknown units, see "
            f"ranking.about['left_out']. {site!r}: {why}",
            UserWarning,
            stacklevel=2,
        )
    return ranked("gradient", scores, signs=signs, names=UnitSites(names, sums.layouts), about=about)


def gradient(
    matrix: Matrix,
    encoded: EncodedLabels,
    *,
    model: Any = None,
    data: Any = None,
    target: Target = None,
    attribution: Method = "gradient_x_activation",
    steps: int = 50,
    baseline: Baseline = "zero",
    along: str | None = None,
    signed: bool = False,
    batch_size: int | None = None,
    call: Call | None = None,
    unit_dim: UnitDim | None = None,
    samples: int | None = None,
    tokenizer: Any = None,
) -> Ranking:
    """Rank units by their contribution to the model output, at the rows of each label.

    The contribution to a row is summed over its tokens, or over all positions if the row stands for a whole sample.

    Args:
        model: the model that the activations come from.
        data: the inputs of the items of the activations, in the same order, in the form that `attribute` takes.
        target: as for `attribute`, like all arguments below.
        attribution: the `method` of `attribute`.
    """
    if model is None or data is None:
        raise InputError(
            "method='gradient' needs the model: pass model= and data=, the inputs of the items in the same order. "
            "neurons.attribute(model, data, at=…) needs neither activations nor labels."
        )
    if matrix.names is None or not hasattr(matrix.source, "items"):
        raise InputError("method='gradient' needs activations with sites: pass the result of cutaway.collect.")
    plan = _plan(
        attribution,
        target,
        steps=steps,
        baseline=baseline,
        along=along,
        batch_size=batch_size,
        call=call or call_model,
        stated=StatedDims(samples, unit_dim, layouts_of(matrix.names)),
    )
    units = units_by_site(model, list(matrix.names))
    rows = _RowSums(matrix, encoded, signed)
    with closing(attribute_batches(model, _inputs(data, tokenizer), list(units), plan)) as batches:
        for attributions in batches:
            rows.add(attributions)
    return rows.ranking({"attribution": attribution, "signed": rows.is_signed, **rows.about(plan)})


def _plan(method: Any, target: Target, **settings: Any) -> Plan:
    if method not in METHODS:
        raise InputError(f"method={method!r}: use {', '.join(map(repr, METHODS))}.{hint(method, METHODS)}")
    return Plan(method, target, **settings)


def _inputs(data: Any, tokenizer: Any) -> Any:
    """The inputs of the model."""
    return data if tokenizer is None else tokenize_texts(tokenizer, data)


class _Sums:
    """Running sums over samples, site by site."""

    def __init__(self, sizes: dict[str, Floats], sums: dict[str, Floats], is_signed: bool) -> None:
        self._sizes = sizes
        self._sums = sums
        self.is_signed = is_signed
        self.n = 0
        self.layouts: dict[str, UnitLayout] = {}
        self._deltas: dict[str, list[Floats]] = {}
        self._differences: dict[str, list[Floats]] = {}

    def add(self, batch: BatchAttributions) -> None:
        self.n += batch.n
        for site, values in batch.values.items():  # (sample, position, unit)
            self._sizes[site] = self._sizes.get(site, 0.0) + np.abs(values).sum(axis=(0, 1))
            self._sums[site] = self._sums.get(site, 0.0) + values.sum(axis=(0, 1))
        self.note(batch)

    def note(self, batch: BatchAttributions) -> None:
        """Store unit layouts and completeness deltas."""
        self.layouts.update(batch.layouts)
        for site, delta in batch.deltas.items():
            self._deltas.setdefault(site, []).append(delta)
            self._differences.setdefault(site, []).append(batch.differences[site])

    def combine(self, units: Mapping[str, list[int] | None]) -> tuple[Floats, Floats, list[str]]:
        """Scores, signs and names of the requested units."""
        scores, signs, names = [], [], []
        for site, chosen in units.items():
            every = range(len(self._sums[site]))
            some = every if chosen is None else chosen
            for unit in some:
                self.layouts[site].check_unit(unit, site)
            mean = self._sums[site][list(some)] / self.n
            scores.append(np.abs(mean) if self.is_signed else self._sizes[site][list(some)] / self.n)
            signs.append(np.sign(mean))
            names += [f"{site}#{unit}" for unit in some]
        return np.concatenate(scores), np.concatenate(signs), names

    def about(self, plan: Plan) -> dict[str, object]:
        """Steps, baseline and, per site, the completeness delta."""
        if plan.method == "gradient_x_activation":
            return {}
        about: dict[str, object] = {
            "steps": plan.steps,
            "baseline": plan.baseline if isinstance(plan.baseline, str) else "inputs",
            "delta": {site: float(np.abs(np.concatenate(each)).max()) for site, each in self._deltas.items()},
            "difference": {site: float(np.concatenate(each).mean()) for site, each in self._differences.items()},
        }
        return about


class _RowSums(_Sums):
    """Running sums over the rows of each label."""

    def __init__(self, matrix: Matrix, encoded: EncodedLabels, is_signed: bool) -> None:
        super().__init__({}, {}, is_signed)
        self._matrix = matrix
        self._encoded = encoded
        acts = matrix.source
        self._items, self._tokens = np.asarray(acts.items), np.asarray(acts.tokens)
        self._aggregate, self._is_of_text = acts.aggregate, "tokenizer" in acts.provenance
        self._columns: dict[str, tuple[list[int], list[int]]] = {}
        for column, name in enumerate(matrix.names or ()):
            site, _, unit = name.rpartition("#")
            places, numbers = self._columns.setdefault(site, ([], []))
            places.append(column)
            numbers.append(int(unit))
        self._weights = _weights(encoded, len(self._items))  # (label, row)
        self._by_label = np.zeros((2, len(self._weights), matrix.n_units))  # sizes, then sums with signs

    def add(self, batch: BatchAttributions) -> None:
        rows = np.flatnonzero((self._items >= self.n) & (self._items < self.n + batch.n))
        collected = select_rows(self._matrix, rows).array().astype(np.float64) if len(rows) else np.empty((0, 0))
        mean = collected.mean(axis=0) if len(rows) else collected
        for row, row_values in zip(rows.tolist(), collected, strict=True):
            sample = int(self._items[row]) - self.n
            first, last = self._positions(row, sample, batch)
            self._compare(row, row_values, mean, batch)
            weights = self._weights[:, row, None]
            for site, values in batch.values.items():
                columns, units = self._columns[site]
                here = values[sample] if first < 0 else values[sample, first : last + 1]  # (position, unit)
                part = here[:, units]
                self._by_label[0][:, columns] += weights * np.abs(part).sum(axis=0)
                self._by_label[1][:, columns] += weights * part.sum(axis=0)
        self.n += batch.n
        self.note(batch)

    def _positions(self, row: int, sample: int, batch: BatchAttributions) -> tuple[int, int]:
        """The first and the last position of a row; -1 if the row stands for the whole sample.

        Token positions of text are counted after left padding; positions of tensors are not shifted.
        """
        first, last = self._tokens[row].tolist()
        start = int(batch.starts[sample]) if first >= 0 and self._is_of_text else 0
        return first + start, last + start

    def _compare(self, row: int, row_values: Floats, mean: Floats, batch: BatchAttributions) -> None:
        """Raise if the values of a row differ from the collected ones."""
        sample = int(self._items[row]) - self.n
        first, last = self._positions(row, sample, batch)
        for site, values in batch.seen.items():
            columns, units = self._columns[site]
            here = values[sample] if first < 0 else values[sample, first : last + 1]  # (position, unit)
            if first < 0 and len(here) > 1:
                continue  # the positions of a whole item are not stored
            observed = _pooled(here[:, units], self._aggregate) if len(here) else np.full(len(units), np.inf)
            a, centered = row_values[columns], row_values[columns] - mean[columns]
            allowed = _OTHER * np.linalg.norm(centered) + _ROUNDED * np.linalg.norm(a)
            if np.linalg.norm(observed - a) > allowed + np.finfo(np.float16).tiny:
                word = self._matrix.source.words[row]
                in_words = f" ({word!r})" if word else ""
                raise InputError(
                    f"row {row}{in_words} of item {int(self._items[row])} has other values at {site!r} for data= than "
                    "were collected: pass the same model and the same inputs as to collect, in the same order."
                )

    def ranking(self, about: dict[str, object]) -> Ranking:
        """The ranking over all rows, with one ranking per label."""
        if self.n <= self._items.max():
            raise InputError(
                f"data has {self.n:,} samples, but the activations have {int(self._items.max()) + 1:,} items."
            )
        counts = np.maximum(self._weights.sum(axis=1), 1)[:, None]
        sizes, sums = self._by_label / counts
        scores = np.abs(sums) if self.is_signed else sizes
        fields: dict[str, Any] = {"names": self._matrix.names, "dead": moments(self._matrix, self._encoded).dead}
        about = {"kind": self._encoded.kind, "n_rows": self._matrix.n_rows, **about}
        per_label = {
            label: ranked("gradient", scores[i], signs=np.sign(sums[i]), about={**about, "label": label}, **fields)
            for i, label in enumerate(self._encoded.classes if len(scores) > 1 else (), start=1)
        }
        return ranked("gradient", scores[0], signs=np.sign(sums[0]), per_label=per_label, about=about, **fields)


def _pooled(values: Floats, aggregate: str) -> Floats:
    """(unit,): aggregate positions into one row."""
    if aggregate in ("first", "last"):
        return np.asarray(values[0 if aggregate == "first" else -1])
    return np.asarray(values.max(axis=0) if aggregate == "max" else values.mean(axis=0))


def _weights(encoded: EncodedLabels, n_rows: int) -> NDArray[np.float64]:
    """(1 + label, row): 1 if the row has the label; the first line is all ones."""
    every = np.ones((1, n_rows))
    if encoded.kind == "numbers":
        return every
    codes = np.asarray(encoded.codes)
    has_label = codes.T if encoded.kind == "multilabel" else codes == np.arange(len(encoded.classes))[:, None]
    return np.concatenate([every, has_label.astype(np.float64)])
