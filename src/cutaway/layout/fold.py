"""Folds a graph view into a picture: open groups, rolled-up loops and repeated blocks.

The browser folds by the same rules (`web/src/layout/fold.ts`); a test keeps the two in sync.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import short
from cutaway.layout.graph_view import OUTPUT, Fold, GraphView, Mark
from cutaway.layout.pass_labels import passes_label
from cutaway.layout.picture import IF, Box, Edge, Frame, Picture
from cutaway.layout.representatives import Representatives

_MAX_USERS = 8
"""A tensor with more users than this gets a small stand-in box beside each of them."""
_MAX_LABELED = 12
"""An op with more inputs than this gets no edge labels: they would overlap."""

Key = tuple[str, int]
"""What a box shows: ("n", node), ("g", group) or ("s", index of a stand-in)."""


def fold_to_depth(view: GraphView, depth: int | None, *, rolled: bool = False) -> Fold:
    """The fold that opens `depth` levels of groups; None opens all."""
    if depth is not None and (not isinstance(depth, int) or isinstance(depth, bool)):
        raise InputTypeError(f"depth must be an integer, or None for every op, got {depth!r}.")
    if depth is not None and depth < 0:
        raise InputError(f"depth must be at least 0, or None for every op, got {depth}.")
    shown = (group for group, deep in enumerate(view.groups.depth) if depth is None or deep < depth)
    return Fold(frozenset(shown), rolled, frozenset() if rolled else frozenset(range(len(view.runs))))


def fold(view: GraphView, how: Fold, *, bright: Collection[int] | None = None) -> Picture:
    """The picture of a graph.

    Args:
        bright: nodes to draw as usual, with all others faded; None fades nothing.
    """
    builder = _PictureBuilder(view, how)
    builder.find_wires()
    builder.add_standins()
    builder.order_boxes()
    builder.count_bright(bright)
    n_ops = view.groups.n_ops[0]
    n_rolled = sum(i == rep for i, rep in builder.ops_rolled())
    rolled = f" rolled up to {n_rolled:,}" if how.rolled and n_rolled < n_ops else ""
    subtitle = f"{n_ops:,} {view.noun}{rolled} · {view.subtitle}"
    if bright is not None:
        selected = sum(view.nodes.kind[i] not in _SOURCES for i in bright)
        subtitle = f"{selected:,} selected of {subtitle}"
    return Picture(view.title, subtitle, *builder.parts(), builder.faint())


_SOURCES = ("input", "buffer", "constant")
_MARKS: tuple[Mark, ...] = ("new", "removed", "changed")
_SIGNS: dict[Mark, str] = {"": "", "new": "+", "removed": "−", "changed": "~"}


@dataclass(slots=True)
class _Wire:
    """All edges from one box to another."""

    child: int
    """The first node that reads something; the label shows its arguments."""
    arguments: list[tuple[int, str]] = field(default_factory=list)
    """(parent, argument) of each tensor that this node reads."""
    edges: list[tuple[int, int]] = field(default_factory=list)
    starts_branch: bool = False


class _PictureBuilder:
    """Builds a picture, by key, until the order of the boxes is known."""

    def __init__(self, view: GraphView, how: Fold) -> None:
        self.view, self.nodes, self.groups, self.how = view, view.nodes, view.groups, how
        self.representatives = Representatives(view, how)
        self.wires: dict[tuple[Key, Key], _Wire] = {}
        self.standins: dict[Key, tuple[list[Key], Key]] = {}
        """Stand-in → the boxes it stands for, and the box that uses it."""
        self.users: dict[Key, int] = {}
        self.outputs: dict[Key, list[str]] = {}
        self.order: list[Key] = []
        self.bright: dict[Key, int] | None = None
        """Box → number of its selected tensors."""
        self.n_arriving = [0] * len(view.nodes.row)
        self.members: dict[Key, list[int]] = {}
        """Box → the nodes that it shows."""
        # Computed once: every edge asks for the keys of both ends.
        self.keys = [self.key(i) for i in range(len(view.nodes.row))]

    def key(self, node: int) -> Key:
        """The key of the box of a node. All results of one function call share the box of the first."""
        folded = self.representatives.folded_of(node)
        return ("g", folded) if folded >= 0 else ("n", self.nodes.event[self.representatives.node(node)])

    def ops_rolled(self) -> list[tuple[int, int]]:
        return [(i, rep) for i, rep in enumerate(self.nodes.rolled) if self.nodes.kind[i] not in _SOURCES]

    def find_wires(self) -> None:
        edges, keys, rolled = self.view.edges, self.keys, self.how.rolled
        branch_starts = set(edges.branch_starts)
        for edge, (parent, child) in enumerate(zip(edges.parent, edges.child, strict=True)):
            self.n_arriving[child] += 1
            upper, lower = keys[parent], keys[child]
            if self.representatives.joins_blocks(parent, child):
                continue
            if upper == lower and (not rolled or self.representatives.is_hidden(parent, child)):
                continue
            if upper == lower and (self.nodes.kind[parent], self.nodes.form[parent]) == ("parametric", "small"):
                continue  # a parameter is the same in all passes: no feedback edge
            wire = self.wires.get((upper, lower))
            if wire is None:
                wire = self.wires[upper, lower] = _Wire(child)
            wire.edges.append((parent, child))
            wire.starts_branch = wire.starts_branch or edge in branch_starts
            if child == wire.child:
                wire.arguments.append((parent, edges.argument[edge]))
        for node, key in enumerate(keys):
            self.members.setdefault(key, []).append(node)
        for path, node in self.nodes.outputs:
            number, n_passes = self.pass_of(node)
            named = f"{path}, pass {number}" if path else f"of pass {number}"
            self.outputs.setdefault(keys[node], []).append(named if n_passes > 1 else path)

    def pass_of(self, node: int) -> tuple[int, int]:
        """The pass of a node within its box, and the number of passes."""
        return self.representatives.pass_of(node) if self.how.rolled else (1, 1)

    def add_standins(self) -> None:
        """Replace edges from a tensor with more than `_MAX_USERS` users by one stand-in for each user."""
        users_of: dict[Key, set[Key]] = {}
        for upper, lower in self.wires:
            users_of.setdefault(upper, set()).add(lower)
        self.users = {upper: len(users) for upper, users in users_of.items() if len(users) > _MAX_USERS}
        uppers_by_lower: dict[Key, list[Key]] = {}
        for upper, lower in self.wires:
            if upper in self.users:
                uppers_by_lower.setdefault(lower, []).append(upper)
        for lower, uppers in uppers_by_lower.items():
            # A box that reads many such tensors gets one stand-in for all: a crowd of stand-ins would be no better.
            for group in [uppers] if len(uppers) > _MAX_USERS else [[upper] for upper in uppers]:
                standin = ("s", len(self.standins))
                self.standins[standin] = (group, lower)
                parts = [self.wires.pop((upper, lower)) for upper in group]
                joined = self.wires[standin, lower] = _Wire(parts[0].child)
                for part in parts:
                    joined.edges += part.edges
                    joined.starts_branch = joined.starts_branch or part.starts_branch
                    joined.arguments += part.arguments if part.child == joined.child else []

    def order_boxes(self) -> None:
        """Order boxes like their nodes, with stand-ins before their users."""
        before: dict[Key, list[Key]] = {}
        for standin, (_, lower) in self.standins.items():
            before.setdefault(lower, []).append(standin)
        for key in self.members:
            self.order += before.get(key, ())
            self.order.append(key)

    def count_bright(self, bright: Collection[int] | None) -> None:
        """Count selected tensors by box. A stand-in is selected if both its user and one of its originals are."""
        if bright is None:
            return
        counts = self.bright = dict[Key, int]()
        for node in bright:
            counts[self.keys[node]] = counts.get(self.keys[node], 0) + 1
        for standin, (uppers, lower) in self.standins.items():
            if lower in counts and any(upper in counts for upper in uppers):
                counts[standin] = 1

    def faint(self) -> frozenset[int]:
        """The indices of the boxes without selected tensors."""
        if self.bright is None:
            return frozenset()
        return frozenset(i for i, key in enumerate(self.order) if key not in self.bright)

    # boxes, frames and edges

    def parts(self) -> tuple[tuple[Box, ...], tuple[Frame, ...], tuple[Edge, ...]]:
        frames, number = [Frame("", "", -1)], {0: 0}
        boxes = []
        for key in self.order:
            around = self.home(key)
            path = []
            while around not in number:
                path.append(around)
                around = self.groups.parent[around]
            for group in reversed(path):
                number[group] = len(frames)
                frames.append(self.frame(group, number[self.groups.parent[group]]))
            boxes.append(self.box(key, number[self.home(key)]))
        place = {key: i for i, key in enumerate(self.order)}
        edges = tuple(
            Edge(place[upper], place[lower], self.edge_label(upper, lower, wire))
            for (upper, lower), wire in self.wires.items()
        )
        return tuple(boxes), tuple(frames), edges

    def home(self, key: Key) -> int:
        """The group that contains a box."""
        if key[0] == "s":
            return self.home(self.standins[key][1])
        return max(self.groups.parent[key[1]], 0) if key[0] == "g" else self.nodes.group[key[1]]

    def frame(self, group: int, parent: int) -> Frame:
        mark = self.common_mark(group)
        name = self.group_name(group)
        named = name if self.groups.label[group].startswith(".") else f"{name} ({self.groups.class_name[group]})"
        title = f"{_SIGNS[mark]} {named}".strip()
        return Frame(
            f"g{group}", title, parent, group, self.representatives.stack(group), self.groups.flags[group], mark
        )

    def common_mark(self, group: int) -> Mark:
        """The mark of a group whose ops are all new or all removed; else ""."""
        if self.view.comparison is None:
            return ""
        inside = range(self.groups.first[group], self.groups.end[group])
        marks = {self.view.comparison.mark[node] for node in inside if self.nodes.kind[node] not in _SOURCES}
        return next(iter(marks)) if marks in ({"new"}, {"removed"}) else ""

    def edge_label(self, upper: Key, lower: Key, wire: _Wire) -> str:
        starts_branch = IF if lower[0] == "n" and wire.starts_branch else ""
        passes = self.passes_label(upper, wire) if self.how.rolled else ""
        return " ".join(filter(None, (starts_branch, self.argument_label(lower, wire), passes)))

    def argument_label(self, lower: Key, wire: _Wire) -> str:
        if lower[0] == "g" or not 2 <= self.n_arriving[wire.child] <= _MAX_LABELED:
            return ""
        parents = [parent for parent, _ in wire.arguments]
        repeats = f"×{len(parents)}" if len(parents) > len(set(parents)) else ""
        names = [name for _, name in wire.arguments if name]
        shown = ",".join(names) if len(names) < 4 else f"{names[0]}…{names[-1]}"
        return f"{short(shown, 14)} {repeats}".strip()

    def passes_label(self, upper: Key, wire: _Wire) -> str:
        out = [self.pass_of(parent) for parent, _ in wire.edges]
        into = [self.pass_of(child) for _, child in wire.edges]
        n_out = out[0][1] if upper[0] != "s" else 0
        return passes_label({number for number, _ in out}, n_out, {number for number, _ in into}, into[0][1])

    def box(self, key: Key, frame: int) -> Box:
        if key[0] == "s":
            return self.standin_box(key, frame)
        notes = [f"feeds {self.users[key]} {self.view.noun}"] if key in self.users else []
        paths = self.outputs.get(key)
        if paths is not None:
            rest = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
            notes.append(short(f"output {paths[0]}".strip()) + rest)
        flags = OUTPUT if paths is not None else 0
        if key[0] == "g":
            return self.folded_box(key[1], frame, notes, flags)
        node = key[1]
        lines = self.nodes.rolled_lines.get(node) if self.how.rolled else None
        lines = (self.name(key), *(self.nodes.lines[node] if lines is None else lines), *notes)
        flags |= self.nodes.flags[node]
        mark, shade = self.difference(self.members[key])
        return Box(
            f"n{node}", lines, self.nodes.kind[node], self.nodes.form[node], frame, node, -1, flags,
            mark=mark, shade=shade,
        )  # fmt: skip

    def standin_box(self, key: Key, frame: int) -> Box:
        uppers, lower = self.standins[key]
        results = {self.representatives.node(parent) for parent, _ in self.wires[key, lower].edges}
        name = self.name(("n", results.pop())) if len(results) == 1 and uppers[0][0] == "n" else self.name(uppers[0])
        if len(uppers) > 1:
            name = f"{len(uppers)} tensors, {name} to {self.name(uppers[-1])}"
        stands_for = tuple(f"{kind}{number}" for kind, number in uppers)
        key_text = f"s{stands_for[0]}:{lower[0]}{lower[1]}"
        return Box(key_text, (short(name),), "standin", "small", frame, stands_for=stands_for)

    def folded_box(self, group: int, frame: int, notes: list[str], flags: int) -> Box:
        groups, stack = self.groups, self.representatives.stack(group)
        each = " each" if stack > 1 else ""
        n_ops = f"{groups.n_ops[group]:,} {self.view.noun}{each}"
        if self.bright is not None and ("g", group) in self.bright:
            n_ops += f", {self.bright['g', group]:,} selected"
        parameters = groups.parameters[group] + each if groups.parameters[group] else ""
        name = self.group_name(group) or self.view.title
        lines = [name, groups.class_name[group], n_ops, groups.size[group], parameters, *notes]
        mark, shade, differs = self.group_difference(("g", group))
        lines[0] = f"{_SIGNS[mark]} {name}" if mark else name
        lines = [line for i, line in enumerate([*lines, *differs]) if line and not (i == 1 and line == name)]
        return Box(
            f"g{group}", tuple(lines), groups.kind[group], "folded", frame, -1, group, flags | groups.flags[group],
            stack=stack, mark=mark, shade=shade,
        )  # fmt: skip

    def difference(self, nodes: list[int]) -> tuple[Mark, int]:
        """The mark and shade of a box that is not a group."""
        comparison = self.view.comparison
        if comparison is None:
            return "", 0
        marks = {comparison.mark[node] for node in nodes}
        return marks.pop() if len(marks) == 1 else "changed", max(comparison.shade[node] for node in nodes)

    def group_difference(self, key: Key) -> tuple[Mark, int, list[str]]:
        """The mark and shade of a folded group, and lines that describe its differences."""
        comparison = self.view.comparison
        if comparison is None:
            return "", 0, []
        nodes = [node for node in self.members[key] if self.nodes.kind[node] not in _SOURCES]
        marks = [comparison.mark[node] for node in nodes]
        counts = [(marks.count(mark), mark) for mark in _MARKS]
        mark: Mark = "changed" if any(n for n, _ in counts) else ""
        lines = [", ".join(f"{n:,} {how}" for n, how in counts if n)]
        for whole in ("new", "removed"):
            if marks and marks.count(whole) == len(marks):
                mark, lines = whole, []
        apart = [node for node in nodes if comparison.shade[node]]
        if not apart:
            return mark, 0, lines
        worst = max(apart, key=lambda node: comparison.order[node])
        lines.append(f"Δ in {len(apart):,} {self.view.noun}, at most {comparison.amount[worst]}")
        return mark, max(comparison.shade[node] for node in apart), lines

    def group_name(self, group: int) -> str:
        """Address and pass of a group; the range of repeated blocks; if rolled up, the number of calls.

        The address of the root is a dot, so the root is named by its class.
        """
        name = self.address(group)
        return f"{self.groups.class_name[group]}{name[1:]}" if name.startswith(".") else name

    def address(self, group: int) -> str:
        groups, n = self.groups, self.representatives.stack(group)
        if n > 1:
            return f"{self.view.runs[groups.run[group]].label} ×{n}"
        if not self.how.rolled:
            return groups.label[group]
        n = self.representatives.n_calls(group)
        name = groups.rolled_label[group]
        return f"{name} (×{n})" if n > 1 else groups.label[group] if groups.pass_[group] > 1 else name

    def name(self, key: Key) -> str:
        if key[0] == "g":
            return self.group_name(key[1])
        n = self.representatives.n_passes(key[1]) if self.how.rolled else 1
        return f"{self.nodes.label[key[1]]} (×{n})" if n > 1 else self.nodes.label[key[1]]
