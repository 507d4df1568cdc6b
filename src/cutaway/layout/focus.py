"""Opens modules around chosen nodes, and fades everything but their neighbors."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from cutaway.layout.graph_view import Fold, GraphView
from cutaway.layout.picture import Picture
from cutaway.layout.representatives import Representatives


@dataclass(frozen=True, slots=True)
class Focus:
    """Boxes of a picture, by index."""

    boxes: frozenset[int]
    """Boxes that contain chosen nodes."""
    faint: frozenset[int]
    """Boxes that contain neither chosen nodes nor their neighbors."""


def box_keys(view: GraphView, how: Fold) -> tuple[str, ...]:
    """For every node, the key of the box that shows it."""
    representatives = Representatives(view, how)
    folded = [representatives.folded_of(node) for node in range(len(view.nodes.row))]
    # All results of one call are one box.
    events = view.nodes.event
    return tuple(
        f"g{group}" if group >= 0 else f"n{events[representatives.node(node)]}" for node, group in enumerate(folded)
    )


def open_around(view: GraphView, how: Fold, nodes: Collection[int]) -> Fold:
    """A fold in which all groups around these nodes, and around their representatives, are open, too."""
    representatives = Representatives(view, how)
    opened = set(how.open)
    for node in {*nodes, *map(representatives.node, nodes)}:
        group = view.nodes.group[node]
        while group >= 0 and group not in opened:
            opened.add(group)
            group = view.groups.parent[group]
    return Fold(frozenset(opened), how.rolled, how.apart)


def focus(view: GraphView, picture: Picture, keys: Sequence[str], nodes: Collection[int]) -> Focus:
    """The boxes of these nodes in a picture, and the boxes to fade."""
    chosen_keys = {keys[node] for node in nodes}
    chosen = set(nodes)
    near = {keys[node] for node in neighbors(view, chosen)}
    boxes, faint = set(), set()
    for number, box in enumerate(picture.boxes):
        user = box.key.rpartition(":")[2]
        if box.key in chosen_keys:
            boxes.add(number)
        elif box.key not in near and not (user in chosen_keys and box.stands_for):
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
