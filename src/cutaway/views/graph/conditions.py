"""The lines in a picture about the conditionals that an op decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from cutaway.graph.trace import Trace


def decision_lines(trace: Trace, nodes: Iterable[int]) -> list[str]:
    """The tests that these passes of an op decided, each with the branches taken; empty if there are none."""
    arms: dict[str, Counter[str]] = {}
    for node in nodes:
        for conditional in trace.conditionals.of(node):
            test = conditional.kind if conditional.test is None else f"{conditional.kind} {conditional.test}"
            arms.setdefault(test, Counter())[conditional.arm or "?"] += 1
    lines = []
    for test, taken in arms.items():
        many = taken.total() > 1
        lines += [test, "→ " + ", ".join(f"{arm} ×{n}" if many else arm for arm, n in taken.items())]
    return lines
