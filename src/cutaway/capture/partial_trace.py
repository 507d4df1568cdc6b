"""The unfinished trace that a `save=` predicate sees while the model runs."""

from __future__ import annotations

from typing import Any, NoReturn

from cutaway.core.errors import OpenTraceError
from cutaway.core.sites import Site
from cutaway.graph.modules import ModuleCall
from cutaway.graph.tables import Tables
from cutaway.graph.trace import Trace


class PartialNames:
    """Names in an unfinished trace: sites are known at once, labels and positions only after orphans are removed."""

    def __init__(self, sites: dict[int, Site], tables: Tables) -> None:
        self._sites = sites
        self._tables = tables

    def full_site(self, node: int) -> Site:
        site = self._sites.get(node)
        return site if site is not None else Site(address="", op=self._tables.nodes.name[node])

    site = describe = full_site

    def address(self, call: int) -> str:
        row = self._tables.calls[call].module
        return self._tables.modules[row].addresses[0] if row >= 0 else ""

    def label(self, node: int) -> NoReturn:
        _not_yet("labels")

    position = label


class PartialTrace(Trace):
    """A growing trace: its ops know their parents, but not yet their children."""

    def __init__(self, tables: Tables, sites: dict[int, Site]) -> None:
        super().__init__()
        self.fill(tables, orphans=True)
        self.__dict__["names"] = PartialNames(sites, tables)

    def children_of(self, node: int) -> list[int]:
        _not_yet("children")

    @property
    def distances(self) -> Any:
        _not_yet("distances")

    @property
    def rolled(self) -> Any:
        _not_yet("passes")

    def call_of(self, node: int) -> Any:
        number = self.tables.nodes.call[node]
        return ModuleCall(self, number) if number else None


def _not_yet(what: str) -> NoReturn:
    raise OpenTraceError(
        f"{what} are not known until the block ends; while the model runs, use function, site, module, shape, parents, "
        "args or value."
    )
