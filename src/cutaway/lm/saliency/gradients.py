"""Saliency by gradients: one forward pass for the whole text, then a batch of vector-Jacobian products.

In a causal model the logits of a row depend on no later position. So one forward pass serves all targets, and gives
exactly the gradients of one pass per prefix. A target depends on its own row of the head's input alone, so one backward
pass through the head serves all targets as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cutaway.core.errors import InputError
from cutaway.lm.arguments import whole_number
from cutaway.lm.model.forward_run import PromptRun
from cutaway.lm.saliency.baselines import UNSEEN, ZERO, baseline_embeddings
from cutaway.lm.saliency.target_groups import group_targets, merge_groups
from cutaway.lm.saliency.targets import Objective
from cutaway.lm.saliency.task import SaliencyTask, TargetScores
from cutaway.results.lm.tokens import Role


def gradient(task: SaliencyTask) -> TargetScores:
    """The gradient of each target with respect to the embeddings."""
    return _by_group(task, partial(_gradient, times_input=False))


def grad_x_input(task: SaliencyTask) -> TargetScores:
    """The gradient of each target times the embeddings."""
    return _by_group(task, partial(_gradient, times_input=True))


def integrated_gradients(task: SaliencyTask, *, baseline: Any = ZERO, steps: int = 50) -> TargetScores:
    """Integrated gradients along the straight line from the baseline, by Gauss–Legendre quadrature."""
    if isinstance(baseline, str) and baseline == UNSEEN:
        raise InputError("baseline='unseen' is for method='occlusion': there is no path from a masked token.")
    steps = whole_number(steps, "steps")
    return _by_group(task, partial(_integrated, baseline=baseline, steps=steps))


def _by_group(task: SaliencyTask, score: Callable[[SaliencyTask], TargetScores]) -> TargetScores:
    """Scores the targets in groups, each on the text up to its last target."""
    cost, run = task.memory_cost(), task.run
    cost.check()  # before anything of full length runs
    groups = group_targets(run.rows.tolist(), cost.rows) if run.kind == "causal" else [range(run.n_targets)]
    scores = [score(task.select(group)) for group in groups]
    return merge_groups(scores, groups, sum(len(run.ids(role)) for role in run.roles))


def _gradient(task: SaliencyTask, *, times_input: bool) -> TargetScores:
    run, cost = task.run, task.memory_cost()
    cost.check()
    embeddings = run.embeddings()
    graph = _graph(run, task.objective, {role: value[None] for role, value in embeddings.items()})
    norms, sums = _zeros(run), _zeros(run)
    for part, grads in graph.gradients(cost.vectors(run.n_targets)):
        grads = {role: g * embeddings[role] for role, g in grads.items()} if times_input else grads
        norms[part], sums[part] = _norms_and_sums(grads)
    return TargetScores(norms, sums, graph.values.detach().double())


def _integrated(task: SaliencyTask, *, baseline: Any, steps: int) -> TargetScores:
    run, objective, cost = task.run, task.objective, task.memory_cost()
    vectors = baseline_embeddings(run, task.tokenizer, baseline)
    cost.check()
    embeddings = run.embeddings()
    base = {role: vectors[role].expand_as(value) for role, value in embeddings.items()}
    # Points and weights on [-1, 1]; halved below, for a path on [0, 1].
    places, weights = np.polynomial.legendre.leggauss(steps)
    ends = {role: torch.stack([value, base[role]]) for role, value in embeddings.items()}
    with torch.no_grad():
        at_end, at_start = (
            objective(run.forward(embeds={r: v[i : i + 1] for r, v in ends.items()}).logits)[0] for i in (0, 1)
        )
    norms, sums = _zeros(run), _zeros(run)
    n_samples = cost.samples(steps, gradients=True)
    # Gradients are summed over all steps before norms are taken, so a group of targets needs room for its sums.
    bytes_per_target = 4 * sum(value.numel() for value in embeddings.values())
    group = max(1, min(run.n_targets, cost.limit // 4 // bytes_per_target))
    for start in range(0, run.n_targets, group):
        targets = range(start, min(start + group, run.n_targets))
        total = {role: value.new_zeros(len(targets), *value.shape) for role, value in embeddings.items()}
        for first in range(0, steps, n_samples):
            shares = _column((1 + places[first : first + n_samples]) / 2, embeddings)
            step_weights = _column(weights[first : first + n_samples] / 2, embeddings)[:, 0, 0]
            points = {role: base[role] + shares * (value - base[role]) for role, value in embeddings.items()}
            graph = _graph(run, objective, points, step_weights)
            for part, grads in graph.gradients(cost.vectors(len(targets), len(shares)), targets):
                for role, g in grads.items():
                    total[role][part.start - start : part.stop - start] += g
            del graph  # frees its saved tensors before the next graph is built
        attributions = {role: g.mul_(embeddings[role] - base[role]) for role, g in total.items()}
        norms[targets.start : targets.stop], sums[targets.start : targets.stop] = _norms_and_sums(attributions)
    return TargetScores(norms, sums, at_end.double(), at_start.double())


@dataclass(frozen=True, slots=True)
class _Graph:
    """The values of the targets, differentiable with respect to the embeddings."""

    values: Tensor
    """(target,): weighted sums over samples."""
    shifts: dict[Role, Tensor]
    """Role → (1, position, d): zeros that were added to the embeddings of all samples; the leaves."""
    rows: Tensor | None = None
    """(sample, row, d): the input of the head, if each target has its own row."""
    row_of: Tensor | None = None
    """(target,): the row of each target in `rows`."""

    def gradients(self, at_once: int, targets: range | None = None) -> Iterator[tuple[slice, dict[Role, Tensor]]]:
        """Gradients of the values with respect to the shifts, in batches: (targets, {role: (target, position, d)})."""
        targets = range(len(self.values)) if targets is None else targets
        leaves = list(self.shifts.values())
        head_gradient = self._head_gradient()
        for start in range(targets.start, targets.stop, at_once):
            part = slice(start, min(start + at_once, targets.stop))
            grads: Sequence[Tensor | None] = [None] * len(leaves)
            if self.values.requires_grad:
                grads = _vjps(*self._vectors(head_gradient, part), leaves)
            filled = [
                leaf.new_zeros(part.stop - part.start, *leaf.shape[1:]) if g is None else g[:, 0]
                for g, leaf in zip(grads, leaves, strict=True)
            ]
            yield part, dict(zip(self.shifts, filled, strict=True))

    def _head_gradient(self) -> Tensor | None:
        """(sample, row, d): one backward pass through the head for all targets; None if they share rows."""
        if self.rows is None or not self.values.requires_grad:
            return None
        # The sum separates again by rows: a target depends on its own row only.
        (grads,) = torch.autograd.grad(self.values.sum(), self.rows, retain_graph=True, allow_unused=True)
        return None if grads is None else grads.detach()

    def _vectors(self, head_gradient: Tensor | None, part: slice) -> tuple[Tensor, Tensor]:
        """The tensor to differentiate, and the vectors (target, …) of the vector-Jacobian products."""
        if head_gradient is None or self.rows is None or self.row_of is None:
            eye = torch.eye(len(self.values), dtype=self.values.dtype, device=self.values.device)
            return self.values, eye[part]
        at = self.row_of[part]
        vectors = head_gradient.new_zeros(len(at), *head_gradient.shape)
        vectors[torch.arange(len(at), device=at.device), :, at] = head_gradient[:, at].movedim(1, 0)
        return self.rows, vectors


def _graph(
    run: PromptRun, objective: Objective, points: Mapping[Role, Tensor], weights: Tensor | None = None
) -> _Graph:
    """The values as a function of a shift that all samples share: its gradient is the sum over samples."""
    site = f"{run.anatomy.head}@in.0"
    # Two targets at one row (labels of one text) share the head's input, so one backward pass cannot tell them apart.
    has_own_rows = run.kind != "classifier" and len(set(run.rows.tolist())) == run.n_targets
    with torch.enable_grad():
        # One shift for all samples: its gradient is their weighted sum, without a gradient per sample in memory.
        shifts = {role: torch.zeros_like(value[:1]).requires_grad_() for role, value in points.items()}
        embeds = {role: value + shifts[role] for role, value in points.items()}
        result = run.forward([site] if has_own_rows else [], embeds=embeds, gradients=True)
        values = objective(result.logits)
        values = values[0] if weights is None else (weights.to(values)[:, None] * values).sum(0)
    rows = result.values.get(site)
    if rows is None or rows.dim() != 3 or not rows.requires_grad:
        return _Graph(values, shifts)
    if rows.shape[1] == run.n_targets and "logits_to_keep" in run.accepted:
        return _Graph(values, shifts, rows, torch.arange(run.n_targets, device=rows.device))
    has_all_rows = rows.shape[1] == len(run.ids())
    return _Graph(values, shifts, rows, run.rows) if has_all_rows else _Graph(values, shifts)


def _vjps(outputs: Tensor, vectors: Tensor, leaves: list[Tensor]) -> Any:
    # Batched by vmap: 3.4 s instead of 4.1 s for 20 targets of GPT-2 small on one CPU core.
    if len(vectors) > 1:
        try:
            return torch.autograd.grad(
                outputs, leaves, vectors, retain_graph=True, is_grads_batched=True, allow_unused=True
            )
        except (RuntimeError, NotImplementedError) as error:  # an op without a batching rule: one by one instead
            if "vmap" not in str(error) and "atching rule" not in str(error):
                raise
    each = [torch.autograd.grad(outputs, leaves, vector, retain_graph=True, allow_unused=True) for vector in vectors]
    return [None if some[0] is None else torch.stack(some) for some in zip(*each, strict=True)]


def _norms_and_sums(grads: Mapping[Role, Tensor]) -> tuple[Tensor, Tensor]:
    """(target, position): norms and sums over the embedding."""
    norms = [torch.linalg.vector_norm(g, dim=-1, dtype=torch.float64) for g in grads.values()]
    return torch.cat(norms, 1), torch.cat([g.sum(-1, dtype=torch.float64) for g in grads.values()], 1)


def _zeros(run: PromptRun) -> Tensor:
    n = sum(len(run.ids(role)) for role in run.roles)
    return torch.zeros(run.n_targets, n, dtype=torch.float64, device=run.device)


def _column(numbers: Any, embeddings: Mapping[Role, Tensor]) -> Tensor:
    like = next(iter(embeddings.values()))
    return torch.tensor(numbers, dtype=like.dtype, device=like.device)[:, None, None]
