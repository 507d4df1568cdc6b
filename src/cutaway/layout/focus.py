"""A picture about a part of a graph: what is opened for it, which boxes hold it, which are there for orientation."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from cutaway.layout.graph_view import Fold, GraphView
from cutaway.layout.picture import Picture
from cutaway.layout.representatives import Representatives


@dataclass(frozen=True, slots=True)
class Focus:
    """Boxes of a picture, by number."""

    boxes: frozenset[int]
    """Those that hold something of what the picture is about."""
    faint: frozenset[int]
    """Those that hold neither this nor a neighbor of it."""


def keys_of(view: GraphView, how: Fold) -> tuple[str, ...]:
    """For every node the key of the box that stands for it."""
    standing = Representatives(view, how)
    folded = [standing.folded_of(node) for node in range(len(view.nodes.row))]
    # All results of one call are one box.
    events = view.nodes.event
    return tuple(f"g{group}" if group >= 0 else f"n{events[standing.node(node)]}" for node, group in enumerate(folded))


def opened_for(view: GraphView, how: Fold, nodes: Collection[int]) -> Fold:
    """A fold in which all groups around these nodes, and around those that stand for them, are open, too."""
    standing = Representatives(view, how)
    found = set(how.open)
    for node in {*nodes, *map(standing.node, nodes)}:
        group = view.nodes.group[node]
        while group >= 0 and group not in found:
            found.add(group)
            group = view.groups.parent[group]
    return Fold(frozenset(found), how.rolled, how.apart)


def focus(view: GraphView, picture: Picture, keys: Sequence[str], nodes: Collection[int]) -> Focus:
    """Where these nodes are in a picture, and what is far from them."""
    own = {keys[node] for node in nodes}
    chosen = set(nodes)
    near = {keys[node] for node in neighbors(view, chosen)}
    boxes, faint = set(), set()
    for number, box in enumerate(picture.boxes):
        user = box.key.rpartition(":")[2]
        if box.key in own:
            boxes.add(number)
        elif box.key not in near and not (user in own and box.stands_for):
            faint.add(number)
    return Focus(frozenset(boxes), frozenset(faint))


def neighbors(view: GraphView, nodes: Collection[int]) -> set[int]:
    """The nodes that these read from, and those that read from them."""
    found = set()
    for parent, child in zip(view.edges.parent, view.edges.child, strict=True):
        if child in nodes:
            found.add(parent)
        if parent in nodes:
            found.add(child)
    return found
