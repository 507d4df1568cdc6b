"""The house stands: layers, public names, what is loaded when."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import cutaway
from cutaway.core import late
from tests import ROOT

SRC = ROOT / "src" / "cutaway"

# What each layer may import of the package; imports point down.
ALLOWED = {
    "core": set(),
    "layout": {"core"},
    "graph": {"results", "core"},
    "results": {"core"},
    "store": {"graph", "results", "core"},
    "capture": {"graph", "results", "core"},
    "diagnosis": {"store", "graph", "results", "core"},
    "recording": {"capture", "store", "graph", "results", "core"},
    "collecting": {"capture", "store", "graph", "results", "core"},
    "neurons": {"capture", "store", "graph", "results", "core"},
    "lm": {"capture", "store", "graph", "results", "core"},
    "studies": {"capture", "graph", "results", "core"},
    "views": {"layout", "results", "store", "graph", "core"},
    "server": {"views", "layout", "store", "results", "core"},
}
MAY_USE_TORCH = {"capture", "recording", "collecting", "neurons", "lm", "studies", "integrations"}
PUBLIC = [
    *("Activations", "CutawayError", "Generation", "Op", "Run", "Trace", "collect", "diff", "edit", "generate"),
    *("lm", "load", "neurons", "probes", "record", "show", "sites", "studies", "trace", "watch"),
]


@cache
def imports(path: Path, *, top_level: bool = False) -> frozenset[str]:
    found = set()
    tree = ast.parse(path.read_text())
    for node in tree.body if top_level else ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


FILES = sorted(SRC.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SRC)))
def test_imports_point_down(path: Path) -> None:
    parts = path.relative_to(SRC).parts
    if len(parts) == 1 or parts[0] == "cli":
        return  # the facade and the command line are the top
    layer = parts[0]
    for name in imports(path):
        head, *rest = name.split(".")
        if head == "cutaway" and rest and rest[0] != layer:
            assert rest[0] in ALLOWED[layer], f"{layer} must not import {name}"
        if head == "torch":
            assert layer in MAY_USE_TORCH, f"{layer} must not import torch"
        assert head not in ("pickle", "dill", "cloudpickle"), name


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SRC)))
def test_every_module_says_what_it_holds_and_stays_short(path: Path) -> None:
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text)), "a module opens with a sentence"
    assert len(text.splitlines()) <= 500


def test_the_public_names_are_the_pinned_list() -> None:
    assert cutaway.__all__ == PUBLIC
    for name in PUBLIC:
        assert getattr(cutaway, name).__doc__
    with pytest.raises(AttributeError, match="it offers Activations, "):
        _ = cutaway.nothing


def test_reading_needs_no_torch() -> None:
    code = (
        "import sys, cutaway, cutaway.graph.trace, cutaway.views.draw.draw, cutaway.core.sites;"
        "import cutaway.server.show; cutaway.show;"
        "cutaway.Trace; cutaway.CutawayError; assert 'torch' not in sys.modules, 'torch was loaded'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_tracing_does_not_load_what_the_model_does_not_need() -> None:
    code = (
        "import sys, torch, cutaway; cutaway.trace(torch.nn.Linear(2, 2), torch.ones(1, 2));"
        "assert 'torch._dynamo' not in sys.modules and 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SRC)))
def test_every_module_can_be_imported_first(path: Path) -> None:
    """No circle of imports, whichever file is asked for first."""
    names = {p: ".".join(p.relative_to(SRC.parent).with_suffix("").parts) for p in FILES}
    seen: dict[str, set[str]] = {
        names[p]: {n for n in imports(p, top_level=True) if n in names.values()} for p in FILES
    }
    above: list[str] = []
    stack = [(names[path], iter(seen[names[path]]))]
    above.append(names[path])
    while stack:
        for below in stack[-1][1]:
            assert below != names[path], f"{' → '.join(above)} → {below}"
            if below not in above:
                above.append(below)
                stack.append((below, iter(seen[below])))
                break
        else:
            stack.pop()


def test_late_bound_methods_exist() -> None:
    assert late.bound()
    for place in late.bound().values():
        module, _, function = place.partition(":")
        assert callable(getattr(import_module(module), function))


def test_tests_mirror_the_source() -> None:
    for folder in (ROOT / "tests").iterdir():
        if folder.is_dir() and folder.name not in ("docs", "benchmarks", "web", "__pycache__"):
            assert (SRC / folder.name).is_dir(), f"tests/{folder.name} mirrors nothing"


def test_the_tree_names_no_machine_and_no_registry() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    for name in tracked:
        path = ROOT / name
        if path.suffix in (".py", ".md", ".toml", ".txt", ".ts", ".json", "") and path.is_file() and name != "LICENSE":
            text = path.read_text(errors="ignore")
            for word in ("/ro" + "ot/", "/wo" + "rk/", "pypi." + "org", "npmjs." + "org"):
                assert word not in text, f"{name} mentions {word}"
