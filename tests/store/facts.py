"""Everything that a trace answers, as plain data: the same for a fresh trace and for one that was read. No torch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from tests import ROOT

from cutaway.core.errors import CutawayError
from cutaway.core.sites import Site
from cutaway.graph.analysis.passes import Passes
from cutaway.graph.analysis.paths import Paths
from cutaway.graph.argument_text import OpaqueArgument, plain
from cutaway.graph.control_flow.conditionals import Conditional
from cutaway.graph.control_flow.source import Source
from cutaway.graph.modules import Module, ModuleCall, ParameterCount
from cutaway.graph.op import Edge, Op
from cutaway.graph.selection import Selection
from cutaway.graph.trace import Trace

DOCS = ROOT / "docs"
NOT_STORED = {"returned", "callable", "retained", "replay", "patch_path", "validate", "tensor", "save"}
NOT_STORED |= {"to_html", "trace"}
"""What needs the model or the running program, and what says to whom something belongs."""
VALUES = {"value", "grad", "grads", "is_saved", "saved"}
ASKED = {
    "match": lambda trace: trace.match("**"),
    "select": lambda trace: trace.select(function="linear"),
    "between": lambda trace: trace.between(trace.ops[0], trace.ops[-1]),
    "paths": lambda trace: trace.paths(trace.ops[0], trace.ops[-1]),
    "critical_path": lambda trace: [trace.critical_path(by) for by in ("flops", "bytes", "seconds")],
    "table": lambda trace: trace.table().drop(columns="is_saved").reset_index().to_dict("records"),
    "to_networkx": lambda trace: trace.to_networkx().adj,
    "draw": lambda trace: [trace.draw(depth=1), trace.draw(rolled=True), trace.draw()],
}


def documented(page: str, heading: str) -> list[str]:
    """The attributes that a table of the documentation lists."""
    text = (DOCS / page).read_text().partition(f"## {heading}\n")[2].partition("|---|---|\n")[2].partition("\n\n")[0]
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return [name for cell in cells for name in re.findall(r"`(\w+)[^`]*`", cell)]


def facts(trace: Trace, *, values: bool) -> dict[str, Any]:
    """What is known of a trace, its ops, modules, calls and conditionals; `values` says whether with their values."""
    left_out = NOT_STORED if values else NOT_STORED | VALUES
    found: dict[str, Any] = {}
    for name in documented("trace.md", "What a trace holds"):
        if name not in left_out and (name not in ASKED or len(trace)):
            found[name] = plainly(ASKED[name](trace) if name in ASKED else getattr(trace, name))
    found["repr"] = repr(trace) if values else ""
    found["totals"] = {by: repr(trace.ops.totals(by)) for by in ("function", "module", "module_class")}
    ops = [Op(trace, node) for node in range(len(trace.tables.nodes))]
    things = {"ops": (ops, "What an op holds"), "calls": (trace.calls, "What a module call holds")}
    things["modules"] = (trace.modules.values(), "What a module holds")
    for kind, (items, heading) in things.items():
        names = [name for name in documented("trace.md", heading) if name not in left_out]
        found[f"every {kind}"] = [{name: answer(item, name) for name in names} for item in items]
    names = documented("conditionals.md", "What a conditional holds")
    found["every conditional"] = [{name: answer(item, name) for name in names} for item in trace.conditionals]
    found["said"] = [str(item) for item in trace.conditionals]
    if values:
        names = ["repr", "site", "parents_by_pass", "children_by_pass", "grads", "edges", "bytes"]
        rolled = [op for op in trace.rolled if isinstance(op, Passes)]
        found["every passes"] = [{name: answer(op, name) for name in names} for op in rolled]
        found["stacked"] = [plainly(_or_error(lambda: op.values)) for op in rolled]
    return found


def answer(thing: Any, name: str) -> Any:
    return plainly(repr(thing) if name == "repr" else _or_error(lambda: getattr(thing, name)))


def _or_error(ask: Any) -> Any:
    try:
        return ask()
    except CutawayError as error:
        return f"{type(error).__name__}: {error}"


def plainly(value: Any) -> Any:
    """A value without its trace, so that those of two traces can be compared."""
    match value:
        case Passes():
            return ("passes", value.nodes)
        case Op():
            return ("op", value.node, value.unit)
        case Edge():
            return (plainly(value.parent), value.argument)
        case Module():
            return ("module", value.row)
        case ModuleCall():
            return ("call", value.number)
        case Conditional():
            return ("conditional", value.number)
        case Selection():
            return ("selection", list(value.nodes))
        case Paths():
            return (value.count, plainly(value.ops), plainly(value.shortest))
        case Source():
            return (str(value), value.text)
        case Site() | ParameterCount():
            return repr(value)
        case BaseException():
            return (type(value).__name__, str(value))
        case OpaqueArgument():
            return ("thing", value.text)
        case np.ndarray():
            assert value.dtype.kind != "O"
            return ("array", value.dtype.str, value.shape, value.tobytes())
    if hasattr(value, "detach"):
        return plainly(array_of(value))
    if isinstance(value, Mapping):
        return {str(plainly(key)): plainly(item) for key, item in value.items()}
    if isinstance(value, slice):
        return ("slice", plainly((value.start, value.stop, value.step)))
    if isinstance(value, (tuple, list)) or type(value).__name__ == "Rolled":
        return [plainly(item) for item in value]
    value = plain(value)
    if value is None or value is ... or isinstance(value, (bool, int, float, complex, str, bytes)):
        return repr(value)
    return ("thing", repr(value)[:200])


def array_of(tensor: Any) -> Any:
    """A torch tensor as NumPy by torch's own ways."""
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()
