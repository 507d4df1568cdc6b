"""The dependency graph of a run as a `GraphView`: recorded tensors as nodes, grouped by module."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from cutaway.core.formatting import short
from cutaway.core.sites import ROOT
from cutaway.graph.dependencies.graph import Dependencies
from cutaway.layout.graph_view import OUTPUT, EdgeColumns, Form, GraphView, GroupColumns, Kind, NodeColumns
from cutaway.layout.repeated_blocks import with_runs
from cutaway.store.format.records import GRAD, UPDATE, VALUE, Row
from cutaway.views.graph.node_signature import relative_address
from cutaway.views.run.arrangement import Arrangement, dependencies_of, without_hidden
from cutaway.views.run.module_table import SEVERAL, ModuleRow, network_view
from cutaway.views.run.node_names import Modules, NodeName, parse_node_name, parse_site
from cutaway.views.run.node_order import Item, ModuleGroup, drop_single_item_groups, group_by_module
from cutaway.views.run.rows import RunRows
from cutaway.views.values.value_view import printable


@dataclass(frozen=True, slots=True)
class NodeRows:
    """The recorded data of one node of the graph."""

    name: str
    node: str
    """The name without iteration and pass: `node` of its rows, or their site if that is empty."""
    iteration: int
    """Iteration from 1; 0 if it has none, or its tensors have several."""
    pass_: int
    """Pass within the iteration, from 1; 0 if its tensors have several."""
    role: str
    sites: tuple[str, ...]
    """All names of its tensors."""
    rows: tuple[int, ...]
    """The viewer's rows of its tensors: values, gradients, updates; the main tensor first."""
    parts: tuple[str, ...]
    """The parts of its tensors; empty if there is only one."""


@dataclass(frozen=True, slots=True)
class RunGraph:
    """The dependency graph of one structure."""

    structure: str
    """Hash of the structure; "" if only the tensors are known."""
    view: GraphView
    """The view; `row` of a node is an index into `nodes`; groups are modules."""
    nodes: tuple[NodeRows, ...]
    group_node: tuple[int, ...]
    """By group, the node that its module returns; -1 for none."""
    no_gradient: tuple[int, ...]
    """Edges that carry no gradient."""
    manual: tuple[int, ...]
    """Edges added by the user."""
    loops: tuple[tuple[int, int], ...]
    """(parent, child) links back to an earlier node, which occur if a node has several tensors."""
    n_hidden: int
    """Number of nodes hidden by the user."""
    why_missing: str
    """Why there are no links; "" if there are."""


_KINDS: Final[Mapping[str, Kind]] = {
    "input": "input",
    "parameter": "parametric",
    "buffer": "buffer",
    "target": "target",
    "loss": "loss",
}
_STATE_ROLES: Final = ("parameter", "buffer")
_USER_GROUP: Final = "your group"
_NUMBER: Final = re.compile(r"\d+")
_RANKS: Final = {VALUE: 0, GRAD: 1, UPDATE: 3}


def run_graph(
    rows: RunRows, structure: str | None = None, *, with_hidden: bool = False, overrides: Sequence[Any] = ()
) -> RunGraph:
    """The dependency graph of a run, folded and laid out like that of a trace.

    It depends only on the structure, the module tree and the arrangement, so it is the same at all steps and in all
    runs with the same ones. Without a recorded graph, tensors are grouped by module without links.

    Args:
        structure: hash of the graph; by default that of the newest step that has one.
        with_hidden: whether to draw hidden nodes. Otherwise links bridge them.
        overrides: layout overrides in addition to `run.arrange`: `{"at": site, "within": name}` puts a frame of that
            name around nodes with their modules.
    """
    graph, hash_, why = dependencies_of(rows, structure)
    arrangement = Arrangement(rows.run.documents.get("arrangement"), overrides)
    graph = arrangement.apply(graph)
    n_hidden = sum(node.is_hidden for node in graph.nodes)
    builder = _GraphBuilder(rows, graph if with_hidden else without_hidden(graph), arrangement)
    view = GraphView(
        title=builder.title,
        subtitle=f"{len(builder.graph.links):,} dependencies",
        facts=(("tensors", f"{len(builder.nodes):,}"), ("dependencies", f"{len(builder.graph.links):,}")),
        error="",
        nodes=builder.node_columns(),
        groups=builder.group_columns(),
        runs=(),
        edges=builder.edge_columns(),
        is_rolled=any(rep != i for i, rep in enumerate(builder.rolled)),
        noun="tensors",
    )
    return RunGraph(
        structure=hash_,
        view=with_runs(view, builder.signature),
        nodes=builder.node_rows(),
        group_node=builder.group_nodes(),
        no_gradient=tuple(i for i, link in enumerate(builder.links) if not link.carries_gradient),
        manual=tuple(i for i, link in enumerate(builder.links) if link.is_manual),
        loops=tuple((builder.place[parent], builder.place[child]) for parent, child in builder.loops),
        n_hidden=n_hidden,
        why_missing=why,
    )


class _GraphBuilder:
    """Builds the columns of the view, with nodes in drawing order."""

    def __init__(self, rows: RunRows, graph: Dependencies, arrangement: Arrangement) -> None:
        self.rows, self.graph, self.nodes, self.arrangement = rows, graph, graph.nodes, arrangement
        documents = rows.run.documents
        self.modules = Modules(documents.get("modules"))
        self.module_rows: dict[str, ModuleRow] = {one.address: one for one in network_view(rows).modules}
        model = self.modules.classes.get(ROOT, SEVERAL)
        self.title = printable(rows.run.name if model == SEVERAL else model)
        iterated = frozenset((site, row.iteration) for row in rows.rows if row.iteration for site in _sites(row))
        self.names: list[NodeName] = [parse_node_name(node, iterated) for node in self.nodes]
        self.user_groups: set[str] = set()
        number = {node.name: i for i, node in enumerate(self.nodes)}
        pairs = {(number[link.parent], number[link.child]): link for link in graph.links}
        root, self.loops = group_by_module(self._items(), list(pairs), self._repeated_modules())
        self.order: list[int] = []
        """Nodes of the graph in drawing order."""
        self.groups: list[tuple[str, int, int, int]] = []
        """Address, parent group, first node, end."""
        self.home: list[int] = []
        self._flatten(drop_single_item_groups(root), -1)
        self.place = {i: place for place, i in enumerate(self.order)}
        self._find_passes()
        self.pairs = sorted(
            (pair for pair in pairs if self.place[pair[0]] < self.place[pair[1]]),
            key=lambda pair: (self.place[pair[1]], self.place[pair[0]]),
        )
        self.links = [pairs[pair] for pair in self.pairs]

    def _items(self) -> list[Item]:
        used = frozenset(node.group for node in self.nodes)
        items = []
        for node, name in zip(self.nodes, self.names, strict=True):
            is_source = node.role in _STATE_ROLES or node.role == "input"
            path = (
                ()
                if node.role == "input" and name.local_name.startswith("in")
                else self.modules.around(node.group, used)
            )
            within = self.arrangement.within(node)
            if within:
                self.user_groups.add(within)
                path = (within, *path)
            items.append(Item(self.arrangement.order(node), path, is_source, name.finishes))
        return items

    def _repeated_modules(self) -> frozenset[str]:
        """Modules that run more than once."""
        passes: dict[str, set[str]] = {}
        for name in self.names:
            for address, pass_ in name.finishes.items():
                passes.setdefault(address, set()).add(pass_)
        return frozenset(address for address, seen in passes.items() if len(seen) > 1)

    def _flatten(self, module: ModuleGroup, around: int) -> None:
        group = len(self.groups)
        self.groups.append((module.address, around, len(self.order), 0))
        for one in module.inside:
            if isinstance(one, ModuleGroup):
                self._flatten(one, group)
            else:
                self.order.append(one)
                self.home.append(group)
        address, around, first, _ = self.groups[group]
        self.groups[group] = (address, around, first, len(self.order))

    def _find_passes(self) -> None:
        """Finds which nodes and groups are later passes of others."""
        firsts: dict[object, int] = {}
        counts: dict[int, int] = {}
        self.rolled: list[int] = []
        self.pass_: list[int] = []
        for place, i in enumerate(self.order):
            rep = firsts.setdefault(self.names[i].loop_key, place)
            counts[rep] = counts.get(rep, 0) + 1
            self.rolled.append(rep)
            self.pass_.append(counts[rep])
        self.group_rolled, self.group_pass = list(range(len(self.groups))), [1] * len(self.groups)
        n_passes = [1] * len(self.groups)
        for place, rep in enumerate(self.rolled):
            firsts_of = {self.groups[group][0]: group for group in self._groups_around(self.home[rep])}
            for group in self._groups_around(self.home[place]):
                here = firsts_of.get(self.groups[group][0], group)
                if here < group and self.group_rolled[here] == here and self.group_rolled[group] == group:
                    n_passes[here] += 1
                    self.group_rolled[group], self.group_pass[group] = here, n_passes[here]

    def _groups_around(self, group: int) -> list[int]:
        """A group and its enclosing groups, without the root."""
        groups = []
        while group > 0:
            groups.append(group)
            group = self.groups[group][1]
        return groups

    # columns

    def node_columns(self) -> NodeColumns:
        nodes = [self.nodes[i] for i in self.order]
        names = [self.names[i] for i in self.order]
        outputs = tuple((name.output, place) for place, name in enumerate(names) if name.is_output)
        labels = [self._label(place) for place in range(len(nodes))]
        n_passes: dict[int, int] = {}
        for rep in self.rolled:
            n_passes[rep] = n_passes.get(rep, 0) + 1
        return NodeColumns(
            row=tuple(range(len(nodes))),
            label=tuple(short(printable(label)) for label in labels),
            lines=tuple(self._lines(place) for place in range(len(nodes))),
            kind=tuple(_KINDS.get(node.role, "plain") for node in nodes),
            form=tuple(self._form(place) for place in range(len(nodes))),
            flags=tuple(OUTPUT if name.is_output else 0 for name in names),
            group=tuple(self.home),
            function=tuple(self._class(place) or node.role for place, node in enumerate(nodes)),
            site=tuple(node.sites[0] if node.sites else node.name for node in nodes),
            event=tuple(range(len(nodes))),
            rolled=tuple(self.rolled),
            pass_=tuple(self.pass_),
            outputs=outputs,
        )

    def _around(self, place: int) -> str:
        return self.groups[self.home[place]][0]

    def _label(self, place: int) -> str:
        """The shortest label that identifies a node within its frame."""
        node, name = self.nodes[self.order[place]], self.names[self.order[place]]
        wanted = self.arrangement.label(node)
        if wanted:
            return wanted
        around = self._around(place)
        site = parse_site(name.base)
        if site is None or site.name is not None or not (name.finishes or name.local_name != name.base):
            return name.local_name or name.base
        is_held = node.role in _STATE_ROLES
        local = self.modules.input_name(site) or name.local_name
        home = site.address.rpartition(".")[0] if is_held else site.address.removeprefix(ROOT)
        if local and home == around:
            return local
        if not home:
            return local or self.title
        is_inside = home == around or not around or home.startswith(f"{around}.")
        tail = home.rpartition(".")[2] if home == around else home.removeprefix(f"{around}.")
        inside = home if not around or not is_inside else _with_list(home, tail)
        return f"{inside}{'.' if is_held else ' '}{local}" if local else inside

    def _class(self, place: int) -> str:
        """The class of the module that returns a node."""
        name = self.names[self.order[place]]
        address = next((address for address in name.finishes if address != ROOT), "")
        return self.modules.classes.get(address, "")

    def _lines(self, place: int) -> tuple[str, ...]:
        node = self.nodes[self.order[place]]
        parts = [part for part in dict.fromkeys(node.parts) if part]
        lines = [self._class(place), f"with {', '.join(parts)}" if parts else ""]
        if node.role in ("target", "loss", "input") and not self._label(place).startswith(node.role):
            lines.append(node.role)
        return tuple(short(printable(line)) for line in lines if line)

    def _form(self, place: int) -> Form:
        i = self.order[place]
        if self.nodes[i].role in _STATE_ROLES:
            return "small"
        results = self.names[i].finishes.keys() - {ROOT}
        return "leaf" if results and self._around(place) not in results else "function"

    def group_columns(self) -> GroupColumns:
        n = len(self.groups)
        repeated: dict[str, int] = {}
        for address, _, _, _ in self.groups:
            repeated[address] = repeated.get(address, 0) + 1
        met: dict[str, int] = {}
        labels, depth = [], [0] * n
        for group, (address, around, _, _) in enumerate(self.groups):
            met[address] = met.get(address, 0) + 1
            labels.append(f"{address}:{met[address]}" if repeated[address] > 1 else address)
            depth[group] = depth[around] + 1 if around >= 0 else 0
        held = [self.module_rows.get(address or ROOT) for address, _, _, _ in self.groups]
        counts = [one.n_parameters if one is not None else 0 for one in held]
        return GroupColumns(
            parent=tuple(around for _, around, _, _ in self.groups),
            label=tuple(short(printable(label)) for label in labels),
            rolled_label=tuple(short(printable(address)) for address, _, _, _ in self.groups),
            class_name=tuple(printable(self._class_name(a)) for a, _, _, _ in self.groups),
            size=("",) * n,
            parameters=tuple(f"{count:,} parameters" if count else "" for count in counts),
            kind=tuple("parametric" if count else "plain" for count in counts),
            flags=(0,) * n,
            depth=tuple(depth),
            first=tuple(first for _, _, first, _ in self.groups),
            end=tuple(end for _, _, _, end in self.groups),
            n_ops=tuple(sum(self._counts[first:end]) for _, _, first, end in self.groups),
            rolled=tuple(self.group_rolled),
            pass_=tuple(self.group_pass),
            run=(-1,) * n,
            place=(0,) * n,
            call=tuple(range(n)),
        )

    def _class_name(self, address: str) -> str:
        if address in self.user_groups:
            return _USER_GROUP
        return self.modules.classes.get(address, "module") if address else ""

    @cached_property
    def _counts(self) -> list[bool]:
        """By node, whether it counts as content of a module; inputs and buffers do not."""
        return [self.nodes[i].role not in ("input", "buffer") for i in self.order]

    def edge_columns(self) -> EdgeColumns:
        parents = tuple(self.place[parent] for parent, _ in self.pairs)
        children = tuple(self.place[child] for _, child in self.pairs)
        return EdgeColumns(parents, children, ("",) * len(parents), ())

    def signature(self, place: int) -> object:
        """What identical blocks share besides the graph structure: names relative to their frames, and roles."""
        node, name = self.nodes[self.order[place]], self.names[self.order[place]]
        site = parse_site(name.base)
        address = name.base if site is None or site.name is not None else site.address
        seen = relative_address(self._around(place) or ROOT, address)
        # Outputs that a model returns from inside a block contain the block number.
        own = name.local_name if address != ROOT else _NUMBER.sub("#", name.local_name)
        results = len(name.finishes.keys() - {ROOT})  # the result of the last block may also be the model's
        flat = (self._n_flat.get(node.name, 0), node.name in self._detached)
        return seen, own, node.role, node.parts, results, flat

    @cached_property
    def _n_flat(self) -> dict[str, int]:
        """Node → number of incoming links without gradient, from nodes that could have one."""
        made = {link.child for link in self.links}
        return Counter(link.child for link in self.links if not link.carries_gradient and link.parent in made)

    @cached_property
    def _detached(self) -> frozenset[str]:
        """Nodes that are used only where no gradient comes back: a detached block is not like the others."""
        used = {link.parent for link in self.links}
        return frozenset(used - {link.parent for link in self.links if link.carries_gradient})

    # tables beside the view

    def group_nodes(self) -> tuple[int, ...]:
        """By group, the last node that its module returns."""
        nodes = [-1] * len(self.groups)
        for place, i in enumerate(self.order):
            group = self.home[place]
            while group >= 0:
                if self.names[i].finishes.get(self.groups[group][0] or ROOT):
                    nodes[group] = place
                group = self.groups[group][1]
        return tuple(nodes)

    def node_rows(self) -> tuple[NodeRows, ...]:
        owners = self._owners()
        entries = []
        for i in self.order:
            node, name = self.nodes[i], self.names[i]
            numbers = owners.get(i, [])
            shown = self.rows.rows
            # Reversed, so that the first position of a repeated site wins.
            at = {site: place for place, site in reversed(list(enumerate(node.sites)))}
            places = {
                row: min((at[site] for site in _sites(shown[row]) if site in at), default=len(at)) for row in numbers
            }
            numbers.sort(key=lambda row: (places[row], _RANKS.get(shown[row].of, 2), row))
            iterations = {shown[row].iteration for row in numbers}
            iteration = name.iteration or (iterations.pop() if len(iterations) == 1 else 0)
            passes = {shown[row].pass_ for row in numbers}
            pass_ = passes.pop() if len(passes) == 1 else 0
            base = (shown[numbers[0]].node or shown[numbers[0]].base) if numbers else name.base
            parts = tuple(dict.fromkeys(shown[row].part for row in numbers))
            repeated = parts if len(parts) > 1 else ()
            entries.append(NodeRows(node.name, base, iteration, pass_, node.role, node.sites, tuple(numbers), repeated))
        return tuple(entries)

    def _owners(self) -> dict[int, list[int]]:
        """Node → rows of its tensors."""
        by_name = {node.name: i for i, node in enumerate(self.nodes)}
        by_site: dict[str, list[int]] = {}
        for i, node in enumerate(self.nodes):
            for site in node.sites:
                by_site.setdefault(site, []).append(i)
        by_node: dict[int, list[int]] = {}
        for number, row in enumerate(self.rows.rows):
            owner = self._owner(row, by_name, by_site)
            if owner is not None:
                by_node.setdefault(owner, []).append(number)
        return by_node

    def _owner(self, row: Row, by_name: Mapping[str, int], by_site: Mapping[str, list[int]]) -> int | None:
        """The node of a row in this structure, which may come from steps with more or fewer passes."""
        sites = _sites(row)
        for site in sites:
            owner = by_name.get(row.node or (f"{site}~{row.iteration}" if row.iteration else site))
            if owner is not None and (row.node or site in self.nodes[owner].sites):
                return owner
        near = [i for site in sites for i in by_site.get(site, [])]
        return next((i for i in near if self.names[i].iteration == row.iteration), near[0] if near else None)


def _with_list(address: str, tail: str) -> str:
    """The end of an address; a number comes with the list that it counts.

    >>> _with_list("down_blocks.0.attentions.1.0", "0"), _with_list("down_blocks.0", "0"), _with_list("a.b", "b")
    ('attentions.1.0', 'down_blocks.0', 'b')
    """
    if not tail.partition(".")[0].isdecimal():
        return tail
    parts = address.split(".")
    n = len(parts) - len(tail.split("."))
    while n > 0 and parts[n].isdecimal():
        n -= 1
    return ".".join(parts[n:])


def _sites(row: Row) -> tuple[str, ...]:
    """Possible names of a row's tensor in a graph: pass 1 is numbered only if the step had more passes."""
    numbered = f"{row.base}:{row.pass_}"
    return (numbered, row.base) if row.pass_ == 1 else (numbered,)
