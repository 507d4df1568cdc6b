"""The house stands: layers, public names, what is loaded when."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
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
    *(
        "Activations",
        "CutawayError",
        "Flight",
        "Generation",
        "Op",
        "Run",
        "Site",
        "Trace",
        "collect",
        "diff",
        "edit",
        "errors",
    ),
    *("generate", "graph", "lm", "load", "neurons", "pages", "probes", "record", "results", "schedules", "server"),
    *("show", "sites", "store", "studies", "trace", "triggers", "watch"),
]
RETIRED_SYMBOLS = {
    *(
        "Met",
        "Held",
        "Sighting",
        "Sightings",
        "Wanted",
        "Standing",
        "told",
        "Gone",
        "Reading",
        "Seen",
        "Taken",
        "still",
    ),
    *(
        "framed",
        "assembled",
        "drawn",
        "_drawn",
        "_written",
        "_kept",
        "found",
        "thing",
        "said",
        "Manner",
        "How",
        "Place",
    ),
}
"""Names of classes and functions that had to be decoded."""
RETIRED_TEXT = re.compile(
    r"\w*(colour|neighbour|behaviour|labelled|(normal|standard|random|initial|summar|factor)is(e|ing|ation))\w*"
    r"|looked at is gone|is called so\.|will stand here|how often which value|is nothing that \w+ can be"
    r"|beyond all measure|which is a fault of its own|\bone waits for|hang together|arguments felt|in none but its own"
    r"|names nothing|for who knows|is no damage, and said so|found by its computation|What only you know"
)
"""British spelling, and phrases that had to be read twice."""
STORED = {
    'RENAMED = {"ColouredText": "ColoredText"}',
    '_STORED_NAMES = {"standardize": "standardise"}',
    '    "standardise": "values standardized",  # in archives of earlier versions',
}
"""Lines with names that archives of earlier versions hold."""
MOST_FILES = 20
TERMS = {
    "ring",
    "formatting",
    "patching",
    "pooling",
    "sampling",
    "sharding",
    "ranking",
    "clustering",
    "aliasing",
    "indexing",
    "wiring",
}
"""Words in -ing that are terms of the field."""
RETIRED = {
    *("apart", "held", "meeting", "standing", "stillness", "unseen", "returned", "borders", "places", "eagerness"),
    *("sightings", "observing", "stepping", "subjects", "kept", "contents", "pending", "guarding", "structures"),
    *("moments_of", "waiting", "losses_of", "descriptors", "hints", "gone", "beside", "likeness", "lettering", "looks"),
    *("making", "passing", "deciding", "wording", "plates", "scene", "arms", "reach", "spending", "counterparts"),
    *("spreading", "assembling", "estimated", "nulls", "sweeps", "attributed", "tail", "changed", "pieces", "seeing"),
    *(
        "answers",
        "opened",
        "shelf",
        "guard",
        "striking",
        "tinting",
        "tinted",
        "saying",
        "asks",
        "wishes",
        "pace",
        "strip",
    ),
}
"""Names of files that had to be decoded."""


@dataclass(frozen=True)
class Outline:
    """What the tests ask about a file. Parsing is most of their work, and trees that are kept burden the collector."""

    docstring: str
    imports: frozenset[str]
    imports_at_top: frozenset[str]
    symbols: frozenset[str]
    """Names of classes and functions."""


@cache
def outline(path: Path) -> Outline:
    tree = ast.parse(path.read_text())
    nodes = list(ast.walk(tree))
    symbols = {node.name for node in nodes if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))}
    docstring = ast.get_docstring(tree) or ""
    return Outline(docstring, imports(path, nodes), imports(path, tree.body), frozenset(symbols))


def imports(path: Path, nodes: Iterable[ast.AST]) -> frozenset[str]:
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


FILES = sorted(SRC.rglob("*.py"))


def test_imports_point_down() -> None:
    for path in FILES:
        layer = path.relative_to(SRC).parts[0]
        if path.parent == SRC or layer == "cli":
            continue  # the facade and the command line are the top
        for name in outline(path).imports:
            head, *rest = name.split(".")
            if head == "cutaway" and rest and rest[0] != layer:
                assert rest[0] in ALLOWED[layer], f"{path}: {layer} must not import {name}"
            if head == "torch":
                assert layer in MAY_USE_TORCH, f"{path}: {layer} must not import torch"
            assert head not in ("pickle", "dill", "cloudpickle"), f"{path}: {name}"


def test_every_module_says_what_it_holds_and_stays_short() -> None:
    for path in FILES:
        assert outline(path).docstring, f"{path}: a module opens with a sentence"
        assert len(path.read_text().splitlines()) <= 500, f"{path} is too long"


def test_every_folder_is_a_package_that_git_does_not_ignore() -> None:
    # ruff and hatchling skip what .gitignore matches.
    folders = {path.parent for path in FILES}
    assert all((folder / "__init__.py").is_file() for folder in folders), "a folder without __init__.py"
    ignored = {line.strip() for line in (ROOT / ".gitignore").read_text().splitlines() if not line.startswith("/")}
    names = {part for path in FILES for part in path.relative_to(SRC).parts[:-1]}
    assert not names & {line.strip("/") for line in ignored}, "write /name/ in .gitignore for a folder of the root"


def test_every_package_opens_with_a_map_of_its_folder() -> None:
    for path in [*SRC.rglob("__init__.py"), *(ROOT / "benchmarks").rglob("__init__.py")]:
        if path.parent == SRC:
            continue
        text = outline(path).docstring
        entries = {line.split()[0] for line in text.splitlines() if line.strip()}
        for entry in path.parent.iterdir():
            name = entry.name + "/" if entry.is_dir() else entry.stem
            is_code = entry.suffix == ".py" or (entry / "__init__.py").is_file()
            if is_code and entry.stem not in ("__init__", "__main__"):
                assert name in entries, f"the map of {path.parent} lacks {name}"


def test_no_folder_is_crowded() -> None:
    roots = [(ROOT / name, "*.py") for name in ("src/cutaway", "tests", "benchmarks", "examples")]
    for root, pattern in [*roots, (ROOT / "web" / "src", "*.*")]:
        for folder in [root, *(each for each in root.rglob("*") if each.is_dir())]:
            files = [each for each in folder.glob(pattern) if not re.search(r"__init__|\.test\.|\.pyi$", each.name)]
            assert len(files) <= MOST_FILES, f"{folder} has {len(files)} files"


def test_file_names_are_nouns_of_the_field() -> None:
    for path in [*FILES, *(ROOT / "benchmarks").rglob("*.py"), *(ROOT / "web" / "src").rglob("*.ts*")]:
        stem = path.name.split(".")[0].replace("-", "_")
        assert stem not in RETIRED, f"{path}: {stem!r} is retired; see the floor plan in CONTRIBUTING.md"
        assert not stem.endswith("ing") or stem.split("_")[-1] in TERMS, f"{path}: a file name is a noun"


def test_symbols_and_texts_avoid_retired_words() -> None:
    for path in FILES:
        found = outline(path).symbols & RETIRED_SYMBOLS
        assert not found, f"{path}: {found} has to be decoded"
    texts = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md"), *FILES]
    for path in [*texts, *(ROOT / "web" / "src").rglob("*.ts*")]:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = RETIRED_TEXT.search(line)
            assert match is None or line in STORED, f"{path}:{number}: {match and match[0]!r} is retired"


def test_the_map_in_the_guide_is_that_of_the_layers() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", text, re.MULTILINE)
    drawn = {name: set(re.findall(r"`(\w+)`", below)) for name, below in rows if below != "anything"}
    assert drawn == ALLOWED
    assert {name for name, _ in rows} >= {path.name for path in SRC.iterdir() if (path / "__init__.py").is_file()}


def test_the_public_names_are_the_pinned_list() -> None:
    assert cutaway.__all__ == PUBLIC
    for name in PUBLIC:
        assert getattr(cutaway, name).__doc__
    with pytest.raises(AttributeError, match="It has Activations, "):
        _ = cutaway.nothing


def test_reading_needs_no_torch() -> None:
    code = (
        "import sys, cutaway, cutaway.graph.trace, cutaway.views.draw.draw, cutaway.core.sites;"
        "import cutaway.server.show; cutaway.show;"
        "cutaway.Trace; cutaway.CutawayError; assert 'torch' not in sys.modules, 'torch was loaded'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_tracing_and_statistics_do_not_load_what_the_model_does_not_need() -> None:
    code = (
        "import sys, torch, cutaway; cutaway.trace(torch.nn.Linear(2, 2), torch.ones(1, 2));"
        "assert 'torch._dynamo' not in sys.modules and 'pandas' not in sys.modules;"
        "import cutaway.recording.statistics.summary; assert 'triton' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_module_can_be_imported_first() -> None:
    """No circle of imports, whichever file is asked for first."""
    names = {".".join(path.relative_to(SRC.parent).with_suffix("").parts) for path in FILES}
    below = {
        name: sorted(outline(path).imports_at_top & names - {name})
        for path in FILES
        for name in [".".join(path.relative_to(SRC.parent).with_suffix("").parts)]
    }
    TopologicalSorter(below).prepare()  # raises CycleError, which names the circle


def test_late_bound_methods_exist() -> None:
    assert late.bindings()
    for place in late.bindings().values():
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
