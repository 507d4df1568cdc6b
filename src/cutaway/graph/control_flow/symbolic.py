"""Symbolic expressions over the values that left torch."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_NONE: Final[frozenset[int]] = frozenset()


@dataclass(frozen=True, slots=True)
class Opaque:
    """An unknown value, with its name if it has one, and the escapes it depends on."""

    name: str = ""
    escapes: frozenset[int] = _NONE


@dataclass(frozen=True, slots=True)
class Several:
    """An iterator over the elements of a list that torch returned."""

    escapes: frozenset[int]


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal in the code."""

    value: Any

    @property
    def escapes(self) -> frozenset[int]:
        return _NONE


@dataclass(frozen=True, slots=True)
class Escape:
    """The value that torch returned at an instruction."""

    offset: int

    @property
    def escapes(self) -> frozenset[int]:
        return frozenset((self.offset,))


@dataclass(frozen=True, slots=True)
class Apply:
    """An operator or a known function, with its arguments; create it with `apply`."""

    name: str
    arguments: tuple[Expression, ...]
    escapes: frozenset[int] = field(compare=False, repr=False)
    depth: int = field(compare=False, repr=False)


Expression = Opaque | Several | Constant | Escape | Apply

UNKNOWN: Final = Opaque()
# A loop that adds to a number would build an expression without end.
_DEEPEST = 40

CONVERSIONS: dict[str, Callable[..., Any]] = {
    "bool": bool,
    "int": int,
    "float": float,
    "abs": abs,
    "round": round,
    "min": min,
    "max": max,
    "sum": sum,
    "any": any,
    "all": all,
}
_OPERATORS: dict[str, Callable[..., Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "+": operator.add,
    "-": lambda a, *b: a - b[0] if b else -a,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "~": operator.invert,
    "not": operator.not_,
    "is": operator.is_,
    "is not": operator.is_not,
    "in": lambda a, b: a in b,
    "not in": lambda a, b: a not in b,
    "[]": operator.getitem,
    "tuple": lambda *items: items,
}


def apply(name: str, *arguments: Expression) -> Expression:
    """A function applied to arguments; an expression that is too deep becomes opaque."""
    escapes = _NONE.union(*(argument.escapes for argument in arguments))
    depth = 1 + max((argument.depth for argument in arguments if type(argument) is Apply), default=0)
    return Apply(name, arguments, escapes, depth) if depth <= _DEEPEST else Opaque("", escapes)


def is_followed(function: str) -> bool:
    """Whether values are followed through a function."""
    return function in CONVERSIONS or function.startswith("math.")


def merge(a: Expression, b: Expression) -> Expression:
    """The expression of a value that comes from either of two paths."""
    return a if a == b else Opaque("", a.escapes | b.escapes)


def forget(expression: Expression, offset: int) -> Expression:
    """The expression after an instruction has run again: its previous value is no longer known."""
    return Opaque("", expression.escapes - {offset}) if offset in expression.escapes else expression


def earlier(expression: Expression) -> Expression:
    """The expression at the start of a walk: every value in it is the last one from before.

    >>> earlier(apply(">", Escape(4), Constant(3)))
    Apply(name='>', arguments=(Escape(offset=-5), Constant(value=3)))
    """
    if type(expression) is Escape:
        return Escape(before(expression.offset)) if expression.offset >= 0 else expression
    if type(expression) is Apply:
        return apply(expression.name, *(earlier(argument) for argument in expression.arguments))
    if type(expression) is Several:
        return Several(frozenset(map(before, expression.escapes)))
    if type(expression) is Opaque and expression.escapes:
        return Opaque(expression.name, frozenset(map(before, expression.escapes)))
    return expression


def before(offset: int) -> int:
    """The offset that stands for the last value of an instruction before the walk began."""
    return -offset - 1 if offset >= 0 else offset


def evaluate(expression: Expression, values: Mapping[int, Any]) -> Any:
    """The value, or `UNKNOWN` if any part of it is unknown.

    >>> evaluate(apply(">", Escape(4), Constant(3)), {4: 5.0})
    True
    """
    if type(expression) is Constant:
        return expression.value
    if type(expression) is Escape:
        return values.get(expression.offset, UNKNOWN)
    if type(expression) is not Apply:
        return UNKNOWN
    function = _function(expression.name)
    arguments = [evaluate(argument, values) for argument in expression.arguments]
    if function is None or any(argument is UNKNOWN for argument in arguments):
        return UNKNOWN
    try:
        return function(*arguments)
    except Exception:  # the program raised here, too, or took another path
        return UNKNOWN


def _function(name: str) -> Callable[..., Any] | None:
    if name.startswith("math."):
        function = getattr(math, name.removeprefix("math."), None)
        return function if callable(function) else None
    return CONVERSIONS.get(name) or _OPERATORS.get(name)
