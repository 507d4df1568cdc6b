"""Replaces tensors in nested inputs and outputs of modules."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping
from typing import Any

from torch import Tensor

from cutaway.core.pytree import branches, escape


def with_tensors(tree: Any, new: Mapping[str, Tensor]) -> Any:
    """Copies a nested structure with other tensors at these paths; unchanged parts are shared.

    >>> with_tensors((1, {"a": 2}), {"1.a": 3})
    (1, {'a': 3})
    """
    return _rebuild(tree, "", new)


def _rebuild(tree: Any, path: str, new: Mapping[str, Tensor]) -> Any:
    if path in new:
        return new[path]
    if not any(each.startswith(f"{path}." if path else "") for each in new):
        return tree
    parts = {}
    for name, child in branches(tree):
        below = f"{path}.{escape(name)}" if path else escape(name)
        rebuilt = _rebuild(child, below, new)
        if rebuilt is not child:
            parts[name] = rebuilt
    return _with_parts(tree, parts) if parts else tree


def _with_parts(tree: Any, parts: dict[str, Any]) -> Any:
    """Copies one container with other children; the type stays the same."""
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(parts.get(name, child) for name, child in branches(tree)))
    if isinstance(tree, (tuple, list)):
        return type(tree)([parts.get(name, child) for name, child in branches(tree)])
    rebuilt = copy.copy(tree)
    if isinstance(tree, MutableMapping):
        for key in list(tree):  # a `ModelOutput` keeps its attributes in sync itself
            if str(key) in parts:
                rebuilt[key] = parts[str(key)]
        return rebuilt
    for name, part in parts.items():
        object.__setattr__(rebuilt, name, part)
    return rebuilt
