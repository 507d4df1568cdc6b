"""Small random programs full of tests on tensors, and what a line tracer says of the arms they took."""

from __future__ import annotations

import linecache
import random
import sys
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import torch
from torch import Tensor

_numbers = count()


@dataclass
class Program:
    """The text of a function `run(x, flag, mark)`, and where its tests stand."""

    seed: int
    lines: list[str] = field(default_factory=lambda: ["def run(x, flag, mark):"])
    arms: dict[int, tuple[str, int, str]] = field(default_factory=dict)
    """Line of an `if`, `elif` or `while` → name of its first arm, first line of that arm, name of the other arm."""
    around: dict[int, frozenset[tuple[int, str]]] = field(default_factory=dict)
    """Line → (line of a test, arm) for each arm it stands in."""

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.n_scalars = 0
        self.block(1, frozenset(), most=4)
        self.add(1, "return x", frozenset())

    def add(self, depth: int, text: str, around: frozenset[tuple[int, str]]) -> int:
        self.lines.append("    " * depth + text)
        self.around[len(self.lines)] = around
        return len(self.lines)

    def test(self, depth: int, around: frozenset[tuple[int, str]]) -> str:
        """A test whose first operand is decided by `amax`, and no other."""
        pick, limit = self.random, self.random.choice([-1, 0, 1, 2, 4])
        sign = pick.choice("<>")
        head = f"x.amax() {sign} {limit}"
        if pick.random() < 0.3:
            name = f"n{self.n_scalars}"
            self.n_scalars += 1
            taken = pick.choice(["x.amax().item()", "float(x.amax())"])
            self.add(depth, f"{name} = {taken}", around)
            head = f"{name} {sign} {limit}"
        head = pick.choice([head, head, f"not {head}"])
        tail = pick.choice([f"x.mean() > {pick.choice([-2, 0, 2])}", "flag", f"not x.sum() < {pick.choice([0, 3])}"])
        return pick.choice([head, head, f"{head} and {tail}", f"{head} or {tail}", f"({head} or {tail}) and flag"])

    def block(self, depth: int, around: frozenset[tuple[int, str]], most: int) -> int:
        """A few statements; returns the line of the first."""
        first = len(self.lines) + 1
        for _ in range(self.random.randint(1, most)):
            kind = self.random.random()
            if depth > 4 or kind < 0.4:
                what = self.random.choice(
                    ["x = x + 1", "x = x * 2 - 3", "x = torch.relu(x)", "pass", "flag = not flag"]
                )
                self.add(depth, what, around)
            elif kind < 0.75:
                self.branches(depth, around)
            elif kind < 0.88:
                self.ternary(depth, around)
            else:
                self.loop(depth, around)
        return first

    def branches(self, depth: int, around: frozenset[tuple[int, str]]) -> None:
        test = self.test(depth, around)
        line = self.add(depth, f"if {test}:", around)
        has_elif, has_else = self.random.random() < 0.4, self.random.random() < 0.5
        self.arms[line] = ("then", self.block(depth + 1, around | {(line, "then")}, 2), "elif" if has_elif else "else")
        if has_elif:
            around = around | {(line, "elif")}
            limit = self.random.choice([-1, 0, 2])
            line = self.add(depth, f"elif x.amax() > {limit}:", around)
            self.arms[line] = ("then", self.block(depth + 1, around | {(line, "then")}, 2), "else")
        if has_else:
            self.add(depth, "else:", around)
            self.block(depth + 1, around | {(line, "else")}, 2)

    def ternary(self, depth: int, around: frozenset[tuple[int, str]]) -> None:
        line = len(self.lines) + 1
        a, b = self.random.sample([-1, 0, 1, 3], 2)
        inner = f"(mark({line}, 1, 'then') + x) if x.amax() > {a} else (mark({line}, 1, 'else') - x)"
        other = f"(mark({line}, 2, 'then') * x) if x.amax() < {b} else (mark({line}, 2, 'else') + x)"
        self.add(depth, f"x = ({inner}) + ({other})", around)

    def loop(self, depth: int, around: frozenset[tuple[int, str]]) -> None:
        name = f"k{len(self.lines)}"
        self.add(depth, f"{name} = 0", around)
        test = "" if self.random.random() < 0.7 else " and not x.mean() > 50"
        line = self.add(depth, f"while x.amax() < {self.random.choice([2, 4, 6])} and {name} < 3{test}:", around)
        inside = around | {(line, "body")}
        first = self.add(depth + 1, f"{name} += 1", inside)
        self.block(depth + 1, inside, 2)
        self.add(depth + 1, "x = x + 1.5", inside)
        self.arms[line] = ("body", first, "end")

    def compile(self, *, source: bool) -> Any:
        """The function; with its source where Python looks for it, as notebooks do, or nowhere."""
        file = f"<ipython-input-{next(_numbers)}>"
        text = "\n".join(self.lines) + "\n"
        if source:
            linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        space: dict[str, Any] = {"torch": torch}
        exec(compile(text, file, "exec"), space)
        return space["run"]

    def really_taken(self, run: Any, x: Tensor) -> list[tuple[int, str]]:
        """(line, arm) of each test as it was asked, by watching the lines that Python runs."""
        lines: list[Any] = []

        def mark(*what: Any) -> float:
            lines.append(what)
            return 1.0

        def watch(frame: Any, event: str, _: Any) -> Any:
            if event == "line":
                lines.append(frame.f_lineno)
            return watch

        def begin(frame: Any, event: str, _: Any) -> Any:
            return watch if frame.f_code is run.__code__ else None

        sys.settrace(begin)
        try:
            run(x, True, mark)
        finally:
            sys.settrace(None)
        found = []
        for here, behind in zip(lines, [*lines[1:], -1], strict=True):
            if isinstance(here, tuple):
                found.append((here[0], here[2]))
            elif here in self.arms:
                holds, first, fails = self.arms[here]
                found.append((here, holds if behind == first else fails))
        return found
