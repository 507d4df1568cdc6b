"""Writes values and gradients of a trace in blocks; reads each one on access."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from cutaway.core import late
from cutaway.core.arrays import MAX_DIMENSIONS, MAX_EXPANDED, Raw, short_repr
from cutaway.core.errors import DamagedError, InputError, StaleValueError
from cutaway.core.formatting import type_text
from cutaway.graph.op import Op
from cutaway.graph.tables import UNSAVED, Unsaved
from cutaway.graph.trace import Trace
from cutaway.store.traces.arguments import Encoder, decode_values
from cutaway.store.traces.columns import ColumnReader, ColumnWriter

_UNSAVED, _ARRAY, _PLAIN, _LOST = range(4)
_MAX_BYTES: Final = 64 << 20
_MAX_ARRAYS: Final = 4_096
_MAX_ITEMS: Final = 1_000_000
_OVERWRITTEN: Final = "it was kept by reference and had been overwritten before the trace was saved"
_NO_VALUES: Final = "it lies on the meta device, where nothing has a value"
Slot = tuple[int, int]
"""How a value is stored (state), and its index among values of that state."""


class Arrays(Protocol):
    """Named arrays, read on access."""

    @property
    def names(self) -> Iterable[str]: ...

    def raw(self, name: str, /) -> Raw:
        """One array with its stored dtype."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class StoredArray:
    """A value on disk; `load()` returns it as a read-only array."""

    arrays: Arrays
    name: str
    expanded: tuple[int, ...] = ()
    """The shape to which the stored array is expanded; empty if it is stored as it is."""

    def raw(self) -> Raw:
        """The bytes on disk, before they are expanded."""
        return self.arrays.raw(self.name)

    def load(self) -> NDArray[Any]:
        array = self.raw().array()
        if not self.expanded:
            return array
        # `broadcast_to` would also add dimensions in front, which a writer never does.
        if array.ndim != len(self.expanded):
            raise DamagedError(f"an array of shape {array.shape} cannot be expanded to {self.expanded}.")
        try:
            return np.broadcast_to(array, self.expanded)
        except ValueError as error:
            raise DamagedError(f"the value {self.name!r} of this trace cannot be expanded: {error}.") from error


@dataclass(slots=True)
class ValueWriter:
    """Passes the values of a trace to `put`, block by block, and records where each went.

    Args:
        put: writes named arrays as a block of the given name.
    """

    put: Callable[[str, Mapping[str, Raw]], object]
    lost: Counter[str] = field(default_factory=Counter)
    """Reason → number of values that could not be written."""
    _block: dict[str, Raw] = field(default_factory=dict)
    _n_bytes: int = 0
    _n_blocks: int = 0
    _slots: dict[tuple[int, int | None], Slot] = field(default_factory=dict)
    """Where each object (by id and version) was written: shared values are written once."""
    _arrays: list[tuple[int, str]] = field(default_factory=list)
    _expanded: list[tuple[int, ...]] = field(default_factory=list)
    """For each array, the shape to which it is expanded; empty if it is stored as it is."""
    _plain: list[str] = field(default_factory=list)
    _reasons: dict[str, int] = field(default_factory=dict)

    def write(self, trace: Trace, columns: ColumnWriter) -> None:
        """Write all values and gradients, and the columns that locate them."""
        nodes = trace.tables.nodes
        values = [self._value(trace, node) for node in range(len(nodes))]
        grads = [
            (node, backward, *self._gradient(trace, node, backward, grad))
            for node, gradients in nodes.grads.items()
            for backward, grad in gradients.items()
        ]
        self._flush()
        columns.numbers("values/state", [state for state, _ in values])
        columns.numbers("values/number", [number for _, number in values])
        for i, name in enumerate(("node", "backward", "state", "number")):
            columns.numbers(f"grads/{name}", [row[i] for row in grads])
        columns.numbers("arrays/block", [block for block, _ in self._arrays])
        columns.texts("arrays/name", [name for _, name in self._arrays])
        if self.has_expanded:
            columns.rows("arrays/expanded", self._expanded)
        columns.texts("plain", self._plain)
        columns.texts("lost", list(self._reasons))

    @property
    def has_expanded(self) -> bool:
        """Whether an array is stored smaller than its value: readers of version 1 would give the wrong shape."""
        return any(self._expanded)

    def _value(self, trace: Trace, node: int) -> Slot:
        value, version = trace.tables.nodes.value[node], trace.tables.nodes.version[node]
        if value is UNSAVED:
            return _UNSAVED, 0
        if isinstance(value, Unsaved):
            return self._store_lost(value.reason)
        # The version, because an in-place op makes another value of the same tensor object.
        key = id(value), version
        slot = self._slots.get(key)
        if slot is None:
            op = Op(trace, node)
            slot = self._slots[key] = self._store_value(op.label, value, lambda: op.value)
        return slot

    def _gradient(self, trace: Trace, node: int, backward: int, grad: Any) -> Slot:
        slot = self._slots.get((id(grad), None))
        if slot is None:
            name = f"{trace.names.label(node)}@grad{backward or ''}"
            slot = self._slots[id(grad), None] = self._store_value(name, grad, lambda: grad)
        return slot

    def _store_value(self, name: str, saved: Any, load: Callable[[], Any]) -> Slot:
        if isinstance(saved, Unsaved):
            return self._store_lost(saved.reason)
        try:
            value = saved if isinstance(saved, StoredArray) else load()
        except StaleValueError:
            self.lost[_OVERWRITTEN] += 1
            return self._store_lost(_OVERWRITTEN)
        if getattr(value, "is_meta", False):
            return self._store_lost(_NO_VALUES)
        try:
            raw, expanded = _raw(value)
        except InputError as error:
            reason = str(error).partition(":")[0]
            self.lost[reason] += 1
            return self._store_lost(reason)
        if raw is None:
            return self._store_plain(value)
        return self._store_array(name, raw, expanded)

    def _store_plain(self, value: Any) -> Slot:
        text = Encoder(lambda _: False, _MAX_ITEMS).value(value)
        if text is None:
            reason = f"{type_text(value)} that holds more than plain numbers and texts is not stored"
            self.lost[reason] += 1
            return self._store_lost(reason)
        self._plain.append(text)
        return _PLAIN, len(self._plain) - 1

    def _store_lost(self, reason: str) -> Slot:
        return _LOST, self._reasons.setdefault(reason, len(self._reasons))

    def _store_array(self, name: str, raw: Raw, expanded: tuple[int, ...]) -> Slot:
        if self._block and (self._n_bytes + raw.nbytes > _MAX_BYTES or len(self._block) >= _MAX_ARRAYS):
            self._flush()
        if name in self._block:
            name = f"{name}~{len(self._arrays)}"
        self._block[name] = raw
        self._n_bytes += raw.nbytes
        self._arrays.append((self._n_blocks, name))
        self._expanded.append(expanded)
        return _ARRAY, len(self._arrays) - 1

    def _flush(self) -> None:
        if self._block:
            self.put(block_name(self._n_blocks), self._block)
            self._n_blocks += 1
            self._block, self._n_bytes = {}, 0


def block_name(number: int) -> str:
    return f"values/{number}"


def _raw(value: Any) -> tuple[Raw | None, tuple[int, ...]]:
    """The bytes of a tensor or an array, and the shape to which they are expanded; None for anything else."""
    if isinstance(value, StoredArray):
        return value.raw(), value.expanded
    if isinstance(value, np.ndarray):
        return Raw.of(value), ()
    if not hasattr(value, "detach"):
        return None, ()
    if getattr(value, "is_quantized", False):
        value = value.dequantize()  # its integers are useless without scale and zero point
    raw: tuple[Raw, tuple[int, ...]] = late.call("raw.compact", value)
    return raw


@dataclass(slots=True)
class ValueReader:
    """Returns placeholders for the values and gradients of a stored trace."""

    columns: ColumnReader
    blocks: Mapping[str, Arrays]
    _by_state: list[list[Any]] = field(default_factory=list)
    """By state: the placeholders for values."""

    def __post_init__(self) -> None:
        names = self.columns.texts("arrays/name", None)
        numbers = self.columns.numbers("arrays/block", len(names))
        blocks = {number: self._block(number) for number in dict.fromkeys(numbers)}
        names_of = {number: set(block.names) for number, block in blocks.items()}
        for number, name in zip(numbers, names, strict=True):
            if name not in names_of[number]:
                raise DamagedError(f"the value {name!r} is missing from block {block_name(number)!r} of this trace.")
        rows = zip(numbers, names, self._expanded(len(names)), strict=True)
        stored = [StoredArray(blocks[number], name, expanded) for number, name, expanded in rows]
        plain = decode_values(self.columns.texts("plain", None))
        lost = [Unsaved(reason) for reason in self.columns.texts("lost", None)]
        self._by_state = [[UNSAVED], stored, plain, lost]

    def _expanded(self, n: int) -> list[tuple[int, ...]]:
        if "arrays/expanded" not in self.columns:
            return [()] * n
        shapes = [tuple(row) for row in self.columns.rows("arrays/expanded", n, high=MAX_EXPANDED + 1)]
        for shape in shapes:
            if len(shape) > MAX_DIMENSIONS or math.prod(shape) > MAX_EXPANDED:
                raise DamagedError(f"a value of this trace is expanded to {short_repr(list(shape))}: too large.")
        return shapes

    def _block(self, number: int) -> Arrays:
        try:
            return self.blocks[block_name(number)]
        except KeyError:
            raise DamagedError(f"block {block_name(number)!r} is missing from this trace.") from None

    def values(self, n: int) -> list[Any]:
        """The placeholder for the value of each node."""
        return self._placeholders("values", n)

    def grads(self, n_nodes: int, n_backwards: int) -> dict[int, dict[int, Any]]:
        """Node → backward pass → placeholder for the gradient."""
        nodes = self.columns.numbers("grads/node", None, high=n_nodes)
        backwards = self.columns.numbers("grads/backward", len(nodes), high=n_backwards)
        grads: dict[int, dict[int, Any]] = {}
        for node, backward, grad in zip(nodes, backwards, self._placeholders("grads", len(nodes)), strict=True):
            grads.setdefault(node, {})[backward] = grad
        return grads

    def _placeholders(self, name: str, n: int) -> list[Any]:
        states = self.columns.numbers(f"{name}/state", n, high=len(self._by_state))
        numbers = self.columns.numbers(f"{name}/number", n)
        try:
            return [self._by_state[state][number] for state, number in zip(states, numbers, strict=True)]
        except IndexError:
            raise DamagedError(f"the column '{name}/number' refers to missing values.") from None
