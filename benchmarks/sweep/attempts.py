"""Trying one way after another to build a model and run it plainly."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from benchmarks.sweep.families import CannotRun, CannotShrink, Case

Attempt = tuple[str, Callable[[], nn.Module], Callable[[], tuple[Any, ...]]]
"""What is tried, in words; a maker of the model; a maker of its arguments."""


def first_that_runs(attempts: Iterable[Attempt]) -> Case:
    """The first attempt whose plain forward runs; each error is told once."""
    reasons: dict[str, None] = {}
    built = False
    for how, model_of, args_of in attempts:
        try:
            torch.manual_seed(0)
            model = model_of().eval()
        except Exception as error:
            reasons[_said(error)] = None
            continue
        built = True
        args = args_of()
        try:
            with torch.no_grad():
                model(*args)
        except Exception as error:
            reasons[_said(error)] = None
            continue
        return Case(model, args, how=how)
    raise (CannotRun if built else CannotShrink)("; ".join(reasons))


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
