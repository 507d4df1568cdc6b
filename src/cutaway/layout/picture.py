"""A picture of a graph as boxes, frames and edges: what is to be drawn, before anything has a place."""

from __future__ import annotations

from dataclasses import dataclass

from cutaway.layout.graph_view import CONDITION, FAILED, LIGHT, OUTPUT, Form, Kind, Mark

IF = "IF"
"""Begins the label of an edge where the branch of a conditional leaves the path to the output."""


@dataclass(frozen=True, slots=True)
class Box:
    """One op, one source, one folded group, or a stand-in for what is drawn elsewhere."""

    key: str
    """The same whatever else is open: "n12" for a node, "g3" for a group, "s…" for a stand-in."""
    lines: tuple[str, ...]
    """The first of them is its name."""
    kind: Kind
    form: Form
    frame: int
    node: int = -1
    """Number among the nodes of the graph; -1 for none."""
    group: int = -1
    """Number of the group that is folded into it; -1 for none."""
    flags: int = 0
    stack: int = 1
    """How many identical blocks it stands for."""
    stands_for: tuple[str, ...] = ()
    """Of a stand-in: the keys of the boxes that it stands for."""
    mark: Mark = ""
    shade: int = 0
    """How far its values are apart from those of another trace, from 0 to 4."""

    @property
    def marks(self) -> tuple[str, ...]:
        """What differs there, in a picture of two traces: the mark, and how far the values are apart."""
        apart = ("apart", f"apart{self.shade}") if self.shade else ()
        return (*apart, self.mark) if self.mark else apart

    @property
    def is_output(self) -> bool:
        return bool(self.flags & OUTPUT)

    @property
    def is_light(self) -> bool:
        """Whether nothing follows from it."""
        return bool(self.flags & LIGHT)

    @property
    def is_condition(self) -> bool:
        """Whether it decided a test."""
        return bool(self.flags & CONDITION)

    @property
    def is_failed(self) -> bool:
        """Whether it raised, or something in it did."""
        return bool(self.flags & FAILED)


@dataclass(frozen=True, slots=True)
class Frame:
    """An open group around several boxes; frame 0 is the whole picture."""

    key: str
    title: str
    parent: int
    group: int = 0
    stack: int = 1
    flags: int = 0
    mark: Mark = ""
    """Whether all in it is new, or gone."""


@dataclass(frozen=True, slots=True)
class Edge:
    """From a box to another one; the label tells the argument and, where it repeats, how often."""

    parent: int
    child: int
    label: str

    @property
    def is_feedback(self) -> bool:
        """Whether it goes back to an earlier box, or from a box to itself; only in rolled-up pictures."""
        return self.parent >= self.child


@dataclass(frozen=True, slots=True)
class Picture:
    """All that is to be drawn; boxes stand parents first, those of one frame next to each other."""

    title: str
    subtitle: str
    boxes: tuple[Box, ...]
    frames: tuple[Frame, ...]
    edges: tuple[Edge, ...]
    faint: frozenset[int] = frozenset()
    """Boxes that are only there for orientation."""
