"""Where in a graph the ops stand that only another graph has: those that are gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cutaway.layout.graph_view import GraphView

SOURCES = ("input", "buffer", "constant")
_MOST_LOOSE = 3
"""More ops than this that are gone one after the other, from no module that is gone with them, are a group."""

Item = tuple[str, int]
"""What a group holds: ("node", n) and ("group", g) of the second graph; of what is gone ("old", n), ("was", g) and
("stretch", s)."""


@dataclass(frozen=True, slots=True)
class Twins:
    """What of the first graph is what in the second."""

    nodes: Mapping[int, int]
    groups: Mapping[int, int]


@dataclass(slots=True)
class _Unit:
    """A node or a whole group that is gone, with its place among what its home holds."""

    item: Item
    home: int
    """The group of the second graph that it stands in."""
    slot: int = 0
    """How many items of its home stand before it."""


@dataclass(slots=True)
class Plan:
    """Who stands where, as a tree; and, once it is emitted, in one order."""

    one: GraphView
    two: GraphView
    twins: Twins
    units: dict[int, _Unit] = field(default_factory=dict)
    """Node of the first graph that is gone → the unit it belongs to."""
    homes: list[int] = field(default_factory=list)
    """By node of the second graph: its group; sources move up where what is gone read them, too."""
    inside: list[list[Item]] = field(default_factory=list)
    """By group of the second graph: what it holds, in order."""
    was_inside: list[list[Item]] = field(default_factory=list)
    """By group of the first graph: what it held of what is gone."""
    places: dict[Item, int] = field(default_factory=dict)
    n_heads: list[int] = field(default_factory=list)
    """By group of the second graph: how many sources stand first in it."""
    n_inputs: int = 0
    readers: dict[int, list[int]] = field(default_factory=dict)
    """Node that is gone → the nodes of the first graph that read it."""
    stretches: list[list[int]] = field(default_factory=list)
    nodes: list[Item] = field(default_factory=list)
    groups: list[Item] = field(default_factory=list)
    group_of: list[int] = field(default_factory=list)
    """By node, as it is emitted: its group."""
    parent_of: list[int] = field(default_factory=list)

    def make(self) -> None:
        """Find everything its place."""
        self._find_units()
        self._move_sources()
        self._fill()
        self._put_in()
        self._emit(0, -1)

    def _find_units(self) -> None:
        """Find the outermost groups that are gone as a whole, and the group in which each of them stands."""
        one, twins = self.one, self.twins
        parent = one.groups.parent
        is_kept = [group in twins.groups for group in range(len(parent))]
        for node in twins.nodes:
            if one.nodes.kind[node] not in SOURCES:
                is_kept[one.nodes.group[node]] = True
        for group in reversed(range(1, len(parent))):
            is_kept[parent[group]] |= is_kept[group]
        is_kept[0] = True
        known: dict[Item, _Unit] = {}
        for node in range(len(one.nodes.row)):
            if node in twins.nodes or one.nodes.kind[node] == "failed":
                continue
            item, group = ("old", node), one.nodes.group[node]
            if one.nodes.kind[node] == "input":
                self.units[node] = _Unit(item, 0)
                continue
            while not is_kept[group]:
                item, group = ("was", group), parent[group]
            while group and group not in twins.groups:
                group = parent[group]
            self.units[node] = known.setdefault(item, _Unit(item, twins.groups.get(group, 0)))
        self._go_inside()

    def _go_inside(self) -> None:
        """What stood between two ops that are in one group now, say of a wrapper, stands in it, too."""
        nodes, seen = self.one.nodes, set[Item]()
        behind: dict[int, int] = {}
        after = -1
        for node in reversed(range(len(nodes.row))):
            behind[node] = after
            after = after if nodes.kind[node] in SOURCES else self.twins.nodes.get(node, after)
        before = -1
        for node, kind in enumerate(nodes.kind):
            unit = self.units.get(node)
            if kind not in SOURCES and unit is None:
                before = self.twins.nodes.get(node, before)
            elif kind not in SOURCES and unit is not None and unit.item not in seen:
                seen.add(unit.item)
                after = behind[node]
                if before >= 0 and after >= 0:
                    common = self._common(self.two.nodes.group[before], self.two.nodes.group[after])
                    if self._common(common, unit.home) == unit.home:
                        unit.home = common

    def _common(self, a: int, b: int) -> int:
        """The innermost group of the second graph around both."""
        parent = self.two.groups.parent
        while a != b:
            a, b = (parent[a], b) if a > b else (a, parent[b])
        return a

    def _move_sources(self) -> None:
        """A source stands in the group that holds all who read it, those that are gone included."""
        edges, two = self.one.edges, self.two
        self.homes = list(two.nodes.group)
        for upper, lower in zip(edges.parent, edges.child, strict=True):
            node = self.twins.nodes.get(upper, -1)
            if node >= 0 and lower in self.units and two.nodes.kind[node] in SOURCES:
                self.homes[node] = self._common(self.homes[node], self.units[lower].home)

    def _fill(self) -> None:
        """Note what each group holds."""
        two, one = self.two, self.one
        self.inside = [[] for _ in two.groups.parent]
        known = {0}
        moved = [node for node, home in enumerate(self.homes) if home != two.nodes.group[node]]
        for node in range(len(two.nodes.row)):
            self._enter(two.nodes.group[node], known)
            if self.homes[node] == two.nodes.group[node]:
                self.inside[self.homes[node]].append(("node", node))
        heads = [[i for i in items if i[0] == "node" and two.nodes.kind[i[1]] in SOURCES] for items in self.inside]
        for node in moved:
            self.inside[self.homes[node]].insert(len(heads[self.homes[node]]), ("node", node))
            heads[self.homes[node]].append(("node", node))
        self.n_heads = [len(found) for found in heads]
        self.n_inputs = sum(two.nodes.kind[node] == "input" for _, node in heads[0])
        self.places = {item: i for items in self.inside for i, item in enumerate(items)}
        self.was_inside = [[] for _ in one.groups.parent]
        begun: set[int] = set()
        for node, unit in self.units.items():
            if unit.item[0] == "was":
                group = one.nodes.group[node]
                self.was_inside[group].append(("old", node))
                while group not in begun and group != unit.item[1]:
                    begun.add(group)
                    self.was_inside[one.groups.parent[group]].append(("was", group))
                    group = one.groups.parent[group]

    def _enter(self, group: int, known: set[int]) -> None:
        while group not in known:
            known.add(group)
            self.inside[self.two.groups.parent[group]].append(("group", group))
            group = self.two.groups.parent[group]

    def _put_in(self) -> None:
        """Give every unit its slot, and put it there."""
        above: dict[int, list[int]] = {}
        for upper, lower in zip(self.one.edges.parent, self.one.edges.child, strict=True):
            if lower in self.units:
                above.setdefault(lower, []).append(upper)
            if upper in self.units:
                self.readers.setdefault(upper, []).append(lower)
        before = -1
        met: dict[Item, _Unit] = {}
        for node, kind in enumerate(self.one.nodes.kind):
            unit = self.units.get(node)
            if unit is None:
                before = before if kind in SOURCES else self.twins.nodes.get(node, before)
                continue
            if unit.item not in met:
                met[unit.item] = unit
                unit.slot = self.n_inputs if kind == "input" else self._behind(unit.home, before)
            for upper in above.get(node, ()):
                unit.slot = max(unit.slot, self._behind_parent(unit, upper))
        slots: dict[tuple[int, int], list[Item]] = {}
        for unit in met.values():
            slots.setdefault((unit.home, unit.slot), []).append(unit.item)
        for group in {unit.home for unit in met.values()}:
            items = self.inside[group]
            grown: list[Item] = []
            for slot in range(len(items) + 1):
                grown += slots.get((group, slot), ())
                grown += items[slot : slot + 1]
            self.inside[group] = self._gathered(grown)

    def _behind_parent(self, unit: _Unit, upper: int) -> int:
        if upper in self.units:
            other = self.units[upper]
            if other.home == unit.home:
                return other.slot
            is_inside = self._common(other.home, unit.home) == unit.home
            return self._behind_item(unit.home, ("group", other.home)) if is_inside else 0
        node = self.twins.nodes.get(upper, -1)
        if node < 0 or self.one.nodes.kind[upper] in SOURCES or node >= self.two.groups.end[unit.home]:
            return 0
        return self._behind(unit.home, node)

    def _behind(self, home: int, node: int) -> int:
        """The slot in a group behind a node of the second graph; behind the sources at least."""
        groups = self.two.groups
        if node < groups.first[home]:
            return self.n_heads[home]
        if node >= groups.end[home]:
            return len(self.inside[home])
        return self._behind_item(home, ("node", node))

    def _behind_item(self, home: int, item: Item) -> int:
        """The slot behind what holds a node or group that is in this group."""
        group = self.homes[item[1]] if item[0] == "node" else self.two.groups.parent[item[1]]
        while group != home:
            item, group = ("group", group), self.two.groups.parent[group]
        return max(self.places[item] + 1, self.n_heads[home])

    def _gathered(self, items: list[Item]) -> list[Item]:
        """The same items, with many loose ops in a row as one stretch, and with them what only they read."""
        found: list[Item] = []
        for item in items:
            loose = item[0] == "old" and self.one.nodes.kind[item[1]] not in SOURCES
            if loose and found and found[-1][0] == "stretch":
                self.stretches[found[-1][1]].append(item[1])
            elif loose:
                found.append(("stretch", len(self.stretches)))
                self.stretches.append([item[1]])
            else:
                found.append(item)
        return self._with_sources([one for item in found for one in self._loosened(item)])

    def _loosened(self, item: Item) -> list[Item]:
        nodes = self.stretches[item[1]] if item[0] == "stretch" else []
        if nodes and len({self.one.nodes.event[node] for node in nodes}) <= _MOST_LOOSE:
            return [("old", node) for node in nodes]
        return [item]

    def _with_sources(self, items: list[Item]) -> list[Item]:
        within = {node: item for item in items if item[0] == "stretch" for node in self.stretches[item[1]]}
        found: list[Item] = []
        taken: dict[Item, list[int]] = {}
        for item in items:
            is_source = within and item[0] == "old" and self.one.nodes.kind[item[1]] in ("buffer", "constant")
            readers = {within.get(node) for node in self.readers.get(item[1], ())} if is_source else set()
            only = readers.pop() if len(readers) == 1 else None
            if only is None:
                found.append(item)
            else:
                taken.setdefault(only, []).append(item[1])
        for item, sources in taken.items():
            self.stretches[item[1]][:0] = sources
        return found

    def _emit(self, group: int, parent: int, side: str = "group") -> None:
        """Number a group and all that is in it."""
        number = len(self.groups)
        self.groups.append((side, group))
        self.parent_of.append(parent)
        for kind, which in self._items(side, group):
            if kind in ("node", "old"):
                self.nodes.append((kind, which))
                self.group_of.append(number)
            else:
                self._emit(which, number, kind)

    def _items(self, side: str, group: int) -> list[Item]:
        if side == "stretch":
            return [("old", node) for node in self.stretches[group]]
        return (self.inside if side == "group" else self.was_inside)[group]
