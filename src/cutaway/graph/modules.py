"""Modules and their calls in a trace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, TypeVar

from cutaway.core.arrays import short_repr
from cutaway.core.errors import InputTypeError, SiteError
from cutaway.core.formatting import nearest_hint
from cutaway.graph.control_flow.source import Source, source_of
from cutaway.graph.op import Op
from cutaway.graph.tables import BUFFER, CallRow, ModuleRow, ParameterRow

if TYPE_CHECKING:
    from cutaway.graph.trace import Trace


T = TypeVar("T")


class ByAddress(dict[str, T]):
    """A dict from addresses whose `KeyError` is a `SiteError` with near matches.

    Args:
        items: the entries.
        noun: what they are: "module".
        listed_by: the attribute that returns this dict.
        missing: address → why it has no entry, for those that a reader may expect.
    """

    def __init__(self, items: dict[str, T], noun: str, listed_by: str, missing: dict[str, str] | None = None) -> None:
        super().__init__(items)
        self._noun, self._listed_by, self._missing = noun, listed_by, missing or {}

    def __missing__(self, address: object) -> NoReturn:
        if not isinstance(address, str):
            raise InputTypeError(f"{self._listed_by} is indexed by address, got {short_repr(address)}.")
        if address in self._missing:
            raise SiteError(f"{self._noun} {address!r} {self._missing[address]}.")
        near = nearest_hint(address, self)
        raise SiteError(f"no {self._noun} has the address {address!r}.{near} {self._listed_by} has all {len(self)}.")


def sources(trace: Trace, kind: str) -> ByAddress[Op]:
    """The parameters or the buffers that were read, under each of their addresses."""
    ops: dict[str, Op] = {}
    unread: dict[str, str] = {}
    for row in trace.tables.parameters:
        if row.node >= 0 and trace.tables.nodes.kind[row.node] == kind:
            ops.update(dict.fromkeys(row.addresses, Op(trace, row.node)))
        elif row.node < 0 and row.is_buffer == (kind == BUFFER):
            unread.update(dict.fromkeys(row.addresses, "exists, but no op of this trace read it"))
    return ByAddress(ops, kind, f"trace.{kind}s", unread)


@dataclass(frozen=True, slots=True)
class ParameterCount:
    """Number and size of parameters."""

    trainable: int
    frozen: int
    bytes: int

    @property
    def total(self) -> int:
        return self.trainable + self.frozen


def count_parameters(rows: Iterable[ParameterRow]) -> ParameterCount:
    """Counts the parameters among these rows; buffers are left out."""
    parameters = [row for row in rows if not row.is_buffer]
    return ParameterCount(
        trainable=sum(row.numel for row in parameters if row.requires_grad),
        frozen=sum(row.numel for row in parameters if not row.requires_grad),
        bytes=sum(row.bytes for row in parameters),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """One module of the model, called or not."""

    trace: Trace
    row: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Module) and self.trace is other.trace and self.row == other.row

    def __hash__(self) -> int:
        return hash((id(self.trace), self.row))

    @property
    def _row(self) -> ModuleRow:
        return self.trace.tables.modules[self.row]

    @property
    def address(self) -> str:
        """Its path in the model: `encoder.2.attn`; the root is `.`."""
        return self._row.addresses[0]

    @property
    def addresses(self) -> tuple[str, ...]:
        """All its addresses; the first is its name."""
        return self._row.addresses

    @property
    def class_name(self) -> str:
        return self._row.class_name

    @property
    def calls(self) -> tuple[ModuleCall, ...]:
        """Every call of its forward, in order."""
        return tuple(ModuleCall(self.trace, call) for call in self._row.calls)

    @property
    def children(self) -> tuple[Module, ...]:
        return tuple(Module(self.trace, row) for row in self._row.children)

    @property
    def own(self) -> ParameterCount:
        """Its direct parameters."""
        return count_parameters(self.trace.tables.parameters[row] for row in self._row.parameters)

    @property
    def total(self) -> ParameterCount:
        """Parameters of the module and all modules inside it, each counted once."""
        parameters: dict[int, None] = {}
        # A module that is shared inside this one is found once for each of its addresses.
        stack, seen = [self.row], set()
        while stack:
            row = stack.pop()
            if row in seen:
                continue
            seen.add(row)
            parameters.update(dict.fromkeys(self.trace.tables.modules[row].parameters))
            stack.extend(self.trace.tables.modules[row].children)
        return count_parameters(self.trace.tables.parameters[row] for row in parameters)

    def __repr__(self) -> str:
        return f"<Module {self.address} ({self.class_name}), called {len(self._row.calls)}×>"


@dataclass(frozen=True, slots=True, eq=False)
class ModuleCall:
    """One call of a module's forward."""

    trace: Trace
    number: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModuleCall) and self.trace is other.trace and self.number == other.number

    def __hash__(self) -> int:
        return hash((id(self.trace), self.number))

    @property
    def _row(self) -> CallRow:
        return self.trace.tables.calls[self.number]

    @property
    def module(self) -> Module:
        """The module that was called."""
        return Module(self.trace, self._row.module)

    @property
    def address(self) -> str:
        return self.module.address

    @property
    def class_name(self) -> str:
        return self.module.class_name

    @property
    def pass_(self) -> int:
        """The pass of the module, from 1."""
        return self._row.pass_

    @property
    def training(self) -> bool:
        """Whether the module was in training mode."""
        return self._row.training

    @property
    def own(self) -> ParameterCount:
        return self.module.own

    @property
    def total(self) -> ParameterCount:
        return self.module.total

    @property
    def parent(self) -> ModuleCall | None:
        """The module call that made this call; None for the outermost."""
        parent = self._row.parent
        return ModuleCall(self.trace, parent) if parent else None

    @property
    def children(self) -> tuple[ModuleCall, ...]:
        """The calls made from it, in order."""
        rows = self.trace.tables.calls
        return tuple(ModuleCall(self.trace, i) for i, row in enumerate(rows) if i and row.parent == self.number)

    @property
    def inputs(self) -> dict[str, Op]:
        """The input tensors, by their path in the arguments."""
        return {path: Op(self.trace, node) for path, node in self._row.inputs}

    @property
    def outputs(self) -> dict[str, Op]:
        """The output tensors, by their path; "" for a single one."""
        return {path: Op(self.trace, node) for path, node in self._row.outputs}

    @property
    def ops(self) -> tuple[Op, ...]:
        """The ops that ran directly in it."""
        return tuple(Op(self.trace, node) for node in self.trace.ops_by_call.get(self.number, ()))

    @property
    def seconds(self) -> float:
        """Time from entering to leaving, including inner calls."""
        return self._row.seconds

    @property
    def is_finished(self) -> bool:
        """Whether it returned; False if it raised."""
        return self._row.is_finished

    @property
    def source(self) -> Source | None:
        """The line that called it."""
        return source_of(self._row.code, self._row.instruction)

    def __repr__(self) -> str:
        return f"<ModuleCall {self.address}:{self.pass_} ({self.class_name})>"
