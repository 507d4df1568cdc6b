"""Which users of a tensor see a change at an input or output of a module.

A trace has one value per tensor. A change at `b@in.0` concerns only the ops inside `b`, a change at `a@out.0` only what
runs after `a`: the change belongs to the edges from the tensor to these users. If all users see it, the tensor itself
changes.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from cutaway.capture.replay.separate import TwoNames, is_copy
from cutaway.core.errors import CannotReplayError, EditError, InputError, SiteSyntaxError
from cutaway.core.sites import Site
from cutaway.graph.tables import ALIAS, INPLACE, OPAQUE, CallRow
from cutaway.graph.trace import Trace

_INSTEAD = "Run the model in `with cutaway.edit(…):` instead."


@dataclass(frozen=True, slots=True)
class Boundary:
    """A tensor that enters or leaves a module call."""

    node: int
    call: int
    is_input: bool
    paths: frozenset[str]
    """The paths that the site covers; they matter at the root, whose outputs are returned by path."""
    is_partial: bool
    """Whether some users of the tensor do not see a change here."""

    @property
    def order(self) -> tuple[bool, int]:
        """Sorts the boundaries that a tensor crosses: out of the innermost call first, then into the outermost."""
        return self.is_input, self.call if self.is_input else -self.call


def _parse(where: object) -> Site | None:
    """The site of a module, its input or its output; None if it is anything else."""
    if not isinstance(where, (str, Site)):
        return None
    try:
        site = Site.parse(str(where))
    except SiteSyntaxError:
        return None
    return site if site.op is None and site.name is None else None


class Boundaries:
    """Finds the module boundaries that a site names."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    def at(self, where: object) -> list[Boundary]:
        """The boundaries of a site; none if it names ops or parameters.

        Raises if the trace does not tell who would see a change.
        """
        site = _parse(where)
        found: list[Boundary] = []
        if site is None:
            return found
        for number, _, address in self._calls_at(site):
            found += self._of_call(site, number, address)
        return found

    def _calls_at(self, site: Site) -> Iterator[tuple[int, CallRow, str]]:
        """The module calls that a site names: number, row and address. Raises if some cannot be seen."""
        for number, row in enumerate(self.trace.tables.calls):
            if row.module < 0 or site.pass_ not in (None, row.pass_):
                continue
            addresses = self.trace.tables.modules[row.module].addresses
            if any(site.covers_address(address) for address in addresses):
                self._check_hidden_calls(number, row, addresses[0])
                yield number, row, addresses[0]

    def into(self, where: object) -> set[tuple[int, int]] | None:
        """The edges from outside a module to the ops in it, as (user, parent); None if `where` names no module.

        With `@in`, those of that input. Raises if the trace does not tell who reads an input.
        """
        site = _parse(where)
        if site is None or self.module_site(where) is None:
            return None
        if site.side == "out":
            raise InputError(f"{str(site)!r} is an output: into= names modules, their inputs (@in) or ops.")
        nodes, edges = self.trace.tables.nodes, set()
        for number, row, address in self._calls_at(site):
            given: dict[int, set[str]] = {}
            for path, node in row.inputs:
                if site.covers_path(path):
                    given.setdefault(node, set()).add(path)
            for node, paths in given.items():
                self._check(number, address, node, paths, is_input=True)
            for user in self.trace.op_nodes:
                if self.is_inside(user, number):
                    read = {parent for parent in nodes.parents[user] if not self.is_inside(parent, number)}
                    edges |= {(user, parent) for parent in (read & given.keys() if site.path else read)}
        return edges

    def with_parents(self, calls: Iterable[int]) -> set[int]:
        """These module calls and all around them."""
        found: set[int] = set()
        for call in calls:
            while call and call not in found:
                found.add(call)
                call = self.trace.tables.calls[call].parent
        return found

    def computed_inside(self, where: object, *, without: Container[int]) -> set[int]:
        """The outputs of the modules at a site that were computed in them: not inputs that they return.

        Args:
            without: module calls that do not count.
        """
        site = _parse(where)
        calls = self._calls_at(site) if site is not None else ()
        return {
            node
            for number, row, _ in calls
            if number not in without
            for path, node in row.outputs
            if site.covers_path(path) and self.is_inside(node, number)  # type: ignore[union-attr]
        }

    def module_site(self, where: object) -> str | None:
        """The site of a module of this trace, its input or its output, without a unit; None for anything else."""
        site = _parse(where)
        modules = self.trace.tables.modules
        if site is None or not any(site.covers_address(name) for row in modules for name in row.addresses):
            return None
        return str(site.without_unit())

    def site_of(self, boundary: Boundary) -> Site:
        """The full site of a boundary."""
        row = self.trace.tables.calls[boundary.call]
        address, path = self.trace.tables.modules[row.module].addresses[0], min(boundary.paths)
        return Site(address, None, None, "in" if boundary.is_input else "out", path, row.pass_)

    def _check_hidden_calls(self, number: int, row: CallRow, address: str) -> None:
        """Raises if an opaque op such as `vmap` read the parameters of a module: it may have called it."""
        tables = self.trace.tables
        parameters = {tables.parameters[each].node for each in tables.modules[row.module].parameters}
        for node, read in self._opaque:
            if not parameters.isdisjoint(read) and not self.is_inside(node, number):
                raise CannotReplayError(
                    f"{self.trace.names.label(node)} reads the parameters of {address!r} and may have called it, which "
                    f"the trace does not tell. {_INSTEAD}"
                )

    @cached_property
    def _opaque(self) -> list[tuple[int, tuple[int, ...]]]:
        """The opaque ops and their parents."""
        nodes = self.trace.tables.nodes
        return [(node, nodes.parents[node]) for node, flags in enumerate(nodes.flags) if flags & OPAQUE]

    def _of_call(self, site: Site, number: int, address: str) -> list[Boundary]:
        row = self.trace.tables.calls[number]
        is_input = site.side == "in"
        side = row.inputs if is_input else row.outputs
        chosen = [(path, node) for path, node in side if site.covers_path(path)]
        if len(chosen) > 1 and not site.path and not site.is_pattern:
            names = ", ".join(repr(f"{address}@{site.side or 'out'}.{path}") for path, _ in chosen[:6])
            raise EditError(f"{address!r} has {len(chosen)} tensors there: choose one of {names}.")
        by_node: dict[int, set[str]] = {}
        for path, node in chosen:
            by_node.setdefault(node, set()).add(path)
        found = []
        for node, paths in by_node.items():
            if is_copy(self.trace, node):
                found.append(Boundary(node, number, is_input, frozenset(paths), is_partial=False))
                continue
            self._check(number, address, node, paths, is_input=is_input)
            partial = self._is_partial(number, row, node, paths, is_input=is_input)
            found.append(Boundary(node, number, is_input, frozenset(paths), partial))
        return found

    def _check(self, number: int, address: str, node: int, paths: set[str], *, is_input: bool) -> None:
        """Raises if two names of one tensor cannot be told apart: a trace records tensors, not variables."""
        row, label = self.trace.tables.calls[number], self.trace.names.label(node)
        side = row.inputs if is_input else row.outputs
        others = [path for path, other in side if other == node and path not in paths]
        word = "input" if is_input else "output"
        reason = ""
        if others and (is_input or not row.is_root):
            path = next(iter(paths))
            reason = f"{label} is also the {word} {others[0]!r} of {address!r}, not only {path!r}"
        elif row.is_root:
            return
        elif is_input and any(other == node for _, other in row.outputs):
            reason = f"{address!r} returns {label}, its input"
        elif not is_input and not self.is_inside(node, number):
            reason = f"{address!r} returns {label}, which was computed outside it"
        elif not is_input and not self.is_inside(self._first_version(node), number):
            reason = f"{address!r} writes to its input and returns it as {label}"
        elif is_input and self._is_written_for_others(number, node):
            raise TwoNames(
                f"{address!r} writes to {label}, its input, which others read later: after the change, it writes to "
                "the new tensor, and they read the old one"
            )
        if reason:
            raise TwoNames(f"{reason}: the trace does not tell which of its users read which")

    def _first_version(self, node: int) -> int:
        """The node of a tensor before all writes to it."""
        nodes = self.trace.tables.nodes
        while nodes.flags[node] & (INPLACE | ALIAS):
            node = nodes.parents[node][0]
        return node

    def _is_written_for_others(self, number: int, node: int) -> bool:
        """Whether a module call writes to an input that is read outside."""
        nodes, outputs = self.trace.tables.nodes, {node for _, node in self.trace.tables.outputs}
        versions = [node]
        while versions:
            version = versions.pop()
            for child in self.trace.children_of(version):
                parents, flags = nodes.parents[child], nodes.flags[child]
                if not flags & (INPLACE | ALIAS) or parents[0] != version:
                    continue
                writers = [child] if flags & INPLACE else parents[1:]
                if not any(self.is_inside(writer, number) for writer in writers):
                    continue
                users = self.trace.children_of(child)
                # Also if the module returns it: after `y = self.relu(h)`, in place, `h` is a name of the same tensor.
                if child in outputs or not all(self.is_inside(u, number) for u in users):
                    return True
                versions.append(child)
        return False

    def _is_partial(self, number: int, row: CallRow, node: int, paths: set[str], *, is_input: bool) -> bool:
        if row.is_root and is_input:
            return False
        users, outputs = self.trace.children_of(node), self.trace.tables.outputs
        if row.is_root:
            return bool(users) or any(other == node and path not in paths for path, other in outputs)
        if is_input and any(other == node for _, other in outputs):
            return True
        return not all(self.is_inside(user, number) == is_input for user in users)

    def reaches(self, boundary: Boundary, user: int) -> bool:
        """Whether an op that reads the tensor sees a change at a boundary."""
        if self.trace.tables.calls[boundary.call].is_root:
            return boundary.is_input
        return self.is_inside(user, boundary.call) == boundary.is_input

    def reaches_output(self, boundary: Boundary, path: str) -> bool:
        """Whether the model returns the changed tensor at a path."""
        if self.trace.tables.calls[boundary.call].is_root:
            return boundary.is_input or path in boundary.paths
        return not boundary.is_input

    def is_inside(self, node: int, number: int) -> bool:
        """Whether an op ran in a module call or below it."""
        calls = self.trace.tables.calls
        call = self.trace.tables.nodes.call[node]
        while call and call != number:
            call = calls[call].parent
        return call == number
