"""Labels, sites, ordinals and passes of ops.

They are counted in one place, because a value can be selected by its site while the model runs, and must have the same
site afterwards.
"""

from __future__ import annotations

from dataclasses import replace

from cutaway.core.sites import ROOT, Site
from cutaway.graph.tables import BUFFER, INPUT, OP, PARAMETER, Tables


class Namer:
    """Assigns each op its ordinal and its pass, in order of execution.

    The ordinal counts ops of one kind within one module call. The pass counts how often that site (module address,
    kind, ordinal) has been reached.
    """

    __slots__ = ("_last", "_ordinals", "_passes")

    def __init__(self) -> None:
        self._ordinals: dict[tuple[int, str], int] = {}
        self._passes: dict[tuple[str, str, int], int] = {}
        self._last: tuple[object, int, int] = (None, 0, 0)

    def count(self, event: object, call: int, address: str, kind: str) -> tuple[int, int]:
        """Ordinal and pass of the next op; further results of the same event share them."""
        if event is not None and event is self._last[0]:
            return self._last[1], self._last[2]
        key = (call, kind)
        ordinal = self._ordinals[key] = self._ordinals.get(key, 0) + 1
        place = (address, kind, ordinal)
        pass_ = self._passes[place] = self._passes.get(place, 0) + 1
        self._last = (event, ordinal, pass_)
        return ordinal, pass_

    def peek(self, call: int, address: str, kind: str) -> tuple[int, int]:
        """Ordinal and pass that the next op of this kind will have."""
        ordinal = self._ordinals.get((call, kind), 0) + 1
        return ordinal, self._passes.get((address, kind, ordinal), 0) + 1

    def n_passes(self) -> dict[tuple[str, str, int], int]:
        return self._passes


def kind_of(name: str) -> str:
    """The kind of op under which a function is counted: `relu_` is a `relu`.

    >>> kind_of("relu_"), kind_of("_softmax"), kind_of("__and__")
    ('relu', 'softmax', 'and')
    """
    return name.strip("_") or name


def split_label(text: str) -> tuple[str, int]:
    """Kind, without underscores, and number of a label with or without a position; ("", 0) if the text is none.

    >>> split_label("relu_3_6"), split_label("max_pool2d_1"), split_label("encoder")
    (('relu', 3), ('maxpool2d', 1), ('', 0))
    """
    parts = text.partition("#")[0].partition(":")[0].split("_")
    numbers: list[int] = []
    while len(parts) > 1 and parts[-1].isdigit() and len(numbers) < 2:
        numbers.append(int(parts.pop()))
    return ("".join(parts), numbers[-1]) if numbers else ("", 0)


def op_site(address: str, kind: str, ordinal: int, pass_: int, path: str) -> Site:
    """The full site of an op."""
    return Site(address=address, op=kind, ordinal=ordinal, side="out" if path else None, path=path, pass_=pass_)


class Names:
    """The names of all nodes of a finished trace; sites are computed together on first use."""

    def __init__(self, tables: Tables, op_nodes: list[int]) -> None:
        self._tables = tables
        self._positions = {node: i for i, node in enumerate(op_nodes)}
        self._addresses = [_address_of(tables, call) for call in range(len(tables.calls))]
        self.labels: dict[int, str] = {}
        self._count_labels(op_nodes)
        self._places: dict[int, tuple[int, int]] = {}
        self._namer = Namer()
        self._most: dict[tuple[str, str], int] = {}

    def label(self, node: int) -> str:
        return self.labels.get(node) or f"orphan_{node}"

    def describe(self, node: int) -> str:
        """The name of a node in messages."""
        return self.label(node)

    def position(self, node: int) -> int | None:
        return self._positions.get(node)

    def address(self, call: int) -> str:
        return self._addresses[call]

    def full_site(self, node: int) -> Site:
        """The site with explicit ordinal and pass."""
        nodes = self._tables.nodes
        if nodes.kind[node] != OP:
            return self._source_site(node)
        ordinal, pass_ = self._place(node)
        address, kind = self._addresses[nodes.call[node]], kind_of(nodes.name[node])
        return op_site(address, kind, ordinal, pass_, nodes.path[node])

    def site(self, node: int) -> Site:
        """The shortest unique site."""
        full = self.full_site(node)
        if self._tables.nodes.kind[node] != OP or full.op is None:
            return full
        ordinal = full.ordinal or 1
        only = self._most[(full.address, full.op)] == 1
        once = self._namer.n_passes()[(full.address, full.op, ordinal)] == 1
        return replace(full, ordinal=None if only else ordinal, pass_=None if once else full.pass_)

    def _place(self, node: int) -> tuple[int, int]:
        if not self._places:
            nodes = self._tables.nodes
            # Orphans count, too: while the model runs, nobody knows yet which ops will be orphans.
            for other, event in enumerate(nodes.event):
                if nodes.kind[other] == OP:
                    call = nodes.call[other]
                    address, kind = self._addresses[call], kind_of(nodes.name[other])
                    place = self._places[other] = self._namer.count(event, call, address, kind)
                    key = (address, kind)
                    # The largest ordinal decides whether a site needs one at all.
                    if place[0] > self._most.get(key, 0):
                        self._most[key] = place[0]
        return self._places[node]

    def _source_site(self, node: int) -> Site:
        nodes = self._tables.nodes
        kind, path = nodes.kind[node], nodes.path[node]
        if kind in (PARAMETER, BUFFER):
            return Site(address=path)
        if kind == INPUT:
            return Site(address=ROOT, side="in", path=path, pass_=self._root_pass(node))
        return Site(address=self._addresses[nodes.call[node]], op=self.label(node))

    def _root_pass(self, node: int) -> int | None:
        """The pass of the model that an input belongs to; None if the model ran once."""
        runs = [row.pass_ for row in self._tables.calls if row.is_root and any(n == node for _, n in row.inputs)]
        n_runs = sum(row.is_root for row in self._tables.calls)
        return runs[0] if runs and n_runs > 1 else None

    def _count_labels(self, op_nodes: list[int]) -> None:
        nodes, labels = self._tables.nodes, self.labels
        name = nodes.name
        counts: dict[str, int] = {}
        for position, node in enumerate(op_nodes, 1):
            kind = kind_of(name[node])
            n = counts[kind] = counts.get(kind, 0) + 1
            labels[node] = f"{kind}_{n}_{position}"
        for node, kind in enumerate(nodes.kind):
            if kind == OP:
                continue
            if kind == PARAMETER and nodes.path[node]:
                labels[node] = nodes.path[node]
            else:
                n = counts[kind] = counts.get(kind, 0) + 1
                labels[node] = f"{kind}_{n}"


def _address_of(tables: Tables, call: int) -> str:
    row = tables.calls[call].module
    return tables.modules[row].addresses[0] if row >= 0 else ""
