"""Checks values against type hints."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import chain, repeat
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

Options = tuple[Any, ...]
"""The alternatives of a type hint: the members of a union."""
ANY: Options = (Any,)
_PLAIN = {np.bool_: bool, np.integer: int, np.floating: float, np.str_: str}


@lru_cache(4096)
def options_of(hint: Any) -> Options:
    """
    >>> options_of(tuple[int, ...] | str | None)
    (tuple[int, ...], <class 'str'>, <class 'NoneType'>)
    """
    if _origin(hint) in (Union, UnionType):
        return tuple(chain.from_iterable(map(options_of, get_args(hint))))
    return (hint,)


@lru_cache(1024)
def fields_of(kind: type) -> dict[str, Options]:
    """The type options of each field of a dataclass."""
    return {name: options_of(hint) for name, hint in get_type_hints(kind).items()}


def fits(value: Any, options: Options) -> bool:
    """Whether a value, whose parts are already checked, matches one of the options.

    >>> fits(3, (float,)), fits(np.int64(3), (int,)), fits("a", (int, None)), fits([], options_of(tuple[int, ...]))
    (True, True, False, False)
    """
    kind: Any = type(value)
    if _is_of(kind, options):
        return True
    literals = (option for option in options if _origin(option) is Literal)
    return any(type(each) is kind and each == value for option in literals for each in get_args(option))


def items_of(options: Options, n: int) -> Iterable[Options] | None:
    """The type options of each of `n` items of a sequence; None if no option allows such a sequence.

    >>> list(items_of((tuple[int, str],), 2)), items_of((tuple[int, str],), 3), items_of((str,), 1)
    ([(<class 'int'>,), (<class 'str'>,)], None, None)
    """
    alike, fixed = _rows(options)
    fitting = [each for each in fixed if len(each) == n]
    if not fitting:
        return None if alike is None else repeat(alike, n)
    return [tuple(chain(alike or (), *each)) for each in zip(*fitting, strict=True)]


@lru_cache(4096)
def _rows(options: Options) -> tuple[Options | None, tuple[tuple[Options, ...], ...]]:
    """Item options of sequences of any length (None if there are none), and of each item of fixed-length ones."""
    alike: list[Any] = []
    fixed: list[tuple[Options, ...]] = []
    for option in options:
        origin, arguments = _origin(option), get_args(option)
        kind = origin or option
        if _is_open(option):
            alike.append(Any)
        elif kind is tuple and arguments and arguments[-1] is not Ellipsis:
            fixed.append(tuple(map(options_of, arguments)))
        elif isinstance(kind, type) and (issubclass(tuple, kind) or kind is list):
            alike += options_of(arguments[0]) if arguments else ANY
    return tuple(alike) or None, tuple(fixed)


def entries_of(options: Options) -> tuple[Options, Options]:
    """The type options of the keys and of the values of a mapping.

    >>> entries_of((dict[str, int], type(None))), entries_of((object,))
    (((<class 'str'>,), (<class 'int'>,)), ((typing.Any,), (typing.Any,)))
    """
    entries = []
    for option in options:
        origin, arguments = _origin(option), get_args(option)
        if isinstance(origin, type) and issubclass(dict, origin) and len(arguments) == 2:
            entries.append((options_of(arguments[0]), options_of(arguments[1])))
    return entries[0] if len(entries) == 1 else (ANY, ANY)


def options_text(options: Options) -> str:
    """The options as text, for a message.

    >>> options_text((int, tuple[str, ...]))
    'int or tuple[str, ...]'
    """
    return " or ".join(
        option.__name__ if isinstance(option, type) and not get_args(option) else str(option).replace("typing.", "")
        for option in options
    )


def _origin(hint: Any) -> Any:
    return get_origin(hint)


def _is_open(option: Any) -> bool:
    """Whether it allows everything: `Any`, `object`, a type variable."""
    return option is object or option is Any or not (option is None or isinstance(option, type) or get_origin(option))


@lru_cache(4096)
def _is_of(kind: type, options: Options) -> bool:
    """Whether values of a type match one of the options."""
    return any(_is(kind, option) for option in options)


def _is(kind: type, option: Any) -> bool:
    wanted = _origin(option) or option
    if _is_open(option):
        return True
    if wanted is None or wanted is Literal:
        return wanted is None and kind is NoneType
    try:
        if issubclass(kind, wanted) or (wanted is float and issubclass(kind, int)):
            return True
    except TypeError:  # a protocol that isinstance cannot check
        return True
    plain = next((plain for scalar, plain in _PLAIN.items() if issubclass(kind, scalar)), None)
    return plain is not None and _is(plain, option)
