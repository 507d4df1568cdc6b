"""What torchlens costs on the same models: measured in its own process, or else as the notes have it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.capture.models import Case
from benchmarks.peers.environments import TORCHLENS, PeerError, ask

NOTES_MARK = "(notes)"

# ../shared/notes/tracing.md: × plain, (saving all, saving none).
_NOTES = {
    "mlp": (341, 317), "lstmcell": (122, 110), "lstm": (487, 443), "encoder": (73, 63), "inplace": (97, 92),
    "gpt2": (8.6, 7.3), "bert": (8.8, 8.4), "resnet50": (11.4, 10.8), "t5": (30.4, 26.9),
}  # fmt: skip

_NOTES_VALIDATE = {"lstmcell": 740, "gpt2": 75, "bert": 75, "resnet50": 75, "t5": 75}
"""The notes say 65 to 85 for the large ones."""
_NOTES_VALIDATE_MB = {"gpt2": 3550, "bert": 2780, "resnet50": 1400}

Cited = tuple[float | None, str]
"""A number of the peer and where it is from ("" for this run)."""


@dataclass(frozen=True, slots=True)
class TorchLens:
    """The peer's numbers."""

    cases: dict[str, dict[str, Any]] = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def ratio(self, name: str, save: str) -> Cited:
        """Times plain for saving "all" or "none"."""
        measured = self.cases.get(name, {})
        if f"save_{save}_ms" in measured:
            return measured[f"save_{save}_ms"] / measured["plain_ms"], ""
        if name in _NOTES:
            return _NOTES[name][save == "none"], NOTES_MARK
        return None, ""

    def validate_ratio(self, name: str) -> Cited:
        """Times plain for a trace with validation; torchlens has no validation without a trace of its own."""
        measured = self.cases.get(name, {})
        if "validate_ms" in measured:
            return measured["validate_ms"] / measured["plain_ms"], ""
        return (_NOTES_VALIDATE[name], NOTES_MARK) if name in _NOTES_VALIDATE else (None, "")

    def validate_bytes(self, name: str) -> Cited:
        """Megabytes by which the peak grows while it traces and validates."""
        measured = self.cases.get(name, {})
        if "validate_bytes" in measured:
            return measured["validate_bytes"] / 1e6, ""
        return (_NOTES_VALIDATE_MB[name], NOTES_MARK) if name in _NOTES_VALIDATE_MB else (None, "")

    def fixed_ms(self) -> Cited:
        """Milliseconds for tracing a single op."""
        measured = self.cases.get("one-op", {})
        return (measured["save_all_ms"] - measured["plain_ms"], "") if "save_all_ms" in measured else (None, "")

    def bytes_an_op(self, save: str) -> Cited:
        """Only as measured: the notes' 70–100 KB were taken in another way and do not compare."""
        return self.memory.get(f"{save}_bytes"), ""


def from_notes(problem: str) -> TorchLens:
    return TorchLens(problems=(problem,))


def validating(cases: Sequence[Case]) -> TorchLens:
    """Ask torchlens to validate these models, each in a process of its own: they take long, and memory adds up."""
    found = TorchLens()
    for case in cases:
        found = _joined(found, [case.name], ["--validate"])
    return found


def measured(cases: Sequence[Case], *, repeats: int, memory: bool) -> TorchLens:
    """Ask torchlens about these models, the large ones in a process of their own."""
    small = ["one-op", *(case.name for case in cases if case.size != "large")]
    large = [case.name for case in cases if case.size == "large"]
    found = TorchLens()
    for names, extra in ((small, ["--memory"] if memory else []), (large, [])):
        if names:
            found = _joined(found, names, [*extra, "--repeats", str(repeats)])
    return found


def _joined(found: TorchLens, names: list[str], options: list[str]) -> TorchLens:
    try:
        answer = ask(TORCHLENS, "benchmarks.peers.torchlens_worker", [*names, *options], seconds=1200)
    except PeerError as error:
        return TorchLens(found.cases, found.memory, (*found.problems, str(error)))
    failed = tuple(f"torchlens on {name}: {row['error']}" for name, row in answer["cases"].items() if "error" in row)
    return TorchLens(found.cases | answer["cases"], found.memory | answer["memory"], found.problems + failed)
