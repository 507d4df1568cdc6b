"""A folded graph as boxes, frames and edges, without coordinates."""

from __future__ import annotations

from dataclasses import dataclass

from cutaway.layout.graph_view import CONDITION, FAILED, LIGHT, OUTPUT, Form, Kind, Mark

IF = "IF"
"""Prefix of the label of an edge where the branch of a conditional leaves the path to the output."""


@dataclass(frozen=True, slots=True)
class Box:
    """One op, one source, one folded group, or a stand-in for boxes drawn elsewhere."""

    key: str
    """Independent of what is folded: "n12" for a node, "g3" for a group, "s…" for a stand-in."""
    lines: tuple[str, ...]
    """Lines of text; the first is its name."""
    kind: Kind
    form: Form
    frame: int
    node: int = -1
    """Index of the node in the graph; -1 for none."""
    group: int = -1
    """Index of the group that is folded into it; -1 for none."""
    flags: int = 0
    stack: int = 1
    """Number of identical blocks it stands for."""
    stands_for: tuple[str, ...] = ()
    """For a stand-in, the keys of the boxes that it stands for."""
    mark: Mark = ""
    shade: int = 0
    """Strength of the difference of its values from another trace, from 0 to 4."""

    @property
    def marks(self) -> tuple[str, ...]:
        """CSS classes of its differences, in a picture of two traces."""
        apart = ("apart", f"apart{self.shade}") if self.shade else ()
        return (*apart, self.mark) if self.mark else apart

    @property
    def is_output(self) -> bool:
        return bool(self.flags & OUTPUT)

    @property
    def is_light(self) -> bool:
        """Whether it is drawn pale."""
        return bool(self.flags & LIGHT)

    @property
    def is_condition(self) -> bool:
        """Whether it decided a test."""
        return bool(self.flags & CONDITION)

    @property
    def is_failed(self) -> bool:
        """Whether it raised, or an op in it did."""
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
    """The common mark if everything in it is new or removed."""


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge from one box to another; the label shows the argument and how often it repeats."""

    parent: int
    child: int
    label: str

    @property
    def is_feedback(self) -> bool:
        """Whether it leads to an earlier box or to itself; only in rolled-up pictures."""
        return self.parent >= self.child


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything to draw. Boxes are ordered parents first, with those of one frame next to each other."""

    title: str
    subtitle: str
    boxes: tuple[Box, ...]
    frames: tuple[Frame, ...]
    edges: tuple[Edge, ...]
    faint: frozenset[int] = frozenset()
    """Boxes to draw faded."""
