"""Gradient × activation, integrated gradients and conductance, computed batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cutaway.capture.interventions.edit import edit
from cutaway.capture.interventions.new_values import Change
from cutaway.capture.model.eval_mode import eval_mode
from cutaway.capture.observe import Observation, check_single, no_value_error, observe
from cutaway.capture.tensors.conversion import as_tensor
from cutaway.core.errors import InputError, InputTypeError, UnitError
from cutaway.core.formatting import plural, type_text
from cutaway.core.sites import Site
from cutaway.core.units.layout import UnitLayout
from cutaway.neurons.causal.batches import BatchLayouts, Call, StatedDims, call_model, make_batches, to_device

Method = Literal["gradient_x_activation", "integrated_gradients", "conductance"]
METHODS = ("gradient_x_activation", "integrated_gradients", "conductance")
Target = int | Sequence[int] | Callable[[Any, Any], Tensor] | None
Baseline = Any
"""`"zero"`, `"mean"`, or a batch of inputs."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The settings of an attribution."""

    method: Method
    target: Target = None
    steps: int = 50
    baseline: Baseline = "zero"
    along: str | None = None
    batch_size: int | None = None
    call: Call = call_model
    stated: StatedDims = field(default_factory=StatedDims)

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise InputError(f"steps={self.steps}: must be 1 or more.")
        if isinstance(self.baseline, str) and self.baseline not in ("zero", "mean"):
            raise InputError(f"baseline={self.baseline!r}: use 'zero', 'mean' or a batch of inputs.")
        if self.method == "conductance" and isinstance(self.baseline, str) and self.baseline == "mean":
            raise InputError(
                "conductance takes no baseline='mean', because its path goes along the inputs: use 'zero' or a batch."
            )
        if self.method != "conductance" and self.along is not None:
            raise InputError(
                f"along={self.along!r} works only with conductance; the path of {self.method} goes along the units."
            )


@dataclass(frozen=True, slots=True)
class BatchAttributions:
    """The attributions of one batch."""

    n: int
    """Number of samples."""
    values: dict[str, NDArray[np.float64]]
    """For each site (sample, position, unit); one position if it has no position dimension."""
    deltas: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    """For each site (sample,): completeness delta, the sum of all attributions minus the change of the output."""
    differences: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    """For each site (sample,): the change of the output along the path."""
    seen: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    """For each site that ran once (sample, position, unit): the activations."""
    starts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """(sample,): the first position after left padding."""
    layouts: dict[str, UnitLayout] = field(default_factory=dict)
    """The unit layout of each site."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Sites that match only a pattern and whose units are unknown, with the reason."""


def attribute_batches(
    model: nn.Module, data: Any, sites: Sequence[str], plan: Plan, *, optional: Container[str] = ()
) -> Generator[BatchAttributions]:
    """Yield the attributions of each batch.

    Args:
        optional: sites to leave out if their units are unknown; other sites raise.
    """
    core: nn.Module = getattr(model, "_orig_mod", model)
    with eval_mode(core, gradients=True):
        layouts = BatchLayouts(core, plan.call, plan.stated)
        batches = make_batches(data, plan.batch_size, layouts, core)
        left_out = {site: why for site in sites if site in optional and (why := layouts.refusal(site))}
        if sites and len(left_out) == len(sites):
            raise UnitError(
                f"the units of all {plural(len(sites), 'site')} are unknown; {sites[0]!r}: {left_out[sites[0]]}."
            )
        sites = [site for site in sites if site not in left_out]
        is_mean = isinstance(plan.baseline, str) and plan.baseline == "mean"
        means = _means(core, batches, sites, plan, layouts) if is_mean else {}
        first = 0
        for batch in batches:
            run = _Run(core, to_device(batch, core), sites, plan, first, layouts)
            layouts.trace_again(run.batch)
            if plan.method == "gradient_x_activation":
                result = run.gradient_x_activation()
            elif plan.method == "integrated_gradients":
                result = run.integrated_gradients(means)
            else:
                result = run.conductance()
            first += result.n
            yield replace(result, left_out=left_out)
    if not first:
        raise InputError("data is empty: pass at least one sample.")


@dataclass(slots=True)
class _RunValues:
    """Values of one run: the target of each sample, and values and gradients of each site, pass by pass."""

    scores: Tensor
    values: dict[str, list[Tensor]]
    gradients: dict[str, list[Tensor]]
    places: dict[str, list[Site]]
    """The full sites of the values."""


@dataclass(slots=True)
class _Run:
    """Attribution of one batch."""

    model: nn.Module
    batch: Any
    sites: Sequence[str]
    plan: Plan
    first: int
    """Index of its first sample in the data."""
    layouts: BatchLayouts
    _predicted: Tensor | None = None
    """The class predicted for each sample, which stays the target along the whole path."""

    @property
    def n(self) -> int:
        return self.layouts.dims.n(self.batch)

    def gradient_x_activation(self) -> BatchAttributions:
        point = self._run_model(self.sites, {})
        result = self._new_result(point)
        result.values.update(
            {site: self._to_rows(point, site, _gradient_times_value(point, site)) for site in self.sites}
        )
        return result

    def integrated_gradients(self, means: Mapping[str, Tensor]) -> BatchAttributions:
        """Per site: integrate along the straight line from the baseline to its values, with Gauss–Legendre nodes."""
        end = self._run_model(self.sites, {}, with_gradients=False)
        start_point = None if isinstance(self.plan.baseline, str) else self._run_baseline(end)
        # n points integrate polynomials up to degree 2n - 1 exactly; Riemann sums need many more steps.
        nodes, weights = np.polynomial.legendre.leggauss(self.plan.steps)
        result = self._new_result(end)
        for site in self.sites:
            starts = (
                start_point.values[site] if start_point is not None else self._path_starts(end, site, means.get(site))
            )
            total = [torch.zeros_like(value) for value in end.values[site]]
            for node, weight in zip(((nodes + 1) / 2).tolist(), (weights / 2).tolist(), strict=True):
                here = [a + node * (b - a) for a, b in zip(starts, end.values[site], strict=True)]
                point = self._run_model([site], {site: here})
                total = [sum_ + weight * gradient for sum_, gradient in zip(total, point.gradients[site], strict=True)]
            parts = [t * (b - a) for t, a, b in zip(total, starts, end.values[site], strict=True)]
            result.values[site] = self._to_rows(end, site, parts)
            start = self._run_model([site], {site: starts}, with_gradients=False)
            self._add_completeness(result, site, end, parts, end.scores - start.scores)
        return result

    def conductance(self) -> BatchAttributions:
        """All sites at once: integrate gradient times change of the units while the inputs move along a line."""
        along = self.plan.along or self._first_input()
        end = self._run_model([*self.sites, along], {}, with_gradients=False)
        if isinstance(self.plan.baseline, str):
            starts = [torch.zeros_like(value) for value in end.values[along]]
        else:
            starts = self._run_baseline(end, [along]).values[along]
        result = self._new_result(end)
        total = {site: [torch.zeros_like(value) for value in end.values[site]] for site in self.sites}
        before = start_point = self._run_model(self.sites, {along: starts})
        for step in range(1, self.plan.steps + 1):
            share = step / self.plan.steps
            here = [a + share * (b - a) for a, b in zip(starts, end.values[along], strict=True)]
            point = self._run_model(self.sites, {along: here})
            for site in self.sites:
                for i, sum_ in enumerate(total[site]):
                    # captum takes the gradient at the near end of a step; the mean of both ends needs fewer steps.
                    slope = (before.gradients[site][i] + point.gradients[site][i]) / 2
                    sum_ += slope * (point.values[site][i] - before.values[site][i])
            before = point
        for site in self.sites:
            result.values[site] = self._to_rows(end, site, total[site])
            self._add_completeness(result, site, end, total[site], end.scores - start_point.scores)
        return result

    def _new_result(self, end: _RunValues) -> BatchAttributions:
        """An empty result with activations, padding and layouts of the batch."""
        mask = self.batch.get("attention_mask") if isinstance(self.batch, Mapping) else None
        is_mask = isinstance(mask, Tensor) and mask.dim() == 2
        starts = mask.bool().int().argmax(1).cpu().numpy() if is_mask else np.zeros(self.n)  # type: ignore[union-attr]
        once = [site for site in self.sites if len(end.values[site]) == 1]
        seen = {site: self._to_rows(end, site, end.values[site], is_masked=False) for site in once}
        layouts = {site: self._layouts(end, site)[0] for site in self.sites}
        return BatchAttributions(self.n, {}, seen=seen, starts=starts.astype(np.int64), layouts=layouts)

    def _run_model(
        self, sites: Sequence[str], fixed: Mapping[str, list[Tensor]], *, with_gradients: bool = True
    ) -> _RunValues:
        """Run the model with the values of some sites fixed; record values and gradients at `sites`."""
        values: dict[str, list[Tensor]] = {site: [] for site in sites}
        leaves: dict[str, list[Tensor]] = {site: [] for site in sites}
        passes = dict.fromkeys(fixed, 0)
        places: dict[str, list[Site]] = {site: [] for site in sites}
        names = {Site.parse(site): site for site in sites}

        def note(seen: Observation) -> None:
            check_single(seen)
            for site in (names[asked] for asked in seen.requested):
                _check_real(site, seen.tensor)
                places[site].append(seen.site)
                values[site].append(seen.tensor.detach().clone())

        def replacement(site: str) -> Change:
            def make(value: Tensor) -> Tensor:
                if site in fixed:
                    if passes[site] >= len(fixed[site]):
                        raise InputError(
                            f"{site!r} ran more often along the path than at its end: name a pass, such as ':1'."
                        )
                    value = fixed[site][passes[site]]
                    passes[site] += 1
                if not with_gradients or site not in leaves:
                    return value
                _check_real(site, value)
                leaf = torch.zeros_like(value, requires_grad=True)
                leaves[site].append(leaf)
                return value + leaf  # adding a zero leaf leaves the output unchanged; the leaf receives the gradient

            return Change(make)

        changed = dict.fromkeys([*fixed, *(sites if with_gradients else ())])
        with torch.enable_grad() if with_gradients else torch.no_grad():
            with edit(self.model, {site: replacement(site) for site in changed}) if changed else nullcontext():
                with observe(self.model, list(sites), note) if sites else nullcontext() as observer:
                    output = self.plan.call(self.model, self.batch)
            if observer is not None and observer.missing_sites:
                raise no_value_error(observer.missing_sites[0])
            scores = self._scores(output)
            gradients: dict[str, list[Tensor]] = {}
            if with_gradients:
                gradients = _gradients(scores, leaves)
        return _RunValues(scores.detach(), values, gradients, places)

    def _scores(self, output: Any) -> Tensor:
        """The target of each sample."""
        target, n = self.plan.target, self.n
        if callable(target):
            result = target(output, self.batch)
            if not isinstance(result, Tensor) or result.numel() not in (1, n) or not result.is_floating_point():
                what = f"shape {list(result.shape)}" if isinstance(result, Tensor) else type(result).__name__
                raise InputError(f"target returned {what} for {n} samples: return one float per sample, or their sum.")
            return result.reshape(-1)
        logits = _logits(output)
        if logits.dim() != 2 or len(logits) != n:
            raise InputError(
                f"the output has shape {list(logits.shape)} for {n} samples: pass target=lambda output, batch: … that "
                "returns a number per sample."
            )
        classes = self._classes(logits, n)
        if bool((classes < 0).any()) or bool((classes >= logits.shape[1]).any()):
            raise InputError(f"target={target!r}: the output has {logits.shape[1]} classes, counted from 0.")
        return logits.gather(1, classes[:, None])[:, 0]

    def _classes(self, logits: Tensor, n: int) -> Tensor:
        target = self.plan.target
        if target is None:
            # Along the path the largest logit may change; the attribution is of the first prediction.
            if self._predicted is None:
                self._predicted = logits.detach().argmax(1)
            return self._predicted
        if isinstance(target, (int, np.integer)):
            return torch.full((n,), int(target), device=logits.device)
        classes = np.asarray(target).reshape(-1)
        if classes.dtype.kind not in "iu":
            raise InputTypeError(
                f"target={target!r}: pass an integer class, one integer class per sample, or a function of "
                "(output, batch)."
            )
        if len(classes) < self.first + n:
            raise InputError(f"target has {plural(len(classes), 'value')}: pass one integer class per sample.")
        every = torch.as_tensor(classes, device="cpu")
        return every[self.first : self.first + n].long().to(logits.device)

    def _run_baseline(self, end: _RunValues, sites: Sequence[str] | None = None) -> _RunValues:
        """Values of the run on the baseline inputs."""
        wanted = self.sites if sites is None else sites
        baseline = to_device(self.plan.baseline, self.model)
        other = _Run(self.model, baseline, wanted, _without_target(self.plan), 0, self.layouts)
        result = other._run_model(wanted, {}, with_gradients=False)
        for site in wanted:
            for i, (a, b) in enumerate(zip(result.values[site], end.values[site], strict=True)):
                try:
                    result.values[site][i] = a.expand_as(b)
                except RuntimeError:
                    raise InputError(
                        f"the baseline has shape {list(a.shape)} at {site!r}, but the data has {list(b.shape)}: pass "
                        "baseline inputs with one sample, or as many as each batch, and the same sizes."
                    ) from None
        return result

    def _first_input(self) -> str:
        parts = (
            self.batch.items()
            if isinstance(self.batch, Mapping)
            else enumerate(self.batch if isinstance(self.batch, (tuple, list)) else [self.batch])
        )
        for name, part in parts:
            if isinstance(part, Tensor) and part.is_floating_point():
                return f".@in.{name}"
        raise InputError("the model has no floating-point input: pass along=, a site such as the embeddings.")

    def _to_rows(
        self, point: _RunValues, site: str, parts: list[Tensor], *, is_masked: bool = True
    ) -> NDArray[np.float64]:
        """(sample, position, unit), summed over passes; 0 at padding."""
        result = None
        mask = self.batch.get("attention_mask") if isinstance(self.batch, Mapping) and is_masked else None
        for part, layout in zip(parts, self._layouts(point, site), strict=True):
            rows = layout.rows(part).double()
            if isinstance(mask, Tensor) and mask.shape == rows.shape[:2]:
                rows = rows * mask[..., None].to(rows)
            # Passes of different lengths have no common positions to add up.
            if result is not None and result.shape != rows.shape:
                rows, result = rows.sum(1, keepdim=True), result.sum(1, keepdim=True)
            result = rows if result is None else result + rows
        if result is None:
            raise InputError(f"nothing ran at {site!r}.")
        array: NDArray[np.float64] = result.cpu().numpy()
        return array

    def _layouts(self, point: _RunValues, site: str) -> list[UnitLayout]:
        """Unit layouts of the values of a site; raises if the samples of the batch are not a dimension."""
        result = []
        for place, value in zip(point.places[site], point.values[site], strict=True):
            layout = self.layouts.at(site, place, value, self.n).check(site)
            if prod(layout.sizes[axis] for axis in layout.samples) != self.n or not layout.samples:
                raise InputError(
                    f"{site!r} has shape {list(value.shape)} for {self.n} samples, but no sample dimension: the model "
                    "selects or mixes samples there, or you need to pass samples=."
                )
            result.append(layout)
        return result

    def _path_starts(self, end: _RunValues, site: str, mean: Tensor | None) -> list[Tensor]:
        """Start of the path for each value."""
        if mean is None:
            return [torch.zeros_like(value) for value in end.values[site]]
        layouts = self._layouts(end, site)
        values = end.values[site]
        return [layout.spread(mean.to(value), value.shape) for layout, value in zip(layouts, values, strict=True)]

    def _add_completeness(
        self, result: BatchAttributions, site: str, point: _RunValues, parts: list[Tensor], difference: Tensor
    ) -> None:
        """Store the completeness delta of a site."""
        layouts = self._layouts(point, site)
        total = sum(layout.rows(part).double().sum((1, 2)) for layout, part in zip(layouts, parts, strict=True))
        change = difference.double()
        # A target that sums over the batch has one change for all samples.
        total = total if len(change) == self.n else total.sum()[None]  # type: ignore[union-attr]
        result.deltas[site] = (total - change).cpu().numpy()  # type: ignore[union-attr]
        result.differences[site] = change.cpu().numpy()


def _check_real(site: str, value: Tensor) -> None:
    if not value.is_floating_point():
        raise InputError(f"{site!r} has dtype {value.dtype}, which has no gradient: choose a floating-point site.")


def _gradients(scores: Tensor, leaves: Mapping[str, list[Tensor]]) -> dict[str, list[Tensor]]:
    flat = [leaf for each in leaves.values() for leaf in each]
    if not scores.requires_grad:
        raise InputError("the target has no gradient with respect to these sites.")
    # A site that the target does not depend on has no gradient, and an attribution of 0.
    result = iter(torch.autograd.grad(scores.sum(), flat, allow_unused=True))
    return {
        site: [torch.zeros_like(leaf) if grad is None else grad for leaf, grad in zip(each, result, strict=False)]
        for site, each in leaves.items()
    }


def _gradient_times_value(point: _RunValues, site: str) -> list[Tensor]:
    return [value * grad for value, grad in zip(point.values[site], point.gradients[site], strict=True)]


def _means(
    model: nn.Module, batches: Iterable[Any], sites: Sequence[str], plan: Plan, layouts: BatchLayouts
) -> dict[str, Tensor]:
    """Mean of each unit over samples and positions, without padding."""
    if not isinstance(batches, Sequence):
        raise InputTypeError("baseline='mean' reads the data twice: pass a list of batches.")
    totals: dict[str, Tensor] = {}
    counts: dict[str, int] = {}
    for batch in batches:
        run = _Run(model, to_device(batch, model), sites, _without_target(plan), 0, layouts)
        point = run._run_model(sites, {}, with_gradients=False)
        for site in sites:
            rows = as_tensor(run._to_rows(point, site, point.values[site]))
            mask = batch.get("attention_mask") if isinstance(batch, Mapping) else None
            is_masked = mask is not None and tuple(mask.shape) == tuple(rows.shape[:2])
            n = int(mask.sum()) if is_masked and mask is not None else rows.shape[0] * rows.shape[1]
            counts[site] = counts.get(site, 0) + n * len(point.values[site])
            totals[site] = totals.get(site, 0.0) + rows.sum((0, 1))
    return {site: total / counts[site] for site, total in totals.items()}


def _without_target(plan: Plan) -> Plan:
    # A baseline batch may have another number of samples than `target=` has classes.
    return Plan(plan.method, _zero_target, plan.steps, "zero", plan.along, None, plan.call)


def _zero_target(output: Any, batch: Any) -> Tensor:
    return torch.zeros(1, device="cpu")


def _logits(output: Any) -> Tensor:
    result = getattr(output, "logits", output)
    if isinstance(result, (tuple, list)) and result:
        result = result[0]
    if not isinstance(result, Tensor):
        raise InputError(f"the model returned {type_text(output)}, not logits: pass target=lambda output, batch: …")
    return result
