"""Exports a trace as a table and as a networkx graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from cutaway.core.dataframes import to_dataframe
from cutaway.core.errors import MissingExtraError

if TYPE_CHECKING:
    from cutaway.graph.op import Op
    from cutaway.graph.trace import Trace


def table(ops: Iterable[Op]) -> Any:
    """One row per op: a DataFrame if pandas is installed, else a list of dicts."""
    rows = to_dataframe(record(op) for op in ops)
    if isinstance(rows, list) or not len(rows):
        return rows
    # Distances can be None, which would turn the whole column into floats: Int64 is nullable.
    nullable = {"distance_from_input": "Int64", "distance_to_output": "Int64"}
    return rows.set_index("label").astype(nullable)


def record(op: Op) -> dict[str, Any]:
    """The attributes of an op as plain values, by attribute name."""
    source = op.source
    return {
        "label": op.label,
        "site": op.site,
        "function": op.function,
        "module": op.module.address if op.module else None,
        "shape": op.shape,
        "dtype": op.dtype,
        "device": op.device,
        "bytes": op.bytes,
        "seconds": op.seconds,
        "flops": op.flops,
        "parents": [parent.label for parent in op.parents],
        "children": [child.label for child in op.children],
        "output_path": op.output_path,
        "is_inplace": op.is_inplace,
        "is_identity": op.is_identity,
        "is_saved": op.is_saved,
        "distance_from_input": op.distance_from_input,
        "distance_to_output": op.distance_to_output,
        "source": f"{source.file}:{source.line}" if source else None,
    }


def networkx_graph(trace: Trace) -> Any:
    """A `MultiDiGraph` whose nodes are labels, including sources, and whose edges have their argument."""
    try:
        import networkx
    except ImportError as error:
        raise MissingExtraError("to_networkx() needs networkx: pip install networkx") from error
    graph = networkx.MultiDiGraph(name=trace.model_name)
    for op in trace.ops:
        columns = record(op)
        graph.add_node(op.label, **{key: value for key, value in columns.items() if key not in ("parents", "children")})
    for op in trace.ops:
        for edge in op.edges:
            parent = edge.parent
            if parent.label not in graph:
                about = {"site": parent.site, "function": parent.kind, "shape": parent.shape, "dtype": parent.dtype}
                graph.add_node(parent.label, **about)
            graph.add_edge(parent.label, op.label, argument=edge.argument)
    return graph
