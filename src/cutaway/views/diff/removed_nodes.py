"""Plans where the removed nodes of the first graph go in the second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cutaway.layout.graph_view import GraphView

SOURCES = ("input", "buffer", "constant")
_MOST_LOOSE = 3
"""More removed ops than this in a row form a group, unless their module was removed with them."""

Item = tuple[str, int]
"""An item of a group: ("node", n) or ("group", g) of the second graph; of removed items ("old", n), ("was", g) or
("stretch", s)."""


@dataclass(frozen=True, slots=True)
class Matches:
    """Nodes and groups of the first graph → their counterparts in the second."""

    nodes: Mapping[int, int]
    groups: Mapping[int, int]


@dataclass(slots=True)
class _RemovedUnit:
    """A removed node or group, with its position in the group it is inserted into."""

    item: Item
    home: int
    """The group of the second graph to insert it into."""
    slot: int = 0
    """The number of items of its home before it."""


@dataclass(slots=True)
class MergePlan:
    """The merged tree of nodes and groups; `make` also flattens it into one order."""

    old: GraphView
    new: GraphView
    matches: Matches
    units: dict[int, _RemovedUnit] = field(default_factory=dict)
    """Removed node of the first graph → the unit it belongs to."""
    homes: list[int] = field(default_factory=list)
    """Node of the second graph → its group. A source moves up if removed nodes of other groups read it, too."""
    inside: list[list[Item]] = field(default_factory=list)
    """Group of the second graph → its items, in order."""
    was_inside: list[list[Item]] = field(default_factory=list)
    """Group of the first graph → its removed items."""
    places: dict[Item, int] = field(default_factory=dict)
    n_heads: list[int] = field(default_factory=list)
    """Group of the second graph → the number of sources at its head."""
    n_inputs: int = 0
    readers: dict[int, list[int]] = field(default_factory=dict)
    """Removed node → the nodes of the first graph that read it."""
    stretches: list[list[int]] = field(default_factory=list)
    nodes: list[Item] = field(default_factory=list)
    groups: list[Item] = field(default_factory=list)
    group_of: list[int] = field(default_factory=list)
    """Emitted node → its group."""
    parent_of: list[int] = field(default_factory=list)

    def make(self) -> None:
        """Place everything."""
        self._find_units()
        self._move_sources()
        self._fill()
        self._insert_units()
        self._emit(0, -1)

    def _find_units(self) -> None:
        """Find the outermost groups that were removed as a whole, and the home of each."""
        old, matches = self.old, self.matches
        parent = old.groups.parent
        is_kept = [group in matches.groups for group in range(len(parent))]
        for node in matches.nodes:
            if old.nodes.kind[node] not in SOURCES:
                is_kept[old.nodes.group[node]] = True
        # Groups follow their parents, so one pass from the end reaches all of them.
        for group in reversed(range(1, len(parent))):
            is_kept[parent[group]] |= is_kept[group]
        is_kept[0] = True
        known: dict[Item, _RemovedUnit] = {}
        for node in range(len(old.nodes.row)):
            if node in matches.nodes or old.nodes.kind[node] == "failed":
                continue
            item, group = ("old", node), old.nodes.group[node]
            if old.nodes.kind[node] == "input":
                self.units[node] = _RemovedUnit(item, 0)
                continue
            while not is_kept[group]:
                item, group = ("was", group), parent[group]
            while group and group not in matches.groups:
                group = parent[group]
            self.units[node] = known.setdefault(item, _RemovedUnit(item, matches.groups.get(group, 0)))
        self._move_inside()

    def _move_inside(self) -> None:
        """Move a unit into the group that now contains the ops before and after it, such as that of a wrapper."""
        nodes, seen = self.old.nodes, set[Item]()
        behind: dict[int, int] = {}
        after = -1
        for node in reversed(range(len(nodes.row))):
            behind[node] = after
            after = after if nodes.kind[node] in SOURCES else self.matches.nodes.get(node, after)
        before = -1
        for node, kind in enumerate(nodes.kind):
            unit = self.units.get(node)
            if kind not in SOURCES and unit is None:
                before = self.matches.nodes.get(node, before)
            elif kind not in SOURCES and unit is not None and unit.item not in seen:
                seen.add(unit.item)
                after = behind[node]
                if before >= 0 and after >= 0:
                    common = self._common(self.new.nodes.group[before], self.new.nodes.group[after])
                    if self._common(common, unit.home) == unit.home:
                        unit.home = common

    def _common(self, a: int, b: int) -> int:
        """The innermost group of the second graph that contains both."""
        parent = self.new.groups.parent
        while a != b:
            # A group has a higher index than its parent, so the higher of the two goes up.
            a, b = (parent[a], b) if a > b else (a, parent[b])
        return a

    def _move_sources(self) -> None:
        """Move each source into the group that contains all its readers, removed ones included."""
        edges, new = self.old.edges, self.new
        self.homes = list(new.nodes.group)
        for upper, lower in zip(edges.parent, edges.child, strict=True):
            node = self.matches.nodes.get(upper, -1)
            if node >= 0 and lower in self.units and new.nodes.kind[node] in SOURCES:
                self.homes[node] = self._common(self.homes[node], self.units[lower].home)

    def _fill(self) -> None:
        """Fill the item lists of all groups."""
        new, old = self.new, self.old
        self.inside = [[] for _ in new.groups.parent]
        known = {0}
        moved = [node for node, home in enumerate(self.homes) if home != new.nodes.group[node]]
        for node in range(len(new.nodes.row)):
            self._enter(new.nodes.group[node], known)
            if self.homes[node] == new.nodes.group[node]:
                self.inside[self.homes[node]].append(("node", node))
        heads = [[i for i in items if i[0] == "node" and new.nodes.kind[i[1]] in SOURCES] for items in self.inside]
        for node in moved:
            self.inside[self.homes[node]].insert(len(heads[self.homes[node]]), ("node", node))
            heads[self.homes[node]].append(("node", node))
        self.n_heads = [len(sources) for sources in heads]
        self.n_inputs = sum(new.nodes.kind[node] == "input" for _, node in heads[0])
        self.places = {item: i for items in self.inside for i, item in enumerate(items)}
        self.was_inside = [[] for _ in old.groups.parent]
        entered: set[int] = set()
        for node, unit in self.units.items():
            if unit.item[0] == "was":
                group = old.nodes.group[node]
                self.was_inside[group].append(("old", node))
                while group not in entered and group != unit.item[1]:
                    entered.add(group)
                    self.was_inside[old.groups.parent[group]].append(("was", group))
                    group = old.groups.parent[group]

    def _enter(self, group: int, known: set[int]) -> None:
        while group not in known:
            known.add(group)
            self.inside[self.new.groups.parent[group]].append(("group", group))
            group = self.new.groups.parent[group]

    def _insert_units(self) -> None:
        """Compute the slot of every unit, and insert it there."""
        above: dict[int, list[int]] = {}
        for upper, lower in zip(self.old.edges.parent, self.old.edges.child, strict=True):
            if lower in self.units:
                above.setdefault(lower, []).append(upper)
            if upper in self.units:
                self.readers.setdefault(upper, []).append(lower)
        before = -1
        met: dict[Item, _RemovedUnit] = {}
        for node, kind in enumerate(self.old.nodes.kind):
            unit = self.units.get(node)
            if unit is None:
                before = before if kind in SOURCES else self.matches.nodes.get(node, before)
                continue
            if unit.item not in met:
                met[unit.item] = unit
                unit.slot = self.n_inputs if kind == "input" else self._slot_after(unit.home, before)
            for upper in above.get(node, ()):
                unit.slot = max(unit.slot, self._slot_after_parent(unit, upper))
        slots: dict[tuple[int, int], list[Item]] = {}
        for unit in met.values():
            slots.setdefault((unit.home, unit.slot), []).append(unit.item)
        for group in {unit.home for unit in met.values()}:
            items = self.inside[group]
            grown: list[Item] = []
            for slot in range(len(items) + 1):
                grown += slots.get((group, slot), ())
                grown += items[slot : slot + 1]
            self.inside[group] = self._group_loose_ops(grown)

    def _slot_after_parent(self, unit: _RemovedUnit, upper: int) -> int:
        if upper in self.units:
            other = self.units[upper]
            if other.home == unit.home:
                return other.slot
            is_inside = self._common(other.home, unit.home) == unit.home
            return self._slot_after_item(unit.home, ("group", other.home)) if is_inside else 0
        node = self.matches.nodes.get(upper, -1)
        if node < 0 or self.old.nodes.kind[upper] in SOURCES or node >= self.new.groups.end[unit.home]:
            return 0
        return self._slot_after(unit.home, node)

    def _slot_after(self, home: int, node: int) -> int:
        """The slot in a group after a node of the second graph, and after the sources of the group."""
        groups = self.new.groups
        if node < groups.first[home]:
            return self.n_heads[home]
        if node >= groups.end[home]:
            return len(self.inside[home])
        return self._slot_after_item(home, ("node", node))

    def _slot_after_item(self, home: int, item: Item) -> int:
        """The slot after the item of this group that is or contains a node or group."""
        group = self.homes[item[1]] if item[0] == "node" else self.new.groups.parent[item[1]]
        while group != home:
            item, group = ("group", group), self.new.groups.parent[group]
        return max(self.places[item] + 1, self.n_heads[home])

    def _group_loose_ops(self, items: list[Item]) -> list[Item]:
        """The same items, with many loose ops in a row as one stretch that includes the sources only they read."""
        grouped: list[Item] = []
        for item in items:
            loose = item[0] == "old" and self.old.nodes.kind[item[1]] not in SOURCES
            if loose and grouped and grouped[-1][0] == "stretch":
                self.stretches[grouped[-1][1]].append(item[1])
            elif loose:
                grouped.append(("stretch", len(self.stretches)))
                self.stretches.append([item[1]])
            else:
                grouped.append(item)
        return self._with_sources([each for item in grouped for each in self._ungroup_if_few(item)])

    def _ungroup_if_few(self, item: Item) -> list[Item]:
        nodes = self.stretches[item[1]] if item[0] == "stretch" else []
        if nodes and len({self.old.nodes.event[node] for node in nodes}) <= _MOST_LOOSE:
            return [("old", node) for node in nodes]
        return [item]

    def _with_sources(self, items: list[Item]) -> list[Item]:
        within = {node: item for item in items if item[0] == "stretch" for node in self.stretches[item[1]]}
        remaining: list[Item] = []
        taken: dict[Item, list[int]] = {}
        for item in items:
            is_source = within and item[0] == "old" and self.old.nodes.kind[item[1]] in ("buffer", "constant")
            readers = {within.get(node) for node in self.readers.get(item[1], ())} if is_source else set()
            only = readers.pop() if len(readers) == 1 else None
            if only is None:
                remaining.append(item)
            else:
                taken.setdefault(only, []).append(item[1])
        for item, sources in taken.items():
            self.stretches[item[1]][:0] = sources
        return remaining

    def _emit(self, group: int, parent: int, side: str = "group") -> None:
        """Append a group and its contents to the flat order."""
        number = len(self.groups)
        self.groups.append((side, group))
        self.parent_of.append(parent)
        for kind, index in self._items(side, group):
            if kind in ("node", "old"):
                self.nodes.append((kind, index))
                self.group_of.append(number)
            else:
                self._emit(index, number, kind)

    def _items(self, side: str, group: int) -> list[Item]:
        if side == "stretch":
            return [("old", node) for node in self.stretches[group]]
        return (self.inside if side == "group" else self.was_inside)[group]
