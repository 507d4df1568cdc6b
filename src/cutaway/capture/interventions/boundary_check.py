"""Checks whether a replay can change a tensor on one side of a module boundary only."""

from __future__ import annotations

from cutaway.core.errors import CannotReplayError, EditError, SiteSyntaxError
from cutaway.core.sites import Site
from cutaway.graph.trace import Trace

_INSTEAD = "Run the model in `with cutaway.edit(…):` instead."


class BoundaryCheck:
    """Finds out who uses a tensor inside a module call, and who outside."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    def check(self, where: object) -> None:
        """Raises if a site means one side of a module boundary, but other ops use the same tensor.

        A trace has one value per tensor: a replay cannot change it for one user only.
        """
        if not isinstance(where, (str, Site)):
            return
        try:
            site = Site.parse(str(where))
        except SiteSyntaxError:
            return
        if site.op is not None or site.name is not None:
            return
        for number, row in enumerate(self.trace.tables.calls):
            if row.module < 0 or site.pass_ not in (None, row.pass_):
                continue
            addresses = self.trace.tables.modules[row.module].addresses
            if not any(site.covers_address(address) for address in addresses):
                continue
            side = row.inputs if site.side == "in" else row.outputs
            chosen = [(path, node) for path, node in side if site.covers_path(path)]
            if len(chosen) > 1 and not site.path and not site.is_pattern:
                names = ", ".join(repr(f"{addresses[0]}@{site.side or 'out'}.{path}") for path, _ in chosen[:6])
                raise EditError(f"{addresses[0]!r} has {len(chosen)} tensors there: choose one of {names}.")
            for path, node in chosen:
                if site.side == "in":
                    self._only_used_inside(number, addresses[0], path, node)
                else:
                    self._made_inside(number, addresses[0], node)

    def _only_used_inside(self, number: int, address: str, path: str, node: int) -> None:
        row = self.trace.tables.calls[number]
        if row.is_root:
            return
        users = self.trace.children_of(node)
        places = sum(other == node for _, other in row.inputs)
        is_returned = any(node == other for _, other in (*row.outputs, *self.trace.tables.outputs))
        if places > 1 or is_returned or not all(self._is_inside(user, number) for user in users):
            raise CannotReplayError(
                f"{self.trace.names.label(node)} is not only the input {path!r} of {address!r}: a change would also "
                f"affect its other users. {_INSTEAD}"
            )

    def _made_inside(self, number: int, address: str, node: int) -> None:
        if self.trace.tables.calls[number].is_root or self._is_inside(node, number):
            return
        raise CannotReplayError(
            f"{address!r} returns {self.trace.names.label(node)}, which was computed outside it: a change would also "
            f"affect its other users. {_INSTEAD}"
        )

    def _is_inside(self, node: int, number: int) -> bool:
        """Whether an op ran in a module call or below it."""
        calls = self.trace.tables.calls
        call = self.trace.tables.nodes.call[node]
        while call and call != number:
            call = calls[call].parent
        return call == number
