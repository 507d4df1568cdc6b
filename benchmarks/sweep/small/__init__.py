"""Small models that stand for other fields: audio, video, graphs, agents, diffusion, recurrent vision and more."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from benchmarks.sweep.families import Case
from benchmarks.sweep.small.registry import MODELS

FIELDS = ("audio", "video", "graphs", "agents", "diffusion", "recurrent_vision", "generative", "sequences", "vision")


class Small:
    """One model for each entry of `MODELS`, built by hand with seeded weights."""

    def __init__(self) -> None:
        for field in FIELDS:
            import_module(f"{__name__}.{field}")

    def names(self) -> Sequence[str]:
        return list(MODELS)

    def make(self, name: str) -> Case:
        return MODELS[name]()
