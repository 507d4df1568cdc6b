"""Collects damage (with its cost) and remarks, as sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

_MAX_LISTED = 3


@dataclass(frozen=True, slots=True)
class FileDamage:
    """Damage in one file."""

    where: str
    """The file."""
    what: str
    """What is wrong."""
    cost: str = ""
    """What cannot be read because of it; "" if nothing."""

    def __str__(self) -> str:
        cost = f" {self.cost[0].upper()}{self.cost[1:]}." if self.cost else " No recorded data is lost."
        return f"{self.where}: {self.what}.{cost}"


@dataclass(slots=True)
class Findings:
    """Collects what a check finds."""

    damage: list[FileDamage] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    unindexed: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    """(rank folder, session) → steps in sealed segments."""
    n_bytes: int = 0
    n_frames: int = 0
    n_tensors: int = 0
    n_matrices: int = 0

    def damaged(self, where: str, what: str, cost: str = "") -> None:
        self.damage.append(FileDamage(where, what, cost))

    def remark(self, where: str, what: str) -> None:
        self.remarks.append(f"{where}: {what}.")


def join_words(items: Sequence[str]) -> str:
    """
    >>> join_words(["a", "b", "c"]), join_words(["a"]), join_words([])
    ('a, b and c', 'a', '')
    """
    return f"{', '.join(items[:-1])} and {items[-1]}" if len(items) > 1 else "".join(items)


def list_steps(steps: Iterable[int]) -> str:
    """
    >>> list_steps([40]), list_steps([40, 45]), list_steps(range(0, 500, 5))
    ('step 40', 'steps 40 and 45', 'steps 0–495 (100 of them)')
    """
    unique = sorted(set(steps))
    if len(unique) <= _MAX_LISTED:
        return f"{'step' if len(unique) == 1 else 'steps'} {join_words([str(step) for step in unique])}"
    return f"steps {unique[0]}–{unique[-1]} ({len(unique):,} of them)"
