"""The list of small models, filled by the files beside this one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.sweep.families import Case

MODELS: dict[str, Callable[[], Case]] = {}
"""Name, with its field in front → a maker of the model and its inputs."""


def small(make: Callable[[], tuple[Any, ...]]) -> Callable[[], tuple[Any, ...]]:
    """Add a function that returns a model and its arguments; its file is the field, its name the model."""
    field = make.__module__.rsplit(".", 1)[1]

    def seeded() -> Case:
        torch.manual_seed(0)
        model, *args = make()
        assert isinstance(model, nn.Module)
        return Case(model.eval(), tuple(args), how=(make.__doc__ or "").strip())

    MODELS[f"{field}/{make.__name__}"] = seeded
    return make
