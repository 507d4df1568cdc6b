"""Records inputs, outputs and passes of module calls."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor, nn

from cutaway.capture.module_hooks import ENTER, Call
from cutaway.capture.saved.save_policy import Saver
from cutaway.graph.tables import ALIAS, CONSTANT, INPLACE, INPUT, CallRow, Nodes


class Graph(Protocol):
    """Maps tensors to nodes, and saves values."""

    nodes: Nodes

    def node_of(self, tensor: Tensor, call: int = 0) -> int: ...

    def save(self, node: int, tensor: Tensor) -> None: ...


class ModuleIO:
    """Records, for each module call, the nodes of its input and output tensors."""

    def __init__(self, resolver: Graph, calls: dict[int, Call], saver: Saver) -> None:
        self.rows: dict[int, CallRow] = {0: CallRow(-1, 0, 1, False, 0.0, None, 0)}
        self.inputs: list[tuple[str, int]] = []
        self.outputs: list[tuple[str, int]] = []
        self.root: nn.Module | None = None
        self._resolver = resolver
        self._calls = calls
        self._saver = saver
        self._passes: dict[int, int] = {}

    def handle(self, event: tuple[Any, ...]) -> None:
        """Handles the enter or exit event of a module call."""
        number = event[1]
        call = self._calls[number]
        if event[0] == ENTER:
            key = id(call.module)
            pass_ = self._passes[key] = self._passes.get(key, 0) + 1
            row = CallRow(-1, call.parent, pass_, call.training, 0.0, call.code, call.instruction)
            # A model that calls itself has one root call, the outermost: only its arguments are inputs.
            row.is_root = call.module is self.root and not self._inside_root(call.parent)
            row.first_node = len(self._resolver.nodes)
            self.rows[number] = row
            row.module = self._saver.enter(number, call.module, pass_)
            self._tensors_into(event[2], row, number)
            self._tensors_into(event[3], row, number)
        else:
            row = self.rows[number]
            row.seconds = (call.ended - call.started) * 1e-9
            if event[2] is not None:
                # Pre-hooks replaced the positional arguments; those by name were read when the call began.
                by_name = [(path, node) for path, node in row.inputs if not path.partition(".")[0].isdigit()]
                row.inputs.clear()
                self._tensors_into(event[2], row, number)
                row.inputs.extend(by_name)
            self._tensors_into(event[3], row, number)
            self._tensors_out_of(event[4], row, number)
            row.is_finished = event[5]

    def _inside_root(self, number: int) -> bool:
        while number:
            row = self.rows[number]
            if row.is_root:
                return True
            number = row.parent
        return False

    def _tensors_into(self, tensors: list[tuple[str, Tensor]], row: CallRow, number: int) -> None:
        """Records the nodes of the tensors passed to a module."""
        nodes = self._resolver.nodes
        for path, tensor in tensors:
            node = self._resolver.node_of(tensor, number)
            while node >= row.first_node and nodes.flags[node] & (INPLACE | ALIAS):
                node = nodes.parents[node][0]  # overwritten after it was passed in
            row.inputs.append((path, node))
            if row.is_root:
                self.inputs.append((path, node))
                if nodes.kind[node] == CONSTANT:
                    nodes.kind[node] = nodes.name[node] = INPUT
                    nodes.path[node] = path
            if self._saver.wants_module(number, "in", path):
                self._saver.certain.add(node)
                self._resolver.save(node, tensor)

    def _tensors_out_of(self, tensors: list[tuple[str, Tensor]], row: CallRow, number: int) -> None:
        """Records the nodes of the tensors that a module returned."""
        for path, tensor in tensors:
            node = self._resolver.node_of(tensor, number)
            row.outputs.append((path, node))
            if row.is_root:
                self.outputs.append((path, node))
            if self._saver.wants_module(number, "out", path):
                self._saver.certain.add(node)
                self._resolver.save(node, tensor)
