"""Looks up ops by site, pattern or label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from cutaway.core.arrays import short_repr
from cutaway.core.errors import AmbiguousSiteError, InputTypeError, SiteError, SiteSyntaxError
from cutaway.core.formatting import listed, nearest_hint, plural
from cutaway.core.sites import ROOT, Site, name_spellings
from cutaway.graph.analysis.passes import Passes
from cutaway.graph.labels import Namer, kind_of
from cutaway.graph.op import Op
from cutaway.graph.tables import CONSTANT, OP, PARAMETER, ModuleRow

if TYPE_CHECKING:
    from cutaway.graph.trace import Trace

_MOST_LISTED = 8
_COMPILED = "_orig_mod"


def find(trace: Trace, key: str) -> Op:
    """The op that a name refers to; raises an error with suggestions if there is none or several."""
    ops = match(trace, key)
    op = ops[0] if len(ops) == 1 else _as_passes(trace, key, ops)
    if op is not None:
        # Checked here, so that the lookup fails, and not the first access to the value.
        return _with_unit(op)
    if ops:
        raise AmbiguousSiteError(
            f"{key!r} matches {len(ops)} tensors of this trace of {trace.model_name}: {_choices(trace, key, ops)}. "
            f"Ask for one of them, or for all with trace.match({key!r})."
        )
    raise SiteError(_not_found_message(trace, key))


def _choices(trace: Trace, key: str, ops: list[Op]) -> str:
    """The unambiguous names of several ops; the outputs of a module that ran often are listed once for all passes."""
    if key in trace.modules:
        places = [here for _, here in index_of(trace).at(Site.parse(key)) if here is not None]
        parts = Counter(str(replace(here, pass_=None)) for here in places)
        if 1 < len(parts) <= _MOST_LISTED and min(parts.values()) > 1:
            return f"{', '.join(map(repr, parts))}, each in several passes"
    # A name takes a search, so only those that are shown are computed.
    names = (repr(_unambiguous_name(trace, key, op)) for op in ops[:_MOST_LISTED])
    return listed([*names, *("" for _ in ops[_MOST_LISTED:])], _MOST_LISTED)


def match(trace: Trace, key: str) -> list[Op]:
    """Every op that a name matches, in order: as an address, or as a label if no address matches."""
    if not isinstance(key, str):
        raise InputTypeError(f"a site, pattern or label is a string, got {short_repr(key)}.")
    try:
        site = Site.parse(key)
    except SiteSyntaxError:
        labeled = index_of(trace).labeled(key)
        if labeled:
            return [Op(trace, node) for node in labeled]
        raise
    index = index_of(trace)
    nodes = dict.fromkeys(node for node, _ in index.at(site))
    if not nodes and trace.is_compiled and _COMPILED in site.address.split("."):
        # Names of `state_dict()` of a compiled module; the trace names the module inside.
        parts = [part for part in site.address.split(".") if part != _COMPILED]
        site = replace(site, address=".".join(parts) or ROOT)
        nodes = dict.fromkeys(node for node, _ in index.at(site))
    # Addresses win: a module can have the name of a label.
    matches = [*nodes] or index.labeled(str(site.without_unit())) or index.in_loop(site)
    kinds = trace.tables.nodes.kind
    return [
        Op(trace, node, site.unit, str(site.address) if site.unit is not None and kinds[node] == PARAMETER else "")
        for node in matches
    ]


def match_units(trace: Trace, key: str) -> list[Op]:
    """Every op that a name matches and that has the unit it names, if it names one."""
    ops = match(trace, key)
    # Ops of unknown unit dimension stay: their value raises an error that says how to state the dimension.
    return [op for op in ops if op.unit is None or not op.unit_layout.is_known or op.unit < op.unit_layout.n_units]


def _as_passes(trace: Trace, key: str, ops: list[Op]) -> Op | None:
    """Several tensors as the passes of one op, or of a module that returns one tensor; None if they are not."""
    try:
        site = Site.parse(key)
    except SiteSyntaxError:
        return None
    nodes = tuple(op.node for op in ops)
    if nodes and site.pass_ is None and site.op is None and not site.is_pattern:
        calls = [here.pass_ for _, here in index_of(trace).at(site) if here is not None]
        if len(set(calls)) == len(calls):
            return Passes(trace, nodes[0], site.unit, nodes=nodes)
    if nodes and trace.rolled.nodes_of(nodes[0]) == nodes:
        if site.pass_ is None:
            return trace.rolled.of(nodes[0], site.unit)
        return ops[site.pass_ - 1] if site.pass_ <= len(ops) else None
    return None


def index_of(trace: Trace) -> Index:
    """The index of a trace, built on the first lookup."""
    index = trace.__dict__.get("_index")
    if index is None:
        trace.tables  # noqa: B018  (raises OpenTraceError for an open trace)
        index = trace.__dict__["_index"] = Index(trace)
    return index


def all_sites(trace: Trace) -> tuple[str, ...]:
    """Every site of a trace: modules, inputs, ops, parameters, buffers."""
    sites = [f".@in.{path}" for path in trace.input_paths]
    modules = [site for module in trace.tables.modules for site in _sites_of(trace, module)]
    return tuple(dict.fromkeys([*modules, *sites, *(op.site for op in trace.ops), *trace.parameters, *trace.buffers]))


def _sites_of(trace: Trace, module: ModuleRow) -> list[str]:
    paths = {path: None for call in module.calls for path, _ in trace.tables.calls[call].outputs}
    address = module.addresses[0]
    return [address] if list(paths) == [""] else [f"{address}@out.{path}" for path in paths]


class Index:
    """Dicts from names to nodes: of modules, their ops, sources and labels."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._places: dict[tuple[str, str], dict[tuple[int, int], list[int]]] = {}

    @cached_property
    def calls(self) -> dict[str, list[int]]:
        """Each address of a module → its calls."""
        by_address: dict[str, list[int]] = {}
        for module in self._trace.tables.modules:
            for address in module.addresses:
                by_address.setdefault(address, []).extend(module.calls)
        return by_address

    @cached_property
    def sources(self) -> dict[str, int]:
        """Each address of a parameter or buffer → its node; -1 if nothing read it."""
        return {address: row.node for row in self._trace.tables.parameters for address in row.addresses}

    @cached_property
    def call_addresses(self) -> list[str]:
        """First address of the module of each call; "" outside all modules."""
        tables = self._trace.tables
        return [tables.modules[row.module].addresses[0] if row.module >= 0 else "" for row in tables.calls]

    @cached_property
    def ops(self) -> dict[str, dict[str, list[int]]]:
        """First address of a module → kind of op → nodes in order, including orphans, which count for ordinals."""
        nodes, addresses = self._trace.tables.nodes, self.call_addresses
        by_module: dict[str, dict[str, list[int]]] = {}
        for node, name in enumerate(nodes.name):
            if nodes.kind[node] == OP:
                here = by_module.setdefault(addresses[nodes.call[node]], {})
                # Not `setdefault`, which would create a list for every row.
                if name in here:
                    here[name].append(node)
                else:
                    here[name] = [node]
        return {address: _by_kind(by_name) for address, by_name in by_module.items()}

    @cached_property
    def listed(self) -> set[int]:
        """The ops that are not orphans."""
        return set(self._trace.op_nodes)

    @cached_property
    def kinds(self) -> dict[str, list[int]]:
        """Kind of op → nodes, in order."""
        names, by_name = self._trace.tables.nodes.name, dict[str, list[int]]()
        for node in self._trace.op_nodes:
            name = names[node]
            if name in by_name:
                by_name[name].append(node)
            else:
                by_name[name] = [node]
        return _by_kind(by_name)

    @cached_property
    def squashed_kinds(self) -> dict[str, list[str]]:
        """Kinds without underscores, as TorchLens spells them: `maxpool2d` for `max_pool2d`."""
        spelled: dict[str, list[str]] = {}
        for kind in self.kinds:
            spelled.setdefault(kind.replace("_", ""), []).append(kind)
        return spelled

    @cached_property
    def source_labels(self) -> dict[str, int]:
        """Label of an input, buffer or constant → node."""
        names, kinds = self._trace.names, self._trace.tables.nodes.kind
        return {names.label(node): node for node, kind in enumerate(kinds) if kind != OP}

    @cached_property
    def addresses(self) -> dict[str, tuple[str, ...]]:
        """First address of a module → all its addresses."""
        return {module.addresses[0]: module.addresses for module in self._trace.tables.modules}

    @cached_property
    def first_addresses(self) -> dict[str, str]:
        return {address: first for first, all_ in self.addresses.items() for address in all_}

    def has_forward(self, address: str) -> bool:
        """Whether the calls of a module can be seen."""
        return any(row.has_forward for row in self._trace.tables.modules if address in row.addresses)

    def labeled(self, text: str) -> list[int]:
        """The nodes of a label; with a pass, that pass of the same op or of the same site."""
        label, colon, pass_ = text.partition(":")
        nodes = self._numbered(label)
        if not colon:
            return nodes or [node for node in (self.source_labels.get(label),) if node is not None]
        if not pass_.isdecimal() or len(nodes) != 1:
            return []
        columns = self._trace.tables.nodes
        passes = self._trace.rolled.nodes_of(nodes[0]) if nodes[0] in self.listed else nodes
        if len(passes) > 1:
            return [*passes[int(pass_) - 1 : int(pass_)]] if int(pass_) else []
        places = self._places_of(self.call_addresses[columns.call[nodes[0]]], kind_of(columns.name[nodes[0]]))
        ordinal = next(ordinal for (ordinal, _), there in places.items() if nodes[0] in there)
        there = places.get((ordinal, int(pass_)), ())
        return [node for node in there if node in self.listed and columns.path[node] == columns.path[nodes[0]]]

    def in_loop(self, site: Site) -> list[int]:
        """A pass of a recurrent op whose passes are several ops of one module call: `./tanh:3`."""
        if site.pass_ is None or site.op is None or site.is_pattern:
            return []
        nodes = [node for node, _ in self.at(replace(site, pass_=None))]
        passes = self._trace.rolled.nodes_of(nodes[0]) if nodes else ()
        is_one = set(nodes) == set(passes) or (site.ordinal is not None and set(nodes) <= set(passes))
        return [*passes[site.pass_ - 1 : site.pass_]] if is_one and len(passes) > 1 else []

    def _numbered(self, label: str) -> list[int]:
        """The ops of a label with (`relu_3_6`) or without (`relu_3`) a position."""
        head, _, last = label.rpartition("_")
        kind, _, n = head.rpartition("_")
        nodes = self._trace.op_nodes
        there = nodes[int(last) - 1 : int(last)] if last.isdecimal() and int(last) else []
        at_position = [node for node in self._of_kind(kind, n) if node in there]
        return at_position or self._of_kind(head, last)

    def _of_kind(self, kind: str, n: str) -> list[int]:
        if not n.isdecimal() or not kind:
            return []
        kinds = [kind] if kind in self.kinds else self.squashed_kinds.get(kind.replace("_", ""), [])
        return [self.kinds[each][int(n) - 1] for each in kinds if 0 < int(n) <= len(self.kinds[each])]

    def at(self, site: Site) -> list[tuple[int, Site | None]]:
        """The nodes that a site matches, in order, each with its exact site if it names a module or source."""
        if site.name is not None:
            named = self._trace.tables.named.items()
            return [(node, None) for name, node in named if site.name in name_spellings(name)]
        if not site.is_pattern:
            if site.op is not None:
                return self._constants_at(site) or self._ops_at(site)
            return [*self._modules_at(site, (site.address,))] or [*self._sources_at(site, (site.address,))]
        modules = [] if site.op is not None else [*self._modules_at(site, self.calls)]
        matches = [*modules, *self._ops_at(site)]
        if not matches and site.op is None:
            matches.extend(self._sources_at(site, self.sources))
        return sorted(matches, key=lambda pair: pair[0])

    def _modules_at(self, site: Site, addresses: Iterable[str]) -> Iterator[tuple[int, Site | None]]:
        side = site.side or "out"
        for address in addresses:
            for number in self.calls.get(address, ()) if site.covers_address(address) else ():
                row = self._trace.tables.calls[number]
                if site.pass_ in (None, row.pass_):
                    for path, node in row.inputs if side == "in" else row.outputs:
                        if site.covers_path(path):
                            yield node, Site(address=address, side=side, path=path, pass_=row.pass_)

    def _sources_at(self, site: Site, addresses: Iterable[str]) -> Iterator[tuple[int, Site | None]]:
        for address in addresses if site.side is None and site.pass_ is None else ():
            node = self.sources.get(address, -1)
            if node >= 0 and site.covers_address(address):
                yield node, Site(address=address)

    def _constants_at(self, site: Site) -> list[tuple[int, Site | None]]:
        """The constant of this site; a constant is named like an op of the module that used it first."""
        kinds, wanted = self._trace.tables.nodes.kind, site.without_unit()
        # Labels of constants contain the word; all other lookups skip the comparison below.
        if CONSTANT not in (site.op or ""):
            return []
        node = self.source_labels.get(site.op or "", -1)
        is_it = node >= 0 and kinds[node] == CONSTANT and self._trace.names.full_site(node) == wanted
        return [(node, None)] if is_it else []

    def _ops_at(self, site: Site) -> list[tuple[int, Site | None]]:
        if site.side == "in" or (site.op is None and not site.covers_ops):
            return []
        paths = self._trace.tables.nodes.path
        nodes = [
            node
            for address in self._modules_covered(site)
            for kind in self.ops[address]
            if site.op is None or site.covers_op(kind)
            for node in self._chosen(site, address, kind)
            if node in self.listed and site.covers_path(paths[node])
        ]
        return [(node, None) for node in sorted(nodes)]

    def _modules_covered(self, site: Site) -> list[str]:
        """The first addresses of the modules that a site matches under any of their addresses."""
        if "*" not in site.address:
            first = self.first_addresses.get(site.address, site.address)
            return [first] if first in self.ops else []
        return [
            first for first in self.ops
            if any(site.covers_address(address) for address in self.addresses.get(first, (first,)))
        ]  # fmt: skip

    def _chosen(self, site: Site, address: str, kind: str) -> Iterable[int]:
        """The ops of one kind in one module that match ordinal and pass."""
        if site.ordinal is None and site.pass_ is None:
            return self.ops[address][kind]
        places = self._places_of(address, kind)
        if site.ordinal is not None and site.pass_ is not None:
            return places.get((site.ordinal, site.pass_), ())
        return [
            node for (ordinal, pass_), nodes in places.items()
            if site.ordinal in (None, ordinal) and site.pass_ in (None, pass_)
            for node in nodes
        ]  # fmt: skip

    def _places_of(self, address: str, kind: str) -> dict[tuple[int, int], list[int]]:
        """(ordinal, pass) → nodes, for one kind of op in one module."""
        places = self._places.get((address, kind))
        if places is None:
            places = self._places[address, kind] = {}
            nodes, namer = self._trace.tables.nodes, Namer()
            for node in self.ops.get(address, {}).get(kind, ()):
                place = namer.count(nodes.event[node], nodes.call[node], address, kind)
                if place in places:
                    places[place].append(node)
                else:
                    places[place] = [node]
        return places


def _by_kind(by_name: dict[str, list[int]]) -> dict[str, list[int]]:
    """Merge names of one kind, such as `relu` and `relu_`."""
    by_kind: dict[str, list[int]] = {}
    for name, nodes in by_name.items():
        by_kind.setdefault(kind_of(name), []).extend(nodes)
    return {kind: sorted(nodes) for kind, nodes in by_kind.items()}


def _with_unit(op: Op) -> Op:
    """The op, after checking that it has the requested unit."""
    if op.unit is None:
        return op
    whole = Op(op.trace, op.node).site
    op.unit_layout.check(whole).check_unit(op.unit, whole)
    return op


def _unambiguous_name(trace: Trace, key: str, op: Op) -> str:
    """A name for exactly this one of several ops that match."""
    index = index_of(trace)
    try:
        site = Site.parse(key)
    except SiteSyntaxError:
        return op.label
    ways = [here for node, here in index.at(site) if node == op.node]
    if not ways:
        return op.label if op.unit is None else f"{op.label}#{op.unit}"
    here = ways[0]
    if here is None:
        return op.site
    several = len(index.calls.get(here.address, ())) > 1
    plain = not here.path and here.side != "in"
    return str(replace(here, side=None if plain else here.side, pass_=here.pass_ if several else None, unit=op.unit))


def _not_found_message(trace: Trace, key: str) -> str:
    """Why a name matches nothing, as precisely as possible."""
    where = f"in this trace of {trace.model_name}"
    try:
        site = Site.parse(key)
    except SiteSyntaxError:
        site = Site(address=key)
    index = index_of(trace)
    if site.op is not None and site.address in trace.modules:
        kinds = index.ops.get(index.first_addresses.get(site.address, ""), {})
        executed = listed((_counted(kind, nodes) for kind, nodes in kinds.items()), _MOST_LISTED) or "no direct ops"
        near = nearest_hint(site.op, kinds) if len(kinds) > _MOST_LISTED else ""
        return f"no site matches {key!r} {where}: module {site.address!r} executed {executed}.{near}"
    if site.op is None and site.address in trace.modules:
        return _about_module(trace, site, key)
    if site.op is None and site.address in index.sources:
        if index.sources[site.address] < 0:
            return f"{site.address!r} was never read {where}; trace.unused_parameters lists all such parameters."
        return f"no site matches {key!r} {where}: {site.address!r} is a parameter or buffer, without passes or sides."
    read = (address for address, node in index.sources.items() if node >= 0)
    near = nearest_hint(key, [*trace.sites, *trace.modules, *read, *trace.names.labels.values()])
    return (
        f"no site matches {key!r} {where}.{_other_meaning(trace, key)}{near} trace.sites lists all {len(trace.sites)}."
    )


def _other_meaning(trace: Trace, key: str) -> str:
    """What else the text is the name of: a position, a function or a class of modules."""
    if key.lstrip("-").isdecimal():
        return f" For a position, use trace[{key}]."
    n_ops = len(index_of(trace).kinds.get(kind_of(key), ()))
    if n_ops:
        times = "once" if n_ops == 1 else f"{n_ops:,} times"
        return f" It is a function that ran {times}: trace.select(function={key!r})."
    n_modules = sum(module.class_name == key for module in trace.tables.modules)
    if n_modules:
        return f" It is the class of {plural(n_modules, 'module')}: trace.select(module_class={key!r})."
    return ""


def _counted(kind: str, nodes: list[int]) -> str:
    return repr(kind) if len(nodes) == 1 else f"{kind!r} ({len(nodes)} tensors)"


def _about_module(trace: Trace, site: Site, key: str) -> str:
    module = trace.modules[site.address]
    if not module.calls and not index_of(trace).has_forward(site.address):
        return (
            f"the trace has no call of module {site.address!r} ({module.class_name}): it is a container, or its class "
            "has a __call__ of its own that bypasses hooks. Its ops belong to the module around it."
        )
    if not module.calls:
        return (
            f"module {site.address!r} ({module.class_name}) was never called in this trace of {trace.model_name}; "
            "trace.uncalled_modules lists all such modules."
        )
    n_calls = len(module.calls)
    passes = f"{n_calls} times ('{site.address}:1' to '{site.address}:{n_calls}')" if n_calls > 1 else "once"
    chosen = site.pass_ if site.pass_ is not None and site.pass_ <= len(module.calls) else 1
    call = module.calls[chosen - 1]
    sides = [f"@in.{path}" for path in call.inputs] + [f"@out.{path}" if path else "" for path in call.outputs]
    offered = listed((repr(f"{site.address}{side}") for side in sides), _MOST_LISTED) or "no tensors"
    where = f"in this trace of {trace.model_name}"
    return f"no site matches {key!r} {where}: module {site.address!r} ran {passes} and offers {offered}."
