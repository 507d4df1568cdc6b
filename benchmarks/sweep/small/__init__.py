"""Small models of other fields.

agents            Reinforcement learning: policies, values, search
audio             Waveforms, spectrograms, separation, transduction
diffusion         Diffusion and flow matching, with their sampling loops
generative        Flows, autoencoders, differential equations, spikes
graphs            Graph networks: sparse products, scatters, attention, trees
recurrent_vision  Networks that look several times
registry          The list of small models
sequences         Attention, memory, scans, searches
video             Space and time together, or frame by frame
vision            Images, points, scenes, sets
"""

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
