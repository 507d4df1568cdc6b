"""Late binding of methods whose code is in a higher layer, and lazy package facades.

For you, `Trace.draw` is a method of the trace, but its code is in `views`. The class calls
`late.call("Trace.draw", self, …)`; `cutaway/__init__.py` binds the name to a function. No lower layer reaches a
higher one in any other way.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from cutaway.core.errors import MissingExtraError
from cutaway.core.formatting import hint

_targets: dict[str, str] = {}
_EXTRAS = {
    "torch": ("torch", "torch"),
    "sklearn": ("scikit-learn", "'cutaway[neurons]'"),
    "scipy": ("scipy", "'cutaway[neurons]'"),
}
"""Import name → package name, and what to pass to `pip install`."""


def bind(name: str, place: str) -> None:
    """Binds a name to a function, given as `module:function`.

    >>> bind("Trace.example", "operator:attrgetter")
    """
    _targets[name] = place


def call(name: str, *args: Any, **kwargs: Any) -> Any:
    """Imports the function bound to `name` and calls it."""
    module, _, function = _targets[name].partition(":")
    return getattr(load_module(module, name), function)(*args, **kwargs)


def load_module(module: str, what: str) -> ModuleType:
    """Imports a module; raises `MissingExtraError` if it needs torch or another extra that is not installed."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        # Any other missing module is a bug, not a missing extra.
        if error.name not in _EXTRAS:
            raise
        name, install = _EXTRAS[error.name]
        raise MissingExtraError(f"{what} needs {name}: pip install {install}") from error


def facade(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Returns `__getattr__`, `__dir__` and `__all__` of a package that imports its modules on first use.

    The names are listed once, in the `.pyi` stub beside the package's `__init__.py`, where editors and mypy find their
    signatures. `lazy_loader` is not used: it has no message for missing extras or for unknown names.

    Args:
        package: `__name__` of the package.
        file: `__file__` of the package.
    """
    places = _stub(Path(file).with_suffix(".pyi"))
    public = sorted(places)

    def __getattr__(name: str) -> Any:
        if name not in places:
            close = hint(name, public)
            raise AttributeError(f"module {package!r} has no attribute {name!r}.{close} It has {', '.join(public)}.")
        module = load_module(places[name], f"{package}.{name}")
        return module if places[name] == f"{package}.{name}" else getattr(module, name)

    return __getattr__, lambda: [*public, *(["__version__"] if package == "cutaway" else [])], public


def _stub(path: Path) -> dict[str, str]:
    """Name → module, read from the imports of a stub file; `from package import name` imports a submodule."""
    places = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module != "cutaway.core.version":
            for alias in node.names:
                is_module = "." not in node.module
                places[alias.name] = f"{node.module}.{alias.name}" if is_module else node.module
    return places


def bindings() -> dict[str, str]:
    """All late-bound names and their targets, for the test that each target exists."""
    return dict(_targets)
