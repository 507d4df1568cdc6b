"""Explains a call with too many or too few arguments better than Python's own `TypeError` does."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from cutaway.core.errors import InputTypeError
from cutaway.core.formatting import plural, type_text

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def explain_positional(advice: str) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Decorator: `advice` says what to write instead of an extra positional argument.

    The signature that `help()` and editors show stays the same.

    >>> @explain_positional("Write fit().")
    ... def fit(*, steps=3): ...
    >>> fit(5)
    Traceback (most recent call last):
    cutaway.errors.InputTypeError: fit() got 1 positional argument too many, an int. Write fit().
    """

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        parameters = inspect.signature(function).parameters.values()
        n_positional = sum(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in parameters)
        name = function.__qualname__.removesuffix(".__init__")

        @wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Result:
            if len(args) > n_positional:
                extra = [type_text(each) for each in args[n_positional:]]
                count = f"{plural(len(extra), 'positional argument')} too many"
                raise InputTypeError(f"{name}() got {count}, {' and '.join(extra)}. {advice}")
            return function(*args, **kwargs)

        return checked  # type: ignore[return-value]

    return decorate


def explain_missing(advice: str) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Decorator: `advice` says what to pass when required arguments are missing.

    The signature that `help()` and editors show stays the same.

    >>> @explain_missing("Write add(1, 2).")
    ... def add(a, b): ...
    >>> add(5)
    Traceback (most recent call last):
    cutaway.errors.InputTypeError: add() is missing b; it got an int. Write add(1, 2).
    """

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        parameters = [
            each for each in inspect.signature(function).parameters.values() if each.kind is each.POSITIONAL_OR_KEYWORD
        ]

        @wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Result:
            missing = [
                each.name for each in parameters[len(args) :] if each.default is each.empty and each.name not in kwargs
            ]
            if missing:
                given = " and ".join(map(type_text, (*args, *kwargs.values()))) or "nothing"
                raise InputTypeError(
                    f"{function.__name__}() is missing {' and '.join(missing)}; it got {given}. {advice}"
                )
            return function(*args, **kwargs)

        return checked  # type: ignore[return-value]

    return decorate
