"""What decides, from code objects alone: no torch, no source."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from cutaway.graph.control_flow.bytecode import CodeAnalysis, start_of
from cutaway.graph.control_flow.symbolic import before

SEEN: list[tuple[Any, int, str, Any]] = []


class Number:
    """Answers like a tensor of one element, and notes from which instruction it was asked."""

    def __init__(self, value: float) -> None:
        self.value = value

    def _note(self, function: str, value: Any) -> Any:
        frame = sys._getframe(2)
        SEEN.append((frame.f_code, start_of(frame.f_code.co_code, frame.f_lasti), function, value))
        return value

    def __bool__(self) -> bool:
        return bool(self._note("bool", bool(self.value)))

    def __float__(self) -> float:
        return float(self._note("float", float(self.value)))

    def __int__(self) -> int:
        return int(self._note("int", int(self.value)))

    def __index__(self) -> int:
        return int(self._note("index", int(self.value)))

    def item(self) -> float:
        return float(self._note("item", float(self.value)))

    def tolist(self) -> list[float]:
        return list(self._note("tolist", [self.value, self.value + 1]))

    def __gt__(self, other: float) -> Number:
        return Number(self.value > other)

    def __lt__(self, other: float) -> Number:
        return Number(self.value < other)


def decided(body: str, **names: Any) -> list[tuple[str, bool | None]]:
    """(function, truth of what was tested) for each test that a value decided, in the order of the values."""
    lines = ["def run(t, u, flag, other):", *(f"    {line}" for line in body.splitlines())]
    space: dict[str, Any] = {"math": __import__("math")}
    exec(compile("\n".join(lines), "<no source>", "exec"), space)
    SEEN.clear()
    space["run"](Number(5.0), Number(2.0), names.get("flag", True), names.get("other"))
    seen = [row for row in SEEN if row[0] is space["run"].__code__]
    analysis = CodeAnalysis(space["run"].__code__, {offset: function for _, offset, function, _ in seen})
    values = {offset: value for _, offset, _, value in seen}
    found = []
    for _, offset, function, value in seen:
        values[before(offset)] = value
        truths = analysis.truths(offset, values)
        possible, certain = analysis.reached(offset, truths)
        found += [
            (function, truths.get(decision.jump) if decision.jump in certain else None)
            for decision in analysis.decisions(offset)
            if decision.jump in possible
        ]
    return found


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("if t: pass", [("bool", True)]),
        ("if not t: pass", [("bool", True)]),
        ("if t > 9: pass", [("bool", False)]),
        ("while t > 9: pass", [("bool", False)]),
        ("assert t", [("bool", True)]),
        ("assert t > 1, 'small'", [("bool", True)]),
        ("x = 1 if t > 9 else 2", [("bool", False)]),
        ("x = (1 if t else 2), (3 if u > 9 else 4)", [("bool", True), ("bool", False)]),
        ("x = t and 3", [("bool", True)]),
        ("x = t or 3", [("bool", True)]),
        ("if t and u > 9: pass", [("bool", True), ("bool", False)]),
        ("if t.item() > 3: pass", [("item", True)]),
        ("if float(t) > 9: pass", [("float", False)]),
        ("if int(t) == 5: pass", [("int", True)]),
        ("if bool(t): pass", [("bool", True)]),
        ("n = t.item()\nif n > 3 and flag: pass", [("item", True)]),
        ("n = t.item()\nm = n * 2 - 1\nif m == 9.0: pass", [("item", True)]),
        ("n = t.item()\nif 3 < n < 4: pass", [("item", True), ("item", False)]),
        ("if (n := t.item()) > 9: pass", [("item", False)]),
        ("if t.item() > u.item(): pass", [("item", True), ("item", True)]),
        ("a, b = t.item(), u.item()\nif b > 3: pass", [("item", False)]),
        ("a, b, c, d = t.item(), 1, 2, u.item()\nif d > 3: pass", [("item", False)]),
        ("a, b = t.tolist()\nif b > 5.5: pass", [("tolist", True)]),
        ("if t.tolist()[1] > 9: pass", [("tolist", False)]),
        ("if abs(t.item() - 5) < 0.1: pass", [("item", True)]),
        ("if math.isnan(t.item()): pass", [("item", False)]),
        ("if math.isfinite(t): pass", [("float", True)]),
        ("if t.item() in (1.0, 5.0): pass", [("item", True)]),
        ("if bool(t) is True: pass", [("bool", True)]),
        ("b = not t\nif b: pass", [("bool", False)]),
        ("b = bool(t)\nc = b\nif c: pass", [("bool", True)]),
        ("n = t.item()\nif n > 9: pass\nelif n > 3: pass\nelif n > 1: pass", [("item", False), ("item", True)]),
        ("n = t.item()\nif n > 3: n = 0\nif n > 3: pass", [("item", True), ("item", None)]),  # it might
        ("for i in range(2):\n    if t > i: pass", [("bool", True)] * 2),
        ("for v in t.tolist():\n    if v > 3: pass", [("tolist", None)]),
        ("n = t.item()\nif n > other: pass", [("item", None)]),
        ("n = t.item()\nif flag:\n    if n > 3: pass", [("item", None)]),
        ("try:\n    n = t.item()\nexcept ValueError:\n    n = 0\nif n > 3: pass", [("item", True)]),
        ("match 3:\n    case 3 if t > 1: pass", [("bool", True)]),
        ("def inner(): return n\nn = t.item()\nif n > 3: pass", [("item", True)]),
    ],
)
def test_what_a_value_decides_is_found(body: str, expected: list[tuple[str, bool | None]]) -> None:
    if "other" in body:
        assert decided(body, other=3) == expected
    else:
        assert decided(body) == expected


@pytest.mark.parametrize(
    "body",
    [
        "b = bool(t)",
        "return bool(t)",
        "return t.item() > 3",
        "x = [1, 2, 3, 4, 5, 6][t]",
        "x = [1, 2, 3, 4, 5, 6][int(t)]\nif x > 3: pass",
        "for i in range(t):\n    if i == 3: pass",
        "for i in range(int(t)):\n    if i == 3: pass",
        "n = t.item()\nif n is None: pass",
        "n = t.item()\nif n is not None: pass",
        "n = t.item()\nif flag: pass",
        "n = t.item()\nn = 3\nif n > 2: pass",
        "n = t.item()\nx = str(n)\nif x == '5.0': pass",
        "n = t.item()\nx = [n]\nif len(x) > 1: pass",
        "x = max(t, u)\nif flag: pass",
        "print(end='' if flag else str(t.item()))",
    ],
)
def test_what_decides_nothing_is_left_alone(body: str) -> None:
    assert decided(body) == []


def test_of_those_that_all_asks_only_the_last_counts() -> None:
    body = "if all(v for v in (t, u, t)): pass"
    reading_of = decided(body)
    assert [value for _, value in reading_of] == [True] * 3  # each could: the caller keeps the last one of a run
    code, offset, _, _ = SEEN[-1]
    assert CodeAnalysis(code, {offset: "bool"}).is_run(offset)


def test_what_is_returned_is_known() -> None:
    def found(t: Number) -> bool:
        return not t.item() > 3

    SEEN.clear()
    found(Number(5.0))
    code, offset, function, _ = SEEN[0]
    assert CodeAnalysis(code, {offset: function}).returned(offset).escapes == {offset}
