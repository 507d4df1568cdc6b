"""Applies the user's layout overrides to the recorded dependency graph: hidden nodes, groups, order and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from cutaway.core.errors import DamagedError, NotFoundError
from cutaway.core.sites import ROOT
from cutaway.graph.dependencies.graph import Dependencies, Link, Node
from cutaway.store.format.records import VALUE
from cutaway.views.run.node_names import parse_site
from cutaway.views.run.rows import RunRows

_PREFIX: Final = "structure/"
_STATE_ROLES: Final = ("parameter", "buffer")


def dependencies_of(rows: RunRows, structure: str | None) -> tuple[Dependencies, str, str]:
    """The recorded graph, its hash, and why there is none; without one, all tensors are nodes without links.

    Args:
        structure: hash of the graph; by default that of the newest step that has one.
    """
    documents = rows.run.documents
    if structure is None:
        records = reversed(rows.run.timeline.records)
        structure = next((found for record in records if (found := structure_hash(record.about))), "")
    if not structure:
        why = "no dependency graph was recorded: recorded with graph=False, or no step could be traced."
        return _without_links(rows), "", why
    content = documents.get(f"{_PREFIX}{structure}")
    if content is None:
        known = [name.removeprefix(_PREFIX) for name in documents if name.startswith(_PREFIX)]
        if structure not in {structure_hash(record.about) for record in rows.run.timeline.records}:
            listed = ", ".join(hash_[:12] for hash_ in known) or "none"
            raise NotFoundError(f"run {rows.run.name!r} has no structure {structure[:64]!r}. It has: {listed}.")
        return _without_links(rows), structure, "the dependency graph of these steps is lost: its record is damaged."
    try:
        return Dependencies.read(content), structure, ""
    except DamagedError as error:
        return _without_links(rows), structure, str(error)


def structure_hash(about: Mapping[str, Any]) -> str:
    structure = about.get("structure")
    return structure if isinstance(structure, str) else ""


def _without_links(rows: RunRows) -> Dependencies:
    """One node per tensor."""
    nodes: dict[str, Node] = {}
    for row in rows.rows:
        name = rows.node_name(row)
        if name in nodes:
            sites = tuple(dict.fromkeys((*nodes[name].sites, row.site, *row.names)))
            nodes[name] = replace(nodes[name], sites=sites, parts=())
            continue
        site = parse_site(row.site)
        group = "" if site is None or site.name is not None else site.address
        if row.role in _STATE_ROLES:
            group = group.rpartition(".")[0] or ROOT
        nodes[name] = Node(name, (row.site, *row.names), row.role or VALUE, (), group, len(nodes))
    return Dependencies(tuple(nodes.values()), ())


class Arrangement:
    """The layout overrides of `run.arrange`; the last one wins.

    Args:
        more: further overrides of the same form, from the viewer.
    """

    def __init__(self, document: Any, more: Sequence[Any] = ()) -> None:
        overrides = [*(document if isinstance(document, list) else []), *more]
        self._overrides = [override for override in overrides if isinstance(override, dict)]

    def apply(self, graph: Dependencies) -> Dependencies:
        """The graph with groups and hidden flags applied."""
        nodes = []
        for node in graph.nodes:
            group, is_hidden = self._override(node, "group", str), self._override(node, "hidden", bool)
            node = node if group is None else replace(node, group=group)
            nodes.append(node if is_hidden is None else replace(node, is_hidden=is_hidden))
        return Dependencies(tuple(nodes), graph.links) if self._overrides else graph

    def order(self, node: Node) -> float:
        """The order of a node, the tie-breaker of the layout."""
        order = self._override(node, "order", (int, float))
        return float(node.order if order is None else order)

    def label(self, node: Node) -> str:
        """The label given by the user; "" for none."""
        return self._override(node, "label", str) or ""

    def within(self, node: Node) -> str:
        """The user's group around a node and its modules; "" for none."""
        return self._override(node, "within", str) or ""

    def _override(self, node: Node, key: str, kind: type | tuple[type, ...]) -> Any:
        # The document and the request are untrusted, so types are checked on use.
        for override in reversed(self._overrides):
            if isinstance(override.get(key), kind) and _matches(override.get("at"), node):
                return override[key]
        return None


def _matches(at: Any, node: Node) -> bool:
    if not isinstance(at, str):
        return False
    if at == node.name or at in node.sites:
        return True
    pattern = parse_site(at)
    sites = (parse_site(site) for site in node.sites)
    return pattern is not None and any(site is not None and pattern.matches(site) for site in sites)


def without_hidden(graph: Dependencies) -> Dependencies:
    """The visible nodes, with links that bridge hidden ones."""
    hidden = {node.name for node in graph.nodes if node.is_hidden}
    if not hidden:
        return graph
    above: dict[str, list[Link]] = {}
    for link in graph.links:
        above.setdefault(link.child, []).append(link)
    links: dict[tuple[str, str], Link] = {}
    for node in graph.nodes:
        if node.name in hidden:
            continue
        stack, seen = [(link, link.carries_gradient) for link in above.get(node.name, ())], set[tuple[str, bool]]()
        while stack:
            link, carries = stack.pop(0)
            if link.parent in hidden:
                if (link.parent, carries) not in seen:
                    seen.add((link.parent, carries))
                    stack += [(up, carries and up.carries_gradient) for up in above.get(link.parent, ())]
            elif link.parent != node.name:
                known = links.get((link.parent, node.name))
                is_manual = link.is_manual and link.child == node.name and (known is None or known.is_manual)
                carries = carries or (known is not None and known.carries_gradient)
                links[link.parent, node.name] = Link(link.parent, node.name, carries, is_manual)
    return Dependencies(tuple(node for node in graph.nodes if not node.is_hidden), tuple(links.values()))
