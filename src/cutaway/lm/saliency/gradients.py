"""Saliency by gradients: one forward for the whole text, and a batch of vectors that go back through it.

In a causal model the logits of a row depend on no later position, so the gradients of all targets come out of the same
forward, and are exactly those of one forward for each prefix. As a target depends on its own row of the head's input
alone, one way back through the head serves all targets too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cutaway.lm.model.forward_run import Reading
from cutaway.lm.model.parts import Role
from cutaway.lm.saliency.memory import Cost
from cutaway.lm.saliency.targets import Explained


@dataclass(frozen=True, slots=True)
class Scored:
    """Numbers for each target and position; those of an encoder first."""

    norms: Tensor
    """(target, position): L2 over the embedding, not normalised."""
    sums: Tensor
    """(target, position)."""
    values: Tensor
    """(target,): what was explained."""
    baseline_values: Tensor | None = None


def gradient(reading: Reading, explained: Explained, cost: Cost, *, times_input: bool) -> Scored:
    """The gradient of each target by the embeddings; times these, if asked for."""
    cost.check()
    own = reading.embeddings()
    graph = _graph(reading, explained, {role: value[None] for role, value in own.items()})
    norms, sums = _empty(reading), _empty(reading)
    for part, found in graph.backwards(cost.vectors(reading.n_targets)):
        found = {role: g * own[role] for role, g in found.items()} if times_input else found
        norms[part], sums[part] = _reduced(found)
    return Scored(norms, sums, graph.values.detach().double())


def integrated(
    reading: Reading, explained: Explained, cost: Cost, *, baseline: Mapping[Role, Tensor], steps: int
) -> Scored:
    """Integrated gradients along the straight line from the baseline, by Gauss–Legendre points."""
    cost.check()
    own = reading.embeddings()
    base = {role: baseline[role].expand_as(value) for role, value in own.items()}
    places, weights = np.polynomial.legendre.leggauss(steps)
    ends = {role: torch.stack([value, base[role]]) for role, value in own.items()}
    with torch.no_grad():
        at_end, at_start = (
            explained(reading.see(embeds={r: v[i : i + 1] for r, v in ends.items()}).logits)[0] for i in (0, 1)
        )
    norms, sums = _empty(reading), _empty(reading)
    n_samples = cost.samples(steps, gradients=True)
    held = 4 * sum(value.numel() for value in own.values())
    group = max(1, min(reading.n_targets, cost.limit // 4 // held))
    for start in range(0, reading.n_targets, group):
        targets = range(start, min(start + group, reading.n_targets))
        total = {role: value.new_zeros(len(targets), *value.shape) for role, value in own.items()}
        for first in range(0, steps, n_samples):
            shares = _column((1 + places[first : first + n_samples]) / 2, own)
            weighed = _column(weights[first : first + n_samples] / 2, own)[:, 0, 0]
            points = {role: base[role] + shares * (value - base[role]) for role, value in own.items()}
            graph = _graph(reading, explained, points, weighed)
            for part, found in graph.backwards(cost.vectors(len(targets), len(shares)), targets):
                for role, g in found.items():
                    total[role][part.start - start : part.stop - start] += g
            del graph  # before the next is made
        whole = {role: g.mul_(own[role] - base[role]) for role, g in total.items()}
        norms[targets.start : targets.stop], sums[targets.start : targets.stop] = _reduced(whole)
    return Scored(norms, sums, at_end.double(), at_start.double())


@dataclass(frozen=True, slots=True)
class _Graph:
    """What can be differentiated."""

    values: Tensor
    """(target,): weighed sums over samples."""
    shifts: dict[Role, Tensor]
    """Role → (1, position, d): zeros that were added to the embeddings of all samples."""
    rows: Tensor | None = None
    """(sample, row, d): what enters the head, where each target has a row of its own."""
    row_of: Tensor | None = None
    """(target,): which one."""

    def backwards(self, at_once: int, targets: range | None = None) -> Iterator[tuple[slice, dict[Role, Tensor]]]:
        """The gradient of each value by each shift, some at once: (which targets, {role: (target, position, d)})."""
        targets = range(len(self.values)) if targets is None else targets
        leaves = list(self.shifts.values())
        through = self._through_the_head()
        for start in range(targets.start, targets.stop, at_once):
            part = slice(start, min(start + at_once, targets.stop))
            found = _vjps(*self._vectors(through, part), leaves) if self.values.requires_grad else [None] * len(leaves)
            filled = [
                leaf.new_zeros(part.stop - part.start, *leaf.shape[1:]) if g is None else g[:, 0]
                for g, leaf in zip(found, leaves, strict=True)
            ]
            yield part, dict(zip(self.shifts, filled, strict=True))

    def _through_the_head(self) -> Tensor | None:
        if self.rows is None or not self.values.requires_grad:
            return None
        (found,) = torch.autograd.grad(self.values.sum(), self.rows, retain_graph=True, allow_unused=True)
        return None if found is None else found.detach()

    def _vectors(self, through: Tensor | None, part: slice) -> tuple[Tensor, Tensor]:
        """What is differentiated, and the vectors (target, …) that go back from it."""
        if through is None or self.rows is None or self.row_of is None:
            eye = torch.eye(len(self.values), dtype=self.values.dtype, device=self.values.device)
            return self.values, eye[part]
        at = self.row_of[part]
        vectors = through.new_zeros(len(at), *through.shape)
        vectors[torch.arange(len(at), device=at.device), :, at] = through[:, at].movedim(1, 0)
        return self.rows, vectors


def _graph(
    reading: Reading, explained: Explained, points: Mapping[Role, Tensor], weights: Tensor | None = None
) -> _Graph:
    """The values as a function of a shift that all samples share."""
    site = f"{reading.anatomy.head}@in.0"
    is_apart = reading.kind != "classifier" and len(set(reading.rows.tolist())) == reading.n_targets
    with torch.enable_grad():
        shifts = {role: torch.zeros_like(value[:1]).requires_grad_() for role, value in points.items()}
        embeds = {role: value + shifts[role] for role, value in points.items()}
        seen = reading.see([site] if is_apart else [], embeds=embeds, gradients=True)
        values = explained(seen.logits)
        values = values[0] if weights is None else (weights.to(values)[:, None] * values).sum(0)
    rows = seen.values.get(site)
    if rows is None or rows.dim() != 3 or not rows.requires_grad:
        return _Graph(values, shifts)
    if rows.shape[1] == reading.n_targets and "logits_to_keep" in reading.accepted:
        return _Graph(values, shifts, rows, torch.arange(reading.n_targets, device=rows.device))
    is_whole = rows.shape[1] == len(reading.ids())
    return _Graph(values, shifts, rows, reading.rows) if is_whole else _Graph(values, shifts)


def _vjps(outputs: Tensor, vectors: Tensor, leaves: list[Tensor]) -> Any:
    if len(vectors) > 1:
        try:
            return torch.autograd.grad(
                outputs, leaves, vectors, retain_graph=True, is_grads_batched=True, allow_unused=True
            )
        except (RuntimeError, NotImplementedError) as error:
            if "vmap" not in str(error) and "atching rule" not in str(error):
                raise
    each = [torch.autograd.grad(outputs, leaves, vector, retain_graph=True, allow_unused=True) for vector in vectors]
    return [None if some[0] is None else torch.stack(some) for some in zip(*each, strict=True)]


def _reduced(found: Mapping[Role, Tensor]) -> tuple[Tensor, Tensor]:
    """(target, position) norms and sums over the embedding."""
    norms = [torch.linalg.vector_norm(g, dim=-1, dtype=torch.float64) for g in found.values()]
    return torch.cat(norms, 1), torch.cat([g.sum(-1, dtype=torch.float64) for g in found.values()], 1)


def _empty(reading: Reading) -> Tensor:
    n = sum(len(reading.ids(role)) for role in reading.roles)
    return torch.zeros(reading.n_targets, n, dtype=torch.float64, device=reading.device)


def _column(numbers: Any, own: Mapping[Role, Tensor]) -> Tensor:
    like = next(iter(own.values()))
    return torch.tensor(numbers, dtype=like.dtype, device=like.device)[:, None, None]
