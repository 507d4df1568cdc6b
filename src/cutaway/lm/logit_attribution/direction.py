"""The direction of the residual stream that leads to a logit, with the scale of the final norm frozen.

The model's own code after its blocks computes it, so scales, projections and prediction heads are the model's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from cutaway.capture.interventions.targets import ModelIndex
from cutaway.capture.observe import observe
from cutaway.core.errors import InputError
from cutaway.lm.model.forward_run import PromptRun
from cutaway.lm.model.frozen_norms import FrozenNorm, frozen_norm, replace_norm
from cutaway.lm.model.head import head_logits, is_pooled, n_classes
from cutaway.lm.saliency.targets import Objective

_AT_ONCE = 64 * 2**20
"""Bytes of logits computed at once."""
_FARTHER = 4.0
"""The stream is scaled by this factor to test whether logits are linear in it."""


@dataclass(frozen=True, slots=True)
class Direction:
    """The logit of each target is `u` · stream + `constant`."""

    u: Tensor
    """(target, d), float64."""
    constant: Tensor
    """(target,): the biases of the final norm and the head."""
    logits: Tensor
    """(target,): the logit that is explained, as the model computes it."""
    rows: Tensor
    """(target,): the position of the stream it comes from."""
    is_capped: bool
    """Whether the model soft-caps its logits; then these are the logits before the cap."""


def direction(run: PromptRun, objective: Objective, hidden: Tensor) -> Direction:
    """The direction of each target.

    Args:
        objective: which logits, or differences of two.
        hidden: (position, d): the residual stream after the last block.
    """
    rows = source_positions(run, hidden)
    if rows is None:
        raise InputError(
            f"{type(run.model).__name__} pools several positions for its logits: use gen.saliency() instead."
        )
    step = max(1, min(len(hidden), _AT_ONCE // (4 * n_classes(run))))  # the head takes at most one text length at once
    # A soft cap bends the logits. What comes out of the head itself is then still linear.
    for at_head in (False, True):
        parts = []
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            linear = _linearize(run, _slice_objective(objective, part), hidden, rows[part], at_head=at_head)
            if linear is None:
                break
            parts.append(linear)
        else:
            u, constant, logits = (torch.cat(each) for each in zip(*parts, strict=True))
            return Direction(u, constant, logits, rows, at_head)
    name = type(run.model).__name__
    raise InputError(
        f"the logits of {name} are not linear in its normed residual stream, so contributions do not sum to them: use "
        "gen.saliency() instead."
    )


def _linearize(
    run: PromptRun, objective: Objective, hidden: Tensor, rows: Tensor, *, at_head: bool
) -> tuple[Tensor, Tensor, Tensor] | None:
    """(u, constant, logits) of some targets; None if the logits are not linear in the stream."""
    address = run.anatomy.stack.final_norm
    norm = None if address is None else ModelIndex.of(run.model).modules[address]
    cells = hidden[rows]
    frozen = None if norm is None else frozen_norm(norm, cells)
    if norm is not None and frozen is None:
        raise InputError(
            f"the final norm {address!r} of {type(run.model).__name__} is neither a layer norm nor an RMS norm: its "
            "scale cannot be frozen, so contributions do not sum to a logit."
        )

    def logits(at: Tensor, *, still: bool = True) -> Tensor:
        with ExitStack() as stack:
            if still and norm is not None and frozen is not None:
                expanded = frozen if not is_pooled(run) else _expand_scales(frozen, hidden, rows)
                stack.enter_context(replace_norm(norm, expanded))
            return _logits(run, at, hidden, rows, at_head=at_head)

    with torch.no_grad():
        unfrozen, there, zero, farther = (
            logits(cells, still=False),
            *(logits(cells * factor) for factor in (1.0, 0.0, _FARTHER)),
        )
    largest = (there - zero).abs().amax().clamp_min(1e-30)
    bent = ((farther - zero) - _FARTHER * (there - zero)).abs().amax() / (_FARTHER * largest)
    if not bool(bent < (1e-3 if hidden.dtype in (torch.float32, torch.float64) else 5e-2)):
        return None
    leaf = cells.detach().clone().requires_grad_()
    with torch.enable_grad():
        (u,) = torch.autograd.grad(objective(logits(leaf)[None]).sum(), leaf)
    return u.double(), objective(zero[None])[0].double(), objective(unfrozen[None])[0].double()


def _logits(run: PromptRun, cells: Tensor, hidden: Tensor, rows: Tensor, *, at_head: bool) -> Tensor:
    """(target, class): the logits for streams at the rows of the targets; `at_head`: before any soft cap."""
    if is_pooled(run):
        whole = hidden.expand(len(rows), -1, -1).clone()
        whole[torch.arange(len(rows), device=rows.device), rows] = cells
        given = whole
    else:
        given = cells[None]
    with _record_head(run, at_head) as recorded:
        logits = head_logits(run, given)
    if at_head:
        logits = recorded[-1]
        return logits.reshape(-1, logits.shape[-1])[: len(cells)]
    return logits.reshape(len(cells), -1)


@contextmanager
def _record_head(run: PromptRun, is_wanted: bool) -> Iterator[list[Tensor]]:
    """Context manager: collects the outputs of the head."""
    recorded: list[Tensor] = []
    if not is_wanted:
        yield recorded
        return
    with observe(run.model, run.anatomy.head, lambda seen: recorded.append(seen.tensor)):
        yield recorded


def source_positions(run: PromptRun, hidden: Tensor) -> Tensor | None:
    """(target,): the position of the stream that each target comes from; None if several positions are pooled.

    A sequence classifier may use the first position, the last, or a mean: the gradient of its logits shows which.
    """
    if not is_pooled(run):
        return run.rows
    leaf = hidden[None].detach().clone().requires_grad_()
    with torch.enable_grad():
        (gradient,) = torch.autograd.grad(head_logits(run, leaf).square().sum(), leaf)
    used = gradient[0].abs().sum(-1).nonzero()[:, 0]
    return used.expand(run.n_targets) if len(used) == 1 else None


def _expand_scales(frozen: FrozenNorm, hidden: Tensor, rows: Tensor) -> FrozenNorm:
    """The norm with a scale for each position of each sample; only those of the targets matter."""
    scales = torch.ones(len(rows), len(hidden), dtype=torch.float64, device=hidden.device)
    scales[torch.arange(len(rows), device=rows.device), rows] = frozen.scales
    return FrozenNorm(frozen.gain, frozen.bias, scales.reshape(-1), frozen.is_centered)


def _slice_objective(objective: Objective, part: slice) -> Objective:
    return Objective(
        objective.target, objective.classes[part], None if objective.others is None else objective.others[part]
    )
