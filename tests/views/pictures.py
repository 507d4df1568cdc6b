"""Random graphs in nested groups, as pictures with some groups open: boxes, frames and edges without any sense."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass, field

from cutaway.layout.layered import Rect
from cutaway.layout.picture import Box, Edge, Frame, Picture


@dataclass
class Nested:
    """Nodes 0… parents first, the nodes of a group together; groups 1…, 0 is everything."""

    parent: list[int] = field(default_factory=lambda: [-1])
    """Of each group, the one around it."""
    title: list[str] = field(default_factory=lambda: [""])
    group: list[int] = field(default_factory=list)
    """Of each node, the innermost."""
    lines: list[tuple[str, ...]] = field(default_factory=list)
    edges: list[tuple[int, int, str]] = field(default_factory=list)

    def picture(self, opened: Collection[int]) -> Picture:
        """What is drawn where these groups are open; one counts only if those around it are."""
        shown = {0}
        for group in range(1, len(self.parent)):
            if group in opened and self.parent[group] in shown:
                shown.add(group)
        frames = [Frame("", "", -1)]
        number = {0: 0}
        boxes: list[Box] = []
        box_of: list[int] = []
        made: dict[int, int] = {}
        for node, group in enumerate(self.group):
            path = [group]
            while path[-1]:
                path.append(self.parent[path[-1]])
            path.reverse()
            folded = next((step for step in path if step not in shown), None)
            for step in path[: path.index(folded)] if folded is not None else path:
                if step not in number:
                    number[step] = len(frames)
                    frames.append(Frame(f"g{step}", self.title[step], number[self.parent[step]], step))
            if folded is None:
                box_of.append(len(boxes))
                form = "function" if node % 3 else "small"
                boxes.append(Box(f"n{node}", self.lines[node], "plain", form, number[group], node))
            else:
                if folded not in made:
                    made[folded] = len(boxes)
                    lines = (self.title[folded] or "module", "several")
                    boxes.append(Box(f"g{folded}", lines, "plain", "folded", number[self.parent[folded]], group=folded))
                box_of.append(made[folded])
        edges: dict[tuple[int, int], str] = {}
        for parent, child, label in self.edges:
            ends = box_of[parent], box_of[child]
            is_inside = ends[0] == ends[1] and boxes[ends[0]].form == "folded" and parent < child
            if not is_inside:
                edges.setdefault(ends, label)
        return Picture("random", "", tuple(boxes), tuple(frames), tuple(Edge(*ends, t) for ends, t in edges.items()))


def random_graph(rng: random.Random, n: int = 40, *, n_back: int = 0) -> Nested:
    """Short edges and long ones, some with labels; crowds, parts without connection, edges that go back."""
    graph, around = Nested(), [0]
    deep = rng.choice((1, 3, 5))
    for _ in range(n):
        while rng.random() < 0.25 and len(around) <= deep:
            graph.parent.append(around[-1])
            graph.title.append("m" * rng.randrange(30))
            around.append(len(graph.parent) - 1)
        graph.group.append(around[-1])
        graph.lines.append(tuple("x" * rng.randrange(1, 20) for _ in range(rng.randrange(1, 6))))
        while rng.random() < 0.25 and len(around) > 1:
            around.pop()
    reach = rng.choice((2, 9, 40))
    pairs = {(rng.randrange(max(0, b - reach), b), b) for b in range(1, n) for _ in range(rng.choice((0, 1, 1, 2)))}
    pairs |= {(0, b) for b in range(1, n) if rng.random() < 0.1}
    if rng.random() < 0.3:
        pairs |= {(a, n - 1) for a in range(0, n - 1, 2)}
    back = [(rng.randrange(n), rng.randrange(n)) for _ in range(n_back)]
    pairs |= {(max(ends), min(ends)) for ends in back}
    graph.edges = [(a, b, rng.choice(("", "", "0", "weight", "IF", "Out 1–4 In 2–5"))) for a, b in sorted(pairs)]
    return graph


def random_picture(seed: int, n: int = 40, *, n_back: int = 0) -> Picture:
    rng = random.Random(seed)
    graph = random_graph(rng, n, n_back=n_back)
    return graph.picture([group for group in range(1, len(graph.parent)) if rng.random() < 0.8])


def overlap(a: Rect, b: Rect) -> bool:
    """Whether two rectangles have more than a border in common."""
    return (
        a.x + a.width > b.x + 1e-6 and b.x + b.width > a.x + 1e-6
        and a.y + a.height > b.y + 1e-6 and b.y + b.height > a.y + 1e-6
    )  # fmt: skip
