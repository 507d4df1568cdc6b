"""Forks and arms in source text, found by line and column."""

from __future__ import annotations

import ast
import linecache
from itertools import count

import pytest

from cutaway.graph.control_flow.branches import Arm, Fork, Span, fork_at

_files = count()


def find(text: str, operand: str, nth: int = 0) -> tuple[Fork, int] | None:
    """The fork that asks the nth expression written like this."""
    file = f"<ipython-input-{next(_files)}-arms>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    found = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.expr) and ast.unparse(n) == operand]
    found.sort(key=lambda node: (node.lineno, node.col_offset))
    return fork_at(file, Span.of(found[nth]))


def fork(text: str, operand: str, nth: int = 0) -> Fork:
    found = find(text, operand, nth)
    assert found is not None
    return found[0]


def test_arms_have_names_and_lines() -> None:
    text = "if a:\n    x = 1\n    y = 2\nelif b:\n    x = 3\nelse:\n    x = 4\n"
    first, second = fork(text, "a"), fork(text, "b")
    assert (first.kind, [(arm.name, arm.lines) for arm in first.arms]) == ("if", [("then", (2, 3)), ("elif", (4, 7))])
    assert (second.kind, [(arm.name, arm.lines) for arm in second.arms]) == (
        "elif",
        [("then", (5, 5)), ("else", (7, 7))],
    )


def test_an_if_in_an_else_is_no_elif() -> None:
    text = "if a:\n    x = 1\nelse:\n    if b:\n        x = 2\n"
    assert fork(text, "a").arms[1].name == "else"
    assert fork(text, "b").kind == "if"
    assert fork(text, "b").arms[1] == Arm("else")


@pytest.mark.parametrize(
    ("text", "kind", "arms"),
    [
        ("while a:\n    x = 1\n", "while", ("body", "end")),
        ("assert a, b\n", "assert", ("passed", "failed")),
        ("x = 1 if a else 2\n", "ternary", ("then", "else")),
        ("x = [v for v in b if a]\n", "filter", ("kept", "dropped")),
        ("x = {v: 1 for v in b if a}\n", "filter", ("kept", "dropped")),
        ("match b:\n    case 1 if a:\n        x = 1\n", "case", ("then", "next")),
        ("x = a and b\n", "and", ("right", "left")),
        ("x = a or b\n", "or", ("right", "left")),
    ],
)
def test_every_kind_of_fork_is_found(text: str, kind: str, arms: tuple[str, str]) -> None:
    found = fork(text, "a")
    assert (found.kind, tuple(arm.name for arm in found.arms)) == (kind, arms)


def test_what_is_not_asked_is_no_fork() -> None:
    assert find("x = a\nif b:\n    y = a\n", "a") is None
    assert find("x = b and a\n", "a") is None
    assert find("x = a if b else c\n", "a") is None


def test_two_ternaries_of_one_line_are_told_apart_by_column() -> None:
    text = "x = (1 if a else 2) + (3 if a else 4)  # ü\n"
    first, second = fork(text, "a", 0), fork(text, "a", 1)
    assert first is not second
    assert first.arms[0].spans[0].start < second.arms[0].spans[0].start


def test_columns_count_bytes_as_code_objects_do() -> None:
    assert fork("x = 'üüü' if aä else 2\n", "aä").text == "aä"


def test_the_innermost_fork_wins() -> None:
    text = "if f([v for v in x if a]) and (1 if b else c):\n    pass\n"
    assert [fork(text, name).kind for name in "abc"] == ["filter", "ternary", "if"]


def test_a_test_on_several_lines_is_given_on_one() -> None:
    assert fork("if (a\n        and not\n        b):\n    pass\n", "b").text == "a and not b"


def outcome(text: str, **truths: bool) -> bool | None:
    """What the test of an `if` gives when these of its names were asked."""
    known: dict[int, list[bool]] = {}
    whole = f"if {text}:\n    pass\n"
    last = None
    for name, truth in truths.items():
        found = find(whole, name)
        assert found is not None
        last = found[0]
        known.setdefault(found[1], []).append(truth)
    assert last is not None
    return last.outcome(known)


@pytest.mark.parametrize("test", ["a", "not a", "a and b", "a or not b", "not (a and b) or c", "a and (b or not c)"])
def test_outcomes_agree_with_python(test: str) -> None:
    for bits in range(8):
        truths = {name: bool(bits >> i & 1) for i, name in enumerate("abc")}
        asked: dict[str, bool] = {}

        class Names(dict[str, bool]):
            def __missing__(self, name: str, truths: dict[str, bool] = truths, asked: dict[str, bool] = asked) -> bool:
                asked[name] = truths[name]
                return truths[name]

        expected = bool(eval(test, {}, Names()))
        assert outcome(test, **asked) is expected
        # Without the last one that was asked, nothing is claimed that is not so.
        *before, _ = asked.items()
        assert not before or outcome(test, **dict(before)) in (None, expected)


def test_arms_cover_the_places_in_them_and_no_others() -> None:
    found = fork("if a:\n    x = f(1)\nelse:\n    x = g(2)\n", "a")
    inside, outside = Span((2, 8), (2, 12)), Span((4, 8), (4, 12))
    assert [[arm.covers(place) for place in (inside, outside)] for arm in found.arms] == [[True, False], [False, True]]


def test_text_that_is_no_python_has_no_forks() -> None:
    file = f"<ipython-input-{next(_files)}-arms>"
    linecache.cache[file] = (1, None, ["%magic if a:\n"], file)
    assert fork_at(file, Span((1, 10), (1, 11))) is None
    assert fork_at("<nowhere>", Span((1, 3), (1, 4))) is None
