"""Copies of Python composites (`F.softmax`) whose inner calls reach the function mode.

Composites first call `has_torch_function…`, and dispatch to an active mode instead of running. Calling one again from
inside the mode would recurse forever. So each composite gets a copy with the same code but other globals, in which the
three `has_torch_function…` functions return False. The calls inside then reach the mode as separate operations.
"""

from __future__ import annotations

import types
from typing import Any

_DISPATCH_CHECKS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")


def _return_false(*_: Any) -> bool:
    return False


_DISPATCH_OFF: dict[str, Any] = dict.fromkeys(_DISPATCH_CHECKS, _return_false)

# One copy of the globals per module, stored with the original.
_namespaces: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}


def is_composite(func: types.FunctionType) -> bool:
    """Whether a Python function dispatches to modes and does its work through other torch functions."""
    return any(name in func.__code__.co_names for name in _DISPATCH_CHECKS)


def open_composite(func: types.FunctionType) -> types.FunctionType:
    """A copy of a composite that does not dispatch to modes."""
    copy = types.FunctionType(
        func.__code__, _namespace(func.__globals__), func.__name__, func.__defaults__, func.__closure__
    )
    copy.__kwdefaults__ = func.__kwdefaults__
    return copy


def open_code(code: types.CodeType, namespace: dict[str, Any]) -> types.FunctionType:
    """The same for code whose function can no longer be found by its name."""
    # The function itself has the defaults and the closure, which a code object lacks.
    for value in namespace.values():
        # Not `isinstance`: it asks `__class__`, and deprecated objects of torch warn when they are asked.
        if type(value) is types.FunctionType and value.__code__ is code:
            return open_composite(value)
    return types.FunctionType(code, _namespace(namespace), code.co_name)


def refresh() -> None:
    """Updates the copied globals after changes in the originals (a monkeypatched `F.relu`)."""
    for original, copy in _namespaces.values():
        copy.update({**original, **_DISPATCH_OFF})


def _namespace(original: dict[str, Any]) -> dict[str, Any]:
    entry = _namespaces.get(id(original))
    if entry is None:
        entry = _namespaces[id(original)] = (original, {**original, **_DISPATCH_OFF})
    return entry[1]
