"""What comgra costs on the same trainings: measured in its own process, or else as the notes have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.peers.environments import COMGRA, PeerError, ask
from benchmarks.peers.torchlens import NOTES_MARK, Cited

# ../shared/notes/recording.md: × plain, bytes a step.
_NOTES: dict[tuple[str, str], tuple[float, float]] = {
    ("mlp", "attached"): (1.0, 0),
    ("mlp", "statistics"): (16, 24e3),
    ("mlp", "statistics, SVD"): (26, 26e3),
    ("mlp", "values"): (117, 286e3),
    ("transformer", "attached"): (1.0, 0),
    ("transformer", "statistics"): (2.5, 114e3),
    ("transformer", "statistics, SVD"): (3.4, 119e3),
    ("transformer", "values"): (208, 39.3e6),
}


@dataclass(frozen=True, slots=True)
class Comgra:
    """The peer's numbers."""

    cases: dict[str, dict[str, Any]] = field(default_factory=dict)
    chain: dict[str, float] = field(default_factory=dict)
    """Milliseconds that a step of a chain takes more, by the number of its modules."""
    problems: tuple[str, ...] = ()

    def ratio(self, name: str, mode: str) -> Cited:
        """Times a plain step."""
        return self._cited(name, mode, "ratio", 0)

    def n_bytes(self, name: str, mode: str) -> Cited:
        """Bytes on disk that a step takes."""
        return self._cited(name, mode, "bytes", 1)

    def _cited(self, name: str, mode: str, key: str, place: int) -> Cited:
        measured = self.cases.get(name, {}).get(mode)
        if measured is not None:
            return measured[key], ""
        known = _NOTES.get((name, mode))
        return (None, "") if known is None else (known[place], NOTES_MARK)


def from_notes(problem: str) -> Comgra:
    return Comgra(problems=(problem,))


def measured(n_pairs: Mapping[str, int], chain: Sequence[int]) -> Comgra:
    """Ask comgra about these trainings, each so many times, and about chains of so many modules."""
    arguments = [f"{name}={number}" for name, number in n_pairs.items()]
    try:
        answer = ask(COMGRA, "benchmarks.peers.comgra_worker", [*arguments, "--chain", *map(str, chain)], seconds=1800)
    except PeerError as error:
        return from_notes(str(error))
    return Comgra(answer["cases"], answer["chain"])
