"""From a name to the ops it means."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cutaway.core.errors import AmbiguousSiteError, SiteError, SiteSyntaxError
from cutaway.core.sites import Site, nearest
from cutaway.graph.op import Op

if TYPE_CHECKING:
    from cutaway.graph.trace import Trace

_LABEL = re.compile(r"^(?P<kind>.+?)_(?P<n>\d+)(?:_(?P<position>\d+))?(?::(?P<pass>\d+))?$")


def find(trace: Trace, key: str) -> Op:
    """The one op that a name means; an error that helps where it means none or several."""
    found = match(trace, key)
    if len(found) == 1:
        return found[0]
    if found:
        names = [_written_out(trace, key, op) for op in found]
        listed = ", ".join(repr(name) for name in names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        raise AmbiguousSiteError(f"{key!r} fits {len(found)} tensors of this trace of {trace.model_name}: {listed}.")
    if key.partition("@")[0].partition(":")[0] in trace.modules:
        raise SiteError(_about_module(trace, key))
    near = nearest(key, [*trace.sites, *trace.modules, *(op.label for op in trace.ops)])
    hint = f" Nearest: {', '.join(repr(name) for name in near)}." if near else ""
    raise SiteError(
        f"no site matches {key!r} in this trace of {trace.model_name}.{hint} trace.sites lists all {len(trace.sites)}."
    )


def match(trace: Trace, key: str) -> list[Op]:
    """Every op that a name covers, in order: an address first, a label if no address fits."""
    try:
        site = Site.parse(key)
    except SiteSyntaxError:
        found = _by_label(trace, key)
        if found:
            return found
        raise
    return _by_site(trace, site) or _by_label(trace, key)


def _by_site(trace: Trace, site: Site) -> list[Op]:
    nodes = [node for node, _ in _nodes_at(trace, site)]
    return [Op(trace, node, site.unit) for node in dict.fromkeys(nodes)]


def _nodes_at(trace: Trace, site: Site) -> list[tuple[int, Site]]:
    """The nodes a site covers, each with the way in which it was named."""
    tables = trace.tables
    if site.name is not None:
        return [(node, site) for name, node in tables.named.items() if name == site.name]
    found: list[tuple[int, Site]] = []
    wants_modules = site.op is None
    if wants_modules:
        for number, row in enumerate(tables.calls):
            for address in tables.modules[row.module].addresses if row.module >= 0 else ():
                side = site.side or "out"
                for path, node in row.inputs if side == "in" else row.outputs:
                    here = Site(address=address, side=side, path=path, pass_=row.pass_)
                    if site.matches(here) and number:
                        found.append((node, here))
        if site.side is None and site.pass_ is None:
            found.extend(_sources_at(trace, site))
    if site.op is not None or site.is_pattern:
        for node in trace.op_nodes:
            full = trace.names.full_site(node)
            if site.matches(full):
                found.append((node, full))
    return found


def _sources_at(trace: Trace, site: Site) -> list[tuple[int, Site]]:
    if site.is_pattern:
        return []
    return [
        (row.node, Site(address=address))
        for row in trace.tables.parameters
        if row.node >= 0
        for address in row.addresses
        if address == site.address
    ]


def _by_label(trace: Trace, key: str) -> list[Op]:
    parsed = _LABEL.match(key)
    if parsed is None:
        return []
    kind, n, position, pass_ = parsed["kind"].replace("_", ""), parsed["n"], parsed["position"], parsed["pass"]
    for node, label in trace.names.labels.items():
        own = _LABEL.match(label)
        if own is None or own["kind"].replace("_", "") != kind or own["n"] != n:
            continue
        if position is not None and own["position"] != position:
            continue
        if pass_ is None:
            return [Op(trace, node)]
        full = trace.names.full_site(node)
        return [
            Op(trace, other)
            for other in trace.op_nodes
            if (site := trace.names.full_site(other)).pass_ == int(pass_)
            and (site.address, site.op, site.ordinal, site.path) == (full.address, full.op, full.ordinal, full.path)
        ]
    return []


def _written_out(trace: Trace, key: str, op: Op) -> str:
    """How to ask for exactly this one of the several that a name fits."""
    try:
        site = Site.parse(key)
    except SiteSyntaxError:
        return op.label
    ways = [here for node, here in _nodes_at(trace, site) if node == op.node]
    if not ways or ways[0].op is not None:
        return op.site
    here = ways[0]
    several = sum(1 for row in trace.tables.calls if row.module >= 0 and here.address in trace.tables.modules[row.module].addresses)
    text = here.address + (f"@{here.side}" + (f".{here.path}" if here.path else "") if here.path or here.side == "in" else "")
    return f"{text}:{here.pass_}" if several > 1 else text


def _about_module(trace: Trace, key: str) -> str:
    module = trace.modules[key.partition("@")[0].partition(":")[0]]
    if not module.calls:
        return f"module {module.address!r} ({module.class_name}) was never called in this trace of {trace.model_name}."
    call = module.calls[0]
    sides = [f"@in.{path}" for path in call.inputs] + [f"@out.{path}" if path else "" for path in call.outputs]
    offered = ", ".join(repr(f"{module.address}{side}") for side in sides) or "no tensors"
    return f"{key!r} names nothing: module {module.address!r} ran {len(module.calls)}× and offers {offered}."
