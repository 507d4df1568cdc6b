"""Which way of the stream leads to a logit: its direction, with the final norm's scale held still.

The model's own code behind its blocks does it all, so scales, projections and prediction heads are the model's.
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
from cutaway.lm.model.forward_run import Reading
from cutaway.lm.model.frozen_norms import FrozenNorm, frozen_norm, in_place_of
from cutaway.lm.model.head import is_whole, tail
from cutaway.lm.saliency.targets import Explained

_AT_ONCE = 64 * 2**20
"""Bytes of logits that are made at once."""
_FARTHER = 4.0
"""How much farther along the stream is looked, to see whether logits grow in a straight line."""


@dataclass(frozen=True, slots=True)
class Direction:
    """The logit of each target is `u` · stream + `constant`."""

    u: Tensor
    """(target, d), float64."""
    constant: Tensor
    """(target,): what biases of the final norm and the head give."""
    logits: Tensor
    """(target,): what is explained, as the model computes it."""
    rows: Tensor
    """(target,): the position of the stream that it comes from."""
    is_capped: bool
    """Whether the model bends its logits afterwards: then these are the ones before."""


def direction(reading: Reading, asked: Explained, hidden: Tensor) -> Direction:
    """Of each target.

    Args:
        asked: which logits, or differences of two.
        hidden: (position, d): the stream behind the last block.
    """
    rows = picked(reading, hidden)
    if rows is None:
        raise InputError(
            f"{type(reading.model).__name__} takes several positions together for its logits: gen.saliency() explains "
            "them."
        )
    step = max(1, min(len(hidden), _AT_ONCE // (4 * _n_classes(reading))))  # a tail takes no more than the text at once
    for at_head in (False, True):
        parts = []
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            found = _part(reading, _cut(asked, part), hidden, rows[part], at_head=at_head)
            if found is None:
                break
            parts.append(found)
        else:
            u, constant, logits = (torch.cat(each) for each in zip(*parts, strict=True))
            return Direction(u, constant, logits, rows, at_head)
    name = type(reading.model).__name__
    raise InputError(
        f"the logits of {name} are not a linear map of its normed stream, so nothing sums to them: gen.saliency() "
        "explains them by gradients."
    )


def _part(
    reading: Reading, asked: Explained, hidden: Tensor, rows: Tensor, *, at_head: bool
) -> tuple[Tensor, Tensor, Tensor] | None:
    """(u, constant, logits) of some targets; None where logits do not follow the stream in a straight line."""
    address = reading.anatomy.stack.final_norm
    norm = None if address is None else ModelIndex.of(reading.model).modules[address]
    cells = hidden[rows]
    frozen = None if norm is None else frozen_norm(norm, cells)
    if norm is not None and frozen is None:
        raise InputError(
            f"the final norm {address!r} of {type(reading.model).__name__} is neither a layer norm nor an RMS norm: "
            "its scale cannot be held still, and nothing sums to a logit."
        )

    def logits(at: Tensor, *, still: bool = True) -> Tensor:
        with ExitStack() as stack:
            if still and norm is not None and frozen is not None:
                laid = frozen if not is_whole(reading) else _everywhere(frozen, hidden, rows)
                stack.enter_context(in_place_of(norm, laid))
            return _logits(reading, at, hidden, rows, at_head=at_head)

    with torch.no_grad():
        own, there, zero, farther = (
            logits(cells, still=False),
            *(logits(cells * factor) for factor in (1.0, 0.0, _FARTHER)),
        )
    largest = (there - zero).abs().amax().clamp_min(1e-30)
    bent = ((farther - zero) - _FARTHER * (there - zero)).abs().amax() / (_FARTHER * largest)
    if not bool(bent < (1e-3 if hidden.dtype in (torch.float32, torch.float64) else 5e-2)):
        return None
    leaf = cells.detach().clone().requires_grad_()
    with torch.enable_grad():
        (u,) = torch.autograd.grad(asked(logits(leaf)[None]).sum(), leaf)
    return u.double(), asked(zero[None])[0].double(), asked(own[None])[0].double()


def _logits(reading: Reading, cells: Tensor, hidden: Tensor, rows: Tensor, *, at_head: bool) -> Tensor:
    """(target, class): what the model makes of streams at the rows of the targets; before what follows the head."""
    if is_whole(reading):
        whole = hidden.expand(len(rows), -1, -1).clone()
        whole[torch.arange(len(rows)), rows] = cells
        given = whole
    else:
        given = cells[None]
    with _heard(reading, at_head) as heard:
        found = tail(reading, given)
    if at_head:
        found = heard[-1]
        return found.reshape(-1, found.shape[-1])[: len(cells)]
    return found.reshape(len(cells), -1)


@contextmanager
def _heard(reading: Reading, is_wanted: bool) -> Iterator[list[Tensor]]:
    """What the head returns, inside the block."""
    heard: list[Tensor] = []
    if not is_wanted:
        yield heard
        return
    with observe(reading.model, reading.anatomy.head, lambda seen: heard.append(seen.tensor)):
        yield heard


def picked(reading: Reading, hidden: Tensor) -> Tensor | None:
    """(target,): the position of the stream that each comes from; None where several make one logit.

    A classifier of texts takes the first position, or the last, or a mean: which, is seen by what changes its logits.
    """
    if not is_whole(reading):
        return reading.rows
    leaf = hidden[None].detach().clone().requires_grad_()
    with torch.enable_grad():
        (found,) = torch.autograd.grad(tail(reading, leaf).square().sum(), leaf)
    used = found[0].abs().sum(-1).nonzero()[:, 0]
    return used.expand(reading.n_targets) if len(used) == 1 else None


def _everywhere(frozen: FrozenNorm, hidden: Tensor, rows: Tensor) -> FrozenNorm:
    """With a scale for each position of each sample; only those of the targets matter."""
    scales = torch.ones(len(rows), len(hidden), dtype=torch.float64, device=hidden.device)
    scales[torch.arange(len(rows)), rows] = frozen.scales
    return FrozenNorm(frozen.gain, frozen.bias, scales.reshape(-1), frozen.is_centred)


def _cut(asked: Explained, part: slice) -> Explained:
    return Explained(asked.target, asked.classes[part], None if asked.others is None else asked.others[part])


def _n_classes(reading: Reading) -> int:
    found = getattr(getattr(reading.model, "config", None), "vocab_size", None)
    return found if isinstance(found, int) else 2**16
