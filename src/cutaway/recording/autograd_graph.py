"""A dependency graph without a trace: by what autograd knows. For compiled models, which are not to be traced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from cutaway.graph.dependencies.graph import Dependencies, Link, Node, RecordedSite
from cutaway.recording.tensors import Sighting

_Edge = tuple[Any, int]


class AutogradGraph:
    """Notes where in autograd's graph each recorded tensor stands, while the step runs.

    What autograd does not know, such as inputs without a gradient, it links to the results of the model it was
    handed to.
    """

    def __init__(self) -> None:
        self._made: dict[_Edge, Sighting] = {}
        self._leaves: dict[int, Sighting] = {}
        self._ends: dict[Sighting, Any] = {}
        self._inputs: list[Sighting] = []
        self._outputs: list[Sighting] = []

    def note(self, sighting: Sighting, tensor: Tensor, *, is_result: bool) -> None:
        """A tensor was seen, for the first time or again."""
        if tensor.grad_fn is not None:
            self._made.setdefault((tensor.grad_fn, tensor.output_nr), sighting)
            self._ends.setdefault(sighting, tensor.grad_fn)
        elif tensor.requires_grad:
            self._leaves[id(tensor)] = sighting
        elif sighting.place.role == "input":
            self._inputs.append(sighting)
        if is_result:
            self._outputs.append(sighting)

    def dependencies(self, seen: Sequence[tuple[Sighting, RecordedSite]], held: dict[int, str]) -> Dependencies:
        """The graph; `held` names parameters by their id."""
        nodes: dict[str, Node] = {}
        for _, one in seen:
            name = one.node or one.site
            there = nodes.get(name)
            sites = tuple(dict.fromkeys((*(there.sites if there else ()), one.site, *one.names)))
            nodes[name] = Node(name, sites, one.role, group=_group(one), order=there.order if there else len(nodes))
        names = {sighting: one.node or one.site for sighting, one in seen}
        leaves = {**held, **{id_: names[sighting] for id_, sighting in self._leaves.items() if sighting in names}}
        found: dict[tuple[str, str], bool] = {}
        for sighting, end in self._ends.items():
            if sighting in names:
                for parent in self._above(sighting, end, names, leaves):
                    found[parent, names[sighting]] = True
        for given in self._inputs:
            for result in self._outputs:
                if given in names and result in names:
                    found.setdefault((names[given], names[result]), False)
        links = [
            Link(*pair, carries) for pair, carries in found.items() if set(pair) <= set(nodes) and len(set(pair)) > 1
        ]
        links.sort(key=lambda link: (nodes[link.child].order, nodes[link.parent].order))
        return Dependencies(tuple(nodes.values()), tuple(links))

    def _above(self, child: Sighting, end: Any, names: dict[Sighting, str], leaves: dict[int, str]) -> set[str]:
        """The recorded tensors next above one, over everything that is not recorded."""
        found: set[str] = set()
        stack, met = list(end.next_functions), {end}
        while stack:
            function, number = stack.pop()
            if function is None:
                continue
            known = self._made.get((function, number))
            variable = getattr(function, "variable", None)
            if known is not None and known is not child and known in names:
                found.add(names[known])
            elif variable is not None:
                if id(variable) in leaves:
                    found.add(leaves[id(variable)])
            elif function not in met:
                met.add(function)
                stack.extend(function.next_functions)
        return found


def _group(one: RecordedSite) -> str:
    return one.site.split("@")[0].rpartition(".")[0] if one.role in ("parameter", "buffer") else one.site.split("@")[0]
