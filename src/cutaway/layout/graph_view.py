"""The whole graph as columns: every op, module call and edge, before folding.

Columns instead of objects let a browser parse 20,000 ops quickly. `fold` decides what is shown (open modules, rolled-up
loops), here and by the same rules in the browser.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

Kind = Literal["input", "buffer", "constant", "plain", "parametric", "made", "standin", "failed", "target", "loss"]
Form = Literal["function", "leaf", "folded", "small"]
Mark = Literal["", "new", "removed", "changed"]
Total = Literal["sum", "max"]
Scale = Literal["log", "linear", "diverging"]

OUTPUT: Final = 1
LIGHT: Final = 2
"""Drawn pale: it returned its input unchanged, or took a number out of torch."""
CONDITION: Final = 4
"""It decided an `if`, a `while` or another test."""
FAILED: Final = 8
"""It raised, or an op in this group did."""


@dataclass(frozen=True, slots=True)
class NodeColumns:
    """One entry for each drawn op and source. Parents come before children, nodes of a group are contiguous."""

    row: tuple[int, ...]
    """Row in the trace, used to request details; -1 for an op that failed or is only in the other trace of a diff."""
    label: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    """Lines of text below the name."""
    kind: tuple[Kind, ...]
    form: tuple[Form, ...]
    flags: tuple[int, ...]
    group: tuple[int, ...]
    """The innermost group; 0 is the whole picture."""
    function: tuple[str, ...]
    site: tuple[str, ...]
    event: tuple[int, ...]
    """The first node of the same function call: all results of a split share one."""
    rolled: tuple[int, ...]
    """The node that represents all its passes: the first of them."""
    pass_: tuple[int, ...]
    """The pass, from 1."""
    rolled_lines: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Node → its lines when it represents all its passes, if they differ from `lines`."""
    outputs: tuple[tuple[str, int], ...] = ()
    """Outputs of the model: the path in the returned structure, "" for a bare tensor, and the node."""


@dataclass(frozen=True, slots=True)
class GroupColumns:
    """One entry for each module call that can be a frame or a folded box; 0 is the whole picture.

    They are in the order of their calls, so inner groups directly follow the group that contains them.
    """

    parent: tuple[int, ...]
    label: tuple[str, ...]
    """Address, and pass if the module ran several times."""
    rolled_label: tuple[str, ...]
    """Address without the pass."""
    class_name: tuple[str, ...]
    size: tuple[str, ...]
    """Shapes and bytes of its outputs."""
    parameters: tuple[str, ...]
    """Number of parameters as text; "" for none."""
    kind: tuple[Kind, ...]
    flags: tuple[int, ...]
    depth: tuple[int, ...]
    """Nesting depth in module calls; -1 for code outside all modules."""
    first: tuple[int, ...]
    """Its first node."""
    end: tuple[int, ...]
    """The node after its last one."""
    n_ops: tuple[int, ...]
    rolled: tuple[int, ...]
    """The group that represents all passes of the module in a loop: the first of them."""
    pass_: tuple[int, ...]
    """The pass, from 1."""
    run: tuple[int, ...]
    """The run of identical blocks it belongs to; -1 for none."""
    place: tuple[int, ...]
    """Its index in that run, from 0."""
    call: tuple[int, ...]
    """Index of the module call in the trace."""


@dataclass(frozen=True, slots=True)
class BlockRun:
    """Consecutive identical blocks, such as `h.0` to `h.23`. Their nodes and groups correspond by order."""

    groups: tuple[int, ...]
    label: str
    """`h.0 … 23`."""


@dataclass(frozen=True, slots=True)
class EdgeColumns:
    """One entry for each tensor from one node to another, and each argument it is passed as."""

    parent: tuple[int, ...]
    child: tuple[int, ...]
    argument: tuple[str, ...]
    """Position or keyword, where the order of arguments matters."""
    branch_starts: tuple[int, ...]
    """Indices of the edges where the branch of a conditional leaves the path to the output."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A number for every node, to color the picture by."""

    name: str
    """`seconds`, `std`, `grad_norm`…"""
    title: str
    unit: str
    total: Total
    """How a folded group combines its nodes: their sum, or the largest."""
    scale: Scale
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Differences from another trace, by node."""

    mark: tuple[Mark, ...]
    shade: tuple[int, ...]
    """Strength of the difference of values, from 0 (equal) to 4."""
    amount: tuple[str, ...]
    """The difference as text."""
    order: tuple[float, ...]
    """The difference as a number to sort by."""


@dataclass(frozen=True, slots=True)
class GraphView:
    """The whole graph."""

    title: str
    subtitle: str
    facts: tuple[tuple[str, str], ...]
    """(name, value) pairs for the header: ops, bytes, parameters…"""
    error: str
    """The error that ended the trace early; "" if there was none."""
    nodes: NodeColumns
    groups: GroupColumns
    runs: tuple[BlockRun, ...]
    edges: EdgeColumns
    measures: tuple[Measure, ...] = ()
    comparison: Comparison | None = None
    is_rolled: bool = False
    """Whether loops should be rolled up initially."""
    kind: str = "graph"
    noun: str = "ops"
    """What its nodes are called: "ops", or "tensors" for a run."""


@dataclass(frozen=True, slots=True)
class Fold:
    """Which groups are open, and which repetitions are drawn once.

    Args:
        open: groups drawn as frames; all others are boxes. A group is open only if all groups around it are.
        rolled: whether the passes of an op are one box.
        apart: runs of identical blocks that are drawn one by one; all others are drawn once, ×n.
    """

    open: frozenset[int] = frozenset()
    rolled: bool = False
    apart: frozenset[int] = frozenset()


def plain(value: Any) -> Any:
    """Convert a view to JSON types: dataclasses to dicts, tuples to lists.

    >>> plain(Fold(rolled=True))
    {'open': [], 'rolled': True, 'apart': []}
    """
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value] if value and not isinstance(value[0], (str, int)) else list(value)
    return sorted(value) if isinstance(value, frozenset) else value
