"""The documentation runs, and leaves nothing out."""

from __future__ import annotations

import doctest
import inspect
import io
import pkgutil
import re
import sys
from collections.abc import Iterable
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from inspect import getsource, isclass
from pathlib import Path
from typing import Any

import pytest
import torch
from tests import ROOT

import cutaway
from cutaway.core import errors
from cutaway.graph.analysis.cost_summary import Total, Totals
from cutaway.graph.analysis.paths import Paths
from cutaway.graph.analysis.saved_for_backward import Retained, RetainedTensor
from cutaway.graph.control_flow.source import Source
from cutaway.graph.modules import Module, ModuleCall, ParameterCount
from cutaway.graph.op import Edge, Op
from cutaway.graph.replays import Replays
from cutaway.graph.selection import Selection
from cutaway.graph.trace import INTERNAL, Trace
from cutaway.recording.recorder import Recorder
from cutaway.results.diff import Diff
from cutaway.results.lesions import Lesions
from cutaway.results.patching import Patching
from cutaway.store.runs.run import Run
from cutaway.store.runs.run_set import Runs
from cutaway.store.runs.series import Series
from cutaway.store.runs.step import Moment, Step

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
TIME = re.compile(r"\d[\d.]* ?(?:µs|ms|s|%)(?!\w)")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block of a page."""

    language: str
    text: str
    line: int
    """The line of the page on which its text begins, from 0."""


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(m[1], m[2], text.count("\n", 0, m.start(2))) for m in FENCE.finditer(text)]


def run(page: Path, block: Block, names: dict[str, Any]) -> str:
    """Run one block of Python and return what it printed; prompts are checked as doctests."""
    if ">>> " not in block.text:
        # Padded to its line and named after its page, so that an error and `op.source` point into the page.
        code = compile("\n" * block.line + block.text, str(page), "exec")
        with redirect_stdout(io.StringIO()) as printed:
            exec(code, names)
        return printed.getvalue()
    example = doctest.DocTestParser().get_doctest(block.text, names, page.name, str(page), block.line)
    report = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    runner.run(example, out=report.write, clear_globs=False)
    names.update(example.globs)
    assert not runner.failures, report.getvalue()
    return ""


def comparable(output: str) -> list[str]:
    """Lines without their times, and without the order that times decide."""
    return sorted(" ".join(TIME.sub("T", line).split()) for line in output.splitlines() if line.strip())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_example_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "torch._dynamo" in sys.modules:
        sys.modules["torch._dynamo"].reset()  # what is compiled in this process is not traced by a recorder
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    printed = ""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for block in blocks(page):
            if block.language == "python":
                printed = run(page, block, names)
            elif block.language == "text" and printed:
                assert comparable(printed) == comparable(block.text), f"{page.name}, line {block.line}"
                printed = ""


MODULES = sorted(m.name for m in pkgutil.walk_packages(cutaway.__path__, "cutaway.") if not m.ispkg)


NEEDS_TRITON = [name for name in MODULES if name.startswith("cutaway.recording.statistics.triton_")]


def failing_examples(names: Iterable[str]) -> list[str]:
    """The docstrings of these modules whose examples print something else; what they print is on stdout."""
    failing = []
    for name in names:
        # Only docstrings with examples: running one takes 2 ms, because the debugger asks for the state of every file.
        for test in doctest.DocTestFinder(exclude_empty=True).find(import_module(name), name):
            if test.examples and doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test).failed:
                failing.append(test.name)
    return failing


@pytest.mark.parametrize("package", sorted({name.split(".")[1] for name in MODULES}))
def test_examples_in_docstrings_hold(package: str) -> None:
    names = [name for name in MODULES if name.split(".")[1] == package and name not in NEEDS_TRITON]
    assert not failing_examples(names)


def test_examples_in_docstrings_of_triton_code_hold() -> None:
    pytest.importorskip("triton")
    assert not failing_examples(NEEDS_TRITON)


# completeness

INSIDE_THE_STORE = {
    "timeline", "rows_of", "positions_of", "check_statistics", "matching_series", "records", "of_", "row_number",
    "meta", "tensors",
}  # fmt: skip
SECTIONS = {
    Trace: "What a trace holds",
    Op: "What an op holds",
    ModuleCall: "What a module call holds",
    Module: "What a module holds",
    Selection: "What a selection holds",
    Paths: "What paths hold",
    Total: "Totals and retained tensors",
    Totals: "Totals and retained tensors",
    Retained: "Totals and retained tensors",
    RetainedTensor: "Totals and retained tensors",
    Edge: "Edges, sources, counts",
    Source: "Edges, sources, counts",
    ParameterCount: "Edges, sources, counts",
    Diff: "What a diff holds",
    Lesions: "What lesions hold",
    Patching: "What a patching holds",
    Run: "What a run holds",
    Series: "What a series holds",
    Step: "What a step holds",
    Moment: "What a moment holds",
    Recorder: "What a recorder offers",
    Runs: "What runs hold",
}


def attributes(kind: type) -> set[str]:
    """The public attributes of a class, those that its instances get on being made included."""
    names = {*vars(kind), *getattr(kind, "__dataclass_fields__", ())}
    if kind is Trace:
        names |= {*vars(Trace()), *vars(Replays)}
    if kind in (Series, Moment):
        names |= set(re.findall(r"self\.(\w+) = ", getsource(kind.__init__)))
    inside = INSIDE_THE_STORE if kind.__module__.startswith("cutaway.store.") else INTERNAL
    return {name for name in names if not name.startswith("_")} - inside


def section(title: str) -> str:
    pattern = re.compile(rf"^## {title}\n(.*?)(?=^## |\Z)", re.M | re.S)
    found = [match[1] for page in PAGES if (match := pattern.search(page.read_text(encoding="utf-8")))]
    assert len(found) == 1, f"{len(found)} pages have a section {title!r}"
    return found[0]


@pytest.mark.parametrize("kind", SECTIONS, ids=lambda kind: kind.__name__)
def test_every_attribute_is_documented(kind: type) -> None:
    text = section(SECTIONS[kind])
    missing = [name for name in sorted(attributes(kind)) if not re.search(rf"`{name}(?:\([^`]*\))?`", text)]
    assert not missing, f"{SECTIONS[kind]!r} does not say what these are: {missing}"


@pytest.mark.parametrize(
    "kind",
    [Trace, Op, ModuleCall, Module, Selection, Paths, Run, Series, Step, Moment, Runs, Recorder],
    ids=lambda kind: kind.__name__,
)
def test_every_documented_attribute_exists(kind: type) -> None:
    rows = re.findall(r"^\| (`[^|]*) \|", section(SECTIONS[kind]), re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`(\w+)(?:\([^`]*\))?`", row)]
    assert named
    assert set(named) <= attributes(kind)


def test_completion_offers_what_is_documented() -> None:
    """`dir` of a trace, an op and a selection is the list of the documented attributes."""
    trace = cutaway.trace(torch.nn.Linear(2, 2), torch.ones(1, 2))
    assert trace.names.labels  # what is computed on first use stays hidden, too
    assert trace["."]
    for value in (trace, trace[0], trace.ops):
        rows = re.findall(r"^\| (`[^|]*) \|", section(SECTIONS[type(value)]), re.MULTILINE)
        documented = {name for row in rows for name in re.findall(r"`(\w+)(?:\([^`]*\))?`", row)}
        inherited = {"count", "index"} if isinstance(value, Selection) else set()
        assert {name for name in dir(value) if not name.startswith("_")} == documented | inherited


def test_every_error_is_documented() -> None:
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    kinds = [kind for kind in vars(errors).values() if isclass(kind) and issubclass(kind, errors.CutawayError)]
    assert len(kinds) > 5
    for kind in kinds:
        assert f"## {kind.__name__}\n" in text, kind.__name__


@pytest.mark.parametrize("name", cutaway.__all__)
def test_every_public_name_is_documented(name: str) -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert re.search(rf"`(?:cutaway\.)?{name}[(`]", text), name


def test_help_explains_every_parameter_of_every_public_function() -> None:
    members = [getattr(cutaway, name) for name in cutaway.__all__]
    spaces = [cutaway, *(space for space in members if hasattr(space, "__all__"))]
    functions = [getattr(space, name) for space in spaces for name in space.__all__]
    for function in filter(inspect.isfunction, functions):
        text = inspect.getdoc(function) or ""
        for name in inspect.signature(function).parameters:
            assert re.search(rf"^    [\w*`, ]*\b{name}\b[\w*`, ]*:", text, re.M), f"{function.__qualname__}: {name}"


def test_every_address_in_the_documentation_is_public() -> None:
    """Reached from `import cutaway` alone, as a reader types it."""
    for page in [*PAGES, *(ROOT / "examples").glob("*.py")]:
        text = page.read_text(encoding="utf-8")
        names = {f"{module}.{name}" for module, name in re.findall(r"from cutaway\.(\w+) import (\w+)", text)}
        names |= set(re.findall(r"\bcutaway\.([a-z]+\.[A-Za-z_]+)\b(?!/)", text))
        for name in sorted(names):
            namespace, _, attribute = name.partition(".")
            if namespace in cutaway.__all__:
                assert hasattr(getattr(cutaway, namespace), attribute), f"{page.name}: cutaway.{name}"
            else:
                assert namespace in ("cli",), f"{page.name}: cutaway.{name} is not public"


def test_every_case_of_the_zoo_is_documented() -> None:
    from tests.zoo import ZOO

    text = (ROOT / "docs" / "tricky-models.md").read_text(encoding="utf-8")
    missing = [name for name in ZOO if f"`{name}`" not in text]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", prose):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_index_links_every_page() -> None:
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for page in PAGES[1:]:
        assert page.name == "index.md" or f"({page.name})" in text, page.name
