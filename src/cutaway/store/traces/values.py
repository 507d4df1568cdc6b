"""The values and gradients of a trace: written a part at a time, read back one by one when somebody asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from cutaway.core import late
from cutaway.core.arrays import Raw
from cutaway.core.errors import DamagedError, InputError, StaleValueError
from cutaway.graph.op import Op
from cutaway.graph.tables import UNSAVED, Unsaved
from cutaway.graph.trace import Trace
from cutaway.store.traces.arguments import Encoder, decoded_values
from cutaway.store.traces.columns import Checked, Columns

_UNSAVED, _ARRAY, _PLAIN, _LOST = range(4)
_MOST_BYTES: Final = 64 << 20
_MOST_ARRAYS: Final = 4_096
_MOST_ITEMS: Final = 1_000_000
_OVERWRITTEN: Final = "it was kept by reference and had been overwritten before the trace was saved"
_NO_VALUES: Final = "it lies on the meta device, where nothing has a value"
Place = tuple[int, int]
"""What kind of thing stands for a value, and its number among those."""


class Arrays(Protocol):
    """Named arrays that lie somewhere else."""

    @property
    def names(self) -> Iterable[str]: ...

    def raw(self, name: str, /) -> Raw:
        """One array as it was written."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class StoredArray:
    """A value on disk; `load()` gives it as a read-only array."""

    arrays: Arrays
    name: str

    def raw(self) -> Raw:
        """Its bytes."""
        return self.arrays.raw(self.name)

    def load(self) -> NDArray[Any]:
        return self.raw().array()


@dataclass(slots=True)
class ValueWriter:
    """Hands the values of a trace to `put`, block by block, and takes down where each went.

    Args:
        put: writes named arrays as a block of that name.
    """

    put: Callable[[str, Mapping[str, Raw]], object]
    lost: Counter[str] = field(default_factory=Counter)
    """Reason → how many values could not be written for it."""
    _block: dict[str, Raw] = field(default_factory=dict)
    _n_bytes: int = 0
    _n_blocks: int = 0
    _places: dict[tuple[int, int | None], Place] = field(default_factory=dict)
    """Of what was met already: an object, and the version in which it counts."""
    _held: list[Any] = field(default_factory=list)
    _arrays: list[tuple[int, str]] = field(default_factory=list)
    _plain: list[str] = field(default_factory=list)
    _reasons: dict[str, int] = field(default_factory=dict)

    def write(self, trace: Trace, columns: Columns) -> None:
        """Write all values and gradients, and the columns that tell where they are."""
        nodes = trace.tables.nodes
        values = [self._value(trace, node) for node in range(len(nodes))]
        grads = [
            (node, backward, *self._gradient(trace, node, backward, grad))
            for node, own in nodes.grads.items()
            for backward, grad in own.items()
        ]
        self._flush()
        columns.numbers("values/state", [state for state, _ in values])
        columns.numbers("values/number", [number for _, number in values])
        for i, name in enumerate(("node", "backward", "state", "number")):
            columns.numbers(f"grads/{name}", [row[i] for row in grads])
        columns.numbers("arrays/block", [block for block, _ in self._arrays])
        columns.texts("arrays/name", [name for _, name in self._arrays])
        columns.texts("plain", self._plain)
        columns.texts("lost", list(self._reasons))

    def _value(self, trace: Trace, node: int) -> Place:
        value, version = trace.tables.nodes.value[node], trace.tables.nodes.version[node]
        if value is UNSAVED:
            return _UNSAVED, 0
        if isinstance(value, Unsaved):
            return self._without(value.reason)
        key = id(value), version
        place = self._places.get(key)
        if place is None:
            op = Op(trace, node)
            place = self._places[key] = self._written(op.label, value, lambda: op.value)
        return place

    def _gradient(self, trace: Trace, node: int, backward: int, grad: Any) -> Place:
        place = self._places.get((id(grad), None))
        if place is None:
            name = f"{trace.names.label(node)}@grad{backward or ''}"
            place = self._places[id(grad), None] = self._written(name, grad, lambda: grad)
        return place

    def _written(self, name: str, kept: Any, load: Callable[[], Any]) -> Place:
        if isinstance(kept, Unsaved):
            return self._without(kept.reason)
        try:
            value = kept if isinstance(kept, StoredArray) else load()
        except StaleValueError:
            self.lost[_OVERWRITTEN] += 1
            return self._without(_OVERWRITTEN)
        if getattr(value, "is_meta", False):
            return self._without(_NO_VALUES)
        try:
            raw = _raw(value)
        except InputError as error:
            reason = str(error).partition(":")[0]
            self.lost[reason] += 1
            return self._without(reason)
        if raw is None:
            return self._plainly(value)
        return self._array(name, raw)

    def _plainly(self, value: Any) -> Place:
        text = Encoder(lambda _: False, _MOST_ITEMS).value(value)
        if text is None:
            reason = f"a {type(value).__name__} that holds more than plain numbers and texts is not stored"
            self.lost[reason] += 1
            return self._without(reason)
        self._plain.append(text)
        return _PLAIN, len(self._plain) - 1

    def _without(self, reason: str) -> Place:
        return _LOST, self._reasons.setdefault(reason, len(self._reasons))

    def _array(self, name: str, raw: Raw) -> Place:
        if self._block and (self._n_bytes + raw.nbytes > _MOST_BYTES or len(self._block) >= _MOST_ARRAYS):
            self._flush()
        if name in self._block:
            name = f"{name}~{len(self._arrays)}"
        self._block[name] = raw
        self._n_bytes += raw.nbytes
        self._arrays.append((self._n_blocks, name))
        return _ARRAY, len(self._arrays) - 1

    def _flush(self) -> None:
        if self._block:
            self.put(block_name(self._n_blocks), self._block)
            self._n_blocks += 1
            self._block, self._n_bytes = {}, 0


def block_name(number: int) -> str:
    return f"values/{number}"


def _raw(value: Any) -> Raw | None:
    """The bytes of a tensor or an array; None for what is neither."""
    if isinstance(value, StoredArray):
        return value.raw()
    if isinstance(value, np.ndarray):
        return Raw.of(value)
    if not hasattr(value, "detach"):
        return None
    if getattr(value, "is_quantized", False):
        value = value.dequantize()  # its integers would say nothing without scale and zero point
    raw: Raw = late.call("raw", value)
    return raw


@dataclass(slots=True)
class ValueReader:
    """Gives the stand-ins of values and gradients of a trace that is read."""

    columns: Checked
    blocks: Mapping[str, Arrays]
    _things: list[list[Any]] = field(default_factory=list)
    """By kind, what stands for a value."""

    def __post_init__(self) -> None:
        names = self.columns.texts("arrays/name", None)
        numbers = self.columns.numbers("arrays/block", len(names))
        blocks = {number: self._block(number) for number in dict.fromkeys(numbers)}
        there = {number: set(block.names) for number, block in blocks.items()}
        for number, name in zip(numbers, names, strict=True):
            if name not in there[number]:
                raise DamagedError(f"the value {name!r} is missing from block {block_name(number)!r} of this trace.")
        stored = [StoredArray(blocks[number], name) for number, name in zip(numbers, names, strict=True)]
        plain = decoded_values(self.columns.texts("plain", None))
        lost = [Unsaved(reason) for reason in self.columns.texts("lost", None)]
        self._things = [[UNSAVED], stored, plain, lost]

    def _block(self, number: int) -> Arrays:
        try:
            return self.blocks[block_name(number)]
        except KeyError:
            raise DamagedError(f"block {block_name(number)!r} is missing from this trace.") from None

    def values(self, n: int) -> list[Any]:
        """What stands for the value of each node."""
        return self._found("values", n)

    def grads(self, n_nodes: int, n_backwards: int) -> dict[int, dict[int, Any]]:
        """Node → backward pass → what stands for the gradient."""
        nodes = self.columns.numbers("grads/node", None, high=n_nodes)
        backwards = self.columns.numbers("grads/backward", len(nodes), high=n_backwards)
        found: dict[int, dict[int, Any]] = {}
        for node, backward, grad in zip(nodes, backwards, self._found("grads", len(nodes)), strict=True):
            found.setdefault(node, {})[backward] = grad
        return found

    def _found(self, name: str, n: int) -> list[Any]:
        states = self.columns.numbers(f"{name}/state", n, high=len(self._things))
        numbers = self.columns.numbers(f"{name}/number", n)
        try:
            return [self._things[state][number] for state, number in zip(states, numbers, strict=True)]
        except IndexError:
            raise DamagedError(f"the column '{name}/number' points at values that are not there.") from None
