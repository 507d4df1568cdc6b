"""Methods whose code lives in a higher layer than the class that offers them.

`Trace.draw` belongs to the trace in the user's eyes, but drawing is the business of `views`. The class
calls `late.call("Trace.draw", self, …)`; the facade says, once, where that name is found. This is the
only way in which a lower layer reaches a higher one.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

from cutaway.core.errors import MissingExtraError

_places: dict[str, str] = {}
_EXTRAS = {
    "torch": ("torch", "torch"),
    "sklearn": ("scikit-learn", "'cutaway[neurons]'"),
    "scipy": ("scipy", "'cutaway[neurons]'"),
}
"""Package → its name, and what to install."""


def bind(name: str, place: str) -> None:
    """Say where a late-bound function is found.

    >>> bind("Trace.example", "operator:attrgetter")
    """
    _places[name] = place


def call(name: str, *args: Any, **kwargs: Any) -> Any:
    """Import the function bound to `name` and call it."""
    module, _, function = _places[name].partition(":")
    return getattr(imported(module, name), function)(*args, **kwargs)


def imported(module: str, what: str) -> ModuleType:
    """A module of this package; `MissingExtraError` where it needs torch or another extra that is not there."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in _EXTRAS:
            raise
        name, install = _EXTRAS[error.name]
        raise MissingExtraError(f"{what} needs {name}: pip install {install}") from error


def bound() -> dict[str, str]:
    """All late-bound names and their places, for the test that each of them exists."""
    return dict(_places)
