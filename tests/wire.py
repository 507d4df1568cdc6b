"""Generates the TypeScript types of the views from their dataclasses: `python -m tests.wire` writes `FILES`."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields, is_dataclass
from importlib import import_module
from types import ModuleType, NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from cutaway.core.statistics import N_SAMPLED, STATISTICS, UNKNOWN, Statistic
from cutaway.core.unusual import Contents
from cutaway.core.zscores import FAR, LARGEST
from cutaway.views.run.outliers import LEFT_OUT
from tests import ROOT

FOLDER = ROOT / "web" / "src"
MODULES = (
    *(
        "cutaway.layout.graph_view",
        "cutaway.layout.picture",
        "cutaway.views.values.value_view",
        "cutaway.views.graph.op_details",
    ),
    *(
        "cutaway.views.run.run_view",
        "cutaway.views.run.run_graph",
        "cutaway.views.run.sample_view",
        "cutaway.views.run.tensor_view",
        "cutaway.views.run.training_marks",
        "cutaway.views.run.outliers",
        "cutaway.views.run.color_limits",
        "cutaway.views.run.spikes_view",
        "cutaway.views.run.changed_samples",
        "cutaway.views.run.what_changed",
        "cutaway.views.run.filter_view",
    ),
    *("cutaway.views.run.module_table", "cutaway.views.pages.page_items", "cutaway.core.statistics"),
)
ROOTS = (
    *("GraphView", "Fold", "Picture", "OpDetails"),
    *("FoldersView", "RunItem", "RunView", "RunGraph", "SamplesView", "TensorView", "NetworkView", "Statistic"),
    *("StepMarks", "ColorLimits"),
    *("SpikesView", "WhatChanged", "FilterView"),
)
FILES = {
    FOLDER / "lib" / "wire.ts": (MODULES, ROOTS),
    FOLDER / "pages" / "wire.ts": (
        ("cutaway.views.pages.model", "cutaway.views.pages.results.activations"),
        ("Page", "PageView"),
    ),
}
"""Each generated file with the modules that define its types, and the root types that are sent by themselves."""
HEAD = """\
// Types of the views that Python sends, generated from their dataclasses by `python -m tests.wire`: change those.
"""
NUMBERS = {
    "FAR": (FAR, "Numbers with at least this z-score are outliers."),
    "LARGEST": (LARGEST, "Z-scores are clipped to this."),
    "N_SAMPLED": (N_SAMPLED, "Maximum number of elements that quantiles and histogram sample from a tensor."),
    **{f"HOLDS_{code.name}": (int(code), f"Code of `contents`: {code.name.lower()}.") for code in Contents},
    "LEFT_OUT": (LEFT_OUT, "Added to a code of `contents`: a buffer, whole numbers, a mask."),
}
PLAIN = {int: "number", float: "number", str: "string", bool: "boolean", NoneType: "null", Any: "unknown"}


def typescript(names: tuple[str, ...] = MODULES, roots: tuple[str, ...] = ROOTS) -> str:
    """The text of a file: unions of literals, flags, then one interface for each dataclass that is sent."""
    modules = [import_module(name) for name in names]
    named: dict[str, type] = {}
    for module in modules:
        named.update({name: kind for name, kind in vars(module).items() if name in roots})
    reached: dict[type, None] = {}
    for root in roots:
        _reach(named[root], reached)
    words = _words(modules, reached)
    parts = [HEAD, "\n".join(f"export type {name} = {_union(hint)};" for hint, name in words.items())]
    parts += ["\n".join(f"export const {name} = {value};" for name, value in _flags(modules[0]))]
    parts += [_interface(kind, words) for kind in reached]
    parts += [_statistics()] if Statistic in reached else []
    return "\n\n".join(part.rstrip("\n") for part in parts if part) + "\n"


def _reach(kind: type, reached: dict[type, None]) -> None:
    """Add a dataclass and, recursively, those in its fields."""
    if kind not in reached:
        reached[kind] = None
        for hint in get_type_hints(kind).values():
            for part in _parts(hint):
                if is_dataclass(part) and isinstance(part, type):
                    _reach(part, reached)


def _parts(hint: Any) -> Iterator[Any]:
    yield hint
    for part in get_args(hint):
        yield from _parts(part)


def _words(modules: list[ModuleType], kinds: dict[type, None]) -> dict[Any, str]:
    """The `Literal` types that have a name in Python and are used by one of the dataclasses."""
    used = [part for kind in kinds for hint in get_type_hints(kind).values() for part in _parts(hint)]
    literals: dict[Any, str] = {}
    for module in modules:
        for name, value in vars(module).items():
            if get_origin(value) is Literal and value in used and not name.startswith("_"):
                literals.setdefault(value, name)
    return literals


def _flags(module: ModuleType) -> list[tuple[str, int]]:
    return [(name, value) for name, value in vars(module).items() if name.isupper() and isinstance(value, int)]


def _union(hint: Any) -> str:
    return " | ".join(f'"{word}"' for word in get_args(hint))


def _interface(kind: type, words: dict[Any, str]) -> str:
    docstrings, hints = _docstrings(kind), get_type_hints(kind)
    lines = []
    for field in fields(kind):
        lines += [f"  /** {docstrings[field.name]} */"] if field.name in docstrings else []
        lines.append(f"  {field.name}: {_typed(hints[field.name], words)};")
    about = (inspect.getdoc(kind) or "").partition("\n")[0]
    return "\n".join([f"/** {about} */", f"export interface {kind.__name__} {{", *lines, "}"])


def _statistics() -> str:
    """The table of statistics; each row has only what differs from `UNKNOWN`."""
    plain = asdict(UNKNOWN)
    rows = [{key: value for key, value in asdict(each).items() if value != plain[key]} for each in STATISTICS.values()]
    lines = [f"/** {about} */\nexport const {name} = {value};" for name, (value, about) in NUMBERS.items()]
    lines += [
        "/** Defaults, also used for a statistic that is not in the table. */",
        f"export const UNKNOWN: Statistic = {_literal(plain)};",
    ]
    lines += [
        "/** All statistics, in display order. */",
        "export const STATISTICS: readonly Statistic[] = [",
    ]
    lines += [f"  {{ ...UNKNOWN, {_literal(row)[2:]}," for row in rows]
    return "\n".join([*lines, "];"])


def _literal(row: dict[str, Any]) -> str:
    return f"{{ {', '.join(f'{key}: {json.dumps(value)}' for key, value in row.items())} }}"


def _docstrings(kind: type) -> dict[str, str]:
    """The docstrings below the fields of a class."""
    (body,) = (node.body for node in ast.parse(inspect.getsource(kind)).body if isinstance(node, ast.ClassDef))
    docstrings, name = {}, ""
    for statement in body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and name:
            docstrings[name] = " ".join(str(statement.value.value).split())
    return docstrings


def _typed(hint: Any, words: dict[Any, str]) -> str:
    if hint in words:
        return words[hint]
    if hint in PLAIN:
        return PLAIN[hint]
    if is_dataclass(hint) and isinstance(hint, type):
        return hint.__name__
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return _union(hint)
    if origin in (Union, UnionType):
        return " | ".join(dict.fromkeys(_typed(arg, words) for arg in args))
    if origin is dict:
        return f"Record<{_typed(args[0], words)}, {_typed(args[1], words)}>"
    if origin is tuple and args[-1:] != (Ellipsis,):
        return f"[{', '.join(_typed(arg, words) for arg in args)}]"
    if origin in (tuple, list, frozenset, Sequence):
        item = _typed(args[0], words)
        return f"({item})[]" if "|" in item else f"{item}[]"
    raise TypeError(f"cannot express {hint!r} in TypeScript")


if __name__ == "__main__":
    for file, made_of in FILES.items():
        file.parent.mkdir(exist_ok=True)
        file.write_text(typescript(*made_of), encoding="utf-8")
