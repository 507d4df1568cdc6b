"""Put other tensors into what a module was given or returned, whatever kind of container that is."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping
from dataclasses import fields, is_dataclass
from typing import Any

from torch import Tensor


def with_tensors(tree: Any, new: Mapping[int, Tensor]) -> Any:
    """A copy of a structure in which the tensors with these ids are others; parts without them stay as they are."""
    if isinstance(tree, Tensor):
        return new.get(id(tree), tree)
    if isinstance(tree, tuple):
        parts = [with_tensors(part, new) for part in tree]
        if all(a is b for a, b in zip(parts, tree, strict=True)):
            return tree
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    if isinstance(tree, list):
        parts = [with_tensors(part, new) for part in tree]
        return tree if all(a is b for a, b in zip(parts, tree, strict=True)) else type(tree)(parts)
    if isinstance(tree, MutableMapping):
        changed = {key: part for key, value in tree.items() if (part := with_tensors(value, new)) is not value}
        return _with_items(tree, changed) if changed else tree
    if is_dataclass(tree) and not isinstance(tree, type):
        names = [each.name for each in fields(tree)]
    elif hasattr(tree, "__dict__") and not callable(tree):
        names = list(vars(tree))
    else:
        return tree
    attributes = {
        name: part for name in names if (part := with_tensors(value := getattr(tree, name, None), new)) is not value
    }
    if not attributes:
        return tree
    made = copy.copy(tree)
    for name, part in attributes.items():
        object.__setattr__(made, name, part)
    return made


def _with_items(tree: MutableMapping[Any, Any], changed: dict[Any, Any]) -> Any:
    """A copy of a mapping with other items; a `ModelOutput` keeps its attributes in step by itself."""
    made = copy.copy(tree)
    for key, part in changed.items():
        made[key] = part
    return made
