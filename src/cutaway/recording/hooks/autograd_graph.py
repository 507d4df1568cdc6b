"""Dependency graph from autograd's graph, for compiled models that cannot be traced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from cutaway.graph.dependencies.graph import Dependencies, Link, Node, RecordedSite
from cutaway.recording.tensors import RecordedTensor

_Edge = tuple[Any, int]


class AutogradGraph:
    """Collects the position of each recorded tensor in autograd's graph while the step runs.

    Inputs that autograd does not know, because they require no gradient, are linked to all outputs of the model.
    """

    def __init__(self) -> None:
        self._by_edge: dict[_Edge, RecordedTensor] = {}
        self._leaves: dict[int, RecordedTensor] = {}
        self._grad_fns: dict[RecordedTensor, Any] = {}
        self._inputs: list[RecordedTensor] = []
        self._outputs: list[RecordedTensor] = []

    def note(self, record: RecordedTensor, tensor: Tensor, *, is_result: bool) -> None:
        """Note a recorded tensor, new or repeated."""
        if tensor.grad_fn is not None:
            self._by_edge.setdefault((tensor.grad_fn, tensor.output_nr), record)
            self._grad_fns.setdefault(record, tensor.grad_fn)
        elif tensor.requires_grad:
            self._leaves[id(tensor)] = record
        elif record.key.role == "input":
            self._inputs.append(record)
        if is_result:
            self._outputs.append(record)

    def dependencies(
        self, pairs: Sequence[tuple[RecordedTensor, RecordedSite]], parameters: dict[int, str]
    ) -> Dependencies:
        """The dependency graph; `parameters` maps parameter ids to names."""
        nodes: dict[str, Node] = {}
        for _, recorded in pairs:
            name = recorded.node or recorded.site
            known_node = nodes.get(name)
            sites = tuple(dict.fromkeys((*(known_node.sites if known_node else ()), recorded.site, *recorded.names)))
            nodes[name] = Node(
                name, sites, recorded.role, group=_group(recorded), order=known_node.order if known_node else len(nodes)
            )
        names = {record: recorded.node or recorded.site for record, recorded in pairs}
        leaves = {**parameters, **{id_: names[record] for id_, record in self._leaves.items() if record in names}}
        carries_gradient: dict[tuple[str, str], bool] = {}
        for record, grad_fn in self._grad_fns.items():
            if record in names:
                for parent in self._recorded_parents(record, grad_fn, names, leaves):
                    carries_gradient[parent, names[record]] = True
        for given in self._inputs:
            for result in self._outputs:
                if given in names and result in names:
                    carries_gradient.setdefault((names[given], names[result]), False)
        links = [
            Link(*pair, carries)
            for pair, carries in carries_gradient.items()
            if set(pair) <= set(nodes) and len(set(pair)) > 1
        ]
        links.sort(key=lambda link: (nodes[link.child].order, nodes[link.parent].order))
        return Dependencies(tuple(nodes.values()), tuple(links))

    def _recorded_parents(
        self, child: RecordedTensor, grad_fn: Any, names: dict[RecordedTensor, str], leaves: dict[int, str]
    ) -> set[str]:
        """The nearest recorded ancestors of a tensor, skipping everything that is not recorded."""
        parents: set[str] = set()
        stack, visited = list(grad_fn.next_functions), {grad_fn}
        while stack:
            function, number = stack.pop()
            if function is None:
                continue
            known = self._by_edge.get((function, number))
            # AccumulateGrad nodes hold the leaf that they feed.
            variable = getattr(function, "variable", None)
            if known is not None and known is not child and known in names:
                parents.add(names[known])
            elif variable is not None:
                if id(variable) in leaves:
                    parents.add(leaves[id(variable)])
            elif function not in visited:
                visited.add(function)
                stack.extend(function.next_functions)
        return parents


def _group(recorded: RecordedSite) -> str:
    return (
        recorded.site.split("@")[0].rpartition(".")[0]
        if recorded.role in ("parameter", "buffer")
        else recorded.site.split("@")[0]
    )
