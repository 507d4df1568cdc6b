"""Names of the nodes of a dependency graph: label, enclosing modules, pass and iteration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cutaway.core.errors import SiteSyntaxError
from cutaway.core.sites import ROOT, Site
from cutaway.graph.dependencies.graph import Node
from cutaway.views.run.node_order import ModulePath

_CONTAINERS = frozenset({"ModuleList", "ModuleDict", "ParameterList", "ParameterDict"})
"""Modules that only contain others and never run."""
_DEEPEST = 64
_ITERATION = re.compile(r"(.+)~([0-9]+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class NodeName:
    """The parts of a node's name."""

    base: str
    """The name without iteration, shared by all iterations."""
    iteration: int
    finishes: Mapping[str, str]
    """Modules that return this tensor → the pass of each."""
    local_name: str
    """The name within its module; "" for the result of the module."""
    is_output: bool
    output: str
    """Its path in the model's output."""

    @property
    def loop_key(self) -> tuple[str, bool, str]:
        """Key shared by all passes and iterations of one tensor."""
        return self.base, self.iteration > 0, self.local_name


def parse_node_name(node: Node, iterated: frozenset[tuple[str, int]]) -> NodeName:
    """Parses the names of a node.

    Args:
        iterated: sites of rows with their iterations.
    """
    match = _ITERATION.fullmatch(node.name)
    # A name may end in ~2 by itself; it is an iteration only if such a row was recorded.
    is_iterated = match is not None and (match[1], int(match[2][:9])) in iterated
    base, iteration = (match[1], int(match[2][:9])) if match is not None and is_iterated else (node.name, 0)
    names_at_site = (base, *node.sites) if iteration or base in node.sites else node.sites
    sites = [site for site in map(parse_site, names_at_site) if site is not None]
    first = sites[0] if sites else None
    outputs = [site for site in sites if _is_result(site) and site.address == ROOT]
    output = outputs[0].path if outputs else ""
    if first is None or first.name is not None or names_at_site is node.sites:
        return NodeName(base, iteration, {}, base.removeprefix("$"), bool(outputs), output)
    is_held = node.role in ("parameter", "buffer")
    results = {} if is_held else {s.address: f"{iteration}.{s.pass_ or 1}" for s in sites if _is_result(s)}
    unpassed = base.removesuffix(f":{first.pass_}") if first.pass_ is not None else base
    return NodeName(unpassed, iteration, results, _local_name(first, is_held), bool(outputs), output)


def parse_site(text: str) -> Site | None:
    """The site, or None if the text is not one."""
    try:
        return Site.parse(text)
    except (SiteSyntaxError, ValueError):
        return None


def _is_result(site: Site) -> bool:
    return site.name is None and site.op is None and site.side in (None, "out")


def _local_name(site: Site, is_held: bool) -> str:
    if is_held:
        return site.address.rpartition(".")[2] or site.address
    if site.op is not None:
        return site.op if site.ordinal in (None, 1) else f"{site.op}.{site.ordinal}"
    if site.side == "in":
        word = "input" if site.address == ROOT else "in"
        return f"{word} {site.path}" if site.path else word
    if site.address == ROOT and site.path and not site.path.isdecimal():
        return site.path
    word = "output " if site.address == ROOT else "out."
    return f"{word}{site.path}" if site.path else ""


class Modules:
    """The modules of a run, from its document; empty for a run without one."""

    def __init__(self, document: Any) -> None:
        columns: Mapping[str, Any] = document if isinstance(document, dict) else {}
        addresses, classes = columns.get("address"), columns.get("class")
        self.classes: dict[str, str] = {}
        if isinstance(addresses, list) and isinstance(classes, list):
            pairs = zip(addresses, classes, strict=False)
            self.classes = {str(address): str(name) for address, name in pairs}
        self._forward: dict[str, list[Any]] = {}
        forwards = columns.get("forward")
        if isinstance(addresses, list) and isinstance(forwards, list):
            named = zip(addresses, forwards, strict=False)
            self._forward = {str(address): names for address, names in named if isinstance(names, list)}

    def input_name(self, site: Site) -> str:
        """The name of an input in the forward of its module; "" if unknown, or if the site is no input.

        >>> modules = Modules({"address": ["."], "class": ["Net"], "forward": [["src", "tgt_mask"]]})
        >>> modules.input_name(Site.parse(".@in.1")), modules.input_name(Site.parse(".@in.tgt")), modules.input_name(
        ...     Site.parse(".@in.7")
        ... )
        ('tgt_mask', 'tgt', '')
        """
        if site.side != "in" or not site.path:
            return ""
        first, dot, rest = site.path.partition(".")
        if not first.isdecimal():
            return site.path
        names = self._forward.get(site.address, [])
        place = int(first[:9])
        own = names[place] if place < len(names) and isinstance(names[place], str) else ""
        return f"{own}{dot}{rest}" if own else ""

    def around(self, group: str, used: frozenset[str]) -> ModulePath:
        """The enclosing modules of a group, outermost first; pure containers are left out.

        Args:
            used: addresses of groups with nodes.
        """
        if group in ("", ROOT):
            return ()
        parts = group.split(".")[:_DEEPEST]
        prefixes = (".".join(parts[: n + 1]) for n in range(len(parts)))
        return tuple(p for p in prefixes if p in used or (p in self.classes and self.classes[p] not in _CONTAINERS))
