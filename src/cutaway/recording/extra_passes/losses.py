"""`run.backward`: one backward pass of the sum of several losses, and extra ones for the part of each loss."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from cutaway.capture import sessions
from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import listed, type_text
from cutaway.recording.extra_passes.backward_check import graph_of, reason_to_skip
from cutaway.recording.step import RecordedStep

Inputs = Tensor | Sequence[Tensor] | None
"""What `backward(inputs=)` takes."""

_SKIPPED = (
    "run.backward() did not record the gradients of each loss ({names}): {reason}. To record them, call backward for "
    "each loss inside `with run.gradients(name):`"
)


def named_losses(losses: Mapping[str, Tensor] | None, named: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The losses of one call by name."""
    if losses is not None and not isinstance(losses, Mapping):
        raise InputTypeError(
            f"run.backward() got {type_text(losses)}. Name each loss: run.backward(main=a, aux=b), or pass a dict."
        )
    parts = {**(losses or {}), **named}
    if not parts:
        raise InputError("run.backward() got no loss: name each one, as in run.backward(main=a, aux=b).")
    return {str(name): loss for name, loss in parts.items()}


def total_of(losses: Mapping[str, Tensor]) -> Tensor:
    """The sum from left to right, as `a + b + c` adds it."""
    return reduce(operator.add, losses.values())


def record_parts(step: RecordedStep, losses: Mapping[str, Any], inputs: Inputs, *, retain_graph: bool) -> None:
    """Record the gradients of each loss as `grad/<name>`, by one `torch.autograd.grad` call per loss.

    Must run before the backward pass of the sum, which frees the graph.

    Args:
        inputs: what `backward` gets; None for all leaves.
        retain_graph: whether the graph is kept after the backward pass of the sum, so that another one may follow.
    """
    gradients = step.hooks.gradients
    # Anything else makes the backward pass of the sum fail, or has no gradient.
    parts = {name: loss for name, loss in losses.items() if isinstance(loss, Tensor) and loss.requires_grad}
    if not gradients.n_hooks or any(loss.numel() != 1 for loss in parts.values()) or step.graph_start is None:
        return
    graph = graph_of(parts.values())
    reason = reason_to_skip(graph, step.graph_start, gradients.n_handles, gradients.is_own)
    if reason:
        names = listed([f"grad/{name}" for name in losses])
        gradients.notes[_SKIPPED.format(names=names, reason=reason)] = None
        return
    wanted = graph.leaves if inputs is None else inputs
    for name, loss in parts.items():
        with gradients.part_of(name, retain_graph=retain_graph), sessions.hidden_run():
            torch.autograd.grad(loss, wanted, retain_graph=True, allow_unused=True)
