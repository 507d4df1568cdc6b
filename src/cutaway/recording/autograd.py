"""A dependency graph without a trace: by what autograd knows. For compiled models, which are not to be traced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from cutaway.graph.dependencies import Dependencies, Link, Node, Recorded

_Edge = tuple[Any, int]


class AutogradGraph:
    """Notes where in autograd's graph each recorded tensor stands, while the step runs.

    What autograd does not know, such as inputs without a gradient, it links to the results of the model it was
    handed to.
    """

    def __init__(self) -> None:
        self._made: dict[_Edge, str] = {}
        self._leaves: dict[int, str] = {}
        self._ends: list[tuple[str, Any]] = []
        self._inputs: list[str] = []
        self._outputs: list[str] = []

    def note(self, name: str, tensor: Tensor, role: str, *, is_result: bool) -> None:
        """A tensor was seen."""
        if tensor.grad_fn is not None:
            self._made.setdefault((tensor.grad_fn, tensor.output_nr), name)
            self._ends.append((name, tensor.grad_fn))
        elif tensor.requires_grad:
            self._leaves[id(tensor)] = name
        elif role == "input":
            self._inputs.append(name)
        if is_result:
            self._outputs.append(name)

    def dependencies(self, recorded: Sequence[Recorded], held: dict[int, str]) -> Dependencies:
        """The graph; `held` names parameters by their id."""
        names = {**held, **self._leaves}
        nodes = tuple(
            Node(one.site, (one.site, *one.names), one.role, group=_group(one), order=order)
            for order, one in enumerate(recorded)
        )
        known = {node.name for node in nodes}
        found: dict[tuple[str, str], bool] = {}
        for child, end in self._ends:
            for parent in self._above(child, end, names):
                found[parent, child] = True
        for parent in self._inputs:
            for child in self._outputs:
                found.setdefault((parent, child), False)
        links = [Link(*pair, carries) for pair, carries in found.items() if set(pair) <= known and pair[0] != pair[1]]
        order = {node.name: node.order for node in nodes}
        return Dependencies(nodes, tuple(sorted(links, key=lambda link: (order[link.child], order[link.parent]))))

    def _above(self, name: str, end: Any, names: dict[int, str]) -> set[str]:
        """The recorded tensors next above one, over everything that is not recorded."""
        found: set[str] = set()
        stack, met = list(end.next_functions), {end}
        while stack:
            function, number = stack.pop()
            if function is None:
                continue
            known = self._made.get((function, number))
            variable = getattr(function, "variable", None)
            if known is not None and known != name:
                found.add(known)
            elif variable is not None:
                if id(variable) in names:
                    found.add(names[id(variable)])
            elif function not in met:
                met.add(function)
                stack.extend(function.next_functions)
        return found


def _group(one: Recorded) -> str:
    return one.site.split("@")[0].rpartition(".")[0] if one.role in ("parameter", "buffer") else one.site.split("@")[0]
