"""Methods whose code lives in a higher layer than the class that offers them.

`Trace.draw` belongs to the trace in the user's eyes, but drawing is the business of `views`. The class
calls `late.call("Trace.draw", self, …)`; the facade says, once, where that name is found. This is the
only way in which a lower layer reaches a higher one.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
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


def facade(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package that imports nothing until it is used.

    The names stand once, in the `.pyi` file beside the package's `__init__.py`, where editors and mypy find their
    signatures. Not the `lazy_loader` package: it knows neither missing extras nor what to say of a name that is none.

    Args:
        package: `__name__` of the package.
        file: `__file__` of the package.
    """
    places = _stub(Path(file).with_suffix(".pyi"))
    public = sorted(places)

    def __getattr__(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}; it offers {', '.join(public)}")
        module = imported(places[name], f"{package}.{name}")
        return module if places[name] == f"{package}.{name}" else getattr(module, name)

    return __getattr__, lambda: [*public, *(["__version__"] if package == "cutaway" else [])], public


def _stub(path: Path) -> dict[str, str]:
    """Name → its module, as a stub file imports them; of `from package import name` the name is a module."""
    places = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module != "cutaway.core.version":
            for alias in node.names:
                is_module = "." not in node.module
                places[alias.name] = f"{node.module}.{alias.name}" if is_module else node.module
    return places


def bound() -> dict[str, str]:
    """All late-bound names and their places, for the test that each of them exists."""
    return dict(_places)
