"""Attribution: how much each unit has to do with the model's own output, by gradients.

gradient × activation: Shrikumar et al., "Not Just a Black Box", 2016. Integrated gradients: Sundararajan, Taly & Yan,
"Axiomatic Attribution for Deep Networks", ICML 2017. Conductance: Dhamdhere, Sundararajan & Yan, "How Important Is a
Neuron?", ICLR 2019.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray
from torch import nn

from cutaway.capture.interventions.targets import only_by_pattern, units_by_site
from cutaway.capture.units.live_units import UnitDim
from cutaway.core.errors import InputError
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
from cutaway.neurons.causal.batches import Call, StatedDims, tokenize_texts
from cutaway.neurons.ranking.class_statistics import moments
from cutaway.neurons.ranking.compare import select_rows
from cutaway.results.ranking import Ranking, ranked

if TYPE_CHECKING:
    from cutaway.core.matrices import Matrix
    from cutaway.neurons.labels.labels import EncodedLabels

Floats = NDArray[np.float64]
_OTHER, _ROUNDED = 0.1, 5e-3
"""How far values may be from those collected: in parts of what is the row's own, and of all, which is rounded."""


class AttributeOptions(TypedDict, total=False):
    """Further choices of `attribute`."""

    steps: int
    """Points at which the path is looked at; 50 if not given."""
    baseline: Baseline
    """Where the path begins: "zero", "mean" (of each unit over the data), or a batch of inputs, of one sample or as
    many as every batch has. Of conductance, which goes along the inputs: "zero" or a batch."""
    along: str
    """Conductance: the site whose value goes from the baseline to what it is, such as the embeddings; without it the
    first tensor of real numbers that the model is given."""
    signed: bool
    """Sum over positions and samples with signs, so that what helps here and harms there cancels. Else the sizes
    are summed over positions."""
    batch_size: int
    """Samples that are run at once, of tensors; 32 if not given."""
    call: Call
    """How the model is called with a batch, `lambda model, batch: model(batch[0])`."""
    unit_dim: UnitDim
    """The dimension that counts units, or several in the order of the flat index `#k`, of all sites: where the graph of
    the model does not tell it."""
    samples: int
    """The dimension of the data that counts samples, where the graph of the model does not tell it."""
    tokenizer: Any
    """Where the data is a list of texts, or of lists of words."""


def attribute(
    model: nn.Module,
    data: Any,
    *,
    at: Any,
    target: Target = None,
    method: Method = "gradient_x_activation",
    **options: Unpack[AttributeOptions],
) -> Ranking:
    """Units by their part in a model's own output, for one prediction or a corpus of them.

    >>> import torch
    >>> model = nn.Linear(3, 2, bias=False)
    >>> _ = model.weight.data.copy_(torch.tensor([[5.0, 0.0, -1.0], [0.0, 1.0, 0.0]]))
    >>> found = attribute(model, torch.ones(4, 3), at=".@in.0", target=0)
    >>> found.top(2), found.scores.tolist(), found.signs.tolist()
    (['.@in.0#0', '.@in.0#2'], [5.0, 0.0, 1.0], [1, 0, -1])

    The model runs in evaluation mode. Its parameters get no gradients.

    Args:
        data: a tensor of samples, a tuple of such (the model's arguments), a mapping (by name, as a tokenizer gives
            it), or several such batches; or texts with a tokenizer.
        at: sites or units: `encoder.layer.*`, `h.3.mlp`, `conv1`, `h.3.mlp#17`.
        target: what is explained: a class (of the last dimension of the output), one class for each sample, or a
            function of (output, batch) that gives a number for each sample, such as a loss. Without it the largest
            output of each sample.
        method: "gradient_x_activation", "integrated_gradients" or "conductance".
        how: `steps`, `baseline`, `along`, `signed`, `batch_size`, `call`, `unit_dim`, `samples`, `tokenizer`: see
            `AttributeOptions`.
    """
    units = units_by_site(model, at)
    plan = _plan(method, target, options)
    sums = _Sums({}, {}, options.get("signed", False))
    optional = {site for site in units if only_by_pattern(at, site)}
    left_out: Mapping[str, str] = {}
    with closing(attribute_batches(model, _inputs(data, options), list(units), plan, optional=optional)) as batches:
        for found in batches:
            sums.add(found)
            left_out = found.left_out
    scores, signs, names = sums.combine({site: some for site, some in units.items() if site not in left_out})
    about = {"attribution": method, "n_samples": sums.n, "signed": sums.is_signed, **sums.about(plan)}
    if left_out:
        about["left_out"] = dict(left_out)
        site, why = next(iter(left_out.items()))
        n = f"{len(left_out):,} site{'s' if len(left_out) > 1 else ''}"
        warnings.warn(
            f"cutaway: {n} that the pattern covers have no units that are known, all in ranking.about['left_out']. "
            f"{site!r}: {why}",
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
    **options: Any,
) -> Ranking:
    """Units by their part in the model's own output, at the rows of each label.

    A row's share is summed over its tokens, or over all positions of its sample where it stands for the whole.

    Args:
        model: the one the activations were collected of.
        data: its inputs, as `attribute` takes them: the items of the activations, in their order.
        attribution: as `method` of `attribute`; the other options are its own.
    """
    unknown = set(options) - set(AttributeOptions.__annotations__)
    if unknown:
        known = ", ".join(["model", "data", "target", "attribution", *AttributeOptions.__annotations__])
        raise InputError(f"method='gradient' has no option {sorted(unknown)[0]!r}; it has {known}.")
    if model is None or data is None:
        raise InputError(
            "method='gradient' asks the model itself: give model= and data=, the inputs of the items in their order; "
            "neurons.attribute(model, data, at=…) needs neither activations nor labels."
        )
    if matrix.names is None or not hasattr(matrix.source, "items"):
        raise InputError("method='gradient' needs activations with sites: those of cutaway.collect.")
    units = units_by_site(model, list(matrix.names))
    plan = _plan(attribution, target, options, layouts_of(matrix.names))  # type: ignore[arg-type]
    rows = _RowSums(matrix, encoded, options.get("signed", False))
    with closing(attribute_batches(model, _inputs(data, options), list(units), plan)) as batches:
        for found in batches:
            rows.add(found)
    return rows.ranking({"attribution": attribution, "signed": rows.is_signed, **rows.about(plan)})


def _plan(
    method: Any, target: Target, options: AttributeOptions, layouts: Mapping[str, UnitLayout] | None = None
) -> Plan:
    if method not in METHODS:
        raise InputError(f"method={method!r}: give {', '.join(map(repr, METHODS))}.")
    unknown = set(options) - set(AttributeOptions.__annotations__)
    if unknown:
        known = ", ".join(f"{name}=" for name in AttributeOptions.__annotations__)
        raise InputError(f"{sorted(unknown)[0]!r} is nothing that attribute can be told; there are {known}.")
    apart = ("signed", "tokenizer", "unit_dim", "samples")
    chosen: dict[str, Any] = {name: value for name, value in options.items() if name not in apart}
    return Plan(method, target, **chosen, stated=StatedDims(options.get("samples"), options.get("unit_dim"), layouts))


def _inputs(data: Any, options: Mapping[str, Any]) -> Any:
    """What the model is given."""
    return data if options.get("tokenizer") is None else tokenize_texts(options["tokenizer"], data)


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

    def add(self, found: BatchAttributions) -> None:
        self.n += found.n
        for site, values in found.values.items():  # (sample, position, unit)
            self._sizes[site] = self._sizes.get(site, 0.0) + np.abs(values).sum(axis=(0, 1))
            self._sums[site] = self._sums.get(site, 0.0) + values.sum(axis=(0, 1))
        self.note(found)

    def note(self, found: BatchAttributions) -> None:
        """Keep how units are counted, and how far the sums are from what they should be."""
        self.layouts.update(found.layouts)
        for site, delta in found.deltas.items():
            self._deltas.setdefault(site, []).append(delta)
            self._differences.setdefault(site, []).append(found.differences[site])

    def combine(self, units: Mapping[str, list[int] | None]) -> tuple[Floats, Floats, list[str]]:
        """Scores, signs and names of the units that were asked for."""
        scores, signs, names = [], [], []
        for site, chosen in units.items():
            every = range(len(self._sums[site]))
            some = every if chosen is None else chosen
            if some and max(some) not in every:
                raise InputError(f"'{site}#{max(some)}' was asked for, and {site!r} has {len(every):,} units.")
            mean = self._sums[site][list(some)] / self.n
            scores.append(np.abs(mean) if self.is_signed else self._sizes[site][list(some)] / self.n)
            signs.append(np.sign(mean))
            names += [f"{site}#{unit}" for unit in some]
        return np.concatenate(scores), np.concatenate(signs), names

    def about(self, plan: Plan) -> dict[str, object]:
        """Steps, baseline and, for each site, what is missing to completeness."""
        if plan.method == "gradient_x_activation":
            return {}
        found: dict[str, object] = {
            "steps": plan.steps,
            "baseline": plan.baseline if isinstance(plan.baseline, str) else "inputs",
            "delta": {site: float(np.abs(np.concatenate(each)).max()) for site, each in self._deltas.items()},
            "difference": {site: float(np.concatenate(each).mean()) for site, each in self._differences.items()},
        }
        return found


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

    def add(self, found: BatchAttributions) -> None:
        rows = np.flatnonzero((self._items >= self.n) & (self._items < self.n + found.n))
        kept = select_rows(self._matrix, rows).array().astype(np.float64) if len(rows) else np.empty((0, 0))
        mean = kept.mean(axis=0) if len(rows) else kept
        for row, own in zip(rows.tolist(), kept, strict=True):
            sample = int(self._items[row]) - self.n
            first, last = self._positions(row, sample, found)
            self._compare(row, own, mean, found)
            weights = self._weights[:, row, None]
            for site, values in found.values.items():
                columns, units = self._columns[site]
                here = values[sample] if first < 0 else values[sample, first : last + 1]  # (position, unit)
                part = here[:, units]
                self._by_label[0][:, columns] += weights * np.abs(part).sum(axis=0)
                self._by_label[1][:, columns] += weights * part.sum(axis=0)
        self.n += found.n
        self.note(found)

    def _positions(self, row: int, sample: int, found: BatchAttributions) -> tuple[int, int]:
        """The first and the last position of a row; -1 where it stands for the whole sample.

        Tokens of text are counted behind the padding that a tokenizer may put before them, positions of tensors not.
        """
        first, last = self._tokens[row].tolist()
        start = int(found.starts[sample]) if first >= 0 and self._is_of_text else 0
        return first + start, last + start

    def _compare(self, row: int, own: Floats, mean: Floats, found: BatchAttributions) -> None:
        """Refuse data in which a row is not what was collected."""
        sample = int(self._items[row]) - self.n
        first, last = self._positions(row, sample, found)
        for site, values in found.seen.items():
            columns, units = self._columns[site]
            here = values[sample] if first < 0 else values[sample, first : last + 1]  # (position, unit)
            if first < 0 and len(here) > 1:
                continue  # which positions a whole item is made of is not kept
            there = _pooled(here[:, units], self._aggregate) if len(here) else np.full(len(units), np.inf)
            a, centered = own[columns], own[columns] - mean[columns]
            allowed = _OTHER * np.linalg.norm(centered) + _ROUNDED * np.linalg.norm(a)
            if np.linalg.norm(there - a) > allowed + np.finfo(np.float16).tiny:
                word = self._matrix.source.words[row]
                said = f" ({word!r})" if word else ""
                raise InputError(
                    f"row {row}{said} of item {int(self._items[row])} has other values at {site!r} for data= than it "
                    "was collected with: give the model and the inputs of collect, item by item in the same order."
                )

    def ranking(self, about: dict[str, object]) -> Ranking:
        """The whole over all rows, and one ranking for each label."""
        if self.n <= self._items.max():
            raise InputError(f"data has {self.n:,} samples, and the activations {int(self._items.max()) + 1:,} items.")
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
    """(unit,): positions as one row."""
    if aggregate in ("first", "last"):
        return np.asarray(values[0 if aggregate == "first" else -1])
    return np.asarray(values.max(axis=0) if aggregate == "max" else values.mean(axis=0))


def _weights(encoded: EncodedLabels, n_rows: int) -> NDArray[np.float64]:
    """(1 + label, row): 1 where the row has the label; the first is of all rows."""
    every = np.ones((1, n_rows))
    if encoded.kind == "numbers":
        return every
    codes = np.asarray(encoded.codes)
    own = codes.T if encoded.kind == "multilabel" else codes == np.arange(len(encoded.classes))[:, None]
    return np.concatenate([every, own.astype(np.float64)])
