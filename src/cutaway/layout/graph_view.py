"""The graph of a trace as data for one picture: every op, every module call, every edge, before anything is folded.

It is columns, not objects: 20,000 ops are parsed by a browser in a moment. What is shown of it (which modules are open,
what is rolled up) is decided by `folding`, here and, by the same rules, in the browser.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

Kind = Literal["input", "buffer", "constant", "plain", "parametric", "made", "standin", "failed", "target", "loss"]
Form = Literal["function", "leaf", "folded", "small"]
Mark = Literal["", "new", "gone", "changed"]
Total = Literal["sum", "max"]
Scale = Literal["log", "linear", "diverging"]

OUTPUT: Final = 1
LIGHT: Final = 2
"""Nothing follows from it: it gave back the tensor it got, or took a number out of torch."""
CONDITION: Final = 4
"""It decided an `if`, a `while` or another test."""
FAILED: Final = 8
"""It raised, or, of a group, something in it did."""


@dataclass(frozen=True, slots=True)
class NodeColumns:
    """One entry for each op and each source that is drawn. Parents stand first, the nodes of a group together."""

    row: tuple[int, ...]
    """Row in the trace, by which details are asked for; -1 for an op that failed, or that another trace has."""
    label: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    """What the box says below its name."""
    kind: tuple[Kind, ...]
    form: tuple[Form, ...]
    flags: tuple[int, ...]
    group: tuple[int, ...]
    """The innermost group; 0 is the whole picture."""
    function: tuple[str, ...]
    site: tuple[str, ...]
    event: tuple[int, ...]
    """The first of the nodes that the same call of a function made: all results of a split have one."""
    rolled: tuple[int, ...]
    """The node that stands for all its passes: the first of them."""
    pass_: tuple[int, ...]
    """Number of the pass, from 1."""
    rolled_lines: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Node → its lines where it stands for all its passes, if they are others."""
    outputs: tuple[tuple[str, int], ...] = ()
    """What the model returned: the place in the returned structure, "" for a bare tensor, and the node."""


@dataclass(frozen=True, slots=True)
class GroupColumns:
    """One entry for each module call that can be a frame or be folded into a box; 0 is the whole picture.

    They stand in the order in which they were entered, so that what is inside a group follows it without gap.
    """

    parent: tuple[int, ...]
    label: tuple[str, ...]
    """Address, and pass where the module ran several times."""
    rolled_label: tuple[str, ...]
    """Address without the pass."""
    class_name: tuple[str, ...]
    size: tuple[str, ...]
    """Shapes and bytes of what it returned."""
    parameters: tuple[str, ...]
    """How many it has, in words; "" for none."""
    kind: tuple[Kind, ...]
    flags: tuple[int, ...]
    depth: tuple[int, ...]
    """How many module calls are around its own; -1 for the world outside all modules."""
    first: tuple[int, ...]
    """The first of its nodes."""
    end: tuple[int, ...]
    """The node behind its last one."""
    n_ops: tuple[int, ...]
    rolled: tuple[int, ...]
    """The group that stands for all runs of the module in a loop: the first of them."""
    pass_: tuple[int, ...]
    """Number among those runs, from 1."""
    run: tuple[int, ...]
    """The run of identical blocks it belongs to; -1 for none."""
    place: tuple[int, ...]
    """Its place in that run, from 0."""
    call: tuple[int, ...]
    """Number of the module call in the trace."""


@dataclass(frozen=True, slots=True)
class BlockRun:
    """Identical blocks, one after the other: `h.0` to `h.23`. Nodes and groups of one correspond by their order."""

    groups: tuple[int, ...]
    label: str
    """`h.0 … 23`."""


@dataclass(frozen=True, slots=True)
class EdgeColumns:
    """One entry for each tensor that goes from a node to another, and each argument as which it does."""

    parent: tuple[int, ...]
    child: tuple[int, ...]
    argument: tuple[str, ...]
    """Position or keyword, where it matters."""
    begins: tuple[int, ...]
    """Numbers of the edges where the branch of a conditional leaves the path to the output."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A number for every node, by which the picture can be colored."""

    name: str
    """`seconds`, `std`, `grad_norm`…"""
    title: str
    unit: str
    total: Total
    """What a folded group shows: the sum over its nodes, or the largest."""
    scale: Scale
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs from another trace, by node."""

    mark: tuple[Mark, ...]
    shade: tuple[int, ...]
    """How far the values are apart, from 0 (not at all) to 4."""
    amount: tuple[str, ...]
    """The same in words."""
    order: tuple[float, ...]
    """The same as a number to sort by."""


@dataclass(frozen=True, slots=True)
class GraphView:
    """The whole graph."""

    title: str
    subtitle: str
    facts: tuple[tuple[str, str], ...]
    """Model class, ops and bytes, parameters…, for the header: what, how much."""
    error: str
    """What ended the trace early; "" if nothing did."""
    nodes: NodeColumns
    groups: GroupColumns
    runs: tuple[BlockRun, ...]
    edges: EdgeColumns
    measures: tuple[Measure, ...] = ()
    comparison: Comparison | None = None
    is_rolled: bool = False
    """Whether loops are better rolled up at first."""
    kind: str = "graph"
    noun: str = "ops"
    """What its nodes are, in words: those of a run are tensors."""


@dataclass(frozen=True, slots=True)
class Fold:
    """What is open, and what is drawn once for many.

    Args:
        open: groups that are frames; all others are boxes. A group counts as open only if those around it are.
        rolled: whether the passes of an op are one box.
        apart: runs of identical blocks that are drawn one by one; all others are drawn once, ×n.
    """

    open: frozenset[int] = frozenset()
    rolled: bool = False
    apart: frozenset[int] = frozenset()


def plain(value: Any) -> Any:
    """A view as what JSON knows: dataclasses as objects, tuples as lists.

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
