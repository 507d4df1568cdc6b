"""What a check of an archive finds, in sentences: problems with what they cost, and what is merely worth saying."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not as it was written."""

    where: str
    """The file."""
    what: str
    """What was found there."""
    cost: str = ""
    """What can no longer be read because of it; "" if nothing."""

    def __str__(self) -> str:
        cost = f" {self.cost[0].upper()}{self.cost[1:]}." if self.cost else " Nothing that was recorded is lost."
        return f"{self.where}: {self.what}.{cost}"


@dataclass(slots=True)
class Findings:
    """Gathers what is found while an archive is read."""

    problems: list[Problem] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    unindexed: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    """Rank's folder and session → steps that lie in sealed segments."""
    n_bytes: int = 0
    n_frames: int = 0
    n_tensors: int = 0
    n_matrices: int = 0

    def problem(self, where: str, what: str, cost: str = "") -> None:
        self.problems.append(Problem(where, what, cost))

    def remark(self, where: str, what: str) -> None:
        self.remarks.append(f"{where}: {what}.")


def spoken(items: Sequence[str]) -> str:
    """
    >>> spoken(["a", "b", "c"]), spoken(["a"]), spoken([])
    ('a, b and c', 'a', '')
    """
    return f"{', '.join(items[:-1])} and {items[-1]}" if len(items) > 1 else "".join(items)


def named(names: Iterable[str]) -> str:
    """
    >>> named(["a", "b"]), named("abcde")
    ('a and b', 'a, b, c and 2 more')
    """
    unique = list(dict.fromkeys(names))
    if len(unique) <= _MOST_NAMED:
        return spoken(unique)
    return f"{', '.join(unique[:_MOST_NAMED])} and {len(unique) - _MOST_NAMED:,} more"


def named_steps(steps: Iterable[int]) -> str:
    """
    >>> named_steps([40]), named_steps([40, 45]), named_steps(range(0, 500, 5))
    ('step 40', 'steps 40 and 45', 'steps 0–495 (100 of them)')
    """
    unique = sorted(set(steps))
    if len(unique) <= _MOST_NAMED:
        return f"step{'s' if len(unique) > 1 else ''} {spoken([str(step) for step in unique])}"
    return f"steps {unique[0]}–{unique[-1]} ({len(unique):,} of them)"


def counted(n: int, what: str) -> str:
    """
    >>> counted(1, "tensor"), counted(1200, "tensor")
    ('1 tensor', '1,200 tensors')
    """
    return f"{n:,} {what}{'' if n == 1 else 's'}"
