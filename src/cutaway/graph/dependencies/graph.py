"""The dependency graph: recorded tensors as nodes, and a link wherever one was computed from another.

It is derived from the trace of one step. Everything that is not recorded is contracted, so that a link stands for all
the ways from one recorded tensor to the next.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from cutaway.core.errors import DamagedError, InputError
from cutaway.core.formatting import nearest
from cutaway.graph.dependencies.contract import Contraction
from cutaway.graph.dependencies.locate import NOWHERE, Places

if TYPE_CHECKING:
    from cutaway.graph.trace import Trace

_MOST = 1 << 63


@dataclass(frozen=True, slots=True)
class Recorded:
    """One tensor that is recorded, as whoever records it names it."""

    site: str
    """Without ordinal or pass it means the first."""
    role: str = ""
    """Read off the trace where it is empty."""
    node: str = ""
    """The node it belongs to; empty for one of its own, named like the site."""
    part: str = ""
    """Its role in the node, where several tensors share one."""
    names: tuple[str, ...] = ()
    """Further names of the same tensor."""
    requires_grad: bool | None = None
    """None where only the trace can tell; of inputs it cannot."""


@dataclass(frozen=True, slots=True)
class Node:
    """One or several recorded tensors."""

    name: str
    sites: tuple[str, ...]
    """Everything it answers to, in order of execution."""
    role: str
    parts: tuple[str, ...] = ()
    """The part that each of the sites plays in the node; empty where none was named."""
    group: str = ""
    """The module it belongs to; empty outside all modules."""
    order: int = 0
    """Its place among all nodes by first execution."""
    is_hidden: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """A node that was computed from another, directly or over what is not recorded."""

    parent: str
    child: str
    carries_gradient: bool
    """False where every way passes `detach`, `no_grad`, integers, or begins at what requires no gradient."""
    is_manual: bool = False


@dataclass(frozen=True)
class Dependencies:
    """The dependency graph of one structure: equal ones have an equal hash, in every process.

    >>> nodes = Node("0", ("0",), "value", order=0), Node("1", ("1",), "value", order=1)
    >>> graph = Dependencies(nodes, (Link("0", "1", carries_gradient=True),))
    >>> graph.parents("1"), graph.children("1"), Dependencies.read(graph.plain()) == graph
    (('0',), (), True)
    """

    nodes: tuple[Node, ...]
    links: tuple[Link, ...]

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the plain form."""
        text = json.dumps(self.plain(), sort_keys=True, separators=(",", ":"))
        return sha256(text.encode()).hexdigest()

    def parents(self, name: str) -> tuple[str, ...]:
        """The nodes from which a node was computed."""
        return tuple(link.parent for link in self.links if link.child == name)

    def children(self, name: str) -> tuple[str, ...]:
        """The nodes that were computed from a node."""
        return tuple(link.child for link in self.links if link.parent == name)

    def plain(self) -> dict[str, list[dict[str, Any]]]:
        """As lists and maps of texts, numbers and truths, for a file."""
        nodes = [
            {
                "name": node.name,
                "sites": list(node.sites),
                "role": node.role,
                "parts": list(node.parts),
                "group": node.group,
                "order": node.order,
                "is_hidden": node.is_hidden,
            }
            for node in self.nodes
        ]
        links = [
            {
                "parent": link.parent,
                "child": link.child,
                "carries_gradient": link.carries_gradient,
                "is_manual": link.is_manual,
            }
            for link in self.links
        ]
        return {"nodes": nodes, "links": links}

    @staticmethod
    def read(plain: Any) -> Dependencies:
        """Make it again from the plain form, or from anything that claims to be one."""
        parts = plain if isinstance(plain, Mapping) else {}
        nodes = tuple(_read_node(fields) for fields in _maps(parts.get("nodes"), "nodes"))
        links = tuple(_read_link(fields) for fields in _maps(parts.get("links"), "links"))
        names = {node.name for node in nodes}
        if len(names) < len(nodes):
            raise DamagedError("two nodes of a dependency graph have the same name.")
        pairs = {(link.parent, link.child) for link in links}
        if len(pairs) < len(links):
            raise DamagedError("a dependency graph has the same link twice.")
        for parent, child in pairs:
            if parent == child or parent not in names or child not in names:
                raise DamagedError(f"a dependency graph links {parent!r} to {child!r}, which are not two of its nodes.")
        return Dependencies(nodes, links)


def dependencies(trace: Trace, recorded: Sequence[Recorded], *, manual: Sequence[tuple[str, str]] = ()) -> Dependencies:
    """The graph between recorded tensors. What the trace does not know becomes a node without links.

    >>> import torch, cutaway
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    >>> with cutaway.watch(model, save=None) as trace:
    ...     loss = model(torch.ones(2, 4)).mean()
    >>> found = dependencies(trace, [Recorded("2.weight"), Recorded("0"), Recorded("2")])
    >>> [(link.parent, link.child) for link in found.links]
    [('0', '2'), ('2.weight', '2')]

    Args:
        manual: links to add, as names of nodes or sites; one that would close a loop is an `InputError`.
    """
    places = Places(trace)
    drafts = _drafts(recorded, places)
    nodes = _ordered(drafts, places)
    order = {node.name: node.order for node in nodes}
    links = []
    above = _parents(trace, drafts, places.parameters)
    for node in nodes:
        ways = above.get(node.name, {})
        links += [Link(parent, node.name, ways[parent]) for parent in sorted(ways, key=order.__getitem__)]
    added = _manual(manual, nodes, links)
    if added:
        links = sorted([*links, *added], key=lambda link: (order[link.child], order[link.parent]))
    return Dependencies(nodes, tuple(links))


def _parents(trace: Trace, drafts: Sequence[_Draft], parameters: Mapping[int, int]) -> dict[str, dict[str, bool]]:
    """Child → parent → whether a gradient can flow back, by the names of nodes."""
    known: dict[int, bool | None] = {}
    owners: dict[int, list[str]] = {}
    for draft in drafts:
        for row, requires_grad in draft.rows.items():
            owners.setdefault(row, []).append(draft.name)
            known[row] = requires_grad if known.get(row) is None else known[row]
    found: dict[str, dict[str, bool]] = {}
    for row, near, flow in Contraction(trace.tables, known, parameters).parents():
        for name in owners[row]:
            ways = found.setdefault(name, {})
            for parent in near:
                for other in owners[parent]:
                    ways.setdefault(other, False)
            for parent in flow:
                ways.update(dict.fromkeys(owners[parent], True))
            ways.pop(name, None)
    return found


@dataclass(slots=True)
class _Draft:
    """A node in the making."""

    name: str
    role: str = ""
    rows: dict[int, bool | None] = field(default_factory=dict)
    """Rows of the trace → whether they require a gradient, as far as that was said."""
    members: list[tuple[int, int, str, str]] = field(default_factory=list)
    """(first row, number among all recorded, site, part)."""

    def add(self, number: int, one: Recorded, rows: Sequence[int]) -> None:
        first = min(rows, default=NOWHERE)
        self.role = self.role or one.role
        self.members += [(first, number, site, one.part) for site in dict.fromkeys((one.site, *one.names))]
        for row in rows:
            self.rows[row] = one.requires_grad if self.rows.get(row) is None else self.rows[row]


def _drafts(recorded: Sequence[Recorded], places: Places) -> list[_Draft]:
    """The nodes, without their links. One without a `node` joins that of the very same tensor."""
    found: dict[str, _Draft] = {}
    by_rows: dict[tuple[int, ...], str] = {}
    for number, one in sorted(enumerate(recorded), key=lambda pair: not pair[1].node):
        rows = places.rows_of((one.site, *one.names))
        name = one.node or by_rows.get(rows, one.site)
        found.setdefault(name, _Draft(name)).add(number, one, rows)
        if rows:
            by_rows.setdefault(rows, name)
    return list(found.values())


def _ordered(drafts: Iterable[_Draft], places: Places) -> tuple[Node, ...]:
    """The nodes in order of first execution, with what the trace never saw behind them."""
    found = []
    for order, draft in enumerate(sorted(drafts, key=lambda draft: (min(draft.members)[0], draft.name))):
        members = sorted(draft.members, key=lambda member: member[:2])
        parts = {site: part for _, _, site, part in members}
        row, _, site, _ = members[0]
        role, group = draft.role or places.role_at(row), places.group_of(site, row)
        named = tuple(parts.values()) if any(parts.values()) else ()
        found.append(Node(draft.name, tuple(parts), role, named, group, order))
    return tuple(found)


def _manual(wanted: Sequence[tuple[str, str]], nodes: Sequence[Node], links: Sequence[Link]) -> list[Link]:
    """The links that were asked for and are not there yet."""
    if not wanted:
        return []
    names = {site: node.name for node in reversed(nodes) for site in node.sites} | {n.name: n.name for n in nodes}
    below: dict[str, list[str]] = {}
    for link in links:
        below.setdefault(link.parent, []).append(link.child)
    added: list[Link] = []
    for pair in wanted:
        for name in pair:
            if name not in names:
                near = nearest(name, names)
                hint = f" Nearest: {', '.join(map(repr, near))}." if near else ""
                raise InputError(
                    f"a link from {pair[0]!r} to {pair[1]!r} was asked for, and {name!r} is not recorded.{hint}"
                )
        parent, child = names[pair[0]], names[pair[1]]
        if child in below.get(parent, ()):
            continue
        loop = _way(child, parent, below)
        if loop:
            raise InputError(
                f"a link from {pair[0]!r} to {pair[1]!r} would close a loop: {' → '.join([*loop, child])}. "
                "Leave it out, or record what comes later under a name of its own."
            )
        below.setdefault(parent, []).append(child)
        added.append(Link(parent, child, carries_gradient=False, is_manual=True))
    return added


def _way(start: str, end: str, below: Mapping[str, Sequence[str]]) -> list[str]:
    """The nodes on a way from one to another, both included; empty if there is none."""
    before: dict[str, str] = {start: ""}
    stack = [start]
    while stack and end not in before:
        name = stack.pop()
        for child in below.get(name, ()):
            if child not in before:
                before[child] = name
                stack.append(child)
    way = [end] if end in before else []
    while way and before[way[-1]]:
        way.append(before[way[-1]])
    return way[::-1]


def _maps(value: Any, what: str) -> list[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise DamagedError(f"the {what} of a dependency graph are not a list of maps.")
    return value


def _read_node(fields: Mapping[str, Any]) -> Node:
    sites, parts = _texts(fields.get("sites"), "sites"), _texts(fields.get("parts", []), "parts")
    order = fields.get("order", 0)
    if len(parts) not in (0, len(sites)):
        raise DamagedError("a node of a dependency graph names the parts of some of its sites and not of all.")
    if type(order) is not int or not 0 <= order < _MOST:
        raise DamagedError("'order' in a dependency graph is no whole number from 0.")
    is_hidden = _truth(fields.get("is_hidden", False), "is_hidden")
    name, role, group = (_text(fields.get(key), key) for key in ("name", "role", "group"))
    return Node(name, sites, role, parts, group, order, is_hidden)


def _read_link(fields: Mapping[str, Any]) -> Link:
    parent, child = (_text(fields.get(key), key) for key in ("parent", "child"))
    carries = _truth(fields.get("carries_gradient"), "carries_gradient")
    return Link(parent, child, carries, _truth(fields.get("is_manual", False), "is_manual"))


def _texts(value: Any, key: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise DamagedError(f"{key!r} in a dependency graph is a {type(value).__name__} instead of a list of texts.")
    return tuple(_text(item, key) for item in value)


def _text(value: Any, key: str) -> str:
    if not isinstance(value, str):
        raise DamagedError(f"{key!r} in a dependency graph is a {type(value).__name__} instead of text.")
    return value


def _truth(value: Any, key: str) -> bool:
    if not isinstance(value, bool):
        raise DamagedError(f"{key!r} in a dependency graph is a {type(value).__name__} instead of true or false.")
    return value
