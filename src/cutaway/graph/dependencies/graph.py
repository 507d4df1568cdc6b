"""The dependency graph: recorded tensors as nodes, linked where one was computed from another.

It is derived from the trace of one step. Everything that is not recorded is contracted, so a link stands for all paths
from one recorded tensor to the next.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from cutaway.core.errors import DamagedError, InputError
from cutaway.core.formatting import nearest_hint, type_text
from cutaway.core.sites import spellings
from cutaway.graph.dependencies.contract import Contraction
from cutaway.graph.dependencies.locate import NOWHERE, Places

if TYPE_CHECKING:
    from cutaway.graph.trace import Trace

_MOST = 1 << 63


@dataclass(frozen=True, slots=True)
class RecordedSite:
    """One recorded tensor, as the recorder names it."""

    site: str
    """Without ordinal or pass, it refers to the first."""
    role: str = ""
    """Derived from the trace if empty."""
    node: str = ""
    """The node it belongs to; if empty, it gets its own node, named like the site."""
    part: str = ""
    """Its role in a node that several tensors share."""
    names: tuple[str, ...] = ()
    """Further names of the same tensor."""
    requires_grad: bool | None = None
    """None to derive it from the trace, which is not possible for inputs."""


@dataclass(frozen=True, slots=True)
class Node:
    """One or several recorded tensors."""

    name: str
    sites: tuple[str, ...]
    """All its sites, in order of execution."""
    role: str
    parts: tuple[str, ...] = ()
    """The part of each site in the node; empty if none was named."""
    group: str = ""
    """The module it belongs to; empty outside all modules."""
    order: int = 0
    """Its index among all nodes by first execution."""
    is_hidden: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """A node that was computed from another, directly or through tensors that are not recorded."""

    parent: str
    child: str
    carries_gradient: bool
    """False if every path passes `detach`, `no_grad` or integers, or starts at a tensor that requires no gradient."""
    is_manual: bool = False


@dataclass(frozen=True)
class Dependencies:
    """The dependency graph of one structure; equal graphs have equal hashes, in every process.

    >>> nodes = Node("0", ("0",), "value", order=0), Node("1", ("1",), "value", order=1)
    >>> graph = Dependencies(nodes, (Link("0", "1", carries_gradient=True),))
    >>> graph.parents("1"), graph.children("1"), Dependencies.read(graph.plain()) == graph
    (('0',), (), True)
    """

    nodes: tuple[Node, ...]
    links: tuple[Link, ...]

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the JSON form."""
        text = json.dumps(self.plain(), sort_keys=True, separators=(",", ":"))
        return sha256(text.encode()).hexdigest()

    def parents(self, name: str) -> tuple[str, ...]:
        """The nodes from which a node was computed.

        Args:
            name: the name of the node.
        """
        return tuple(link.parent for link in self.links if link.child == name)

    def children(self, name: str) -> tuple[str, ...]:
        """The nodes that were computed from a node.

        Args:
            name: the name of the node.
        """
        return tuple(link.child for link in self.links if link.parent == name)

    def plain(self) -> dict[str, list[dict[str, Any]]]:
        """The graph as JSON types, for a file."""
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
        """Read a graph from the result of `plain`; raises `DamagedError` for anything else.

        Args:
            plain: plain data, such as a document of a run.
        """
        # Archives are untrusted: check everything that later code relies on.
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


def dependencies(
    trace: Trace, recorded: Sequence[RecordedSite], *, manual: Sequence[tuple[str, str]] = ()
) -> Dependencies:
    """The graph of recorded tensors. A site that the trace does not have becomes a node without links.

    >>> import torch, cutaway
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    >>> with cutaway.watch(model, save=None) as trace:
    ...     loss = model(torch.ones(2, 4)).mean()
    >>> found = dependencies(trace, [RecordedSite("2.weight"), RecordedSite("0"), RecordedSite("2")])
    >>> [(link.parent, link.child) for link in found.links]
    [('0', '2'), ('2.weight', '2')]

    Args:
        manual: links to add, as names of nodes or sites; a link that would close a loop raises `InputError`.
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
            # Tensors that share a node must not link it to itself.
            ways.pop(name, None)
    return found


@dataclass(slots=True)
class _Draft:
    """A node under construction."""

    name: str
    role: str = ""
    rows: dict[int, bool | None] = field(default_factory=dict)
    """Row of the trace → whether it requires a gradient, if known."""
    members: list[tuple[int, int, str, str]] = field(default_factory=list)
    """(first row, index among all recorded, site, part)."""

    def add(self, number: int, tensor: RecordedSite, rows: Sequence[int]) -> None:
        first = min(rows, default=NOWHERE)
        self.role = self.role or tensor.role
        self.members += [(first, number, site, tensor.part) for site in dict.fromkeys((tensor.site, *tensor.names))]
        for row in rows:
            self.rows[row] = tensor.requires_grad if self.rows.get(row) is None else self.rows[row]


def _drafts(recorded: Sequence[RecordedSite], places: Places) -> list[_Draft]:
    """The nodes, without links. A tensor without a `node` joins the node of the same tensor, if there is one."""
    drafts: dict[str, _Draft] = {}
    by_rows: dict[tuple[int, ...], str] = {}
    # Tensors with a stated node first, so that other names of the same tensor join that node.
    for number, tensor in sorted(enumerate(recorded), key=lambda pair: not pair[1].node):
        rows = places.rows_of((tensor.site, *tensor.names))
        name = tensor.node or by_rows.get(rows, tensor.site)
        drafts.setdefault(name, _Draft(name)).add(number, tensor, rows)
        if rows:
            by_rows.setdefault(rows, name)
    return list(drafts.values())


def _ordered(drafts: Iterable[_Draft], places: Places) -> tuple[Node, ...]:
    """The nodes in order of first execution, followed by those that the trace does not have."""
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
    """The manual links that do not exist yet."""
    if not wanted:
        return []
    names = {site: node.name for node in reversed(nodes) for site in node.sites} | {n.name: n.name for n in nodes}
    below: dict[str, list[str]] = {}
    for link in links:
        below.setdefault(link.parent, []).append(link.child)
    added: list[Link] = []
    for pair in wanted:
        ends = []
        for name in pair:
            spelled = next((each for each in spellings(name) if each in names), None)
            if spelled is None:
                near = nearest_hint(name, names)
                raise InputError(f"cannot link {pair[0]!r} to {pair[1]!r}, because {name!r} is not recorded.{near}")
            ends.append(names[spelled])
        parent, child = ends
        if child in below.get(parent, ()):
            continue
        loop = _path(child, parent, below)
        if loop:
            raise InputError(
                f"a link from {pair[0]!r} to {pair[1]!r} would close a loop: {' → '.join([*loop, child])}. "
                "Leave it out, or record the later tensor under another name."
            )
        below.setdefault(parent, []).append(child)
        added.append(Link(parent, child, carries_gradient=False, is_manual=True))
    return added


def _path(start: str, end: str, below: Mapping[str, Sequence[str]]) -> list[str]:
    """The nodes on a path from one to another, including both; empty if there is none."""
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
        raise DamagedError(f"the {what} of a dependency graph are not a list of JSON objects.")
    return value


def _read_node(fields: Mapping[str, Any]) -> Node:
    sites, parts = _texts(fields.get("sites"), "sites"), _texts(fields.get("parts", []), "parts")
    order = fields.get("order", 0)
    if len(parts) not in (0, len(sites)):
        raise DamagedError("a node of a dependency graph has parts for some of its sites but not for all.")
    if type(order) is not int or not 0 <= order < _MOST:
        raise DamagedError("'order' in a dependency graph is not a non-negative integer.")
    is_hidden = _truth(fields.get("is_hidden", False), "is_hidden")
    name, role, group = (_text(fields.get(key), key) for key in ("name", "role", "group"))
    return Node(name, sites, role, parts, group, order, is_hidden)


def _read_link(fields: Mapping[str, Any]) -> Link:
    parent, child = (_text(fields.get(key), key) for key in ("parent", "child"))
    carries = _truth(fields.get("carries_gradient"), "carries_gradient")
    return Link(parent, child, carries, _truth(fields.get("is_manual", False), "is_manual"))


def _texts(value: Any, key: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise DamagedError(f"{key!r} in a dependency graph is {type_text(value)} instead of a list of strings.")
    return tuple(_text(item, key) for item in value)


def _text(value: Any, key: str) -> str:
    if not isinstance(value, str):
        raise DamagedError(f"{key!r} in a dependency graph is {type_text(value)} instead of a string.")
    return value


def _truth(value: Any, key: str) -> bool:
    if not isinstance(value, bool):
        raise DamagedError(f"{key!r} in a dependency graph is {type_text(value)} instead of true or false.")
    return value
