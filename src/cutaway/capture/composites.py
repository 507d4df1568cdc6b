"""Opening Python composites.

`F.softmax` and its like first ask `has_torch_function…`, and hand themselves over when a mode is active.
Called again from inside the mode they would ask again and never end. So each gets a copy that shares its
code but not its globals: there, the three questions are always answered with no. Its inner calls then
reach the mode as operations of their own.
"""

from __future__ import annotations

import types
from typing import Any

_QUESTIONS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")


def _never(*_: Any) -> bool:
    return False


_ANSWERS: dict[str, Any] = dict.fromkeys(_QUESTIONS, _never)

# One copy of the globals for all composites of a module, kept beside the original.
_namespaces: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}


def is_composite(func: types.FunctionType) -> bool:
    """Whether a Python function hands itself over to modes and does its work in other functions."""
    return any(name in func.__code__.co_names for name in _QUESTIONS)


def opened(func: types.FunctionType) -> types.FunctionType:
    """The copy of a composite that does not hand itself over."""
    copy = types.FunctionType(
        func.__code__, _namespace(func.__globals__), func.__name__, func.__defaults__, func.__closure__
    )
    copy.__kwdefaults__ = func.__kwdefaults__
    return copy


def opened_code(code: types.CodeType, namespace: dict[str, Any]) -> types.FunctionType:
    """The same for code whose function is no longer known by its name."""
    for value in namespace.values():
        if isinstance(value, types.FunctionType) and value.__code__ is code:
            return opened(value)
    return types.FunctionType(code, _namespace(namespace), code.co_name)


def refresh() -> None:
    """Let the copies see what was changed in the originals' globals since (a monkeypatched `F.relu`)."""
    for original, copy in _namespaces.values():
        copy.update({**original, **_ANSWERS})


def _namespace(original: dict[str, Any]) -> dict[str, Any]:
    found = _namespaces.get(id(original))
    if found is None:
        found = _namespaces[id(original)] = (original, {**original, **_ANSWERS})
    return found[1]
