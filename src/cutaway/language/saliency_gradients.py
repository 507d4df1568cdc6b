"""Saliency by gradients: one forward for the whole text, and a batch of vectors that go back through it.

In a causal model the logits of a row depend on no later position, so the gradients of all targets come out of the same
forward, and are exactly those of one forward for each prefix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cutaway.language.parts import Role
from cutaway.language.running import Reading
from cutaway.language.saliency_memory import Cost
from cutaway.language.saliency_targets import Explained


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
    values, shifts = _graph(reading, explained, {role: value[None] for role, value in own.items()})
    norms, sums = _empty(reading), _empty(reading)
    for part, found in _backwards(values, shifts, cost.vectors(reading.n_targets)):
        found = {role: g * own[role] for role, g in found.items()} if times_input else found
        norms[part], sums[part] = _reduced(found)
    return Scored(norms, sums, values.detach().double())


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
            values, shifts = _graph(reading, explained, points, weighed)
            for part, found in _backwards(values, shifts, cost.vectors(len(targets), len(shares)), targets):
                for role, g in found.items():
                    total[role][part.start - start : part.stop - start] += g
            del values, shifts
        whole = {role: g.mul_(own[role] - base[role]) for role, g in total.items()}
        norms[targets.start : targets.stop], sums[targets.start : targets.stop] = _reduced(whole)
    return Scored(norms, sums, at_end.double(), at_start.double())


def _graph(
    reading: Reading, explained: Explained, points: Mapping[Role, Tensor], weights: Tensor | None = None
) -> tuple[Tensor, dict[Role, Tensor]]:
    """The values (target,), weighed sums over samples, as a function of a shift that all samples share."""
    with torch.enable_grad():
        shifts = {role: torch.zeros_like(value[:1]).requires_grad_() for role, value in points.items()}
        values = explained(reading.logits_of({role: value + shifts[role] for role, value in points.items()}))
        return (values[0] if weights is None else (weights.to(values)[:, None] * values).sum(0)), shifts


def _backwards(
    values: Tensor, shifts: Mapping[Role, Tensor], at_once: int, targets: range | None = None
) -> Iterator[tuple[slice, dict[Role, Tensor]]]:
    """The gradient of each value by each shift, some at once: (which targets, {role: (target, position, d)})."""
    targets = range(len(values)) if targets is None else targets
    leaves = list(shifts.values())
    for start in range(targets.start, targets.stop, at_once):
        part = slice(start, min(start + at_once, targets.stop))
        found = _vjps(values, leaves, part) if values.requires_grad else [None] * len(leaves)
        filled = [
            leaf.new_zeros(part.stop - part.start, *leaf.shape[1:]) if g is None else g[:, 0]
            for g, leaf in zip(found, leaves, strict=True)
        ]
        yield part, dict(zip(shifts, filled, strict=True))


def _vjps(values: Tensor, leaves: list[Tensor], part: slice) -> Any:
    if part.stop - part.start > 1:
        chosen = torch.eye(len(values), dtype=values.dtype, device=values.device)[part]
        try:
            return torch.autograd.grad(
                values, leaves, chosen, retain_graph=True, is_grads_batched=True, allow_unused=True
            )
        except (RuntimeError, NotImplementedError) as error:
            if "vmap" not in str(error) and "atching rule" not in str(error):
                raise
    each = [
        torch.autograd.grad(values[i], leaves, retain_graph=True, allow_unused=True)
        for i in range(part.start, part.stop)
    ]
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
