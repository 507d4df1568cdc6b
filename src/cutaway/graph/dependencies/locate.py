"""Finds the rows of a trace for the sites of recorded tensors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from cutaway.core.errors import SiteSyntaxError
from cutaway.core.sites import ROOT, Site, spellings
from cutaway.graph.dependencies.contract import parameter_rows
from cutaway.graph.lookup import index_of
from cutaway.graph.tables import BUFFER, INPUT, PARAMETER, maker

if TYPE_CHECKING:
    from cutaway.graph.trace import Trace

NOWHERE: Final = 1 << 63
"""A row number after all rows, for sites that the trace does not have."""


class Places:
    """Looks up recorded sites in a trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._nodes = trace.tables.nodes
        self._index = index_of(trace)
        self._named = {site: row for name, row in trace.tables.named.items() for site in spellings(f"${name}")}
        self._inputs = {row for _, row in trace.tables.inputs}
        self.parameters = parameter_rows(trace.tables)

    def rows_of(self, names: Iterable[str]) -> tuple[int, ...]:
        """The rows of the first name that the trace has."""
        for text in names:
            rows = [self.parameters.get(row, row) for row in map(self._maker, self._rows_at(text))]
            if rows:
                return tuple(dict.fromkeys(rows))
        return ()

    def _maker(self, row: int) -> int:
        return maker(self._nodes, row)

    def _rows_at(self, text: str) -> list[int]:
        site = _parse(text)
        if site is None or site.is_pattern:
            return []
        if site.name is not None:
            # The first pass has no number in the trace; in a run it has one if there are more.
            row = self._named.get(text, self._named.get(f"${site.name}") if site.pass_ == 1 else None)
            return [] if row is None else [row]
        pass_ = site.pass_ or 1
        if site.op is None:
            calls = self._index.calls.get(site.address, ())
            if pass_ <= len(calls):
                call = self._trace.tables.calls[calls[pass_ - 1]]
                sides = call.inputs if site.side == "in" else call.outputs
                return [row for path, row in sides if site.path in ("", path)]
        # Ops have ordinals and passes, from 1; constants and parameters have none.
        first = replace(site, ordinal=site.ordinal or 1, pass_=pass_, unit=None)
        found = (self._index.at(first) if site.op is not None else []) or self._index.at(site.without_unit())
        return [row for row, _ in found]

    def role_at(self, row: int) -> str:
        """The default role of a tensor."""
        kind = self._nodes.kind[row] if row < NOWHERE else ""
        return INPUT if row in self._inputs else kind if kind in (PARAMETER, BUFFER) else "value"

    def group_of(self, text: str, row: int) -> str:
        """The module of a site: the owner of a parameter, or the module in which a named tensor was made."""
        site = _parse(text)
        if site is None or site.name is not None:
            return self._index.call_addresses[self._nodes.call[row]] if row < NOWHERE else ""
        if site.op is None and site.side is None and site.address in self._index.sources:
            return site.address.rpartition(".")[0] or ROOT
        return site.address


def _parse(text: str) -> Site | None:
    try:
        return Site.parse(text)
    except SiteSyntaxError:
        return None
